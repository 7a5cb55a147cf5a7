// SPDX-License-Identifier: Apache-2.0
// Spellings, keys and titles, derived from the rows.
#include <utility>

#include "base/text.h"
#include "launcher/job/option_table.h"

namespace hvdray {
namespace {

void AddSpellings(const OptionRow& row, std::string_view words, bool is_negation,
                  std::vector<Spelling>* spellings) {
  for (std::string_view word : BlankSeparated(words)) {
    const bool is_hidden = word.front() != '-';
    const bool is_added = word.front() == '+';
    if (is_hidden) word.remove_prefix(1);
    spellings->push_back({word, &row, is_negation, is_hidden, row.is_horovod && !is_added});
  }
}

std::string KeyOf(std::string_view name) {
  std::string key(name);
  for (char& c : key) {
    if (c == '-') c = '_';
  }
  return key;
}

std::vector<OptionKey> BuildKeys() {
  std::vector<OptionKey> keys;
  for (const OptionRow& row : OptionTable()) {
    if (row.type == OptionType::kAction) continue;
    const size_t first = keys.size();
    keys.push_back({KeyOf(row.name), &row, false});
    for (const Spelling& spelling : SpellingsOf(row)) {
      if (!spelling.is_long()) continue;
      std::string key = KeyOf(spelling.text.substr(2));
      bool is_known = false;
      for (size_t i = first; i < keys.size(); ++i) is_known = is_known || keys[i].text == key;
      if (!is_known) keys.push_back({std::move(key), &row, spelling.is_negation});
    }
  }
  return keys;
}

}  // namespace

std::vector<Spelling> SpellingsOf(const OptionRow& row) {
  std::vector<Spelling> spellings;
  AddSpellings(row, row.spellings, false, &spellings);
  AddSpellings(row, row.negations, true, &spellings);
  return spellings;
}

const std::vector<Spelling>& AllSpellings() {
  static const std::vector<Spelling> rows = [] {
    std::vector<Spelling> all;
    for (const OptionRow& row : OptionTable()) {
      for (const Spelling& spelling : SpellingsOf(row)) all.push_back(spelling);
    }
    return all;
  }();
  return rows;
}

std::vector<Spelling> SpellingsOf(const CommandRow& command) {
  std::vector<Spelling> all;
  if (command.is_launch) all = AllSpellings();
  for (const CommandOption& option : command.options) {
    const OptionRow& row = RowOf(option.id);
    if (command.is_launch && row.id < OptionId::kJson) continue;
    for (Spelling spelling : SpellingsOf(row)) {
      spelling.is_abbreviable = false;
      all.push_back(spelling);
    }
  }
  return all;
}

const std::vector<OptionKey>& AllKeys() {
  static const std::vector<OptionKey> keys = BuildKeys();
  return keys;
}

std::string VariableOfKey(std::string_view key) {
  std::string variable = "HVDRAY_";
  for (const char c : key) {
    variable += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return variable;
}

std::vector<std::string_view> ChoicesOf(const OptionRow& row) {
  return BlankSeparated(row.value_name, "|");
}

std::string_view TitleOf(OptionGroup group) {
  switch (group) {
    case OptionGroup::kJob:
      return "Job";
    case OptionGroup::kHosts:
      return "Hosts and workers";
    case OptionGroup::kElastic:
      return "Elastic jobs";
    case OptionGroup::kRay:
      return "Ray";
    case OptionGroup::kFailure:
      return "Time limits and failures";
    case OptionGroup::kOutput:
      return "Input and output";
    case OptionGroup::kPlan:
      return "Plans, reports and traces";
    case OptionGroup::kNetwork:
      return "Network and SSH";
    case OptionGroup::kTunables:
      return "Horovod: parameters";
    case OptionGroup::kAutotune:
      return "Horovod: autotune";
    case OptionGroup::kTimeline:
      return "Horovod: timeline";
    case OptionGroup::kStallCheck:
      return "Horovod: stall check";
    case OptionGroup::kLibrary:
      return "Horovod: libraries";
    case OptionGroup::kLogging:
      return "Horovod: logging";
    case OptionGroup::kController:
      return "Controllers";
    case OptionGroup::kGeneral:
      return "General";
  }
  return "";
}

}  // namespace hvdray
