// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_run.h"
#include "base/byte_stream.h"
#include "base/error_code.h"
#include "base/fd.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/standard_streams.h"
#include "cluster/ray/group_wait.h"
#include "cluster/ray/ray_launch_log.h"
#include "cluster/ray/ray_slots.h"
#include "cluster/ray/recorded_client.h"
#include "cluster/transport/transport.h"
#include "launcher/engine/driver_policies.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/open_job.h"
#include "launcher/report/run_ending.h"
#include "launcher/report/trace.h"
#include "wire/package_layout.h"

namespace hvdray {
namespace {

/// The time that Ray may need to set up a runtime environment before it starts an agent; Ray's own
/// default is ten minutes.
Duration SetupLimit(const std::string& runtime_env) {
  if (runtime_env.empty()) return Duration::zero();
  constexpr int64_t kDefault = 600;
  constexpr int64_t kLongest = 86'400;
  const Result<Json> env = ParseJson(runtime_env);
  int64_t limit = kDefault;
  if (env.ok()) {  // a limit that is missing or invalid leaves the default
    (void)ReadFields(*env, FieldReader::Missing::kKeepsDefault, [&limit](FieldReader& io) {
      io.Object("config", limit, [](FieldReader& config, int64_t& seconds) {
        config.Int("setup_timeout_seconds", seconds, {-1, kLongest});
      });
    });
  }
  return std::chrono::seconds(limit < 0 ? kLongest : limit);
}

constexpr int kUsage = 2;
constexpr uint64_t kOpenFiles = 65536;

int Fail(const Status& status, int exit_code) {
  RayLaunchLog(STDERR_FILENO).Note(fmt::format("launch: {}", status.ToString()));
  return exit_code;
}

// Ray sends SIGTERM and SIGINT to every process of the job, and ray_driver.py reports them to us.
// One stop must not count as two, since a second one forces the stop.
void IgnoreSignals() {
  for (const int signo : {SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGTTOU, SIGTTIN, SIGTERM, SIGINT}) {
    ::signal(signo, SIG_IGN);
  }
}

void UseLogOf(const JobSpec& spec) {
  SetLogLevel(*spec.is_verbose ? LogLevel::kInfo : LogLevel::kWarning);
  SetLogJson(*spec.is_log_json);
}

// Proxies cut connections that are silent for a minute, some after half a minute.
constexpr Duration kPulse = std::chrono::seconds(10);
constexpr Duration kRollLook = std::chrono::milliseconds(200);

/// The part that is independent of the source of hosts: settings, log, the launcher over known
/// hosts, and the end. Owns spec and log of the job.
class RayLaunchRun {
 public:
  using PrintFn = std::function<void(std::span<const std::string> lines)>;

  /// `control`: see OpenControl().
  RayLaunchRun(Loop& loop, RayJobFile job, UniqueFd control, TimePoint began);

  const RayJobFile& job() const { return job_; }
  const JobSpec& spec() const { return spec_; }
  RayLaunchLog& log() { return log_; }
  TimePoint began() const { return began_; }
  std::chrono::system_clock::time_point began_wall() const { return began_wall_; }

  /// Opens the stream file in directory `logs`, where the launcher will write its files, too.
  /// Errors: kFileUnwritable.
  Status Open(const std::string& logs);

  Loop& loop() { return loop_; }
  /// While it lives, our log goes to the job's, which takes only ASCII; that is where lines go
  /// while no launcher runs.
  LogSink NotesLog();
  /// Ends the job before it has hosts; EndEarly() does the rest. The first call counts.
  void GiveUp(Status why, int exit_code);
  bool has_failed() const { return failure_.has_value(); }

  /// Acts as if the launcher had got the signal; before it runs: GiveUp().
  void StopBy(int signo);
  /// The parent (ray_driver.py) is gone: ends the job, with `why` as its error unless a worker is
  /// to blame.
  void Orphan(Status why);
  bool is_orphaned() const { return orphaned_.has_value(); }
  /// A launcher runs or has run.
  bool is_launched() const { return stop_ != nullptr; }
  /// Sets how to stop a launcher that Launch() did not start.
  void OnStop(std::function<void(int signo)> stop) { stop_ = std::move(stop); }

  /// The job is one gang of a client that has said all beforehand.
  bool has_client() const { return has_client_; }
  /// OpenJob() for that client, which speaks from now on, or for a job without one. Once with a
  /// client. Errors: also kOutOfResources, kSystem.
  Result<std::unique_ptr<Launcher>> Open(const JobReach& reach, Trace& trace, LaunchPlan plan);

  /// The plan with hosts and ranks. Errors: those of PlaceStatic().
  Result<LaunchPlan> PlanFor(const RayPlacement& placement);
  /// The plan of an elastic job.
  LaunchPlan PlanWithoutHosts() const;

  /// Runs a static job over `plan`, whose hosts `transport` reaches. `reserve_began`: when Ray was
  /// asked for them. Returns the exit code; nullopt: `is_final` rejected the report, so nothing was
  /// reported and the job may wait for hosts again.
  std::optional<int> Launch(LaunchPlan plan, Transport& transport, TimePoint reserve_began,
                            const std::function<bool(const JobReport&)>& is_final);

  /// Writes reports and the stream's last record. Returns the exit code.
  int End(Trace& trace, JobReport report, const PrintFn& print);
  /// The same after GiveUp().
  int EndEarly();

 private:
  Loop& loop_;
  const RayJobFile job_;
  JobSpec spec_;
  const TimePoint began_;
  const std::chrono::system_clock::time_point began_wall_;
  RayLaunchLog log_;
  std::optional<Status> failure_;
  int failure_code_ = 0;
  std::optional<Status> orphaned_;
  UniqueFd control_;  // until the client is there
  const bool has_client_;
  std::unique_ptr<RecordedClient> client_;
  Status client_failure_;
  Watch pulse_;
  Watch roll_;
  std::function<void(int signo)> stop_;
};

RayLaunchRun::RayLaunchRun(Loop& loop, RayJobFile job, UniqueFd control, TimePoint began)
    : loop_(loop),
      job_(std::move(job)),
      spec_(job_.spec),
      began_(began),
      began_wall_(std::chrono::system_clock::now()),
      log_(STDERR_FILENO),
      control_(std::move(control)),
      has_client_(control_.is_valid()) {}

Result<std::unique_ptr<Launcher>> RayLaunchRun::Open(const JobReach& reach, Trace& trace,
                                                     LaunchPlan plan) {
  if (!has_client_) return OpenJob(loop_, reach, trace, std::move(plan));
  HVDRAY_ASSIGN_OR_RETURN(auto sockets, MakeSocketPair());
  RecordedClient::Handlers handlers;
  handlers.on_message = [this](ByteView message) { return log_.Control(message); };
  handlers.on_failed = [this](const Status& why) {
    client_failure_ = why;
    log_.Note(why.message());
    StopBy(SIGTERM);
  };
  client_ = std::make_unique<RecordedClient>(loop_, std::move(control_), std::move(sockets.second),
                                             std::move(handlers));
  client_->Start();
  ServeOptions options;
  options.socket = std::move(sockets.first);
  options.grace = *spec_.grace;
  options.job_id = job_.job_id;
  options.build = job_.build;
  return OpenJob(loop_, reach, trace, std::move(plan), std::move(options));
}

Status RayLaunchRun::Open(const std::string& logs) {
  spec_ = SpecOnRay(job_, logs);
  HVDRAY_RETURN_IF_ERROR(log_.Open(RayLaunchFile(logs, job_.job_id, "stream")));
  pulse_ = loop_.Every(kPulse, [this] { log_.Pulse(); });
  roll_ = loop_.Every(
      kRollLook, [this, limit = static_cast<uint64_t>(*spec_.ray.log_limit)] { log_.Roll(limit); });
  return {};
}

LogSink RayLaunchRun::NotesLog() {
  return LogSink([this](std::string_view line) { log_.Note(line); });
}

void RayLaunchRun::GiveUp(Status why, int exit_code) {
  if (failure_) return;
  failure_ = std::move(why);
  failure_code_ = exit_code;
  loop_.Stop();
}

void RayLaunchRun::StopBy(int signo) {
  if (stop_) return stop_(signo);
  const char* name = ::sigabbrev_np(signo);
  GiveUp({ErrorCode::kInterrupted,
          fmt::format("stopped by SIG{} before it got its slots", name == nullptr ? "?" : name)},
         128 + signo);
}

void RayLaunchRun::Orphan(Status why) {
  orphaned_ = why;
  // Ray ends the agents now; those that still hear us stop in good order.
  if (stop_) return stop_(SIGTERM);
  GiveUp(std::move(why), kHvdrayFailed);
}

LaunchPlan RayLaunchRun::PlanWithoutHosts() const {
  LaunchPlan plan = PlanOnRay(job_, spec_);
  plan.began = began_;
  plan.began_wall = began_wall_;
  plan.place.record_fd = log_.stream_fd();
  return plan;
}

Result<LaunchPlan> RayLaunchRun::PlanFor(const RayPlacement& placement) {
  LaunchPlan plan = PlanWithoutHosts();
  HVDRAY_RETURN_IF_ERROR(PlaceStatic(placement, &plan));
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) {
    names.push_back(fmt::format("{}:{}", host.host, host.slots));
  }
  log_.Note(fmt::format("slots: {}", fmt::join(names, ", ")));
  return plan;
}

std::optional<int> RayLaunchRun::Launch(LaunchPlan plan, Transport& transport,
                                        TimePoint reserve_began,
                                        const std::function<bool(const JobReport&)>& is_final) {
  Trace trace(began_, Names(plan.hosts), !spec_.trace_file->empty());
  trace.Begin("reserve", reserve_began);
  trace.End("reserve", loop_.Now());
  Result<std::unique_ptr<Launcher>> launcher = Open({transport}, trace, std::move(plan));
  if (!launcher.ok()) {
    GiveUp(launcher.status(), kHvdrayFailed);
    return EndEarly();
  }
  stop_ = [&launcher](int signo) { (*launcher)->StopBy(signo); };
  JobReport report = (*launcher)->Run();
  if (!is_final(report)) {
    stop_ = nullptr;
    return std::nullopt;
  }
  stop_ = [](int /*signo*/) {};  // the launcher has ended
  return End(trace, std::move(report),
             [&launcher](std::span<const std::string> lines) { (*launcher)->Print(lines); });
}

int RayLaunchRun::EndEarly() {
  JobReport report;
  report.job_id = job_.job_id;
  report.build = job_.build;
  report.command = *spec_.command;
  report.np = *spec_.np;
  report.began = began_;
  report.began_wall = began_wall_;
  report.verdict.exit_code = failure_code_;
  report.verdict.error = *failure_;
  report.verdict.started = began_;
  report.verdict.ended = loop_.Now();
  Trace trace(began_, {}, /*is_detailed=*/false);
  return End(trace, std::move(report), [this](std::span<const std::string> lines) {
    for (const std::string& line : lines) log_.Print(line);
  });
}

int RayLaunchRun::End(Trace& trace, JobReport report, const PrintFn& print) {
  if (client_ != nullptr) client_->AwaitBye();
  if (orphaned_ && report.verdict.exit_code != 0 && report.verdict.origin == ExitOrigin::kHvdray) {
    report.verdict.exit_code = kHvdrayFailed;
    report.verdict.error = *orphaned_;
  }
  Status error = report.verdict.error;
  int exit_code =
      EndRun(spec_, CalledAs::kHvdray, job_.environment, trace, std::move(report), print);
  if (exit_code == 0 && client_ != nullptr) exit_code = client_->exit_code();
  if (error.ok()) error = client_failure_;
  const Status lost = log_.End(exit_code, error);
  if (!lost.ok() && exit_code == 0) {
    exit_code = kHvdrayFailed;
    error = lost;
  }
  log_.Note(fmt::format("job {} ended with exit code {}{}{}", job_.job_id, exit_code,
                        error.ok() ? "" : ": ", error.ok() ? "" : error.ToString()));
  return exit_code;
}

/// Owns the slots and the launcher. Threads: the loop's.
class RayLaunch {
 public:
  /// `control`: see OpenControl(). `python`: the pipe to ray_driver.py. `began`: when this process
  /// was started.
  RayLaunch(Loop& loop, RayJobFile job, UniqueFd control, std::unique_ptr<ByteStream> python,
            TimePoint began)
      : run_(loop, std::move(job), std::move(control), began),
        slots_(
            loop, run_.spec(),
            {.job_id = run_.job().job_id, .key = run_.job().key, .can_grow = run_.job().can_grow},
            std::move(python), MakeHandlers()) {}

  /// Runs the job to its end. Returns its exit code.
  int Run();

 private:
  RaySlots::Handlers MakeHandlers();
  int RunStatic();
  int RunElastic();
  int Fail(Status why);

  RayLaunchRun run_;
  RaySlots slots_;
};

RaySlots::Handlers RayLaunch::MakeHandlers() {
  RaySlots::Handlers handlers;
  handlers.on_hello = [this](const BrokerHello& hello) {
    run_.log().Note(fmt::format("job {} by {}, driver {}, Ray {}, Python {}, on {}",
                                run_.job().job_id, run_.job().build, kAgentBuild, hello.ray,
                                hello.python, hello.node_ip));
    return run_.Open(hello.logs);
  };
  handlers.say = [this](std::string_view line) { run_.log().Say(line, *run_.spec().is_quiet); };
  handlers.on_signal = [this](const BrokerSignal& signal) {
    if (!signal.why.empty()) {
      run_.log().Say(signal.why + ": stopping the job", *run_.spec().is_quiet);
    }
    run_.StopBy(signal.signo);
  };
  handlers.on_closed = [this](const Status& why) { run_.Orphan(why); };
  return handlers;
}

int RayLaunch::Fail(Status why) {
  run_.GiveUp(std::move(why), kHvdrayFailed);
  return run_.EndEarly();
}

int RayLaunch::Run() {
  {
    const LogSink log = run_.NotesLog();
    if (Status status = slots_.Join(); !status.ok()) return Fail(std::move(status));
  }
  if (run_.has_failed()) return run_.EndEarly();
  return run_.spec().is_elastic() ? RunElastic() : RunStatic();
}

int RayLaunch::RunStatic() {
  Status taken;  // Why the slots of the last placement are gone.
  for (;;) {
    Result<RayPlacement> placement = [&] {
      const LogSink log = run_.NotesLog();
      return taken.ok() ? slots_.Reserve() : slots_.ReserveAgain(taken);
    }();
    if (!placement.ok()) return Fail(std::move(placement).status());
    if (run_.has_failed()) return run_.EndEarly();
    Result<LaunchPlan> plan = run_.PlanFor(*placement);
    if (!plan.ok()) return Fail(plan.status());
    Transport& transport = slots_.Start(*plan);
    plan->place.start_clock = slots_.start_began();
    plan->place.held_up = [this] { return slots_.HeldUp(); };
    const auto is_final = [this, &taken](const JobReport& report) {
      // A client has been told that its gang can't start.
      if (run_.has_client() || !slots_.AreTakenAway(report)) return true;
      taken = report.verdict.error;
      return false;
    };
    const std::optional<int> code =
        run_.Launch(std::move(plan).value(), transport, slots_.reserve_began(), is_final);
    if (code) return *code;
  }
}

int RayLaunch::RunElastic() {
  LaunchPlan plan = run_.PlanWithoutHosts();
  Status status = CheckElasticPolicy(ToElasticPolicy(run_.spec(), run_.began_wall()));
  if (!status.ok()) return Fail(std::move(status));
  Launcher* running = nullptr;
  RaySlots::RayHostHandlers handlers;
  handlers.say = [this, &running](std::string_view line) {
    run_.log().Note(line);
    if (running != nullptr && !*run_.spec().is_quiet) running->Say(line);
  };
  handlers.on_leaving = [&running](const std::string& host, Duration in) {
    if (running != nullptr) running->HostLeaves(host, in);
  };
  const JobReach reach = slots_.Offer(std::move(handlers), plan.spread);
  Trace trace(run_.began(), {}, !run_.spec().trace_file->empty());
  Result<std::unique_ptr<Launcher>> launcher = run_.Open(reach, trace, std::move(plan));
  if (!launcher.ok()) return Fail(launcher.status());
  running = launcher->get();
  run_.OnStop([running](int signo) { running->StopBy(signo); });
  JobReport report = running->Run();
  run_.OnStop([](int /*signo*/) {});  // the launcher has ended
  return run_.End(trace, std::move(report),
                  [running](std::span<const std::string> lines) { running->Print(lines); });
}

int Drive(const std::string& directory, TimePoint began) {
  IgnoreSignals();
  if (!IsPollable(STDIN_FILENO) || !IsPollable(STDOUT_FILENO)) {
    return Fail({ErrorCode::kUsage, "stdin and stdout must be pipes from ray_driver.py"}, kUsage);
  }
  Result<RayJobFile> job = LoadJob(directory);
  if (!job.ok()) return Fail(job.status(), kHvdrayFailed);
  Result<UniqueFd> control = OpenControl(directory);
  if (!control.ok()) return Fail(control.status(), kHvdrayFailed);
  UseLogOf(job->spec);

  auto pipe = TakeStdinAndStdout();
  if (!pipe.ok()) return Fail(pipe.status(), kHvdrayFailed);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(loop.status(), kHvdrayFailed);
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  std::unique_ptr<ByteStream> python =
      MakeFdStream(**loop, std::move(pipe->first), std::move(pipe->second));
  return RayLaunch(**loop, std::move(job).value(), std::move(control).value(), std::move(python),
                   began)
      .Run();
}

}  // namespace

std::string RayLaunchFile(std::string_view directory, std::string_view job_id,
                          std::string_view suffix) {
  return fmt::format("{}/hvdray_{}.{}", directory, job_id, suffix);
}

JobSpec SpecOnRay(const RayJobFile& job, std::string_view directory) {
  JobSpec spec = job.spec;
  const auto move_file = [&](Setting<std::string>& file, std::string_view suffix) {
    if (!file->empty()) file.Set(RayLaunchFile(directory, job.job_id, suffix), file.origin());
  };
  move_file(spec.report_file, "report.json");
  move_file(spec.events_file, "events.jsonl");
  move_file(spec.trace_file, "trace.json");
  move_file(spec.junit_file, "junit.xml");
  move_file(spec.record_file, "record");
  // The client writes them from the stream.
  spec.output_filename.Set("", "driver on Ray");
  const bool has_files = !spec.ray.working_dir->empty() && !spec.ray.is_directory_remote();
  if (has_files && !spec.working_directory->starts_with('/')) {
    const std::string& below = *spec.working_directory;
    spec.working_directory.Set(
        kPackageFilesDirectory + (below.empty() ? std::string() : "/" + below),
        spec.working_directory.origin());
  }
  // The driver's own stdin is the pipe to ray_driver.py.
  spec.stdin_rank.Set(std::nullopt, "driver on Ray");
  spec.start_timeout.Set(*spec.start_timeout + SetupLimit(*spec.ray.runtime_env),
                         spec.start_timeout.origin());
  return spec;
}

LaunchPlan PlanOnRay(const RayJobFile& job, JobSpec spec) {
  LaunchPlan plan;
  plan.spec = std::move(spec);
  plan.environment = job.environment;
  plan.job_id = job.job_id;
  plan.build = job.build;
  // No current_directory: the agents start in the job's package.
  AdaptPlanToRay(&plan);
  return plan;
}

int RayLaunchMain(std::span<const std::string_view> words) {
  const TimePoint began = std::chrono::steady_clock::now();
  if (words.size() == 1 && !words[0].starts_with("-")) return Drive(std::string(words[0]), began);
  return Fail(
      {ErrorCode::kUsage, "expected the directory of one job; ray_driver.py runs this command"},
      kUsage);
}

}  // namespace hvdray
