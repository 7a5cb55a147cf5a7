// hvdray-agent seat N: the agent of a node in --ray-mode jobs, as the entrypoint of a Ray job.
#ifndef HVDRAY_CMD_DRIVE_SEAT_MAIN_H_
#define HVDRAY_CMD_DRIVE_SEAT_MAIN_H_

#include <span>
#include <string_view>

namespace hvdray {

/// `words`: all behind "seat": its number. Addresses, key and settings are in the job's file, GPUs
/// in CUDA_VISIBLE_DEVICES. Returns the exit code; see RunSeatJob(). Only before there are threads.
int SeatMain(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_CMD_DRIVE_SEAT_MAIN_H_
