// SPDX-License-Identifier: Apache-2.0
// Directories in the package of a job on Ray.
#ifndef HVDRAY_WIRE_PACKAGE_LAYOUT_H_
#define HVDRAY_WIRE_PACKAGE_LAYOUT_H_

namespace hvdray {

/// Contains the agent and ray_driver.py.
inline constexpr const char* kPackageOwnDirectory = ".hvdray";
/// Contains the user's working directory. The package's root can't: it is in the module path of all
/// processes that Ray starts for the job, Ray's own too, and a json.py there would break them.
inline constexpr const char* kPackageFilesDirectory = "files";

}  // namespace hvdray

#endif  // HVDRAY_WIRE_PACKAGE_LAYOUT_H_
