#include "cmd/drive_job.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "base/log.h"
#include "base/shown_text.h"
#include "base/tls_stream.h"
#include "cluster/ray/seat_address.h"
#include "cmd/drive_plan.h"
#include "cmd/exit_code.h"
#include "cmd/run_ending.h"
#include "launcher/agent/agent_run.h"
#include "launcher/engine/job_files.h"
#include "launcher/engine/neighbour_probe.h"
#include "launcher/spec/ray_ask.h"

namespace hvdray {
namespace {

constexpr int kHvdrayFailed = 125;

/// The address that Ray gives for this node; where it is none of this machine's (behind some other
/// network), all of them.
Result<std::unique_ptr<SeatListener>> OpenListener(Loop& loop, const std::string& node_ip,
                                                   const std::string& key) {
  SeatListenerOptions options;
  options.addresses = {node_ip};
  HVDRAY_ASSIGN_OR_RETURN(Secret secret, ParseTlsKey(key));
  Result<std::unique_ptr<SeatListener>> listener = SeatListener::Open(loop, options, secret.Copy());
  if (listener.ok()) return listener;
  options.addresses.clear();
  return SeatListener::Open(loop, options, std::move(secret));
}

}  // namespace

DriveJob::DriveJob(Loop& loop, DriveJobOptions options)
    : loop_(loop),
      job_(std::move(options.job)),
      spec_(job_.spec),
      began_(options.began),
      began_wall_(std::chrono::system_clock::now()),
      hello_limit_(options.hello_limit),
      log_(options.log_fd),
      broker_(std::make_unique<RayBroker>(std::move(options.python), MakeHandlers())) {}

DriveJob::~DriveJob() = default;

RayBroker::Handlers DriveJob::MakeHandlers() {
  RayBroker::Handlers handlers;
  handlers.on_hello = [this](BrokerHello hello) { OnHello(std::move(hello)); };
  handlers.on_nodes = [this](const BrokerNodes& nodes) { OnNodes(nodes); };
  handlers.on_group = [this](const BrokerGroup& group) { OnGroup(group); };
  handlers.on_seat_started = [this](const BrokerSeatStarted& seat) { OnSeatStarted(seat); };
  handlers.on_seat_ended = [this](const BrokerSeatEnded& seat) { OnSeatEnded(seat); };
  handlers.on_signal = [this](BrokerSignal signal) { OnSignal(signal.signo); };
  handlers.on_closed = [this](Status why) { OnClosed(std::move(why)); };
  return handlers;
}

int DriveJob::Run() {
  broker_->Start();
  timer_ = loop_.After(hello_limit_, [this] {
    GiveUp({ErrorCode::kRayFailed,
            fmt::format("ray_driver.py has not said hello within {:g} s",
                        std::chrono::duration_cast<Seconds>(hello_limit_).count())},
           kHvdrayFailed);
  });
  {
    // The job's log takes ASCII only; while a launcher runs, it takes these lines over.
    const LogSink log([this](std::string_view line) { log_.Note(line); });
    loop_.Run();
  }
  if (failure_) return EndEarly();
  return spec_.is_elastic() ? RunElastic() : RunStatic();
}

void DriveJob::OnHello(BrokerHello hello) {
  hello_ = std::move(hello);
  timer_.Cancel();
  log_.Note(fmt::format("job {} by {}, driver {}, Ray {}, Python {}, on {}", job_.job_id,
                        job_.build, kAgentBuild, hello_.ray, hello_.python, hello_.node_ip));
  if (Status status = Begin(); !status.ok()) GiveUp(std::move(status), kHvdrayFailed);
}

Status DriveJob::Begin() {
  spec_ = DriveSpec(job_, hello_.logs);
  if (!ParseIpLiteral(hello_.node_ip)) {
    return {ErrorCode::kProtocolError,
            fmt::format("Ray's address of this node is '{}'", ShownText(hello_.node_ip))};
  }
  HVDRAY_RETURN_IF_ERROR(log_.Open(DriveFile(hello_.logs, job_.job_id, "stream")));
  Result<std::unique_ptr<SeatListener>> listener = OpenListener(loop_, hello_.node_ip, job_.key);
  if (!listener.ok()) {
    return std::move(listener).status().WithContext("listen for agents on " + hello_.node_ip);
  }
  listener_ = std::move(listener).value();
  broker_->Watch();
  if (spec_.is_elastic()) {
    loop_.Stop();
    return {};
  }
  Result<RayRequest> request = MakeRayRequest(RayAskOf(spec_));
  if (!request.ok()) return std::move(request).status();
  request_ = std::move(request).value();
  reserve_began_ = loop_.Now();
  wait_.emplace(request_,
                GroupWaitOptions{.limit = *spec_.ray.group_timeout, .can_grow = job_.can_grow},
                reserve_began_);
  broker_->Reserve({.name = "hvdray-" + job_.job_id,
                    .bundles = request_.bundles,
                    .strategy = request_.strategy,
                    .selectors = request_.selectors});
  Look();
  return {};
}

void DriveJob::OnGroup(const BrokerGroup& group) {
  if (hosts_) return hosts_->OnGroup(group);
  if (!wait_) return;
  wait_->OnGroup(group, loop_.Now());
  if (transport_) transport_->OnGroup(group);
  Look();
}

void DriveJob::OnNodes(const BrokerNodes& nodes) {
  nodes_ = nodes;
  if (hosts_) return hosts_->OnNodes(nodes);
  if (!wait_) return;
  wait_->OnNodes(nodes);
  Look();
}

// Only while slots are waited for.
void DriveJob::Look() {
  if (stop_ || failure_) return;
  const TimePoint now = loop_.Now();
  switch (wait_->Look(now)) {
    case GroupWait::State::kCreated:
      timer_.Cancel();
      if (!taken_.ok() && !IsMoved()) return AwaitRaysNotice();
      loop_.Stop();
      return;
    case GroupWait::State::kFailed:
      return GiveUp(wait_->failure(now), kHvdrayFailed);
    case GroupWait::State::kWaiting:
      break;
  }
  if (const auto line = wait_->TakeLine(now)) log_.Say(*line, *spec_.is_quiet);
  timer_ = loop_.After(wait_->NextDeadline() - now, [this] {
    timer_.Cancel();
    Look();
  });
}

void DriveJob::OnSeatStarted(const BrokerSeatStarted& seat) {
  if (transport_) transport_->OnSeatStarted(seat);
  if (++seats_started_ == seats_wanted_) seats_ended_ = loop_.Now();
}

void DriveJob::OnSeatEnded(const BrokerSeatEnded& seat) {
  if (transport_) transport_->OnSeatEnded(seat);
}

void DriveJob::OnSignal(int signo) {
  if (stop_) return stop_(signo);
  const char* name = ::sigabbrev_np(signo);
  GiveUp({ErrorCode::kInterrupted,
          fmt::format("stopped by SIG{} before it had its slots", name == nullptr ? "?" : name)},
         128 + signo);
}

void DriveJob::OnClosed(Status why) {
  python_gone_ = why;
  // Ray ends the agents now; whoever still hears us stops in good order.
  if (stop_) return stop_(SIGTERM);
  GiveUp(std::move(why), kHvdrayFailed);
}

void DriveJob::GiveUp(Status why, int exit_code) {
  if (failure_) return;
  failure_ = std::move(why);
  failure_code_ = exit_code;
  timer_.Cancel();
  loop_.Stop();
}

int DriveJob::EndEarly() {
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
  return End(spec_, trace, std::move(report), [this](std::span<const std::string> lines) {
    for (const std::string& line : lines) log_.Print(line);
  });
}

Duration DriveJob::HeldUp() const {
  // The actors' processes are Ray's to start; its patience is that for the group.
  const TimePoint end = seats_ended_.value_or(loop_.Now());
  return std::min(end - seats_began_, *spec_.ray.group_timeout);
}

RayTransportOptions DriveJob::TransportOptions(HostSpread spread, size_t host_count) const {
  RayTransportOptions options;
  TcpAddress dial = ParseIpLiteral(hello_.node_ip).value_or(TcpAddress());
  dial.port = listener_->port();
  options.dial = FormatSeatAddresses({dial});
  options.key_line = job_.key;
  if (IsProbeWanted(spread, host_count)) options.agent_words.emplace_back("--probe-listener");
  if (*spec_.ray.keeps_ray_env) options.agent_words.emplace_back("--keep-ray-env");
  return options;
}

int DriveJob::RunStatic() {
  for (;;) {
    if (const std::optional<int> code = RunPlaced()) return *code;
    if (!WaitAgain()) return EndEarly();
  }
}

std::optional<int> DriveJob::RunPlaced() {
  placement_ = PlaceGroup(request_, wait_->group(), wait_->nodes());
  LaunchPlan plan = DrivePlan(job_, spec_);
  plan.began = began_;
  plan.began_wall = began_wall_;
  plan.place.record_fd = log_.stream_fd();
  if (Status status = PlaceStatic(placement_, &plan); !status.ok()) {
    GiveUp(std::move(status), kHvdrayFailed);
    return EndEarly();
  }
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) {
    names.push_back(fmt::format("{}:{}", host.host, host.slots));
  }
  log_.Note(fmt::format("slots: {}", fmt::join(names, ", ")));

  RayTransportOptions options = TransportOptions(plan.spread, plan.hosts.size());
  if (transport_) options.first_seat = transport_->next_seat();
  transport_ = std::make_unique<RayTransport>(loop_, *broker_, *listener_, std::move(options));
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    transport_->Place(plan.hosts[i].host, placement_.places[i]);
  }
  Trace trace(began_, NamesOf(plan.hosts), !spec_.trace_file->empty());
  trace.Begin("reserve", reserve_began_);
  trace.End("reserve", loop_.Now());
  seats_wanted_ = plan.hosts.size();
  seats_started_ = 0;
  seats_began_ = loop_.Now();
  seats_ended_.reset();
  plan.place.start_clock = seats_began_;
  plan.place.held_up = [this] { return HeldUp(); };
  Result<std::unique_ptr<Launcher>> launcher =
      Launcher::Open(loop_, *transport_, trace, std::move(plan));
  if (!launcher.ok()) {
    GiveUp(launcher.status(), kHvdrayFailed);
    return EndEarly();
  }
  stop_ = [&launcher](int signo) { (*launcher)->StopBy(signo); };
  JobReport report = (*launcher)->Run();
  if (WasTakenAway(report)) {
    taken_ = report.verdict.error;
    for (const HostSlots& host : placement_.hosts) transport_->Remove(host.host);
    stop_ = nullptr;
    return std::nullopt;
  }
  stop_ = [](int /*signo*/) {};  // it has ended
  return End(spec_, trace, std::move(report),
             [&launcher](std::span<const std::string> lines) { (*launcher)->Print(lines); });
}

int DriveJob::End(const JobSpec& spec, Trace& trace, JobReport report,
                  const std::function<void(std::span<const std::string> lines)>& print) {
  if (python_gone_ && report.verdict.exit_code != 0 &&
      report.verdict.origin == ExitOrigin::kHvdray) {
    report.verdict.exit_code = kHvdrayFailed;
    report.verdict.error = *python_gone_;
  }
  Status error = report.verdict.error;
  int exit_code = EndRun(spec, job_.environment, trace, std::move(report), print);
  const Status lost = log_.End(exit_code, error);
  if (!lost.ok() && exit_code == 0) {
    exit_code = kHvdrayFailed;
    error = lost;
  }
  log_.Note(fmt::format("job {} ended with exit code {}{}{}", job_.job_id, exit_code,
                        error.ok() ? "" : ": ", error.ok() ? "" : error.ToString()));
  return exit_code;
}

}  // namespace hvdray
