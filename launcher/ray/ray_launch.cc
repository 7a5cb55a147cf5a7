// SPDX-License-Identifier: Apache-2.0
#include "launcher/ray/ray_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_run.h"
#include "base/byte_stream.h"
#include "base/fd.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "base/tls_stream.h"
#include "cluster/ray/endpoint_address.h"
#include "cluster/ray/endpoint_listener.h"
#include "cluster/ray/group_wait.h"
#include "cluster/ray/ray_broker.h"
#include "cluster/ray/ray_hosts.h"
#include "cluster/ray/ray_transport.h"
#include "cluster/transport.h"
#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/neighbour_probe.h"
#include "launcher/job/placement.h"
#include "launcher/ray/ray_launch_log.h"
#include "launcher/report/run_ending.h"
#include "launcher/report/trace.h"
#include "wire/package_layout.h"

namespace hvdray {
namespace {

// Resources of another job's end may become free a moment later.
constexpr Duration kRefusedFor = std::chrono::milliseconds(500);

/// Listens on Ray's address of this node, or on all addresses if this machine does not have that
/// one (behind NAT, for example).
Result<std::unique_ptr<EndpointListener>> OpenListener(Loop& loop, const std::string& node_ip,
                                                       const std::string& key) {
  EndpointListenerOptions options;
  options.addresses = {node_ip};
  HVDRAY_ASSIGN_OR_RETURN(Secret secret, ParseTlsKey(key));
  Result<std::unique_ptr<EndpointListener>> listener =
      EndpointListener::Open(loop, options, secret.Copy());
  if (listener.ok()) return listener;
  options.addresses.clear();
  return EndpointListener::Open(loop, options, std::move(secret));
}

/// Ray keeps trying, but has found that the nodes lack the resources.
bool HasNoRoom(const BrokerGroup& group) {
  return group.state != BrokerGroupState::kCreated &&
         (group.reason == "NO_RESOURCES" || group.reason == "INFEASIBLE");
}

// Ray needs up to 13.6 s to notice a killed node.
constexpr Duration kNoticeLimit = std::chrono::seconds(20);

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

wire::GpuVisibility VisibilityOf(const RaySpec& ray) {
  if (ray.slot_gpus() <= 0) return wire::GpuVisibility::kInherited;
  return *ray.gpu_choice == GpuChoice::kRank ? wire::GpuVisibility::kRank
                                             : wire::GpuVisibility::kHost;
}

/// The spread of hosts at these addresses.
HostSpread SpreadOf(const std::vector<std::string>& ips) {
  const std::set<std::string> different(ips.begin(), ips.end());
  return different.size() <= 1 ? HostSpread::kOneMachine : HostSpread::kManyMachines;
}

class RayReach final : public ElasticHosts {
 public:
  RayReach(const RayHosts& hosts, std::string own_ip) : hosts_(hosts), own_ip_(std::move(own_ip)) {}
  void AddHost(const HostSlots& /*host*/) override {}
  bool IsRemote(const std::string& /*host*/) const override { return true; }
  bool IsElsewhere(const std::string& host) const override {
    return hosts_.plan().IpOf(host) != own_ip_;
  }

 private:
  const RayHosts& hosts_;
  const std::string own_ip_;
};

constexpr int kUsage = 2;
constexpr uint64_t kOpenFiles = 65536;

int Fail(const Status& status, int exit_code) {
  RayLaunchLog(STDERR_FILENO).Note(fmt::format("launch: {}", status.ToString()));
  return exit_code;
}

/// Moves the pipe away from 0 and 1, so that accidental prints can't reach it.
Result<std::pair<UniqueFd, UniqueFd>> TakePipe() {
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.is_valid() || !out.is_valid() || !null.is_valid()) return ErrnoStatus("dup", errno);
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return std::pair{std::move(in), std::move(out)};
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

constexpr int kLaunchFailed = 125;

/// The part that is independent of the source of hosts: settings, log, the launcher over known
/// hosts, and the end. Owns spec and log of the job.
class RayLaunchRun {
 public:
  using PrintFn = std::function<void(std::span<const std::string> lines)>;

  RayLaunchRun(Loop& loop, RayJobFile job, TimePoint began);

  const RayJobFile& job() const { return job_; }
  const JobSpec& spec() const { return spec_; }
  RayLaunchLog& log() { return log_; }
  TimePoint began() const { return began_; }
  std::chrono::system_clock::time_point began_wall() const { return began_wall_; }

  /// Opens the stream file in directory `logs`, where the launcher will write its files, too.
  /// Errors: kFileUnwritable.
  Status Open(const std::string& logs);

  /// Runs the loop while the job waits for hosts: until the caller stops the loop, or GiveUp().
  void Wait();
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
  Watch pulse_;
  Watch roll_;
  std::function<void(int signo)> stop_;
};

RayLaunchRun::RayLaunchRun(Loop& loop, RayJobFile job, TimePoint began)
    : loop_(loop),
      job_(std::move(job)),
      spec_(job_.spec),
      began_(began),
      began_wall_(std::chrono::system_clock::now()),
      log_(STDERR_FILENO) {}

Status RayLaunchRun::Open(const std::string& logs) {
  spec_ = SpecOnRay(job_, logs);
  HVDRAY_RETURN_IF_ERROR(log_.Open(RayLaunchFile(logs, job_.job_id, "stream")));
  pulse_ = loop_.Every(kPulse, [this] { log_.Pulse(); });
  roll_ = loop_.Every(
      kRollLook, [this, limit = static_cast<uint64_t>(*spec_.ray.log_limit)] { log_.Roll(limit); });
  return {};
}

void RayLaunchRun::Wait() {
  // The job's log takes only ASCII; while a launcher runs, these lines go there.
  const LogSink log([this](std::string_view line) { log_.Note(line); });
  loop_.Run();
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
  GiveUp(std::move(why), kLaunchFailed);
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
  Trace trace(began_, NamesOf(plan.hosts), !spec_.trace_file->empty());
  trace.Begin("reserve", reserve_began);
  trace.End("reserve", loop_.Now());
  Result<std::unique_ptr<Launcher>> launcher = OpenFixed(loop_, transport, trace, std::move(plan));
  if (!launcher.ok()) {
    GiveUp(launcher.status(), kLaunchFailed);
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
  if (orphaned_ && report.verdict.exit_code != 0 && report.verdict.origin == ExitOrigin::kHvdray) {
    report.verdict.exit_code = kLaunchFailed;
    report.verdict.error = *orphaned_;
  }
  Status error = report.verdict.error;
  int exit_code =
      EndRun(spec_, CalledAs::kHvdray, job_.environment, trace, std::move(report), print);
  const Status lost = log_.End(exit_code, error);
  if (!lost.ok() && exit_code == 0) {
    exit_code = kLaunchFailed;
    error = lost;
  }
  log_.Note(fmt::format("job {} ended with exit code {}{}{}", job_.job_id, exit_code,
                        error.ok() ? "" : ": ", error.ok() ? "" : error.ToString()));
  return exit_code;
}

// How long ray_driver.py may take to send its hello.
constexpr Duration kHelloLimit = std::chrono::seconds(60);

/// Owns the pipe to ray_driver.py, the placement group and the launcher. Threads: the loop's.
class RayLaunch {
 public:
  /// `python`: the pipe to ray_driver.py. `began`: when this process was started.
  RayLaunch(Loop& loop, RayJobFile job, std::unique_ptr<ByteStream> python, TimePoint began);

  /// Runs the loop until the job has ended and all Ray resources are returned. Returns the exit
  /// code. Call once.
  int Run();

 private:
  RayBroker::Handlers MakeHandlers();
  void OnHello(BrokerHello hello);
  void OnGroup(const BrokerGroup& group);
  void OnNodes(const BrokerNodes& nodes);
  void OnEndpointStarted(const BrokerEndpointStarted& endpoint);
  void OnEndpointEnded(const BrokerEndpointEnded& endpoint);
  void OnSignal(const BrokerSignal& signal);
  void OnArrival();
  void OnClosed(Status why);

  Status Begin();
  void Reserve(RayRequest request);
  /// When to ask for single slots, if Ray finds no room for bundles of several slots.
  std::optional<TimePoint> TimeForSingleSlots() const;
  void Look();
  void GiveUp(Status why, int exit_code);
  int RunStatic();
  /// The exit code; nullopt: Ray took slots away before any worker started.
  std::optional<int> RunPlaced();
  bool WasTakenAway(const JobReport& report) const;
  bool IsMoved() const;
  bool WaitAgain();
  /// Waits until the group is complete. False: it never will be.
  bool WaitOn();
  void AwaitRaysNotice();
  int RunElastic();
  RayHostsOptions HostsOptions();
  RayTransportOptions TransportOptions(HostSpread spread, size_t host_count) const;
  Duration HeldUp() const;

  Loop& loop_;
  RayLaunchRun run_;
  BrokerHello hello_;
  std::unique_ptr<RayBroker> broker_;
  std::unique_ptr<EndpointListener> listener_;
  std::unique_ptr<RayTransport> transport_;
  std::unique_ptr<RayHosts> hosts_;   // Elastic jobs only.
  std::optional<BrokerNodes> nodes_;  // The latest table.
  std::optional<GroupWait> wait_;
  RayRequest request_;   // A bundle per slot, or per host if hosts are asked for.
  RayRequest reserved_;  // The same slots, as last asked for.
  std::string group_name_;
  std::optional<TimePoint> refused_since_;  // Since when Ray has no room for reserved_.
  TimePoint reserve_began_{};
  RayPlacement placement_;
  Status taken_;  // Why slots were taken away, while waiting for new ones.
  Watch timer_;
  size_t endpoints_wanted_ = 0;
  size_t endpoints_started_ = 0;
  size_t arrivals_ = 0;
  TimePoint endpoints_began_{};
  std::optional<TimePoint> endpoints_ended_;
};

RayLaunch::RayLaunch(Loop& loop, RayJobFile job, std::unique_ptr<ByteStream> python,
                     TimePoint began)
    : loop_(loop),
      run_(loop, std::move(job), began),
      broker_(std::make_unique<RayBroker>(std::move(python), MakeHandlers())) {}

RayBroker::Handlers RayLaunch::MakeHandlers() {
  RayBroker::Handlers handlers;
  handlers.on_hello = [this](BrokerHello hello) { OnHello(std::move(hello)); };
  handlers.on_nodes = [this](const BrokerNodes& nodes) { OnNodes(nodes); };
  handlers.on_group = [this](const BrokerGroup& group) { OnGroup(group); };
  handlers.on_endpoint_started = [this](const BrokerEndpointStarted& endpoint) {
    OnEndpointStarted(endpoint);
  };
  handlers.on_endpoint_ended = [this](const BrokerEndpointEnded& endpoint) {
    OnEndpointEnded(endpoint);
  };
  handlers.on_signal = [this](const BrokerSignal& signal) { OnSignal(signal); };
  handlers.on_closed = [this](Status why) { OnClosed(std::move(why)); };
  return handlers;
}

int RayLaunch::Run() {
  broker_->Start();
  timer_ = loop_.After(kHelloLimit, [this] {
    GiveUp({ErrorCode::kRayFailed,
            fmt::format("no hello from ray_driver.py within {:g} s",
                        std::chrono::duration_cast<Seconds>(kHelloLimit).count())},
           kLaunchFailed);
  });
  run_.Wait();
  if (run_.has_failed()) return run_.EndEarly();
  return run_.spec().is_elastic() ? RunElastic() : RunStatic();
}

void RayLaunch::OnHello(BrokerHello hello) {
  hello_ = std::move(hello);
  timer_.Cancel();
  run_.log().Note(fmt::format("job {} by {}, driver {}, Ray {}, Python {}, on {}",
                              run_.job().job_id, run_.job().build, kAgentBuild, hello_.ray,
                              hello_.python, hello_.node_ip));
  if (Status status = Begin(); !status.ok()) GiveUp(std::move(status), kLaunchFailed);
}

Status RayLaunch::Begin() {
  if (!ParseIpLiteral(hello_.node_ip)) {
    return {ErrorCode::kProtocolError,
            fmt::format("Ray's address for this node, '{}', is not an IP address",
                        ShownText(hello_.node_ip))};
  }
  HVDRAY_RETURN_IF_ERROR(run_.Open(hello_.logs));
  Result<std::unique_ptr<EndpointListener>> listener =
      OpenListener(loop_, hello_.node_ip, run_.job().key);
  if (!listener.ok()) {
    return std::move(listener).status().WithContext("listen for agents on " + hello_.node_ip);
  }
  listener_ = std::move(listener).value();
  broker_->Watch();
  if (run_.spec().is_elastic()) {
    loop_.Stop();
    return {};
  }
  Result<RayRequest> request = MakeRayRequest(RayAskOf(run_.spec()));
  if (!request.ok()) return std::move(request).status();
  request_ = std::move(request).value();
  reserve_began_ = loop_.Now();
  wait_.emplace(request_, *run_.spec().ray.group_timeout, run_.job().can_grow, reserve_began_);
  Look();
  return {};
}

void RayLaunch::Reserve(RayRequest request) {
  const bool is_first = group_name_.empty();
  if (!is_first) broker_->Release(group_name_);
  group_name_ = fmt::format("hvdray-{}{}", run_.job().job_id, is_first ? "" : "-slots");
  reserved_ = std::move(request);
  refused_since_.reset();
  wait_->Expect(reserved_.bundles.size());
  broker_->Reserve({.name = group_name_,
                    .bundles = reserved_.bundles,
                    .strategy = reserved_.strategy,
                    .selectors = reserved_.selectors});
}

std::optional<TimePoint> RayLaunch::TimeForSingleSlots() const {
  if (!refused_since_ || reserved_ == request_) return std::nullopt;
  return *refused_since_ + kRefusedFor;
}

void RayLaunch::OnGroup(const BrokerGroup& group) {
  if (hosts_) return hosts_->OnGroup(group);
  if (!wait_ || group.name != group_name_) return;
  wait_->OnGroup(group, loop_.Now());
  if (!HasNoRoom(group)) {
    refused_since_.reset();
  } else if (!refused_since_) {
    refused_since_ = loop_.Now();
  }
  if (transport_) transport_->OnGroup(group);
  Look();
}

void RayLaunch::OnNodes(const BrokerNodes& nodes) {
  nodes_ = nodes;
  if (hosts_) return hosts_->OnNodes(nodes);
  if (!wait_) return;
  wait_->OnNodes(nodes);
  // The first table shows which nodes have room.
  if (group_name_.empty() && !run_.has_failed()) Reserve(GroupByNode(request_, wait_->nodes()));
  Look();
}

// Called only while the job waits for slots.
void RayLaunch::Look() {
  if (run_.is_launched() || run_.has_failed()) return;
  const TimePoint now = loop_.Now();
  if (TimeForSingleSlots().value_or(TimePoint::max()) <= now) Reserve(request_);
  switch (wait_->Look(now)) {
    case GroupWait::State::kCreated:
      timer_.Cancel();
      if (!taken_.ok() && !IsMoved()) return AwaitRaysNotice();
      loop_.Stop();
      return;
    case GroupWait::State::kFailed:
      return GiveUp(wait_->failure(now), kLaunchFailed);
    case GroupWait::State::kWaiting:
      break;
  }
  if (const auto line = wait_->TakeLine(now)) run_.log().Say(*line, *run_.spec().is_quiet);
  const TimePoint next =
      std::min(wait_->NextDeadline(), TimeForSingleSlots().value_or(TimePoint::max()));
  timer_ = loop_.After(next - now, [this] {
    timer_.Cancel();
    Look();
  });
}

void RayLaunch::OnEndpointStarted(const BrokerEndpointStarted& endpoint) {
  if (transport_) transport_->OnEndpointStarted(endpoint);
  if (++endpoints_started_ == endpoints_wanted_) endpoints_ended_ = loop_.Now();
}

void RayLaunch::OnEndpointEnded(const BrokerEndpointEnded& endpoint) {
  if (transport_) transport_->OnEndpointEnded(endpoint);
}

void RayLaunch::OnSignal(const BrokerSignal& signal) {
  timer_.Cancel();
  if (!signal.why.empty()) run_.log().Say(signal.why + ": stopping the job", *run_.spec().is_quiet);
  run_.StopBy(signal.signo);
}

// From now on the links report all that happens to a host.
void RayLaunch::OnArrival() {
  if (++arrivals_ == endpoints_wanted_) broker_->Rest();
}

void RayLaunch::OnClosed(Status why) {
  timer_.Cancel();
  run_.Orphan(std::move(why));
}

void RayLaunch::GiveUp(Status why, int exit_code) {
  timer_.Cancel();
  run_.GiveUp(std::move(why), exit_code);
}

Duration RayLaunch::HeldUp() const {
  // Ray starts the actors' processes; they get the same limit as the group.
  const TimePoint end = endpoints_ended_.value_or(loop_.Now());
  return std::min(end - endpoints_began_, *run_.spec().ray.group_timeout);
}

RayTransportOptions RayLaunch::TransportOptions(HostSpread spread, size_t host_count) const {
  RayTransportOptions options;
  TcpAddress dial = ParseIpLiteral(hello_.node_ip).value_or(TcpAddress());
  dial.port = listener_->port();
  options.dial = FormatEndpointAddresses({dial});
  options.key_line = run_.job().key;
  options.runtime_env = *run_.spec().ray.runtime_env;
  if (IsProbeWanted(spread, host_count)) options.agent_words.emplace_back("--probe-listener");
  if (*run_.spec().ray.keeps_ray_env) options.agent_words.emplace_back("--keep-ray-env");
  return options;
}

int RayLaunch::RunStatic() {
  for (;;) {
    // Ray may report the group as created and broken at the same time.
    while (wait_->Look(loop_.Now()) != GroupWait::State::kCreated) {
      if (!WaitOn()) return run_.EndEarly();
    }
    if (const std::optional<int> code = RunPlaced()) return *code;
    if (!WaitAgain()) return run_.EndEarly();
  }
}

std::optional<int> RayLaunch::RunPlaced() {
  placement_ = PlaceGroup(reserved_, wait_->group(), wait_->nodes());
  Result<LaunchPlan> plan = run_.PlanFor(placement_);
  if (!plan.ok()) {
    GiveUp(plan.status(), kLaunchFailed);
    return run_.EndEarly();
  }
  RayTransportOptions options = TransportOptions(plan->spread, plan->hosts.size());
  options.on_arrival = [this] { OnArrival(); };
  if (transport_) options.first_endpoint = transport_->next_endpoint();
  transport_ = std::make_unique<RayTransport>(loop_, *broker_, *listener_, std::move(options));
  for (size_t i = 0; i < plan->hosts.size(); ++i) {
    transport_->Place(plan->hosts[i].host, placement_.places[i]);
  }
  endpoints_wanted_ = plan->hosts.size();
  endpoints_started_ = 0;
  arrivals_ = 0;
  endpoints_began_ = loop_.Now();
  endpoints_ended_.reset();
  plan->place.start_clock = endpoints_began_;
  plan->place.held_up = [this] { return HeldUp(); };
  const auto is_final = [this](const JobReport& report) {
    if (!WasTakenAway(report)) return true;
    taken_ = report.verdict.error;
    for (const HostSlots& host : placement_.hosts) transport_->Remove(host.host);
    return false;
  };
  return run_.Launch(std::move(plan).value(), *transport_, reserve_began_, is_final);
}

// Slots that Ray takes away before any worker starts: the group is complete again in a moment, or
// the wait for it starts over.

bool RayLaunch::WasTakenAway(const JobReport& report) const {
  if (report.generations > 0 || report.verdict.losses.empty() || run_.is_orphaned()) return false;
  // An agent that exits by itself would do so anywhere; an agent lost with its node would not.
  const ErrorCode code = report.verdict.error.code();
  return IsMoved() || code == ErrorCode::kRayFailed || code == ErrorCode::kAgentLost;
}

/// True if the group is no longer where it was placed.
bool RayLaunch::IsMoved() const {
  const BrokerGroup& group = wait_->group();
  if (wait_->Look(loop_.Now()) != GroupWait::State::kCreated) return true;
  if (placement_.places.front().group != group.name) return true;
  for (size_t host = 0; host < placement_.places.size(); ++host) {
    for (const int bundle : placement_.places[host].bundles) {
      if (group.bundles[static_cast<size_t>(bundle)] != placement_.node_ids[host]) return true;
    }
  }
  return false;
}

bool RayLaunch::WaitAgain() {
  reserve_began_ = loop_.Now();
  const BrokerGroup group = wait_->group();
  wait_.emplace(request_, *run_.spec().ray.group_timeout, run_.job().can_grow, reserve_began_);
  wait_->Expect(reserved_.bundles.size());
  wait_->OnGroup(group, reserve_began_);
  if (nodes_) wait_->OnNodes(*nodes_);
  broker_->Watch();
  run_.log().Say(fmt::format("{}; no worker had started; waiting for Ray to replace the slots",
                             taken_.message()),
                 *run_.spec().is_quiet);
  const bool is_whole = WaitOn();
  taken_ = {};
  return is_whole;
}

bool RayLaunch::WaitOn() {
  timer_ = loop_.After(Duration::zero(), [this] {
    timer_.Cancel();
    Look();
  });
  run_.Wait();
  return !run_.has_failed();
}

void RayLaunch::AwaitRaysNotice() {
  const TimePoint limit = reserve_began_ + std::min(kNoticeLimit, *run_.spec().ray.group_timeout);
  if (loop_.Now() >= limit) return GiveUp(taken_, kLaunchFailed);
  timer_ = loop_.After(limit - loop_.Now(), [this] {
    timer_.Cancel();
    Look();
  });
}

RayHostsOptions RayLaunch::HostsOptions() {
  RayHostsOptions options;
  options.policy.group_prefix = "hvdray-" + run_.job().job_id;
  options.policy.ask = RayAskOf(run_.spec());
  options.policy.max_slots = run_.spec().max_np->value_or(kMaxRanks);
  if (run_.job().can_grow) options.policy.wanted_slots = *run_.spec().np;
  options.policy.is_spread = *run_.spec().ray.strategy == RayStrategy::kSpread;
  options.policy.has_cooldown = run_.spec().blacklist_cooldown_range->has_value();
  for (const HostSlots& host : options.policy.ask.named) options.policy.only_ips.insert(host.host);
  options.wanted_slots = *run_.spec().np;
  return options;
}

int RayLaunch::RunElastic() {
  LaunchPlan plan = run_.PlanWithoutHosts();
  const ElasticPolicy policy = ElasticPolicyOf(run_.spec(), run_.began_wall());
  if (Status status = CheckElasticPolicy(policy); !status.ok()) {
    GiveUp(std::move(status), kLaunchFailed);
    return run_.EndEarly();
  }
  RayTransportOptions transport = TransportOptions(plan.spread, /*host_count=*/1);
  transport.on_endpoint = [this](const std::string& host, bool is_live) {
    hosts_->OnEndpoint(host, is_live);
  };
  transport_ = std::make_unique<RayTransport>(loop_, *broker_, *listener_, std::move(transport));
  Launcher* running = nullptr;
  RayHostsOptions hosts = HostsOptions();
  hosts.say = [this, &running](std::string_view line) {
    run_.log().Note(line);
    if (running != nullptr && !*run_.spec().is_quiet) running->Say(line);
  };
  hosts.on_leaving = [&running](const std::string& host, Duration in) {
    if (running != nullptr) running->HostLeaves(host, in);
  };
  hosts_ = std::make_unique<RayHosts>(loop_, *broker_, *transport_, std::move(hosts));
  RayReach reach(*hosts_, hello_.node_ip);
  Trace trace(run_.began(), {}, !run_.spec().trace_file->empty());
  Result<std::unique_ptr<Launcher>> launcher =
      OpenElastic(loop_, *transport_, reach, *hosts_, trace, std::move(plan), policy);
  if (!launcher.ok()) {
    GiveUp(launcher.status(), kLaunchFailed);
    return run_.EndEarly();
  }
  running = launcher->get();
  run_.OnStop([running](int signo) { running->StopBy(signo); });
  if (nodes_) hosts_->OnNodes(*nodes_);
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
  if (!job.ok()) return Fail(job.status(), kLaunchFailed);
  UseLogOf(job->spec);

  auto pipe = TakePipe();
  if (!pipe.ok()) return Fail(pipe.status(), kLaunchFailed);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(loop.status(), kLaunchFailed);
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  std::unique_ptr<ByteStream> python =
      MakeFdStream(**loop, std::move(pipe->first), std::move(pipe->second));
  return RayLaunch(**loop, std::move(job).value(), std::move(python), began).Run();
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
  spec.output_directory.Set("", "driver on Ray");
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
  plan.spread = HostSpread::kManyMachines;
  // No current_directory: the agents start in the job's package.
  plan.place.is_on_own_environment = true;
  plan.place.gpu_visibility = VisibilityOf(plan.spec.ray);
  return plan;
}

Status PlaceStatic(const RayPlacement& placement, LaunchPlan* plan) {
  plan->hosts = placement.hosts;
  plan->is_remote.assign(placement.hosts.size(), true);
  // As in horovod.ray.
  plan->place.worker_host_names = placement.node_ids;
  plan->spread = SpreadOf(placement.ips);
  HVDRAY_ASSIGN_OR_RETURN(plan->ranks, AssignRanks(plan->hosts, *plan->spec.np, *plan->spec.np));
  return {};
}

int RayLaunchMain(std::span<const std::string_view> words) {
  const TimePoint began = std::chrono::steady_clock::now();
  if (words.size() == 1 && !words[0].starts_with("-")) return Drive(std::string(words[0]), began);
  return Fail(
      {ErrorCode::kUsage, "expected the directory of one job; ray_driver.py runs this command"},
      kUsage);
}

}  // namespace hvdray
