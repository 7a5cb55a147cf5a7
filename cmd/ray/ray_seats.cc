#include "cmd/ray/ray_seats.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "cmd/ray/ray_words.h"
#include "cmd/ray/timed_phase.h"

namespace hvdray {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Duration kLookPause = std::chrono::milliseconds(500);
constexpr Duration kFirstLine = std::chrono::seconds(1);
constexpr Duration kLinePeriod = std::chrono::seconds(10);
// Below the ports that systems give out by themselves, which begin at 32768.
constexpr uint32_t kFirstPort = 20000;
constexpr uint32_t kPortCount = 12000;
constexpr size_t kProposedPorts = 3;
constexpr size_t kSubmitters = 8;

std::vector<uint16_t> ProposePorts() {
  std::vector<uint16_t> ports;
  while (ports.size() < kProposedPorts) {
    const std::string bytes = RandomBytes(4);
    uint32_t number = 0;
    for (const char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
    const auto port = static_cast<uint16_t>(kFirstPort + number % kPortCount);
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

/// An older Ray pins a job to an address.
Status CheckPins(const RaySnapshot& cluster, const std::vector<RayJobSeat>& seats) {
  if (HasLabelSelectors(cluster.version)) return {};
  for (const RayJobSeat& seat : seats) {
    const auto count =
        std::count_if(cluster.nodes.begin(), cluster.nodes.end(),
                      [&seat](const RayNode& node) { return node.is_alive && node.ip == seat.ip; });
    if (count < 2) continue;
    return {ErrorCode::kNotSupported,
            fmt::format("{}: {} nodes at {}, and Ray {} can't tell a job which of them is meant",
                        cluster.url, count, seat.ip, cluster.version.ray),
            "--ray-mode pg"};
  }
  return {};
}

Status NoRoom(const RayOutlook& outlook, Duration limit) {
  return {ErrorCode::kNoCapacity,
          fmt::format("{}: no room within {:g} s: {}", outlook.cluster.url,
                      std::chrono::duration_cast<Seconds>(limit).count(), outlook.fit.missing),
          "wait for other jobs, ask for less, or raise --placement-group-timeout"};
}

Result<RayJobSeats> PlacedSeats(const RayOutlook& outlook, std::vector<RayJobSeat> seats) {
  HVDRAY_RETURN_IF_ERROR(CheckPins(outlook.cluster, seats));
  RayJobSeats placed;
  for (const RayNode& node : outlook.cluster.nodes) {
    if (node.id == outlook.head_node) placed.driver_ip = node.ip;
  }
  if (placed.driver_ip.empty()) {
    return Status(ErrorCode::kRayFailed,
                  fmt::format("{} does not say which node is its head", outlook.cluster.url),
                  "--ray-mode pg");
  }
  placed.ports = ProposePorts();
  placed.seats = std::move(seats);
  return placed;
}

}  // namespace

Result<RayJobSeats> WaitForSeats(const RayAccess& access, const JobSpec& spec,
                                 RayOutlook* outlook) {
  const Clock::time_point began = Clock::now();
  const Duration limit = *spec.ray.group_timeout;
  Clock::time_point next_line = began + kFirstLine;
  for (;;) {
    std::vector<RayJobSeat> seats = PlaceSeats(outlook->request, outlook->cluster.nodes);
    if (!seats.empty()) return PlacedSeats(*outlook, std::move(seats));
    const Clock::time_point now = Clock::now();
    if (now - began >= limit) return NoRoom(*outlook, limit);
    if (now >= next_line) {
      next_line = now + kLinePeriod;
      const std::string line =
          fmt::format("hvdray run: waiting for room since {:.0f} s: {}\n",
                      std::chrono::duration<double>(now - began).count(), outlook->fit.missing);
      if (!*spec.is_quiet) std::fputs(line.c_str(), stderr);
    }
    std::this_thread::sleep_for(std::min<Duration>(kLookPause, limit - (now - began)));
    HVDRAY_ASSIGN_OR_RETURN(outlook->cluster, LookAtRay(access.Copy()));
    outlook->fit = FitRequest(outlook->request, outlook->cluster.nodes);
  }
}

Status SubmitSeats(const RayAccess& access, const RaySubmission& submission) {
  const std::vector<RayJobRequest>& seats = submission.seats;
  if (seats.empty()) return {};
  const TimedPhase phase;
  std::atomic<size_t> next{0};
  std::mutex mutex;  // guards first
  Status first;
  const auto work = [&] {
    DashboardClient client(access.Copy());
    for (size_t i = next++; i < seats.size(); i = next++) {
      Status status = SubmitJob(client, seats[i]);
      if (status.ok()) continue;
      next = seats.size();
      const std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(seats.size(), kSubmitters); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  phase.Done(fmt::format("submitted the jobs of {} nodes", seats.size()));
  return first;
}

void StopSeats(DashboardClient& client, const std::string& id, const RayJobShape& shape) {
  for (int seat = 0; seat < shape.seats; ++seat) {
    // Best effort: one that could not be told ends by itself, without its driver.
    (void)client.StopJob(SeatJobId(id, static_cast<size_t>(seat))).ok();
  }
}

Status HurrySeats(DashboardClient& client, const RayJob& job) {
  return client.Submit(MakeHurryRequest(job, Hex(RandomBytes(4)))).status();
}

}  // namespace hvdray
