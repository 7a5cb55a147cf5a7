// SPDX-License-Identifier: Apache-2.0
// Levels from flags, environment and files, and the typed reads.
#include "launcher/job/option_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

#include "base/text.h"
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
  const std::vector<std::string_view> parts = BlankSeparated(text, separators);
  return {parts.begin(), parts.end()};
}

/// "zone=in(a,b),gpu=yes": a comma between parentheses does not separate.
std::vector<std::string> SplitSelectors(std::string_view text) {
  std::vector<std::string> selectors;
  for (const std::string& part : SplitAt(text, ",")) {
    const bool is_open = !selectors.empty() && std::ranges::count(selectors.back(), '(') >
                                                   std::ranges::count(selectors.back(), ')');
    if (is_open) {
      selectors.back() += "," + part;
    } else {
      selectors.push_back(part);
    }
  }
  return selectors;
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
      return key.row->id == OptionId::kLabelSelector ? SplitSelectors(text) : SplitAt(text, ",");
    default:
      return std::vector<std::string>{text};
  }
}

Status ReadVariable(const OptionKey& key, const Environment& environment, OptionLayer* layer) {
  const std::string name = VariableOfKey(key.text);
  const std::string text = environment.GetOr(name, "");
  if (text.empty() || layer->options.contains(key.row->id)) return {};
  HVDRAY_ASSIGN_OR_RETURN(std::vector<std::string> values, ValuesOfVariable(key, text));
  const std::string origin = "env " + name;
  layer->options[key.row->id] = {std::move(values), origin, origin};
  return {};
}

/// horovodrun takes `--output-filename "$DIRECTORY"` with an empty DIRECTORY as if it were not
/// there. Not so with `-H "$HOSTS"`: a job for a cluster must not start all its workers here.
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

Status WithLabel(const RawOption& raw, const Status& status) {
  return Status(ErrorCode::kUsage, fmt::format("{} {}", raw.label, status.message()));
}

const std::string& OnlyValue(const RawOption& raw) {
  static const std::string nothing;
  return raw.values.empty() ? nothing : raw.values.back();
}

Status AtKey(const YamlNode::Entry& entry, std::string what, std::string hint = {}) {
  return Status(ErrorCode::kSpecInvalid, fmt::format("{}: {}", entry.where, what), std::move(hint));
}

const OptionKey* FindKey(std::string_view text) {
  for (const OptionKey& key : AllKeys()) {
    if (key.text == text) return &key;
  }
  return nullptr;
}

Status UnknownKey(const YamlNode::Entry& entry) {
  std::vector<std::string_view> names = {"command"};
  for (const OptionKey& key : AllKeys()) names.push_back(key.text);
  const std::string nearest = Nearest(std::string_view(entry.key).substr(0, 80), names);
  return AtKey(entry, fmt::format("unknown key {}", Quoted(entry.key)),
               nearest.empty() ? "keys are the long option names with '_': see hvdray run --help"
                               : fmt::format("did you mean {}?", nearest));
}

/// Why `id` cannot stand in a file of this kind; empty when it can.
std::string_view WhyNotHere(OptionId id, FileKind kind) {
  if (id == OptionId::kJobFile) return "a file cannot name the job file: give -f";
  if (kind != FileKind::kClusterRun) return {};
  if (id == OptionId::kCluster) return "this is the cluster file";
  if (RowOf(id).exclusion == OptionExclusion::kHostSource) {
    return "the hosts of this job are those of the cluster";
  }
  return {};
}

/// Lists of NAME=VALUE, which may be mappings in a file.
bool IsOfPairs(OptionId id) {
  return id == OptionId::kEnv || id == OptionId::kResourcesPerSlot ||
         id == OptionId::kLabelSelector;
}

Result<std::vector<std::string>> ReadPairs(const YamlNode& node, std::string_view key) {
  if (node.kind() != YamlNode::Kind::kMap) {
    if (node.kind() == YamlNode::Kind::kSequence) return node.AsStrings(key);
    HVDRAY_ASSIGN_OR_RETURN(std::string name, node.AsString(key));
    return std::vector<std::string>{std::move(name)};
  }
  std::vector<std::string> variables;
  for (const YamlNode::Entry& entry : node.entries()) {
    if (entry.value.IsNull()) {
      variables.push_back(entry.key);
      continue;
    }
    HVDRAY_ASSIGN_OR_RETURN(const std::string value, entry.value.AsString(entry.key));
    variables.push_back(entry.key + "=" + value);
  }
  return variables;
}

/// A list, or one text.
Result<std::vector<std::string>> ReadWords(const YamlNode& node, std::string_view name) {
  if (node.kind() == YamlNode::Kind::kSequence) return node.AsStrings(name);
  HVDRAY_ASSIGN_OR_RETURN(std::string text, node.AsString(name));
  return std::vector<std::string>{std::move(text)};
}

Result<std::vector<std::string>> ReadValue(const OptionKey& key, const YamlNode& node) {
  const OptionRow& row = *key.row;
  switch (row.type) {
    case OptionType::kFlag: {
      HVDRAY_ASSIGN_OR_RETURN(const bool flag, node.AsBool(key.text));
      return std::vector<std::string>{flag != key.is_negation ? "true" : "false"};
    }
    case OptionType::kInt: {
      HVDRAY_ASSIGN_OR_RETURN(const int64_t value, node.AsInt(key.text, row.min, row.max));
      return std::vector<std::string>{std::to_string(value)};
    }
    case OptionType::kNumber: {
      HVDRAY_ASSIGN_OR_RETURN(const double value, node.AsDouble(key.text));
      return std::vector<std::string>{FormatPythonFloat(value)};
    }
    case OptionType::kList:
      return IsOfPairs(row.id) ? ReadPairs(node, key.text) : ReadWords(node, key.text);
    case OptionType::kIntPair:
      return node.AsStrings(key.text);
    default:
      break;
  }
  if (row.id == OptionId::kHosts) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ReadWords(node, key.text));
    return std::vector<std::string>{fmt::format("{}", fmt::join(hosts, ","))};
  }
  HVDRAY_ASSIGN_OR_RETURN(std::string text, node.AsString(key.text));
  return std::vector<std::string>{std::move(text)};
}

Status ReadCommand(const YamlNode::Entry& entry, FileKind kind, OptionLayer* layer) {
  if (kind == FileKind::kUser) return AtKey(entry, "a user's defaults cannot hold a command");
  const YamlNode& node = entry.value;
  std::vector<std::string> words;
  if (node.kind() == YamlNode::Kind::kScalar) {
    words = {"/bin/sh", "-c", node.text()};
  } else {
    HVDRAY_ASSIGN_OR_RETURN(words, node.AsStrings("command"));
  }
  if (words.empty() || words.back().empty()) return node.Error("command is empty");
  layer->command.emplace().Set(std::move(words), node.Where());
  return {};
}

Status ReadEntry(const YamlNode::Entry& entry, FileKind kind, OptionLayer* layer) {
  if (entry.value.IsNull()) return AtKey(entry, fmt::format("{} has no value", Quoted(entry.key)));
  if (entry.key == "command") return ReadCommand(entry, kind, layer);
  const OptionKey* key = FindKey(entry.key);
  if (key == nullptr) return UnknownKey(entry);
  if (const std::string_view why = WhyNotHere(key->row->id, kind); !why.empty()) {
    return AtKey(entry, fmt::format("{} cannot stand here: {}", Quoted(entry.key), why));
  }
  const auto before = layer->options.find(key->row->id);
  if (before != layer->options.end()) {
    return AtKey(
        entry, fmt::format("{} says again what {} says", Quoted(entry.key), before->second.label));
  }
  HVDRAY_ASSIGN_OR_RETURN(std::vector<std::string> values, ReadValue(*key, entry.value));
  const std::string where = entry.value.Where();
  RawOption raw{std::move(values), where, fmt::format("{}: {}", where, entry.key)};
  for (const auto& [id, other] : layer->options) {
    const OptionExclusion exclusion = RowOf(id).exclusion;
    if (exclusion == OptionExclusion::kNone || exclusion != key->row->exclusion) continue;
    return AtKey(entry, fmt::format("{} is not allowed with {}", Quoted(entry.key), other.label));
  }
  layer->options.emplace(key->row->id, std::move(raw));
  return {};
}

template <size_t N>
bool IsOneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string WithoutUnderscores(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  return plain;
}

/// Digits of `base`, underscores anywhere; `negative` as the sign was.
std::optional<int64_t> Digits(std::string_view text, int base, bool is_negative) {
  const std::string digits = (is_negative ? "-" : "") + WithoutUnderscores(text);
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> TypeInt(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  if (text.starts_with("0b")) return Digits(text.substr(2), 2, is_negative);
  if (text.starts_with("0x")) return Digits(text.substr(2), 16, is_negative);
  if (text.size() > 1 && text.front() == '0') return Digits(text.substr(1), 8, is_negative);
  return Digits(text, 10, is_negative);
}

/// [-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)? and \.[0-9][0-9_]*([eE][-+][0-9]+)?
bool IsFloatText(std::string_view text) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  if (has_sign) text.remove_prefix(1);
  const auto skip = [&text](bool with_underscores) {
    size_t i = 0;
    while (i < text.size() && (IsDigit(text[i]) || (with_underscores && text[i] == '_'))) ++i;
    text.remove_prefix(i);
  };
  const bool starts_with_dot = text.starts_with('.');
  if (!starts_with_dot) {
    if (text.empty() || !IsDigit(text.front())) return false;
    skip(true);
    if (!text.starts_with('.')) return false;
  }
  text.remove_prefix(1);
  if (starts_with_dot && (has_sign || text.empty() || !IsDigit(text.front()))) return false;
  skip(true);
  if (text.empty()) return true;
  if (text.size() < 3 || (text[0] != 'e' && text[0] != 'E')) return false;
  if (text[1] != '-' && text[1] != '+') return false;
  text.remove_prefix(2);
  skip(false);
  return text.empty();
}

std::optional<double> TypeFloat(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr std::array<std::string_view, 6> kInf = {".inf",  ".Inf",  ".INF",
                                                           "+.inf", "+.Inf", "+.INF"};
  static constexpr std::array<std::string_view, 3> kMinusInf = {"-.inf", "-.Inf", "-.INF"};
  static constexpr std::array<std::string_view, 3> kNan = {".nan", ".NaN", ".NAN"};
  if (IsOneOf(text, kInf)) return kInfinity;
  if (IsOneOf(text, kMinusInf)) return -kInfinity;
  if (IsOneOf(text, kNan)) return std::numeric_limits<double>::quiet_NaN();
  if (!IsFloatText(text)) return std::nullopt;
  std::string plain = WithoutUnderscores(text);
  if (plain.starts_with('+')) plain.erase(0, 1);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (end != plain.data() + plain.size() || error == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (error == std::errc()) return value;
  // Out of range: Python gives infinity for what is too large and zero for what is too small.
  const bool is_tiny =
      plain.find_first_of("eE") != std::string::npos && plain[plain.find_first_of("eE") + 1] == '-';
  const double magnitude = is_tiny ? 0.0 : kInfinity;
  return plain.starts_with('-') ? -magnitude : magnitude;
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
    HVDRAY_RETURN_IF_ERROR(ReadVariable(key, environment, &layer));
  }
  HVDRAY_RETURN_IF_ERROR(CheckExclusions(layer));
  AddFallbackVariable(OptionId::kStartTimeout, "HOROVOD_START_TIMEOUT", environment, &layer);
  AddFallbackVariable(OptionId::kElasticTimeout, "HOROVOD_ELASTIC_TIMEOUT", environment, &layer);
  WarnOfUnknown(environment, warnings);
  return layer;
}

Result<OptionLayer> LayerOfVariables(const Environment& environment, const CommandRow& command) {
  OptionLayer layer;
  for (const OptionKey& key : AllKeys()) {
    const auto is_same = [&key](const CommandOption& option) { return option.id == key.row->id; };
    if (key.row->group != OptionGroup::kRay || std::ranges::none_of(command.options, is_same))
      continue;
    HVDRAY_RETURN_IF_ERROR(ReadVariable(key, environment, &layer));
  }
  return layer;
}

const RawOption* LayerStack::Find(OptionId id) const {
  for (const OptionLayer& layer : layers_) {
    const auto found = layer.options.find(id);
    if (found != layer.options.end()) return &found->second;
  }
  return nullptr;
}

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

// A level from a file: the job file, the run section of a cluster file, the user's own defaults.

Result<OptionLayer> LayerOfFile(const YamlNode& root, FileKind kind) {
  OptionLayer layer;
  if (root.IsNull()) return layer;
  if (root.kind() != YamlNode::Kind::kMap) {
    return root.Error("a mapping of option names to values belongs here");
  }
  for (const YamlNode::Entry& entry : root.entries()) {
    HVDRAY_RETURN_IF_ERROR(ReadEntry(entry, kind, &layer));
  }
  return layer;
}

// Written out by hand rather than with std::regex, which recurses on long input.

PythonValue TypePlainScalar(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
  static constexpr std::array<std::string_view, 9> kTrue = {"yes",  "Yes", "YES", "true", "True",
                                                            "TRUE", "on",  "On",  "ON"};
  static constexpr std::array<std::string_view, 9> kFalse = {
      "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
  if (IsOneOf(text, kNull)) return std::monostate();
  if (IsOneOf(text, kTrue)) return true;
  if (IsOneOf(text, kFalse)) return false;
  if (const std::optional<int64_t> whole = TypeInt(text)) return *whole;
  if (const std::optional<double> number = TypeFloat(text)) return *number;
  return std::string(text);
}

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

}  // namespace hvdray
