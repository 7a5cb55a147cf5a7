// SPDX-License-Identifier: Apache-2.0
// Hints for options of other launchers. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_FOREIGN_OPTIONS_H_
#define HVDRAY_LAUNCHER_JOB_FOREIGN_OPTIONS_H_

#include <string_view>

namespace hvdray {

/// A hint for an option of torchrun, mpirun, hydra or srun that hvdray does not have, naming the
/// option that does the same. `option`: as typed, without a value. Empty if it is none of theirs.
std::string_view HintForForeignOption(std::string_view option);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_FOREIGN_OPTIONS_H_
