// The command lines that Ray runs for jobs of ours, for /bin/sh in the job's working folder. Pure.
#ifndef HVDRAY_CMD_RAY_RAY_ENTRYPOINT_H_
#define HVDRAY_CMD_RAY_RAY_ENTRYPOINT_H_

#include <cstddef>
#include <string>

namespace hvdray {

/// The driver of --ray-mode pg, in the Python that Ray itself runs in, which is mostly not the one
/// in PATH. `python`: what --ray-python says; empty: the program of the shell's parent, a process
/// of Ray's, with the site-packages that Ray's library was loaded from; failing that, python3.
std::string RayEntrypoint(const std::string& python);

/// --ray-mode jobs: the driver, the agent of a seat, and what tells the driver of job `id` that its
/// stop is to be at once. No Python.
std::string DriverEntrypoint();
std::string SeatEntrypoint(size_t seat);
std::string HurryEntrypoint(const std::string& id);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_RAY_ENTRYPOINT_H_
