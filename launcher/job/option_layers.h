// SPDX-License-Identifier: Apache-2.0
// The levels of precedence: what flags, environment and files say, before it has a type. Each value
// keeps its place. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_OPTION_LAYERS_H_
#define HVDRAY_LAUNCHER_JOB_OPTION_LAYERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/yaml.h"
#include "launcher/job/argv.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_table.h"

namespace hvdray {

/// An option as one level gives it. Flags are "true" or "false".
struct RawOption {
  std::vector<std::string> values;
  std::string origin;  ///< "flag -np", "env HVDRAY_GRACE", "job.yaml:7:3"
  std::string label;   ///< How messages begin: as origin, for files followed by ": <key>".
};

struct OptionLayer {
  std::map<OptionId, RawOption> options;
  std::optional<Setting<std::vector<std::string>>> command;
};

/// Which file a mapping stands in; each refuses keys that make no sense there.
enum class FileKind : uint8_t { kJob, kClusterRun, kUser };

/// Last one wins, repeatable ones add up. Errors: kUsage for two that exclude each other.
Result<OptionLayer> LayerOfFlags(const ParsedArgv& argv);

/// HVDRAY_<NAME> of every key; then HOROVOD_START_TIMEOUT and HOROVOD_ELASTIC_TIMEOUT. An empty
/// value counts as unset. Unknown HVDRAY_* names add a line to `warnings`, except those that
/// hvdray sets itself. Errors: kUsage.
Result<OptionLayer> LayerOfEnvironment(const Environment& environment,
                                       std::vector<std::string>* warnings);

/// HVDRAY_<NAME> of the options of group Ray among those of `command`. Errors: kUsage.
Result<OptionLayer> LayerOfVariables(const Environment& environment, const CommandRow& command);

/// A mapping of keys (long names with '_') and `command`. A null root gives an empty layer.
/// Errors: kSpecInvalid at file:line:column: unknown key with the nearest one, one option named
/// twice, wrong type, a key that does not belong into this kind of file.
Result<OptionLayer> LayerOfFile(const YamlNode& root, FileKind kind);

/// Levels, highest first.
class LayerStack {
 public:
  void PushLowest(OptionLayer layer) { layers_.push_back(std::move(layer)); }
  const std::vector<OptionLayer>& layers() const { return layers_; }
  /// The highest level's; nullptr when no level names it.
  const RawOption* Find(OptionId id) const;

 private:
  std::vector<OptionLayer> layers_;
};

// Typed reads of one raw value. Errors: kUsage "<label> must be …".
Result<bool> FlagOf(const RawOption& raw);
Result<int64_t> WholeOf(OptionId id, const RawOption& raw);
Result<Duration> DurationOf(const RawOption& raw);
Result<size_t> ChoiceOf(OptionId id, const RawOption& raw);  ///< Index into ChoicesOf().
/// nullopt: said to be off ("false").
Result<std::optional<size_t>> OptionalChoiceOf(OptionId id, const RawOption& raw);
Result<std::pair<int, int>> PairOf(OptionId id, const RawOption& raw);

// A YAML scalar as PyYAML types it and as Python prints it: Horovod's config file is read by
// Python, so workers see Python's text. Pure.

/// None, bool, int, float or str.
using PythonValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// The type that PyYAML's safe loader gives to a plain scalar (YAML 1.1): 010 is eight, `1e3` is
/// text (no dot, no sign), `on` is true. Base-60 numbers, dates and integers beyond 64 bits stay
/// text. Source: PyYAML resolver.py, constructor.py.
PythonValue TypePlainScalar(std::string_view text);

/// Python's str(): "True", "20.0", "1e-05".
std::string FormatPython(const PythonValue& value);

/// Python's bool(): 0, 0.0, "", None and False are not.
bool IsTruthy(const PythonValue& value);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_OPTION_LAYERS_H_
