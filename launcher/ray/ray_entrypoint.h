// SPDX-License-Identifier: Apache-2.0
// The command line that Ray runs for a job of ours, by /bin/sh in the job's working directory.
// Pure.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_ENTRYPOINT_H_
#define HVDRAY_LAUNCHER_RAY_RAY_ENTRYPOINT_H_

#include <cstdint>
#include <string>

namespace hvdray {

/// The driver runs in Ray's own Python, which often is not the one in PATH. `python`: value of
/// --ray-python, shell words; empty: the program of the shell's parent, a process of Ray, with the
/// site-packages that Ray's library was loaded from; failing that, python3. kWorkingDirectory: the
/// package is the job's working directory. kModulePath: it is in PYTHONPATH, beside a working
/// directory of the user's that Ray fetches.
enum class DriverPlace : uint8_t { kWorkingDirectory, kModulePath };
std::string RayEntrypoint(const std::string& python,
                          DriverPlace place = DriverPlace::kWorkingDirectory);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_ENTRYPOINT_H_
