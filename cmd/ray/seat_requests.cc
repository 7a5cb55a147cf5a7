#include "cmd/ray/seat_requests.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "cmd/ray/ray_entrypoint.h"

namespace hvdray {
namespace {

// Enough to pin a job, and too little to be in anybody's way.
constexpr double kPin = 0.001;
constexpr const char* kNodeLabel = "ray.io/node-id";
constexpr const char* kSeatsName = "hvdray_seats";
constexpr const char* kPackageName = "hvdray_package";
constexpr const char* kHeadName = "hvdray_head";
constexpr const char* kSeatOfName = "hvdray_seat_of";

void AskFor(const RayAmounts& amounts, RayJobRequest* request) {
  for (const auto& [name, amount] : amounts) {
    if (name == "CPU") {
      request->num_cpus = amount;
    } else if (name == "GPU") {
      request->num_gpus = amount;
    } else if (name == "memory") {
      request->memory_bytes = std::llround(amount);
    } else {
      request->resources[name] = amount;
    }
  }
}

}  // namespace

bool HasLabelSelectors(const RayVersion& ray) {
  constexpr std::pair<int, int> kFirst = {2, 49};
  std::pair<int, int> version;
  const char* const end = ray.ray.data() + ray.ray.size();
  const auto major = std::from_chars(ray.ray.data(), end, version.first);
  if (major.ec != std::errc() || major.ptr == end) return false;
  std::from_chars(major.ptr + 1, end, version.second);
  return version >= kFirst;
}

std::string SeatJobId(std::string_view job_id, size_t seat) {
  return fmt::format("{}-s{}", job_id, seat);
}

std::vector<RayJobRequest> MakeSeatRequests(const RayJobSeats& placed, const RayVersion& ray,
                                            const std::string& head, RayJobRequest* driver) {
  RayJobRequest seat_job = *driver;
  seat_job.metadata = {{kSeatOfName, driver->submission_id}};
  driver->entrypoint = DriverEntrypoint();
  driver->metadata[kSeatsName] = std::to_string(placed.seats.size());
  driver->metadata[kPackageName] = driver->working_dir;
  const bool has_labels = HasLabelSelectors(ray);
  // The head is where Ray puts jobs that ask for nothing, unless its environment says otherwise.
  if (has_labels) driver->label_selector[kNodeLabel] = driver->metadata[kHeadName] = head;
  std::vector<RayJobRequest> requests;
  for (size_t i = 0; i < placed.seats.size(); ++i) {
    const RayJobSeat& seat = placed.seats[i];
    RayJobRequest& request = requests.emplace_back(seat_job);
    request.entrypoint = SeatEntrypoint(i);
    request.submission_id = SeatJobId(driver->submission_id, i);
    AskFor(seat.amounts, &request);
    if (has_labels) {
      request.label_selector[kNodeLabel] = seat.node_id;
    } else {
      request.resources["node:" + seat.ip] = kPin;
    }
  }
  return requests;
}

RayJobShape ShapeOf(const RayJob& job) {
  RayJobShape shape;
  const auto seats = job.metadata.find(kSeatsName);
  if (seats == job.metadata.end()) return shape;
  std::from_chars(seats->second.data(), seats->second.data() + seats->second.size(), shape.seats);
  const auto package = job.metadata.find(kPackageName);
  if (package != job.metadata.end()) shape.package = package->second;
  return shape;
}

RayJobRequest MakeHurryRequest(const RayJob& job, std::string_view nonce) {
  RayJobRequest request;
  request.entrypoint = HurryEntrypoint(job.submission_id);
  request.submission_id = fmt::format("{}-now-{}", job.submission_id, nonce);
  request.working_dir = ShapeOf(job).package;
  request.metadata = {{kSeatOfName, job.submission_id}};
  const auto head = job.metadata.find(kHeadName);
  if (head != job.metadata.end()) request.label_selector[kNodeLabel] = head->second;
  return request;
}

}  // namespace hvdray
