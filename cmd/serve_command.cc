// SPDX-License-Identifier: Apache-2.0
// `hvdray serve`: as `hvdray run`, but its client says when gangs start.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "base/byte_stream.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "cmd/commands.h"
#include "cmd/host_access.h"
#include "cmd/host_sources.h"
#include "cmd/launch_plan.h"
#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/ray/ray_slots.h"
#include "launcher/report/run_ending.h"

namespace hvdray {
namespace {

/// Call before anything else takes that number.
Result<UniqueFd> TakeDescriptor(std::string_view option, int fd) {
  if (::fcntl(fd, F_GETFD) >= 0) return UniqueFd(fd);
  return Status(ErrorCode::kUsage, fmt::format("{}: descriptor {} is not open", option, fd));
}

Result<ServeOptions> OptionsOf(const ServeRequest& request, const LaunchPlan& plan) {
  ServeOptions options;
  if (request.control_fd >= 0) {
    HVDRAY_ASSIGN_OR_RETURN(options.socket, TakeDescriptor("--control-fd", request.control_fd));
  }
  options.path = request.control_path;
  options.linger = request.linger;
  options.grace = *plan.spec.grace;
  options.job_id = plan.job_id;
  options.build = plan.build;
  return options;
}

int ServeToEnd(Launcher& launcher, const JobSpec& spec, const Environment& environment,
               Trace& trace, const std::function<void()>& on_ended = {}) {
  JobReport report = launcher.Run();
  if (on_ended) on_ended();
  EndTerminalQuestions();
  return EndRun(spec, CalledAs::kHvdray, environment, trace, std::move(report),
                [&launcher](std::span<const std::string> lines) { launcher.Print(lines); });
}

int ServeElastic(LaunchPlan plan, ServeOptions options) {
  const JobSpec spec = plan.spec;
  const Environment environment = plan.environment;
  const ElasticPolicy policy = ElasticPolicyOf(spec, plan.began_wall);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("serve", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::OpenElastic(**loop, spec, AgentPath(spec), HostSpread::kOneMachine);
  if (!access.ok()) return Fail("serve", access.status());
  Launcher* running = nullptr;
  ToldHosts told(**loop);
  std::unique_ptr<HostSource> found;
  if (!*spec.are_hosts_told) {
    Result<std::unique_ptr<HostSource>> made =
        MakeHostSource(**loop, spec, [&running](std::string_view line) {
          running != nullptr ? running->Say(line) : SayDiscovery(line);
        });
    if (!made.ok()) return Fail("serve", made.status());
    found = std::move(*made);
  }
  HostSource& source = found != nullptr ? *found : told;
  Trace trace = BeginTrace(plan, /*hosts=*/{});
  Result<std::unique_ptr<Launcher>> launcher =
      OpenElasticServe(**loop, **access, **access, source, found != nullptr ? nullptr : &told,
                       trace, std::move(plan), policy, std::move(options));
  if (!launcher.ok()) return Fail("serve", launcher.status());
  running = launcher->get();
  return ServeToEnd(**launcher, spec, environment, trace);
}

/// The session over hosts that are known.
int ServeOver(Loop& loop, Transport& transport, Trace& trace, LaunchPlan plan, ServeOptions options,
              std::function<void(Launcher*)> on_running = {}) {
  const JobSpec spec = plan.spec;
  const Environment environment = plan.environment;
  Result<std::unique_ptr<Launcher>> launcher =
      OpenServe(loop, transport, trace, std::move(plan), std::move(options));
  if (!launcher.ok()) return Fail("serve", launcher.status());
  if (on_running) on_running(launcher->get());
  return ServeToEnd(**launcher, spec, environment, trace, [&on_running] {
    if (on_running) on_running(nullptr);
  });
}

int ServeFixed(LaunchPlan plan, ServeOptions options) {
  const JobSpec spec = plan.spec;
  Trace trace = BeginTrace(plan, NamesOf(plan.hosts));
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("serve", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote, plan.spread);
  if (!access.ok()) return Fail("serve", access.status());
  return ServeOver(**loop, **access, trace, std::move(plan), std::move(options));
}

// How often a client that waits for slots is looked for.
constexpr Duration kClientLook = std::chrono::milliseconds(100);
constexpr size_t kKeyBytes = 32;
constexpr int kServeFailed = 125;

bool HasHungUp(int socket) {
  pollfd state = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

/// On slots of Ray. `broker`: the socket to what reserves them.
int ServeOnRay(LaunchPlan plan, ServeOptions options, UniqueFd broker) {
  ::signal(SIGPIPE, SIG_IGN);
  const JobSpec spec = plan.spec;
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("serve", loop.status());
  plan.environment = EnvironmentForRay(spec, plan.environment);
  MoveToRay(&plan);
  Launcher* running = nullptr;
  RaySlots::Handlers handlers;
  handlers.on_hello = [&plan](const BrokerHello& hello) {
    // Else workers start where this program is, if that is there.
    if (hello.has_directory) plan.current_directory.clear();
    return Status();
  };
  handlers.say = [&spec](std::string_view line) {
    if (!*spec.is_quiet) Tell(LogLevel::kInfo, "hvdray", line);
  };
  // Ray ends the agents now; those that still hear us stop in good order.
  handlers.on_closed = [&running](const Status&) {
    if (running != nullptr) running->StopBy(SIGTERM);
  };
  UniqueFd output(::fcntl(broker.get(), F_DUPFD_CLOEXEC, 0));
  RaySlots slots(**loop, spec,
                 {.job_id = plan.job_id,
                  .key = Hex(RandomBytes(kKeyBytes)),
                  .can_grow = true,
                  .agent_path = "@agent:" + AgentPath(spec)},
                 MakeFdStream(**loop, std::move(broker), std::move(output)), std::move(handlers));
  bool is_left = false;
  Watch look = (*loop)->Every(kClientLook, [&] {
    if (!options.socket.is_valid() || !HasHungUp(options.socket.get())) return;
    is_left = true;
    slots.GiveUp({ErrorCode::kCancelled, "the client has gone"});
  });
  const auto prepare = [&]() -> Status {
    HVDRAY_RETURN_IF_ERROR(CheckExec(plan));
    HVDRAY_RETURN_IF_ERROR(slots.Join());
    HVDRAY_ASSIGN_OR_RETURN(const RayPlacement placement, slots.Reserve());
    return PlaceStatic(placement, &plan);
  };
  const Status ready = prepare();
  look.Cancel();
  if (is_left) return 0;
  if (!ready.ok()) {
    if (!options.socket.is_valid()) return Fail("serve", ready);
    RefuseClient(options.socket.get(), ready, kServeFailed);
    return kServeFailed;
  }
  Transport& transport = slots.Start(plan);
  plan.place.held_up = [&slots] { return slots.HeldUp(); };
  Trace trace = BeginTrace(plan, NamesOf(plan.hosts));
  return ServeOver(**loop, transport, trace, std::move(plan), std::move(options),
                   [&running](Launcher* launcher) { running = launcher; });
}

}  // namespace

int ServeCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line);
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.load_cluster = &LoadClusterHosts;
  files.warn = [](const std::string& warning) {
    Tell(LogLevel::kWarning, "hvdray serve", warning);
  };
  Result<ServeRequest> request = ResolveServe(line.args, plan.environment, files);
  if (!request.ok()) return Fail("serve", request.status());
  SetUpLog(request->run.spec);
  for (const std::string& warning : request->run.warnings) files.warn(warning);
  if (request->run.wants_help) return PrintOut("serve", Help(CommandNamed("serve")));
  if (request->run.wants_version) return PrintOut("serve", VersionText());
  plan.spec = std::move(request->run.spec);
  if (plan.spec.print_config->has_value()) {
    return PrintOut("serve", PrintConfig(plan.spec, **plan.spec.print_config));
  }
  Result<ServeOptions> options = OptionsOf(*request, plan);
  if (!options.ok()) return Fail("serve", options.status());
  if (request->broker_fd >= 0) {
    Result<UniqueFd> broker = TakeDescriptor("--ray-broker-fd", request->broker_fd);
    if (!broker.ok()) return Fail("serve", broker.status());
    return ServeOnRay(std::move(plan), std::move(*options), std::move(*broker));
  }
  if (const Status status = MakePlan(plan, "hvdray serve", /*is_shown=*/false); !status.ok()) {
    return Fail("serve", status);
  }
  return plan.spec.is_elastic() ? ServeElastic(std::move(plan), std::move(*options))
                                : ServeFixed(std::move(plan), std::move(*options));
}

}  // namespace hvdray
