// python/ray_driver.py as it was when this program was built.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_DRIVER_TEXT_H_
#define HVDRAY_LAUNCHER_RAY_RAY_DRIVER_TEXT_H_

#include <string_view>

namespace hvdray {

/// The file's bytes: they travel with the agent, whose pipe they speak.
std::string_view RayDriverText();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_DRIVER_TEXT_H_
