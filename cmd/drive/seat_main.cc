#include "cmd/drive/seat_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/log.h"
#include "base/tls_stream.h"
#include "cluster/ray/seat_address.h"
#include "cmd/drive/drive_log.h"
#include "cmd/drive/drive_plan.h"
#include "cmd/drive/drive_run.h"
#include "cmd/drive/job_folder.h"
#include "cmd/drive/ray_parents.h"
#include "launcher/agent/dialled_agent.h"
#include "launcher/engine/neighbour_probe.h"

namespace hvdray {
namespace {

constexpr int kUsage = 2;
// The driver begins when we do, but Ray may need longer for one of the two.
constexpr Duration kShortestLimit = std::chrono::seconds(30);

int Fail(const Status& status, int exit_code) {
  DriveLog(STDERR_FILENO).Note(fmt::format("seat: {}", status.ToString()));
  return exit_code;
}

Result<std::vector<TcpAddress>> DoorsOf(const RayJobSeats& placed) {
  const std::optional<TcpAddress> driver = ParseIpLiteral(placed.driver_ip);
  if (!driver) {
    return Status(ErrorCode::kProtocolError,
                  fmt::format("the driver's address is '{}'", placed.driver_ip));
  }
  std::vector<TcpAddress> doors;
  for (const uint16_t port : placed.ports) {
    doors.push_back(*driver);
    doors.back().port = port;
  }
  return doors;
}

std::vector<std::string> GpusOf(const Environment& environment) {
  std::vector<std::string> gpus;
  const std::string list = environment.GetOr("CUDA_VISIBLE_DEVICES", "");
  for (std::string_view rest = list; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    if (end > 0) gpus.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return gpus;
}

HostSpread SpreadOfSeats(const std::vector<RayJobSeat>& seats) {
  std::vector<std::string> ips;
  ips.reserve(seats.size());
  for (const RayJobSeat& seat : seats) ips.push_back(seat.ip);
  return SpreadOf(ips);
}

Result<DialOptions> OptionsOf(int seat, const RayJobFile& job, const Environment& environment) {
  const std::vector<RayJobSeat>& seats = job.placed.seats;
  if (static_cast<size_t>(seat) >= seats.size()) {
    return Status(ErrorCode::kProtocolError,
                  fmt::format("the job has {} seats, and no seat {}", seats.size(), seat));
  }
  DialOptions options;
  HVDRAY_ASSIGN_OR_RETURN(const RayParents parents, FindRayParents());
  HVDRAY_ASSIGN_OR_RETURN(options.addresses, DoorsOf(job.placed));
  options.seat = seat;
  options.supervisor = parents.supervisor;
  options.raylet = parents.raylet;
  if (job.spec.ray.slot_gpus() > 0) options.gpus = GpusOf(environment);
  options.keeps_ray_environment = *job.spec.ray.keeps_ray_env;
  options.has_probe_listener = IsProbeWanted(SpreadOfSeats(seats), seats.size());
  options.limit = std::max(kShortestLimit, *job.spec.start_timeout);
  return options;
}

}  // namespace

int SeatMain(std::span<const std::string_view> words) {
  // Whoever looks at this job in Ray's dashboard sees its stderr, which takes ASCII only.
  const LogSink log([](std::string_view line) { DriveLog(STDERR_FILENO).Note(line); });
  int seat = -1;
  if (words.size() == 1) {
    const std::string_view word = words[0];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), seat);
    if (error != std::errc() || end != word.data() + word.size()) seat = -1;
  }
  if (seat < 0) {
    return Fail({ErrorCode::kUsage, "it wants a number; a job on Ray starts it"}, kUsage);
  }
  const Environment environment = Environment::FromProcess();
  const Result<RayJobFile> job = LoadJobOf(environment.GetOr("PYTHONPATH", ""));
  if (!job.ok()) return Fail(job.status(), kDriveFailed);
  const Result<DialOptions> options = OptionsOf(seat, *job, environment);
  if (!options.ok()) return Fail(options.status(), kDriveFailed);
  Result<Secret> key = ParseTlsKey(job->key);
  if (!key.ok()) return Fail(key.status(), kDriveFailed);
  return RunSeatJob(*options, std::move(key).value());
}

}  // namespace hvdray
