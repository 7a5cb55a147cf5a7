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
#include "base/error_code.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "base/user_home.h"
#include "cmd/commands.h"
#include "launcher/engine/driver_policies.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/open_job.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/job/plan_text.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"
#include "launcher/plan/job_files.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/ray/ray_serve.h"
#include "launcher/ray/ray_slots.h"
#include "launcher/report/run_ending.h"

namespace hvdray {
namespace {

/// Call before anything else takes that number.
Result<UniqueFd> TakeDescriptor(std::string_view option, int fd) {
  if (fd <= STDERR_FILENO) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: {} is one of hvdray's own standard streams", option, fd));
  }
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
      OpenJob(**loop, {**access, &**access, &source, found != nullptr ? nullptr : &told}, trace,
              std::move(plan), std::move(options));
  if (!launcher.ok()) return Fail("serve", launcher.status());
  running = launcher->get();
  return ServeToEnd(**launcher, spec, environment, trace);
}

int ServeFixed(LaunchPlan plan, ServeOptions options) {
  const JobSpec spec = plan.spec;
  const Environment environment = plan.environment;
  Trace trace = BeginTrace(plan, NamesOf(plan.hosts));
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("serve", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote, plan.spread);
  if (!access.ok()) return Fail("serve", access.status());
  Result<std::unique_ptr<Launcher>> launcher =
      OpenJob(**loop, {**access}, trace, std::move(plan), std::move(options));
  if (!launcher.ok()) return Fail("serve", launcher.status());
  return ServeToEnd(**launcher, spec, environment, trace);
}

// How often a client that waits for slots is looked for.
constexpr Duration kClientLook = std::chrono::milliseconds(100);
constexpr size_t kKeyBytes = 32;

bool HasHungUp(int socket) {
  pollfd state = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

/// `hvdray serve` on slots of Ray.
class RayServe {
 public:
  /// `broker`: the socket to what reserves slots.
  RayServe(Loop& loop, LaunchPlan plan, ServeOptions options, UniqueFd broker)
      : loop_(loop),
        spec_(plan.spec),
        plan_(std::move(plan)),
        options_(std::move(options)),
        slots_(loop, spec_,
               {.job_id = plan_.job_id,
                .key = Hex(RandomBytes(kKeyBytes)),
                .can_grow = true,
                .agent_path = "@agent:" + AgentPath(spec_)},
               StreamOf(loop, std::move(broker)), MakeHandlers()) {
    plan_.environment = EnvironmentForRay(spec_, plan_.environment);
    AdaptPlanToRay(&plan_);
  }

  /// Returns the exit code.
  int Run() {
    const Status ready = Prepare();
    if (has_left_) return 0;
    if (!ready.ok()) return Refuse(ready);
    return spec_.is_elastic() ? RunElastic() : RunFixed();
  }

 private:
  static std::unique_ptr<ByteStream> StreamOf(Loop& loop, UniqueFd socket) {
    UniqueFd output(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    return MakeFdStream(loop, std::move(socket), std::move(output));
  }

  RaySlots::Handlers MakeHandlers() {
    RaySlots::Handlers handlers;
    handlers.on_hello = [this](const BrokerHello& hello) {
      // Else workers start where this program is, if that is there.
      if (hello.has_directory) plan_.current_directory.clear();
      return Status();
    };
    handlers.say = [this](std::string_view line) { Say(line); };
    // Ray ends the agents now; those that still hear us stop in good order.
    handlers.on_closed = [this](const Status&) {
      if (running_ != nullptr) running_->StopBy(SIGTERM);
    };
    return handlers;
  }

  void Say(std::string_view line) {
    if (*spec_.is_quiet) return;
    running_ != nullptr ? running_->Say(line) : Tell(LogLevel::kInfo, "hvdray", line);
  }

  /// Until slots are there, or the client has gone.
  Status Prepare() {
    const Watch look = loop_.Every(kClientLook, [this] {
      if (!options_.socket.is_valid() || !HasHungUp(options_.socket.get())) return;
      has_left_ = true;
      slots_.GiveUp({ErrorCode::kCancelled, "the client has gone"});
    });
    HVDRAY_RETURN_IF_ERROR(CheckExec(plan_));
    HVDRAY_RETURN_IF_ERROR(slots_.Join());
    if (spec_.is_elastic()) return CheckElasticPolicy(ElasticPolicyOf(spec_, plan_.began_wall));
    HVDRAY_ASSIGN_OR_RETURN(const RayPlacement placement, slots_.Reserve());
    return PlaceStatic(placement, &plan_);
  }

  int Refuse(const Status& why) {
    if (!options_.socket.is_valid()) return Fail("serve", why);
    RefuseClient(options_.socket.get(), why, kHvdrayFailed);
    return kHvdrayFailed;
  }

  int RunFixed() {
    Transport& transport = slots_.Start(plan_);
    plan_.place.held_up = [this] { return slots_.HeldUp(); };
    Trace trace = BeginTrace(plan_, NamesOf(plan_.hosts));
    return RunToEnd(trace, OpenJob(loop_, {transport}, trace, plan_, std::move(options_)));
  }

  int RunElastic() {
    RaySlots::RayHostHandlers handlers;
    handlers.say = [this](std::string_view line) { Say(line); };
    handlers.on_leaving = [this](const std::string& host, Duration in) {
      if (running_ != nullptr) running_->HostLeaves(host, in);
    };
    JobReach reach = slots_.Offer(std::move(handlers), plan_.spread);
    ToldHosts told(loop_);
    if (*spec_.are_hosts_told) {
      slots_.Limit({});
      HostSource::Handlers limits;
      limits.on_hosts = [this](const std::vector<HostSlots>& hosts, bool) { slots_.Limit(hosts); };
      if (const Status started = told.Start(std::move(limits)); !started.ok())
        return Refuse(started);
    }
    Trace trace = BeginTrace(plan_, /*hosts=*/{});
    if (*spec_.are_hosts_told) reach.told = &told;
    return RunToEnd(trace, OpenJob(loop_, reach, trace, plan_, std::move(options_)));
  }

  int RunToEnd(Trace& trace, const Result<std::unique_ptr<Launcher>>& launcher) {
    if (!launcher.ok()) return Fail("serve", launcher.status());
    running_ = launcher->get();
    return ServeToEnd(*running_, spec_, plan_.environment, trace, [this] { running_ = nullptr; });
  }

  Loop& loop_;
  const JobSpec spec_;
  LaunchPlan plan_;
  ServeOptions options_;
  Launcher* running_ = nullptr;
  bool has_left_ = false;
  RaySlots slots_;
};

}  // namespace

int ServeCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line.began);
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.home_of = HomesHere(plan.environment);
  files.load_cluster = &LoadClusterHosts;
  files.warn = [](const std::string& warning) {
    Tell(LogLevel::kWarning, "hvdray serve", warning);
  };
  MoreInputs inputs;
  NoteReads(files, inputs);
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
  const Status distinct = CheckDistinctFiles(plan.spec, plan.environment, inputs);
  if (!distinct.ok()) return Fail("serve", distinct);
  Result<ServeOptions> options = OptionsOf(*request, plan);
  if (!options.ok()) return Fail("serve", options.status());
  if (request->broker_fd >= 0) {
    Result<UniqueFd> broker = TakeDescriptor("--ray-broker-fd", request->broker_fd);
    if (!broker.ok()) return Fail("serve", broker.status());
    Result<std::unique_ptr<Loop>> loop = Loop::Create();
    if (!loop.ok()) return Fail("serve", loop.status());
    ::signal(SIGPIPE, SIG_IGN);
    return RayServe(**loop, std::move(plan), std::move(*options), std::move(*broker)).Run();
  }
  if (*plan.spec.ray.is_wanted) {
    const HeadLink link;
    return ServeOnRayJob(std::move(plan), std::move(*options), link);
  }
  TellAllocation(plan.spec, "hvdray serve");
  if (const Status status = MakePlan(plan, "hvdray serve", /*is_shown=*/false); !status.ok()) {
    return Fail("serve", status);
  }
  return plan.spec.is_elastic() ? ServeElastic(std::move(plan), std::move(*options))
                                : ServeFixed(std::move(plan), std::move(*options));
}

}  // namespace hvdray
