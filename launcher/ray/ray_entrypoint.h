// The command line that Ray runs for a job of ours, for /bin/sh in the job's working folder. Pure.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_ENTRYPOINT_H_
#define HVDRAY_LAUNCHER_RAY_RAY_ENTRYPOINT_H_

#include <cstdint>
#include <string>

namespace hvdray {

/// The driver, in the Python that Ray itself runs in, which is mostly not the one in PATH.
/// `python`: what --ray-python says, words of a shell; empty: the program of the shell's parent, a
/// process of Ray's, with the site-packages that Ray's library was loaded from; failing that,
/// python3. The package is the job's working folder, or, beside one of the user's that Ray fetches,
/// in PYTHONPATH.
enum class DriverPlace : uint8_t { kWorkingFolder, kModulePath };
std::string RayEntrypoint(const std::string& python,
                          DriverPlace place = DriverPlace::kWorkingFolder);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_ENTRYPOINT_H_
