// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/build_name.h"

namespace hvdray {

std::string BuildName() { return "hvdray " HVDRAY_VERSION " (" HVDRAY_COMMIT ")"; }

std::string BuildVersion() { return HVDRAY_VERSION; }

}  // namespace hvdray
