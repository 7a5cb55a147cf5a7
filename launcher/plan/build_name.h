// SPDX-License-Identifier: Apache-2.0
#ifndef HVDRAY_LAUNCHER_PLAN_BUILD_NAME_H_
#define HVDRAY_LAUNCHER_PLAN_BUILD_NAME_H_

#include <string>

namespace hvdray {

/// "hvdray 0.1.0 (abc1234)"
std::string BuildName();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_BUILD_NAME_H_
