// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/run_schema.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "launcher/job/option_table.h"

namespace hvdray {
namespace {

Json TypeOf(const OptionRow& row) {
  Json scalar = {{"type", Json::array({"string", "number", "boolean"})}};
  switch (row.type) {
    case OptionType::kFlag:
      return {{"type", "boolean"}};
    case OptionType::kInt:
      return {{"type", "integer"}, {"minimum", row.min}, {"maximum", row.max}};
    case OptionType::kNumber:
      return {{"type", "number"}};
    case OptionType::kIntPair:
      return {{"type", "array"},
              {"items", {{"type", "integer"}, {"minimum", row.min}, {"maximum", row.max}}},
              {"minItems", 2},
              {"maxItems", 2}};
    case OptionType::kDuration:
      return {{"type", Json::array({"number", "string"})}};
    case OptionType::kList:
      return {{"type", Json::array({"array", "object", "string", "number", "boolean"})}};
    case OptionType::kAction:
    case OptionType::kText:
    case OptionType::kChoice:
    case OptionType::kOptionalChoice:
      return scalar;
  }
  return scalar;
}

/// What help says of the option, its words and its default, as true of this key.
std::string DescriptionOf(const OptionKey& key) {
  const OptionRow& row = *key.row;
  if (row.type == OptionType::kFlag) {
    // Help describes the spelling that it shows, which may be --no-NAME alone.
    const bool is_opposite = key.is_negation != row.spellings.empty();
    return fmt::format("{}{}", is_opposite ? "false: " : "", row.help);
  }
  std::string text(row.help);
  if (row.type == OptionType::kChoice || row.type == OptionType::kOptionalChoice) {
    text += fmt::format(" One of {}.", fmt::join(ChoicesOf(row), ", "));
  }
  const std::string usual = DefaultText(row);
  if (!usual.empty()) text += fmt::format(" Default: {}.", usual);
  return text;
}

}  // namespace

Json RunSectionSchema(FileKind kind) {
  const Json word = {{"type", Json::array({"string", "number", "boolean"})}};
  Json properties;
  properties["command"] = {
      {"description", "The command of each worker: a list of words, or a line for the shell."},
      {"type", Json::array({"string", "array"})},
      {"items", word}};
  for (const OptionKey& key : AllKeys()) {
    if (!WhyNotInFile(key.row->id, kind).empty()) continue;
    Json property = {{"description", DescriptionOf(key)}};
    property.update(TypeOf(*key.row));
    properties[key.text] = std::move(property);
  }
  return {{"properties", std::move(properties)}, {"additionalProperties", false}};
}

}  // namespace hvdray
