// SPDX-License-Identifier: Apache-2.0
#include "launcher/ray/ray_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_run.h"
#include "base/fd.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/shown_text.h"
#include "base/standard_streams.h"
#include "base/tls_stream.h"
#include "cluster/ray/endpoint_address.h"
#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/neighbour_probe.h"
#include "launcher/job/placement.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/ray/ray_launch_log.h"
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

ElasticHosts WaysOfRay(const RayHosts& hosts, const std::string& own_ip) {
  return {
      .add = [](const HostSlots& /*host*/) {},
      .is_remote = [](const std::string& /*host*/) { return true; },
      .is_elsewhere =
          [&hosts, own_ip](const std::string& host) { return hosts.plan().IpOf(host) != own_ip; }};
}

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
  SetLogFormat(*spec.is_log_json ? LogFormat::kJson : LogFormat::kText);
}

int Drive(const std::string& directory, TimePoint began) {
  IgnoreSignals();
  if (!IsPollable(STDIN_FILENO) || !IsPollable(STDOUT_FILENO)) {
    return Fail({ErrorCode::kUsage, "stdin and stdout have to be pipes of ray_driver.py"}, kUsage);
  }
  RayLaunchOptions options;
  options.began = began;
  Result<RayJobFile> job = LoadJob(directory);
  if (!job.ok()) return Fail(job.status(), kLaunchFailed);
  options.job = std::move(job).value();
  UseLogOf(options.job.spec);

  auto pipe = TakePipe();
  if (!pipe.ok()) return Fail(pipe.status(), kLaunchFailed);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(loop.status(), kLaunchFailed);
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  options.python = MakeFdStream(**loop, std::move(pipe->first), std::move(pipe->second));
  return RayLaunch(**loop, std::move(options)).Run();
}

}  // namespace

RayLaunch::RayLaunch(Loop& loop, RayLaunchOptions options)
    : loop_(loop),
      hello_limit_(options.hello_limit),
      run_(loop, std::move(options.job), options.log_fd, options.began),
      broker_(std::make_unique<RayBroker>(std::move(options.python), MakeHandlers())) {}

RayLaunch::~RayLaunch() = default;

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
  timer_ = loop_.After(hello_limit_, [this] {
    GiveUp({ErrorCode::kRayFailed,
            fmt::format("ray_driver.py has not said hello within {:g} s",
                        std::chrono::duration_cast<Seconds>(hello_limit_).count())},
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
            fmt::format("Ray's address of this node is '{}'", ShownText(hello_.node_ip))};
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
  wait_.emplace(
      request_,
      GroupWaitOptions{.limit = *run_.spec().ray.group_timeout, .can_grow = run_.job().can_grow},
      reserve_began_);
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
  wait_.emplace(
      request_,
      GroupWaitOptions{.limit = *run_.spec().ray.group_timeout, .can_grow = run_.job().can_grow},
      reserve_began_);
  wait_->Expect(reserved_.bundles.size());
  wait_->OnGroup(group, reserve_began_);
  if (nodes_) wait_->OnNodes(*nodes_);
  broker_->Watch();
  run_.log().Say(fmt::format("{}; no worker had started: waiting for Ray to replace these slots",
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

RayHostsOptions RayLaunch::HostsOptions() {
  RayHostsOptions options;
  options.policy.group_prefix = "hvdray-" + run_.job().job_id;
  options.policy.ask = RayAskOf(run_.spec());
  options.policy.max_slots = run_.spec().max_np->value_or(kMaxRanks);
  if (run_.job().can_grow) options.policy.wanted_slots = *run_.spec().np;
  options.policy.is_spread = *run_.spec().ray.strategy == RayStrategy::kSpread;
  options.policy.has_cooldown = run_.spec().blacklist_cooldown_range->has_value();
  for (const RayNamedHost& host : options.policy.ask.named) options.policy.only_ips.insert(host.ip);
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
  Trace trace(run_.began(), {}, !run_.spec().trace_file->empty());
  Result<std::unique_ptr<Launcher>> launcher =
      OpenElastic(loop_, *transport_, *hosts_, WaysOfRay(*hosts_, hello_.node_ip), trace,
                  std::move(plan), policy);
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

int RayLaunchMain(std::span<const std::string_view> words) {
  const TimePoint began = std::chrono::steady_clock::now();
  if (words.size() == 1 && !words[0].starts_with("-")) return Drive(std::string(words[0]), began);
  return Fail({ErrorCode::kUsage, "wants the directory of one job; ray_driver.py starts it"},
              kUsage);
}

}  // namespace hvdray
