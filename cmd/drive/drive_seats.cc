#include "cmd/drive/drive_seats.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/tls_stream.h"
#include "cmd/drive/drive_plan.h"

namespace hvdray {
namespace {

// Ray needs a second or two for a process of its own, and longer under load.
constexpr Duration kFirstLine = std::chrono::seconds(5);
constexpr Duration kLinePeriod = std::chrono::seconds(10);
constexpr size_t kNamesShown = 8;

double SecondsOf(Duration duration) {
  return std::chrono::duration_cast<Seconds>(duration).count();
}

std::vector<std::string> HostsOf(const RayJobSeats& placed) {
  std::vector<std::string> hosts;
  for (const RayJobSeat& seat : placed.seats) hosts.push_back(seat.host);
  return hosts;
}

/// "10.0.0.11, 10.0.0.12 and 3 more"
std::string NamesText(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesShown);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

DriveSeats::DriveSeats(Loop& loop, DriveSeatsOptions options)
    : loop_(loop),
      logs_(std::move(options.logs)),
      parents_(options.parents),
      run_(loop, std::move(options.job), options.log_fd, options.began),
      lifelines_(loop, [this](const Status& why) { run_.Orphan(why); }),
      wait_began_(loop.Now()),
      next_line_(wait_began_ + kFirstLine) {}

int DriveSeats::Run() {
  // The launcher takes them over while it runs; these keep the process from dying of them, before
  // and after that.
  for (const int signo : {SIGTERM, SIGINT}) {
    signals_.push_back(loop_.OnSignal(signo, [this, signo] {
      if (!run_.is_launched()) run_.StopBy(signo);
    }));
  }
  if (Status status = Begin(); !status.ok()) {
    run_.GiveUp(std::move(status), kDriveFailed);
  } else {
    run_.Wait();
  }
  timer_.Cancel();
  return run_.has_failed() ? run_.EndEarly() : RunStatic();
}

Status DriveSeats::Begin() {
  const RayJobFile& job = run_.job();
  HVDRAY_RETURN_IF_ERROR(run_.Open(logs_));
  run_.log().Note(fmt::format("job {} by {}, a Ray job for each of {} nodes, driver on {}",
                              job.job_id, job.build, job.placed.seats.size(),
                              job.placed.driver_ip));
  HVDRAY_RETURN_IF_ERROR(
      lifelines_.AddProcess(parents_.supervisor, "Ray's supervisor of the driver's job is gone"));
  HVDRAY_RETURN_IF_ERROR(lifelines_.AddProcess(
      parents_.raylet,
      fmt::format("Ray's raylet on the driver's node (pid {}) died", parents_.raylet)));
  HVDRAY_RETURN_IF_ERROR(hurry_.Open(loop_, DriveFile(logs_, job.job_id, kHurrySuffix),
                                     [this] { run_.StopBy(SIGTERM); }));
  HVDRAY_RETURN_IF_ERROR(OpenListener());
  transport_ =
      std::make_unique<SeatTransport>(loop_, *listener_, HostsOf(job.placed), [this] { Look(); });
  Look();
  return {};
}

Status DriveSeats::OpenListener() {
  const RayJobSeats& placed = run_.job().placed;
  HVDRAY_ASSIGN_OR_RETURN(const Secret key, ParseTlsKey(run_.job().key));
  SeatListenerOptions options;
  options.addresses = {placed.driver_ip};
  for (const uint16_t port : placed.ports) {
    options.port = port;
    Result<std::unique_ptr<SeatListener>> listener = SeatListener::Open(loop_, options, key.Copy());
    const bool is_taken = !listener.ok() && listener.status().code() == ErrorCode::kAddressInUse;
    if (!listener.ok() && !is_taken) {
      // None of this machine's: it is behind some other network.
      options.addresses.clear();
      listener = SeatListener::Open(loop_, options, key.Copy());
    }
    if (listener.ok()) {
      listener_ = std::move(listener).value();
      return {};
    }
    run_.log().Note(fmt::format("port {}: {}", port, listener.status().message()));
  }
  return {ErrorCode::kAddressInUse,
          fmt::format("{}: none of the ports {} that the client proposed is free", placed.driver_ip,
                      fmt::join(placed.ports, ", ")),
          "run it again: it proposes others"};
}

// Only while agents are waited for.
void DriveSeats::Look() {
  if (run_.is_launched() || run_.has_failed()) return;
  const TimePoint now = loop_.Now();
  const std::vector<std::string> missing = transport_->MissingHosts();
  if (missing.empty()) return loop_.Stop();
  const Duration limit = *run_.spec().ray.group_timeout;
  const size_t count = run_.job().placed.seats.size();
  if (now - wait_began_ >= limit) {
    return run_.GiveUp(
        {ErrorCode::kNoCapacity,
         fmt::format("no agent within {:g} s on {} of {} nodes: {}", SecondsOf(limit),
                     missing.size(), count, NamesText(missing)),
         "wait for other jobs, ask for less, or raise --placement-group-timeout; Ray's dashboard "
         "shows what became of these nodes' jobs"},
        kDriveFailed);
  }
  if (now >= next_line_) {
    next_line_ = now + kLinePeriod;
    run_.log().Say(
        fmt::format("waiting for Ray's jobs on {} of {} nodes since {:.0f} s: {}", missing.size(),
                    count, SecondsOf(now - wait_began_), NamesText(missing)),
        *run_.spec().is_quiet);
  }
  timer_ = loop_.After(std::min(next_line_, wait_began_ + limit) - now, [this] {
    timer_.Cancel();
    Look();
  });
}

RayPlacement DriveSeats::Placement() const {
  RayPlacement placement;
  for (const RayJobSeat& seat : run_.job().placed.seats) {
    placement.hosts.push_back({.host = seat.host, .slots = seat.slots});
    placement.node_ids.push_back(seat.node_id);
    placement.ips.push_back(seat.ip);
  }
  return placement;
}

int DriveSeats::RunStatic() {
  Result<LaunchPlan> plan = run_.PlanFor(Placement());
  if (!plan.ok()) {
    run_.GiveUp(plan.status(), kDriveFailed);
    return run_.EndEarly();
  }
  plan->place.start_clock = loop_.Now();
  return *run_.Launch(std::move(plan).value(), *transport_, wait_began_,
                      [](const JobReport& /*report*/) { return true; });
}

}  // namespace hvdray
