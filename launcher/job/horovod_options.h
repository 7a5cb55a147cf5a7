// SPDX-License-Identifier: Apache-2.0
// Horovod's tunables and its --config-file, as the environment that workers read (Horovod spec 4.2,
// 4.3). Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HOROVOD_OPTIONS_H_
#define HVDRAY_LAUNCHER_JOB_HOROVOD_OPTIONS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/yaml.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_layers.h"

namespace hvdray {

/// One tunable before it becomes text.
struct Tunable {
  PythonValue value;
  std::string origin;
  std::string label;  ///< How a message about it begins.
};

/// What a config file sets.
struct HorovodConfig {
  std::map<OptionId, Tunable> tunables;
  std::string controller;        ///< Lower case: "gloo", "mpi", or empty.
  std::string controller_place;  ///< "cfg.yaml:1:13"
};

/// Reads the mapping of spec 4.3. Unknown keys are ignored, as Horovod does, with a line in
/// `warnings`. Errors: kSpecInvalid for a section that is no mapping, a value that is no scalar, a
/// controller that does not exist.
Result<HorovodConfig> ReadHorovodConfig(const YamlNode& root, std::vector<std::string>* warnings);

/// Worker variables by name. A level of `above` beats `config`, which beats `below` (the user
/// file). Options without effect (--autotune-* without --autotune) add a line to `warnings`.
/// Errors: kUsage "flag --cache-capacity: cache_capacity=-1 must be >= 0".
Result<std::map<std::string, Setting<std::string>>> ResolveTunables(
    const LayerStack& above, const HorovodConfig& config, const OptionLayer& below,
    std::vector<std::string>* warnings);

// Options of other launchers, for people whose hands know those.

/// What serves here for an option of torchrun, mpirun, hydra or srun that this program does not
/// have: a hint, with the name of ours. `option`: as it was typed, without a value. Empty: not one
/// of those. Pure.
std::string_view HintForForeignOption(std::string_view option);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HOROVOD_OPTIONS_H_
