// SPDX-License-Identifier: Apache-2.0
// Three steps, each a function: read the config file, merge the levels, write the variables.
#include "launcher/job/horovod_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/text.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

using Tunable = HorovodConfig::Tunable;
using TunableMap = std::map<OptionId, Tunable>;

constexpr std::array<std::string_view, 7> kSections = {
    "controller", "params", "autotune", "timeline", "stall_check", "library_options", "logging"};

const OptionRow* FindConfigRow(std::string_view key) {
  for (const OptionRow& row : OptionTable()) {
    if (row.config_key == key) return &row;
  }
  return nullptr;
}

Status ReadSection(const YamlNode::Entry& section, HorovodConfig* config,
                   std::vector<std::string>* warnings) {
  if (section.value.IsNull()) return {};
  if (section.value.kind() != YamlNode::Kind::kMap) {
    return section.value.Error(fmt::format("{} must be a mapping", section.key));
  }
  for (const YamlNode::Entry& entry : section.value.entries()) {
    const OptionRow* row = FindConfigRow(fmt::format("{}.{}", section.key, entry.key));
    if (row == nullptr) {
      warnings->push_back(fmt::format("{}: unknown key {} has no effect", entry.where,
                                      Quoted(section.key + "." + entry.key)));
      continue;
    }
    const YamlNode::Kind kind = entry.value.kind();
    if (kind == YamlNode::Kind::kSequence || kind == YamlNode::Kind::kMap) {
      return entry.value.Error(fmt::format("{} must be one value", entry.key));
    }
    PythonValue value = TypeScalar(entry.value);
    if (std::holds_alternative<std::monostate>(value)) {
      // Null is no value, except for the two switches, which Horovod then takes as off.
      if (row->id != OptionId::kAutotune && row->id != OptionId::kStallCheck) continue;
      value = false;
    }
    const std::string where = entry.value.Where();
    config->tunables[row->id] = {std::move(value), where, where};
  }
  // A section without `enabled` counts as one: autotune off, stall check on.
  const std::string where = section.where;
  if (section.value.entries().empty()) return {};
  if (section.key == "autotune") {
    config->tunables.try_emplace(OptionId::kAutotune, Tunable{false, where, where});
  } else if (section.key == "stall_check") {
    config->tunables.try_emplace(OptionId::kStallCheck, Tunable{true, where, where});
  }
  return {};
}

Status ReadController(const YamlNode& node, HorovodConfig* config) {
  if (node.IsNull()) return {};
  HVDRAY_ASSIGN_OR_RETURN(std::string name, node.AsString("controller"));
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (name.empty()) return {};
  if (name != "gloo" && name != "mpi") {
    return node.Error(fmt::format("No such controller supported: {}", Quoted(node.text())),
                      "controller: gloo");
  }
  config->controller = name;
  config->controller_place = node.Where();
  return {};
}

Result<PythonValue> TypeRaw(const OptionRow& row, const RawOption& raw) {
  const std::string text = raw.last();
  switch (row.type) {
    case OptionType::kFlag: {
      HVDRAY_ASSIGN_OR_RETURN(const bool flag, FlagOf(raw));
      return PythonValue(flag);
    }
    case OptionType::kInt: {
      Result<int64_t> whole = ParseWhole(text, INT64_MIN, INT64_MAX);
      if (whole.ok()) return PythonValue(*whole);
      return Status(ErrorCode::kUsage,
                    fmt::format("{} must be a whole number, not {}", raw.label, Quoted(text)));
    }
    case OptionType::kNumber: {
      Result<double> number = ParseNumber(text);
      if (number.ok()) return PythonValue(*number);
      return Status(ErrorCode::kUsage, fmt::format("{} {}", raw.label, number.status().message()));
    }
    case OptionType::kChoice: {
      HVDRAY_ASSIGN_OR_RETURN(const size_t choice, ChoiceOf(row.id, raw));
      return PythonValue(std::string(ChoicesOf(row)[choice]));
    }
    default:
      return PythonValue(text);
  }
}

Status CheckRange(const OptionRow& row, const Tunable& tunable) {
  const bool is_number = std::holds_alternative<int64_t>(tunable.value) ||
                         std::holds_alternative<double>(tunable.value);
  const std::string shown =
      fmt::format("{}: {}={}", tunable.label, OptionKeyOf(row.name), FormatPython(tunable.value));
  if (!is_number) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: {} must be a number, not {}", tunable.label,
                              OptionKeyOf(row.name), Quoted(FormatPython(tunable.value))));
  }
  const int64_t* whole = std::get_if<int64_t>(&tunable.value);
  const double value =
      whole != nullptr ? static_cast<double>(*whole) : std::get<double>(tunable.value);
  if (row.id == OptionId::kAutotuneGaussianProcessNoise) {
    if (value >= 0 && value <= 1) return {};
    return Status(ErrorCode::kUsage, shown + " must be in [0, 1]");
  }
  if (!(value >= 0)) return Status(ErrorCode::kUsage, shown + " must be >= 0");
  const double max = row.type == OptionType::kInt ? static_cast<double>(row.max) : 1e300;
  if (value > max) return Status(ErrorCode::kUsage, fmt::format("{} must be <= {}", shown, max));
  return {};
}

/// The text of one variable. Flags become 1 and 0; two of Horovod's variables mean the opposite.
std::string VariableText(const OptionRow& row, const PythonValue& value) {
  switch (row.id) {
    case OptionId::kStallCheck:
    case OptionId::kLogWithTimestamp:
      return IsTruthy(value) ? "0" : "1";
    case OptionId::kFusionThresholdMb:
      if (const int64_t* whole = std::get_if<int64_t>(&value)) {
        return std::to_string(*whole * 1048576);
      }
      return FormatPython(std::get<double>(value) * 1048576.0);
    default:
      if (row.type == OptionType::kFlag) return IsTruthy(value) ? "1" : "0";
      return FormatPython(value);
  }
}

bool IsAutotuneDetail(OptionId id) {
  return id >= OptionId::kAutotuneLogFile && id <= OptionId::kAutotuneGaussianProcessNoise;
}

bool IsOn(const TunableMap& tunables, OptionId id) {
  const auto found = tunables.find(id);
  return found != tunables.end() && IsTruthy(found->second.value);
}

/// The option that must be on for `id` to be exported, and is not; nullopt: `id` is exported.
std::optional<OptionId> MissingCondition(const TunableMap& tunables, OptionId id) {
  const bool needs_autotune = IsAutotuneDetail(id) || id == OptionId::kAutotune;
  if (needs_autotune && !IsOn(tunables, OptionId::kAutotune)) return OptionId::kAutotune;
  const bool needs_timeline =
      id == OptionId::kTimelineMarkCycles || id == OptionId::kTimelineFilename;
  if (needs_timeline && !IsOn(tunables, OptionId::kTimelineFilename)) {
    return OptionId::kTimelineFilename;
  }
  // --tcp has no opposite: switched off, it exports nothing.
  if (id == OptionId::kTcp && !IsOn(tunables, id)) return id;
  return std::nullopt;
}

Result<TunableMap> Merge(const LayerStack& above, const HorovodConfig& config,
                         const OptionLayer& below) {
  TunableMap merged;
  for (const OptionRow& row : OptionTable()) {
    if (row.worker_variable.empty()) continue;
    const RawOption* raw = above.Find(row.id);
    const auto from_config = config.tunables.find(row.id);
    const auto from_below = below.options.find(row.id);
    if (raw == nullptr && from_config != config.tunables.end()) {
      merged[row.id] = from_config->second;
      continue;
    }
    if (raw == nullptr && from_below != below.options.end()) raw = &from_below->second;
    if (raw == nullptr) continue;
    HVDRAY_ASSIGN_OR_RETURN(PythonValue value, TypeRaw(row, *raw));
    merged[row.id] = {std::move(value), raw->origin, raw->origin};
  }
  return merged;
}

std::string SuggestionFor(std::string_view section) {
  const std::vector<OptionKey>& keys = AllKeys();
  const auto is_it = [section](const OptionKey& key) { return key.text == section; };
  if (section == "command" || std::any_of(keys.begin(), keys.end(), is_it)) {
    return ": --config-file takes Horovod's format; give an hvdray job file with -f";
  }
  const std::string nearest = Nearest(section.substr(0, 80), kSections);
  return nearest.empty() ? "" : ": did you mean " + nearest + "?";
}

}  // namespace

std::string FormatPython(const PythonValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const int64_t* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const double* number = std::get_if<double>(&value)) return FormatPythonFloat(*number);
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  return "None";
}

bool IsTruthy(const PythonValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const int64_t* whole = std::get_if<int64_t>(&value)) return *whole != 0;
  if (const double* number = std::get_if<double>(&value)) return *number != 0.0;
  if (const std::string* text = std::get_if<std::string>(&value)) return !text->empty();
  return false;
}

Result<HorovodConfig> ReadHorovodConfig(const YamlNode& root, std::vector<std::string>* warnings) {
  HorovodConfig config;
  if (root.IsNull()) return config;
  if (root.kind() != YamlNode::Kind::kMap) {
    return root.Error("expected a mapping of Horovod's sections (params, autotune, …)");
  }
  for (const YamlNode::Entry& entry : root.entries()) {
    if (entry.key == "controller") {
      HVDRAY_RETURN_IF_ERROR(ReadController(entry.value, &config));
    } else if (std::find(kSections.begin(), kSections.end(), entry.key) != kSections.end()) {
      HVDRAY_RETURN_IF_ERROR(ReadSection(entry, &config, warnings));
    } else {
      warnings->push_back(fmt::format("{}: unknown section {} has no effect{}", entry.where,
                                      Quoted(entry.key), SuggestionFor(entry.key)));
    }
  }
  return config;
}

Result<std::map<std::string, Setting<std::string>>> ResolveTunables(
    const LayerStack& above, const HorovodConfig& config, const OptionLayer& below,
    std::vector<std::string>* warnings) {
  HVDRAY_ASSIGN_OR_RETURN(const TunableMap tunables, Merge(above, config, below));
  std::map<std::string, Setting<std::string>> variables;
  for (const auto& [id, tunable] : tunables) {
    const OptionRow& row = RowOf(id);
    if (row.type == OptionType::kInt || row.type == OptionType::kNumber) {
      HVDRAY_RETURN_IF_ERROR(CheckRange(row, tunable));
    }
    if (const std::optional<OptionId> missing = MissingCondition(tunables, id)) {
      if (*missing != id && above.Find(id) != nullptr) {
        warnings->push_back(
            fmt::format("{} has no effect without --{}", tunable.origin, RowOf(*missing).name));
      }
      continue;
    }
    variables[std::string(row.worker_variable)].Set(VariableText(row, tunable.value),
                                                    tunable.origin);
  }
  return variables;
}

}  // namespace hvdray
