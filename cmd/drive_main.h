// `hvdray-agent drive FOLDER`: the driver of a job on Ray, started by ray_driver.py, which it
// speaks to on its stdin and stdout.
#ifndef HVDRAY_CMD_DRIVE_MAIN_H_
#define HVDRAY_CMD_DRIVE_MAIN_H_

#include <span>
#include <string_view>

namespace hvdray {

/// `words`: those behind "drive". Returns the exit code. Only before there are threads.
int DriveMain(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_CMD_DRIVE_MAIN_H_
