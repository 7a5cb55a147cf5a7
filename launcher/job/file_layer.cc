// A level from a file: the job file, the run section of a cluster file, the user's own defaults.
#include <fmt/format.h>

#include "base/nearest.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

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

}  // namespace

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

}  // namespace hvdray
