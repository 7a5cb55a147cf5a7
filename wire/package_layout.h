// SPDX-License-Identifier: Apache-2.0
// Where things lie in the package that a job on Ray goes with.
#ifndef HVDRAY_WIRE_PACKAGE_LAYOUT_H_
#define HVDRAY_WIRE_PACKAGE_LAYOUT_H_

namespace hvdray {

/// The agent and ray_driver.py.
inline constexpr const char* kPackageOwnDirectory = ".hvdray";
/// The user's working directory. Not the package's root: that is in the module path of every
/// process that Ray starts for the job, its own too, and a json.py of the user's there would end
/// them.
inline constexpr const char* kPackageFilesDirectory = "files";

}  // namespace hvdray

#endif  // HVDRAY_WIRE_PACKAGE_LAYOUT_H_
