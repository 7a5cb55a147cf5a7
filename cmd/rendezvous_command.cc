// SPDX-License-Identifier: Apache-2.0
// `hvdray rendezvous`: the key-value server alone, for workers that something else starts.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "base/report_file.h"
#include "base/signals.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/placement.h"
#include "rendezvous/standalone_server.h"

namespace hvdray {
namespace {

constexpr Duration kDrainLimit = std::chrono::seconds(2);
constexpr Duration kMaxHold = std::chrono::hours(1);
// One descriptor for each held request, and a few more.
constexpr uint64_t kOpenFiles = 65536 + 64;

Result<RendezvousOptions> OptionsOf(const CommandRequest& request) {
  const LayerStack& said = request.said;
  const JobSpec& spec = request.spec;
  if (*spec.kv_hold > kMaxHold) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{} must be at most an hour", spec.kv_hold.origin()));
  }
  RendezvousOptions options;
  options.address = request.Get(OptionId::kBind).last();
  HVDRAY_ASSIGN_OR_RETURN(const int64_t port,
                          WholeOf(OptionId::kPort, request.Get(OptionId::kPort)));
  options.port = static_cast<uint16_t>(port);
  options.kv_hold = *spec.kv_hold;
  options.is_peer_checked = *spec.is_peer_checked;
  options.user = ::getuid();
  if (const RawOption* allow = said.Find(OptionId::kAllow); allow && !allow->last().empty()) {
    HVDRAY_ASSIGN_OR_RETURN(options.allow, ParseCidrList(allow->last()));
  }
  if (const RawOption* list = said.Find(OptionId::kHosts)) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<HostSlots> hosts, ParseHostList(list->last()));
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<RankInfo> ranks,
                            AssignRanks(hosts, /*min_np=*/1, /*max_np=*/std::nullopt));
    options.assignment = ToKvAssignment(ranks, /*generation=*/1);
  }
  return options;
}

/// For HOROVOD_GLOO_RENDEZVOUS_ADDR: no other machine can connect to 0.0.0.0.
std::string ReachableName(const std::string& address) {
  if (address != "0.0.0.0") return address;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return address;
  return name.data();
}

Status Announce(const std::string& address, uint16_t port, bool is_quiet) {
  const std::string name = ReachableName(address);
  if (!is_quiet) {
    std::fputs(
        "hvdray rendezvous: the protocol has no authentication: anyone who can connect can change "
        "what workers trust\n",
        stderr);
  }
  const Status written = WriteAll(
      STDOUT_FILENO, fmt::format("{} {}\nHOROVOD_GLOO_RENDEZVOUS_ADDR={}\n"
                                 "HOROVOD_GLOO_RENDEZVOUS_PORT={}\nHOROVOD_CONTROLLER=gloo\n"
                                 "HOROVOD_CPU_OPERATIONS=gloo\n",
                                 address, port, name, port));
  if (written.ok()) return {};
  return OutputLost("stdout", errno).WithContext("announce the address");
}

/// Returns the exit code. `is_quiet`: a program's part, which ends with the process that started
/// it.
int ServeUntilSignal(Loop& loop, RendezvousOptions options, bool is_quiet) {
  const std::string address = options.address;
  // If the limit is too low, that is an error when it is reached.
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  auto server = RendezvousServer::Start(loop, std::move(options));
  if (!server.ok()) return Fail("rendezvous", server.status());
  int received = 0;
  SignalCopies copies;
  std::vector<Watch> signals;
  for (const int signo : {SIGINT, SIGTERM, SIGHUP}) {
    signals.push_back(loop.OnSignal(signo, [&, signo] {
      if (!copies.IsNew(signo, loop.Now())) return;
      if (std::exchange(received, signo) != 0) return loop.Stop();
      (*server)->Drain(kDrainLimit, [&] { loop.Stop(); });
    }));
  }
  UniqueFd parent;
  Watch parent_watch;
  if (is_quiet) {
    // One that has ended already can't read what is announced, and then that fails.
    parent = OpenPidFd(::getppid());
    if (!parent.is_valid()) return Fail("rendezvous", ErrnoStatus("pidfd_open", errno));
    parent_watch = loop.OnFd(parent.get(), FdEvent::kRead, [&] { loop.Stop(); });
  }
  const Status announced = Announce(address, (*server)->port(), is_quiet);
  if (!announced.ok()) return Fail("rendezvous", announced);
  loop.Run();
  return received == 0 ? 0 : 128 + received;
}

}  // namespace

int RendezvousCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("rendezvous", line, &request)) return *code;
  Result<RendezvousOptions> options = OptionsOf(request);
  if (!options.ok()) return Fail("rendezvous", options.status());
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("rendezvous", loop.status());
  return ServeUntilSignal(**loop, std::move(options).value(), *request.spec.is_quiet);
}

}  // namespace hvdray
