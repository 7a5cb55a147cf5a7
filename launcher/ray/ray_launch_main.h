// SPDX-License-Identifier: Apache-2.0
// hvdray-agent drive DIRECTORY: the driver of a job on Ray; runs inside the cluster as a child of
// ray_driver.py.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_MAIN_H_
#define HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_MAIN_H_

#include <span>
#include <string_view>

namespace hvdray {

/// `words`: the arguments after "drive". Blocks until the job has ended. Returns the job's exit
/// code.
int RayLaunchMain(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_MAIN_H_
