// What is submitted to Ray in --ray-mode jobs, and how a job says afterwards that it is such a one.
// Pure.
#ifndef HVDRAY_CMD_RAY_SEAT_REQUESTS_H_
#define HVDRAY_CMD_RAY_SEAT_REQUESTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "cluster/ray/ray_facts.h"
#include "launcher/spec/ray_job_file.h"

namespace hvdray {

/// Whether a job can be told its node by the node's id: Ray 2.49 and later. Before, by its address.
bool HasLabelSelectors(const RayVersion& ray);

/// "hvd-...-s3": the Ray job of a seat.
std::string SeatJobId(std::string_view job_id, size_t seat);

/// Of each seat. driver: the request for --ray-mode pg, which becomes that of a driver on node
/// `head`; what all have in common is taken from it.
std::vector<RayJobRequest> MakeSeatRequests(const RayJobSeats& placed, const RayVersion& ray,
                                            const std::string& head, RayJobRequest* driver);

/// What a job says of itself in Ray's listing, for whoever follows it.
struct RayJobShape {
  int seats = 0;        ///< 0: --ray-mode pg.
  std::string package;  ///< URI of the large one.
};
RayJobShape ShapeOf(const RayJob& job);

/// The tiny job that tells the driver of `job` that its stop is to be at once. nonce: another one
/// each time.
RayJobRequest MakeHurryRequest(const RayJob& job, std::string_view nonce);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_SEAT_REQUESTS_H_
