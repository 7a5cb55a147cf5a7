// Options of other launchers, for people whose hands know those.
#ifndef HVDRAY_LAUNCHER_JOB_FOREIGN_OPTIONS_H_
#define HVDRAY_LAUNCHER_JOB_FOREIGN_OPTIONS_H_

#include <string_view>

namespace hvdray {

/// What serves here for an option of torchrun, mpirun, hydra or srun that this program does not
/// have: a hint, with the name of ours. `option`: as it was typed, without a value. Empty: not one
/// of those. Pure.
std::string_view HintForForeignOption(std::string_view option);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_FOREIGN_OPTIONS_H_
