// SPDX-License-Identifier: Apache-2.0
// Horovod's tunables and its --config-file, turned into the environment that workers read. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HOROVOD_OPTIONS_H_
#define HVDRAY_LAUNCHER_JOB_HOROVOD_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/yaml.h"
#include "base/yaml_scalar.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_layers.h"

namespace hvdray {

// Horovod reads its config file with Python, so workers see each scalar as PyYAML types it and
// Python prints it.

/// Python's str(): "True", "20.0", "1e-05".
std::string FormatPython(const PythonValue& value);

/// Python's bool(): 0, 0.0, "", None and False are not.
bool IsTruthy(const PythonValue& value);

/// What Horovod's config file sets.
struct HorovodConfig {
  /// A tunable before it becomes text.
  struct Tunable {
    PythonValue value;
    std::string origin;
    std::string label;  ///< How a message about it begins.
  };
  std::map<OptionId, Tunable> tunables;
  std::string controller;        ///< Lower case: "gloo", "mpi", or empty.
  std::string controller_place;  ///< "cfg.yaml:1:13"
};

/// Reads the file that horovodrun's --config-file takes: a mapping with one mapping for each
/// section (params, autotune, timeline, ...). Unknown keys are ignored, as Horovod does, and add a
/// line to `warnings`. Errors: kSpecInvalid for a section that is not a mapping, a value that is
/// not a scalar, an unknown controller.
Result<HorovodConfig> ReadHorovodConfig(const YamlNode& root, std::vector<std::string>* warnings);

/// The variables of a worker by name, as horovodrun exports them. A level of `above` beats
/// `config`, which beats `below` (the user file). Each option without effect (--autotune-* without
/// --autotune) adds a line to `warnings`. Errors: kUsage, as "flag --cache-capacity:
/// cache_capacity=-1 must be
/// >= 0" (Horovod's words).
Result<std::map<std::string, Setting<std::string>>> ResolveTunables(
    const LayerStack& above, const HorovodConfig& config, const OptionLayer& below,
    std::vector<std::string>* warnings);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HOROVOD_OPTIONS_H_
