// SPDX-License-Identifier: Apache-2.0
// The levels of precedence: what flags, environment and files say, before it has a type. Each value
// keeps its origin. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_OPTION_LAYERS_H_
#define HVDRAY_LAUNCHER_JOB_OPTION_LAYERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/user_home.h"
#include "base/yaml.h"
#include "launcher/job/argv.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_table.h"
#include "launcher/job/option_value.h"

namespace hvdray {

/// The origin of a command that follows the options.
inline constexpr std::string_view kCommandLine = "command line";

/// What one level says.
struct OptionLayer {
  std::map<OptionId, RawOption> options;
  std::optional<Setting<std::vector<std::string>>> command;
};

/// The file that holds a mapping: a job file, the run section of a cluster file, or the user's own
/// defaults. Each refuses the keys that make no sense there.
enum class FileKind : uint8_t { kJob, kClusterRun, kUser };

/// Why this kind of file cannot have the option; empty if it can.
std::string_view WhyNotInFile(OptionId id, FileKind kind);

/// Of a repeated option the last one wins; lists add up. Errors: kUsage for two options that
/// exclude each other.
Result<OptionLayer> LayerOfFlags(const ParsedArgv& argv);

/// HVDRAY_<NAME> of every key, then HOROVOD_START_TIMEOUT and HOROVOD_ELASTIC_TIMEOUT. An empty
/// value counts as unset. Each unknown HVDRAY_* name adds a line to `warnings`, except those that
/// hvdray sets itself. Errors: kUsage.
Result<OptionLayer> LayerOfEnvironment(const Environment& environment,
                                       std::vector<std::string>* warnings);

/// HVDRAY_<NAME> of the options of group Ray among those of `command`. Errors: kUsage.
Result<OptionLayer> LayerOfVariables(const Environment& environment, const CommandRow& command);

/// A mapping of keys (long names with '_') and `command`. A null root gives an empty layer.
/// Errors: kSpecInvalid at file:line:column for an unknown key (with the nearest known one), an
/// option given twice, a wrong type, and a key that this kind of file does not allow.
Result<OptionLayer> LayerOfFile(const YamlNode& root, FileKind kind);

/// The option's value is a path on this machine.
bool IsPathHere(const OptionRow& row);

/// Puts home directories in place of "~" and "~user" in the values of options that are paths here,
/// and in the program and the Python script of a file's command: a shell does so for a word of its
/// own only, not behind a '=', in a file or for another program.
void ExpandHomes(const HomeOf& home_of, OptionLayer* layer);

/// Levels, the highest first.
class LayerStack {
 public:
  void PushLowest(OptionLayer layer) { layers_.push_back(std::move(layer)); }
  const std::vector<OptionLayer>& layers() const { return layers_; }
  /// What the highest level that names it says; nullptr if none does. Lives as long as the stack.
  const RawOption* Find(OptionId id) const;

 private:
  std::vector<OptionLayer> layers_;
};

// Reads of one raw value by its row. Errors: kUsage "<label> must be …".
Result<bool> FlagOf(const RawOption& raw);
Result<int64_t> WholeOf(OptionId id, const RawOption& raw);
Result<Duration> ToDuration(OptionId id, const RawOption& raw);
Result<size_t> ChoiceOf(OptionId id, const RawOption& raw);  ///< Index into ChoicesOf().
/// The first choice without a value; nullopt for "false".
Result<std::optional<size_t>> OptionalChoice(OptionId id, const RawOption& raw);
Result<std::pair<int, int>> PairOf(OptionId id, const RawOption& raw);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_OPTION_LAYERS_H_
