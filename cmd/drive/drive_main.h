// hvdray-agent drive: the driver of a job on Ray, inside the cluster, in one of three ways:
// `drive FOLDER` below ray_driver.py (--ray-mode pg), `drive --seats` as the entrypoint of a Ray
// job
// (--ray-mode jobs), `drive --hurry ID` as the entrypoint of another one, which tells that driver
// that its stop is to be at once.
#ifndef HVDRAY_CMD_DRIVE_DRIVE_MAIN_H_
#define HVDRAY_CMD_DRIVE_DRIVE_MAIN_H_

#include <span>
#include <string_view>

namespace hvdray {

/// `words`: all behind "drive". Returns the exit code, in --ray-mode jobs and pg the job's.
int DriveMain(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_CMD_DRIVE_DRIVE_MAIN_H_
