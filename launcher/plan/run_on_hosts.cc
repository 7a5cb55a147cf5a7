// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/run_on_hosts.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "launcher/engine/host_source.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/open_job.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"

namespace hvdray {
namespace {

/// Whether rank 0, which listens on all addresses, would find `port` in use. Ignores other errors.
bool IsTaken(uint16_t port) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool is_v6 = fd.is_valid();
  if (!is_v6) fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  const int bound = is_v6 ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6)
                          : ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  return bound != 0 && errno == EADDRINUSE;
}

Status CheckMasterPortHere(const LaunchPlan& plan) {
  const auto& port = plan.spec.master_port;
  if (*port == 0 || plan.ranks.empty()) return {};
  if (plan.is_remote[static_cast<size_t>(plan.ranks[0].host_index)] || !IsTaken(*port)) return {};
  return {ErrorCode::kAddressInUse,
          fmt::format("{}: port {} of this machine is in use, but rank 0 must listen there",
                      port.origin(), *port),
          "choose another port, or omit --master-port to use a free one"};
}

}  // namespace

Trace BeginTrace(const LaunchPlan& plan, std::vector<std::string> hosts) {
  Trace trace(plan.began, std::move(hosts), !plan.spec.trace_file->empty());
  trace.Begin("resolve", plan.began);
  trace.End("resolve", std::chrono::steady_clock::now());
  return trace;
}

int RunToEnd(Launcher& launcher, const JobSpec& spec, CalledAs name, const Environment& environment,
             Trace& trace, const std::function<void()>& on_ended) {
  JobReport report = launcher.Run();
  if (on_ended) on_ended();
  EndTerminalQuestions();  // No answer is needed any more.
  return EndRun(spec, name, environment, trace, std::move(report),
                [&launcher](std::span<const std::string> lines) { launcher.Print(lines); });
}

int RunOnHosts(CalledAs name, LaunchPlan plan, std::optional<ServeOptions> client) {
  const std::string_view command = client ? "serve" : "run";
  const JobSpec spec = plan.spec;
  const Environment environment = plan.environment;
  if (!client && !spec.is_elastic()) {
    if (const Status status = CheckMasterPortHere(plan); !status.ok()) return Fail(command, status);
  }
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(command, loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      spec.is_elastic()
          ? HostAccess::OpenElastic(**loop, spec, AgentPath(spec), HostSpread::kOneMachine)
          : HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote,
                             plan.spread);
  if (!access.ok()) return Fail(command, access.status());
  JobReach reach = {**access};
  Launcher* running = nullptr;
  ToldHosts told(**loop);
  std::unique_ptr<HostSource> found;
  if (spec.is_elastic()) {
    reach.hosts = access->get();
    if (*spec.are_hosts_told) {
      reach.source = reach.told = &told;
    } else {
      Result<std::unique_ptr<HostSource>> made =
          MakeHostSource(**loop, spec, [&running](std::string_view line) {
            running != nullptr ? running->Say(line) : SayDiscovery(line);
          });
      if (!made.ok()) return Fail(command, made.status());
      found = std::move(*made);
      reach.source = found.get();
    }
  }
  Trace trace =
      BeginTrace(plan, spec.is_elastic() ? std::vector<std::string>() : Names(plan.hosts));
  Result<std::unique_ptr<Launcher>> launcher =
      OpenJob(**loop, reach, trace, std::move(plan), std::move(client));
  if (!launcher.ok()) return Fail(command, launcher.status());
  running = launcher->get();
  return RunToEnd(**launcher, spec, name, environment, trace);
}

}  // namespace hvdray
