// SPDX-License-Identifier: Apache-2.0
// One level each from flags, the environment and a file, and the typed reads.
#include "launcher/job/option_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/command_words.h"
#include "base/text.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

/// Variables that hvdray itself sets: a job started from within a job inherits them. The last six
/// are the Python package's and the collective library's.
constexpr std::array<std::string_view, 19> kOwnVariables = {"HVDRAY_RANK",
                                                            "HVDRAY_SIZE",
                                                            "HVDRAY_LOCAL_RANK",
                                                            "HVDRAY_LOCAL_SIZE",
                                                            "HVDRAY_CROSS_RANK",
                                                            "HVDRAY_CROSS_SIZE",
                                                            "HVDRAY_HOST",
                                                            "HVDRAY_JOB_ID",
                                                            "HVDRAY_GENERATION",
                                                            "HVDRAY_SLOT",
                                                            "HVDRAY_VERSION",
                                                            "HVDRAY_RESTART_COUNT",
                                                            "HVDRAY_CHANNEL_FD",
                                                            "HVDRAY_BINARY",
                                                            "HVDRAY_COLLECTIVE",
                                                            "HVDRAY_CHECK_COLLECTIVES",
                                                            "HVDRAY_COLLECTIVE_TABLE",
                                                            "HVDRAY_LIBRARY",
                                                            "HVDRAY_TORCH_NCCL"};
constexpr std::array<std::string_view, 5> kOwnPrefixes = {"HVDRAY_AGENT_", "HVDRAY_TEST_",
                                                          "HVDRAY_RENDEZVOUS_",
                                                          // Those of ./check and its tests.
                                                          "HVDRAY_HOROVOD_", "HVDRAY_STAGES"};

bool IsOwnVariable(std::string_view name) {
  return std::find(kOwnVariables.begin(), kOwnVariables.end(), name) != kOwnVariables.end() ||
         std::any_of(kOwnPrefixes.begin(), kOwnPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> WordsOf(std::string_view text, std::string_view separators) {
  const std::vector<std::string_view> words = BlankSeparated(text, separators);
  return {words.begin(), words.end()};
}

/// "zone=in(a,b),gpu=yes": a comma between parentheses does not separate.
std::vector<std::string> SplitSelectors(std::string_view text) {
  std::vector<std::string> selectors;
  for (const std::string& part : WordsOf(text, ",")) {
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

/// The value of one variable, split as the type of its option wants it.
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
      return WordsOf(text, " ,");
    case OptionType::kList:
      return key.row->id == OptionId::kLabelSelector ? SplitSelectors(text) : WordsOf(text, ",");
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

/// horovodrun ignores `--output-filename "$DIRECTORY"` when DIRECTORY is empty. An empty
/// `-H "$HOSTS"` or `--hostfile "$FILE"` is different: a job meant for a cluster must not start all
/// its workers here.
bool IsEmptyForHorovod(const ParsedOption& option) {
  const OptionRow& row = *option.row;
  const bool says_where = row.id == OptionId::kHosts || row.id == OptionId::kHostfile ||
                          row.id == OptionId::kHostDiscoveryScript;
  return row.is_horovod && !says_where && row.type == OptionType::kText &&
         row.worker_variable.empty() && option.values.front().empty();
}

/// Each level may hold at most one option of each kind of exclusion.
Status CheckExclusions(const OptionLayer& layer) {
  std::map<OptionExclusion, const RawOption*> first;
  for (const auto& [id, raw] : layer.options) {
    const OptionExclusion exclusion = RowOf(id).exclusion;
    if (exclusion == OptionExclusion::kNone) continue;
    const auto [found, is_new] = first.emplace(exclusion, &raw);
    if (is_new) continue;
    return Status(ErrorCode::kUsage,
                  fmt::format("{} is not allowed with {}", raw.label, found->second->label),
                  "leave one of them out");
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

// A user's own family of HVDRAY_* variables must not bury other warnings.
constexpr size_t kMaxUnknownNamed = 5;

void WarnOfUnknown(const Environment& environment, std::vector<std::string>* warnings) {
  std::vector<std::string> names;
  for (const OptionKey& key : AllVariables()) names.push_back(VariableOfKey(key.text));
  for (const std::string_view name : kOwnVariables) {
    if (name.find("COLLECTIVE") != std::string_view::npos) names.emplace_back(name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  size_t count = 0;
  for (const auto& [name, value] : environment.values()) {
    if (!name.starts_with("HVDRAY_") || IsOwnVariable(name)) continue;
    if (std::find(views.begin(), views.end(), name) != views.end()) continue;
    if (++count > kMaxUnknownNamed) continue;
    const std::string nearest = Nearest(name.substr(0, 80), views);
    warnings->push_back(fmt::format("unknown environment variable {}{}", Quoted(name),
                                    nearest.empty() ? "" : ": did you mean " + nearest + "?"));
  }
  if (count > kMaxUnknownNamed) {
    warnings->push_back(
        fmt::format("{} more unknown HVDRAY_* environment variables", count - kMaxUnknownNamed));
  }
}

/// "MACHINE=FILE,..." or "FILE".
std::string ExpandBuilds(std::string_view text, const HomeOf& home_of) {
  std::string expanded;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    const size_t file = part.starts_with('~') ? 0 : part.find('=') + 1;
    expanded += fmt::format("{}{}", part.substr(0, file), AtHome(part.substr(file), home_of));
    if (end == text.size()) return expanded;
    expanded += ',';
    text.remove_prefix(end + 1);
  }
}

Status WithLabel(const RawOption& raw, const Status& status) {
  return Status(ErrorCode::kUsage, fmt::format("{} {}", raw.label, status.message()));
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
  std::string what = fmt::format("unknown key {}", Quoted(entry.key));
  for (const OptionKey& key : AllVariables()) {  // Those of AllKeys() are known.
    if (key.text != entry.key) continue;
    return AtKey(entry, std::move(what), HintForVariable(*key.row));
  }
  std::vector<std::string_view> names = {"command"};
  for (const OptionKey& key : AllKeys()) names.push_back(key.text);
  const std::string nearest = Nearest(std::string_view(entry.key).substr(0, 80), names);
  return AtKey(entry, std::move(what),
               nearest.empty() ? "keys are the long option names with '_': see hvdray run --help"
                               : fmt::format("did you mean {}?", nearest));
}

/// A list of NAME=VALUE, which a file may write as a mapping.
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
    if (entry.key.find('=') != std::string::npos) {
      return entry.value.Error(
          fmt::format("{}: {} cannot be the name of a variable", key, Quoted(entry.key)));
    }
    if (entry.value.IsNull()) {
      variables.push_back(entry.key);
      continue;
    }
    HVDRAY_ASSIGN_OR_RETURN(const std::string value, entry.value.AsString(entry.key));
    variables.push_back(entry.key + "=" + value);
  }
  return variables;
}

/// A list, or a single string.
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
  if (kind == FileKind::kUser) return AtKey(entry, "the user file cannot set a command");
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
  if (entry.value.IsNull()) {
    return AtKey(entry, fmt::format("{} has no value", Quoted(entry.key)), entry.value.TildeHint());
  }
  if (entry.key == "command") return ReadCommand(entry, kind, layer);
  const OptionKey* key = FindKey(entry.key);
  if (key == nullptr) return UnknownKey(entry);
  if (const std::string_view why = WhyNotInFile(key->row->id, kind); !why.empty()) {
    return AtKey(entry, fmt::format("{} is not allowed here: {}", Quoted(entry.key), why));
  }
  const auto before = layer->options.find(key->row->id);
  if (before != layer->options.end()) {
    return AtKey(entry, fmt::format("{} repeats {}", Quoted(entry.key), before->second.label));
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

}  // namespace

std::string_view WhyNotInFile(OptionId id, FileKind kind) {
  if (id == OptionId::kJobFile) return "name the job file with -f";
  if (kind != FileKind::kClusterRun) return {};
  if (id == OptionId::kCluster) return "this file is the cluster file";
  if (RowOf(id).exclusion == OptionExclusion::kHostSource) {
    return "the hosts come from this cluster file";
  }
  return {};
}

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
    const bool is_whole_job = id == OptionId::kJobFile || id == OptionId::kCluster;
    if (is_whole_job && !raw.values.empty() && raw.values != option.values) {
      return Status(ErrorCode::kUsage,
                    fmt::format("flag {} is given twice: {} and {}", option.spelling,
                                Quoted(raw.last()), Quoted(option.values.back())),
                    "put all of the job into one file");
    }
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
  if (!argv.command.empty()) layer.command.emplace().Set(argv.command, std::string(kCommandLine));
  return layer;
}

Result<OptionLayer> LayerOfEnvironment(const Environment& environment,
                                       std::vector<std::string>* warnings) {
  OptionLayer layer;
  for (const OptionKey& key : AllVariables()) {
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
  for (const OptionKey& key : AllVariables()) {
    const auto is_same = [&key](const CommandOption& option) { return option.id == key.row->id; };
    const OptionGroup group = key.row->group;
    if (group != OptionGroup::kRay && group != OptionGroup::kDeveloper) continue;
    if (std::ranges::none_of(command.options, is_same)) continue;
    HVDRAY_RETURN_IF_ERROR(ReadVariable(key, environment, &layer));
  }
  return layer;
}

bool IsPathHere(const OptionRow& row) {
  if (row.id == OptionId::kRemoteDir) return false;
  const std::vector<std::string_view> kinds = BlankSeparated(row.value_name, "|[.");
  return std::ranges::any_of(kinds, [](std::string_view kind) {
    return kind == "FILE" || kind == "DIR" || kind == "PATH";
  });
}

void ExpandHomes(const HomeOf& home_of, OptionLayer* layer) {
  for (auto& [id, raw] : layer->options) {
    if (!IsPathHere(RowOf(id))) continue;
    for (std::string& value : raw.values) {
      value = id == OptionId::kAgentPath ? ExpandBuilds(value, home_of) : AtHome(value, home_of);
    }
  }
  if (!layer->command || layer->command->origin() == kCommandLine) return;
  std::vector<std::string> command = **layer->command;
  for (const size_t word : {size_t{0}, PythonScript(command)}) {
    command[word] = AtHome(command[word], home_of);
  }
  layer->command->Set(std::move(command), layer->command->origin());
}

const RawOption* LayerStack::Find(OptionId id) const {
  for (const OptionLayer& layer : layers_) {
    const auto found = layer.options.find(id);
    if (found != layer.options.end()) return &found->second;
  }
  return nullptr;
}

Result<bool> FlagOf(const RawOption& raw) {
  Result<bool> flag = ParseYesNo(raw.last());
  if (!flag.ok()) return WithLabel(raw, flag.status());
  return flag;
}

Result<int64_t> WholeOf(OptionId id, const RawOption& raw) {
  Result<int64_t> value = ParseWhole(raw.last(), RowOf(id).min, RowOf(id).max);
  if (!value.ok()) return WithLabel(raw, value.status());
  return value;
}

Result<Duration> ToDuration(OptionId id, const RawOption& raw) {
  Result<Duration> value = ParseDuration(raw.last());
  if (!value.ok()) return WithLabel(raw, value.status());
  if (*value > Duration::zero() || RowOf(id).min == 0) return value;
  return Status(ErrorCode::kUsage, fmt::format("{} must be above 0", raw.label));
}

Result<size_t> ChoiceOf(OptionId id, const RawOption& raw) {
  const std::vector<std::string_view> choices = ChoicesOf(RowOf(id));
  // Python's logging spells its levels in capitals; users often do not.
  const auto is_same = [any_case = id == OptionId::kLogLevel](char one, char other) {
    return one == other || (any_case && one == std::toupper(static_cast<unsigned char>(other)));
  };
  const auto found = std::find_if(choices.begin(), choices.end(), [&](std::string_view choice) {
    const std::string& given = raw.last();
    return std::equal(choice.begin(), choice.end(), given.begin(), given.end(), is_same);
  });
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  return Status(ErrorCode::kUsage, fmt::format("{} must be one of {}, not {}", raw.label,
                                               fmt::join(choices, ", "), Quoted(raw.last())));
}

Result<std::optional<size_t>> OptionalChoice(OptionId id, const RawOption& raw) {
  if (raw.values.empty()) return std::optional<size_t>(0);
  if (const Result<bool> flag = ParseYesNo(raw.last()); flag.ok()) {
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

Result<OptionLayer> LayerOfFile(const YamlNode& root, FileKind kind) {
  OptionLayer layer;
  if (root.IsNull()) return layer;
  if (root.kind() != YamlNode::Kind::kMap) {
    return root.Error("expected a mapping of option names to values");
  }
  for (const YamlNode::Entry& entry : root.entries()) {
    HVDRAY_RETURN_IF_ERROR(ReadEntry(entry, kind, &layer));
  }
  return layer;
}

}  // namespace hvdray
