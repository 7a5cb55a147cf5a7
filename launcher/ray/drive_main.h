// hvdray-agent drive FOLDER: the driver of a job on Ray, inside the cluster, as the child of
// ray_driver.py.
#ifndef HVDRAY_LAUNCHER_RAY_DRIVE_MAIN_H_
#define HVDRAY_LAUNCHER_RAY_DRIVE_MAIN_H_

#include <span>
#include <string_view>

namespace hvdray {

/// `words`: all behind "drive". Returns the exit code: the job's.
int DriveMain(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_DRIVE_MAIN_H_
