// SPDX-License-Identifier: Apache-2.0
// How this build calls itself: in --version, in reports, and to its peers on the wire. A source of
// its own, so that a new commit compiles nothing else.
#ifndef HVDRAY_LAUNCHER_PLAN_BUILD_NAME_H_
#define HVDRAY_LAUNCHER_PLAN_BUILD_NAME_H_

#include <string>

namespace hvdray {

/// "hvdray 0.1.0 (abc1234)"
std::string BuildName();
/// "0.1.0", which the Python package has, too.
std::string BuildVersion();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_BUILD_NAME_H_
