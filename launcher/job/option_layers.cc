// Levels from flags and from the environment, and the typed reads. Files: file_layer.cc.
#include "launcher/job/option_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/nearest.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

/// Names that hvdray itself puts into environments: a job started inside a job inherits them.
constexpr std::array<std::string_view, 12> kOwnVariables = {
    "HVDRAY_RANK",       "HVDRAY_SIZE",       "HVDRAY_LOCAL_RANK", "HVDRAY_LOCAL_SIZE",
    "HVDRAY_CROSS_RANK", "HVDRAY_CROSS_SIZE", "HVDRAY_HOST",       "HVDRAY_JOB_ID",
    "HVDRAY_GENERATION", "HVDRAY_SLOT",       "HVDRAY_VERSION",    "HVDRAY_RESTART_COUNT"};
constexpr std::array<std::string_view, 5> kOwnPrefixes = {"HVDRAY_AGENT_", "HVDRAY_TEST_",
                                                          "HVDRAY_RENDEZVOUS_",
                                                          // Of ./check and its tests.
                                                          "HVDRAY_HOROVOD_", "HVDRAY_STAGES"};

bool IsOwnVariable(std::string_view name) {
  return std::find(kOwnVariables.begin(), kOwnVariables.end(), name) != kOwnVariables.end() ||
         std::any_of(kOwnPrefixes.begin(), kOwnPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> SplitAt(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find_first_of(separators);
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

/// One variable as words, by the type of its option.
Result<std::vector<std::string>> ValuesOfVariable(const OptionKey& key, const std::string& text) {
  switch (key.row->type) {
    case OptionType::kFlag: {
      const Result<bool> flag = ParseYesNo(text);
      if (!flag.ok()) {
        return Status(ErrorCode::kUsage,
                      fmt::format("env {} {}", VariableOfKey(key.text), flag.status().message()));
      }
      return std::vector<std::string>{*flag != key.is_negation ? "true" : "false"};
    }
    case OptionType::kIntPair:
      return SplitAt(text, " ,");
    case OptionType::kList:
      return SplitAt(text, ",");
    default:
      return std::vector<std::string>{text};
  }
}

/// horovodrun takes `--output-filename "$FOLDER"` with an empty FOLDER as if it were not there. Not
/// so with `-H "$HOSTS"`: a job for a cluster must not start all its workers here.
bool IsEmptyForHorovod(const ParsedOption& option) {
  const OptionRow& row = *option.row;
  return row.is_horovod && row.id != OptionId::kHosts && row.type == OptionType::kText &&
         row.worker_variable.empty() && option.values.front().empty();
}

/// One level holds at most one option of each kind of exclusion.
Status CheckExclusions(const OptionLayer& layer) {
  std::map<OptionExclusion, const RawOption*> first;
  for (const auto& [id, raw] : layer.options) {
    const OptionExclusion exclusion = RowOf(id).exclusion;
    if (exclusion == OptionExclusion::kNone) continue;
    const auto [found, is_new] = first.emplace(exclusion, &raw);
    if (is_new) continue;
    return Status(ErrorCode::kUsage,
                  fmt::format("{} is not allowed with {}", raw.label, found->second->label),
                  "leave one of the two out");
  }
  return {};
}

void AddFallbackVariable(OptionId id, const char* name, const Environment& environment,
                         OptionLayer* layer) {
  if (layer->options.contains(id)) return;
  const std::string text = environment.GetOr(name, "");
  if (text.empty()) return;
  const std::string origin = fmt::format("env {}", name);
  layer->options[id] = {{text}, origin, origin};
}

// Somebody's own HVDRAY_* family of variables must not bury what matters.
constexpr size_t kMaxUnknownNamed = 5;

void WarnOfUnknown(const Environment& environment, std::vector<std::string>* warnings) {
  std::vector<std::string> names;
  for (const OptionKey& key : AllKeys()) names.push_back(VariableOfKey(key.text));
  const std::vector<std::string_view> views(names.begin(), names.end());
  size_t count = 0;
  for (const auto& [name, value] : environment.values()) {
    if (!name.starts_with("HVDRAY_") || IsOwnVariable(name)) continue;
    if (std::find(views.begin(), views.end(), name) != views.end()) continue;
    if (++count > kMaxUnknownNamed) continue;
    const std::string nearest = Nearest(name.substr(0, 80), views);
    warnings->push_back(fmt::format("environment variable {} is not known{}", Quoted(name),
                                    nearest.empty() ? "" : ": did you mean " + nearest + "?"));
  }
  if (count > kMaxUnknownNamed) {
    warnings->push_back(fmt::format("{} more environment variables HVDRAY_* are not known",
                                    count - kMaxUnknownNamed));
  }
}

}  // namespace

Result<OptionLayer> LayerOfFlags(const ParsedArgv& argv) {
  OptionLayer layer;
  std::map<OptionId, const ParsedOption*> last;
  for (const ParsedOption& option : argv.options) {
    const OptionId id = option.row->id;
    if (IsEmptyForHorovod(option)) continue;
    const auto [before, is_new] = last.emplace(id, &option);
    if (!is_new && before->second->is_negation != option.is_negation) {
      return Status(ErrorCode::kUsage, fmt::format("flag {} is not allowed with flag {}",
                                                   option.spelling, before->second->spelling));
    }
    RawOption& raw = layer.options[id];
    if (option.row->type == OptionType::kFlag) {
      raw.values = {option.is_negation ? "false" : "true"};
    } else if (option.row->type == OptionType::kList) {
      raw.values.insert(raw.values.end(), option.values.begin(), option.values.end());
    } else {
      raw.values = option.values;
    }
    raw.origin = raw.label = "flag " + option.spelling;
  }
  HVDRAY_RETURN_IF_ERROR(CheckExclusions(layer));
  if (!argv.command.empty()) layer.command.emplace().Set(argv.command, "command line");
  return layer;
}

Result<OptionLayer> LayerOfEnvironment(const Environment& environment,
                                       std::vector<std::string>* warnings) {
  OptionLayer layer;
  for (const OptionKey& key : AllKeys()) {
    const std::string name = VariableOfKey(key.text);
    const std::string text = environment.GetOr(name, "");
    if (text.empty() || layer.options.contains(key.row->id)) continue;
    HVDRAY_ASSIGN_OR_RETURN(std::vector<std::string> values, ValuesOfVariable(key, text));
    const std::string origin = "env " + name;
    layer.options[key.row->id] = {std::move(values), origin, origin};
  }
  HVDRAY_RETURN_IF_ERROR(CheckExclusions(layer));
  AddFallbackVariable(OptionId::kStartTimeout, "HOROVOD_START_TIMEOUT", environment, &layer);
  AddFallbackVariable(OptionId::kElasticTimeout, "HOROVOD_ELASTIC_TIMEOUT", environment, &layer);
  WarnOfUnknown(environment, warnings);
  return layer;
}

const RawOption* LayerStack::Find(OptionId id) const {
  for (const OptionLayer& layer : layers_) {
    const auto found = layer.options.find(id);
    if (found != layer.options.end()) return &found->second;
  }
  return nullptr;
}

namespace {

Status WithLabel(const RawOption& raw, const Status& status) {
  return Status(ErrorCode::kUsage, fmt::format("{} {}", raw.label, status.message()));
}

const std::string& OnlyValue(const RawOption& raw) {
  static const std::string nothing;
  return raw.values.empty() ? nothing : raw.values.back();
}

}  // namespace

Result<bool> FlagOf(const RawOption& raw) {
  Result<bool> flag = ParseYesNo(OnlyValue(raw));
  if (!flag.ok()) return WithLabel(raw, flag.status());
  return flag;
}

Result<int64_t> WholeOf(OptionId id, const RawOption& raw) {
  Result<int64_t> value = ParseWhole(OnlyValue(raw), RowOf(id).min, RowOf(id).max);
  if (!value.ok()) return WithLabel(raw, value.status());
  return value;
}

Result<Duration> DurationOf(const RawOption& raw) {
  Result<Duration> value = ParseDuration(OnlyValue(raw));
  if (!value.ok()) return WithLabel(raw, value.status());
  return value;
}

Result<size_t> ChoiceOf(OptionId id, const RawOption& raw) {
  const std::vector<std::string_view> choices = ChoicesOf(RowOf(id));
  // Python's logging writes its levels in capitals, people do not.
  const auto is_same = [any_case = id == OptionId::kLogLevel](char one, char other) {
    return one == other || (any_case && one == std::toupper(static_cast<unsigned char>(other)));
  };
  const auto found = std::find_if(choices.begin(), choices.end(), [&](std::string_view choice) {
    const std::string& given = OnlyValue(raw);
    return std::equal(choice.begin(), choice.end(), given.begin(), given.end(), is_same);
  });
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  return Status(ErrorCode::kUsage, fmt::format("{} must be one of {}, not {}", raw.label,
                                               fmt::join(choices, ", "), Quoted(OnlyValue(raw))));
}

Result<std::optional<size_t>> OptionalChoiceOf(OptionId id, const RawOption& raw) {
  if (raw.values.empty()) return std::optional<size_t>(0);
  if (const Result<bool> flag = ParseYesNo(raw.values.back()); flag.ok()) {
    return *flag ? std::optional<size_t>(0) : std::nullopt;
  }
  HVDRAY_ASSIGN_OR_RETURN(const size_t choice, ChoiceOf(id, raw));
  return std::optional<size_t>(choice);
}

Result<std::pair<int, int>> PairOf(OptionId id, const RawOption& raw) {
  if (raw.values.size() != 2) {
    return Status(ErrorCode::kUsage, fmt::format("{} must be two whole numbers", raw.label));
  }
  const OptionRow& row = RowOf(id);
  Result<int64_t> low = ParseWhole(raw.values[0], row.min, row.max);
  if (!low.ok()) return WithLabel(raw, low.status());
  Result<int64_t> high = ParseWhole(raw.values[1], row.min, row.max);
  if (!high.ok()) return WithLabel(raw, high.status());
  return std::pair<int, int>(static_cast<int>(*low), static_cast<int>(*high));
}

}  // namespace hvdray
