// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/shown_text.h"
#include "base/yaml.h"
#include "base/yaml_data.h"

namespace hvdray {
namespace {

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text == word) return true;
  }
  return false;
}

/// The spellings of YAML 1.1, which Ray's and Horovod's files are written in.
std::optional<bool> ParseBool(std::string_view text) {
  if (IsOneOf(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (IsOneOf(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})) {
    return false;
  }
  return std::nullopt;
}

std::string_view WithoutPlus(std::string_view text) {
  const bool is_signed = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return is_signed ? text.substr(1) : text;
}

/// Finite decimal numbers only: neither hexadecimal nor inf nor nan.
std::optional<double> ParseDouble(std::string_view text) {
  const std::string_view digits = WithoutPlus(text);
  if (digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

/// Digits after an optional sign and nothing else.
bool IsInteger(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// 010 is eight in YAML 1.1 and ten in YAML 1.2.
bool HasLeadingZero(std::string_view text) {
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0';
}

/// "a string ("four")": what the value is, for "np is …, not an integer".
std::string Describe(const YamlNode& node) {
  switch (node.kind()) {
    case YamlNode::Kind::kNull:
      return "empty";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  const std::string shown = ShownText(node.text());
  if (node.is_quoted()) return fmt::format("a quoted string (\"{}\")", shown);
  if (ParseBool(node.text())) return fmt::format("true or false ({})", shown);
  if (ParseDouble(node.text())) return fmt::format("a number ({})", shown);
  return fmt::format("a string (\"{}\")", shown);
}

Status WrongKind(const YamlNode& node, std::string_view name, std::string_view wanted,
                 std::string hint = {}) {
  return node.Error(fmt::format("{} is {}, not {}", name, Describe(node), wanted), std::move(hint));
}

bool IsPlainScalar(const YamlNode& node) {
  return node.kind() == YamlNode::Kind::kScalar && !node.is_quoted();
}

std::string UnquoteHint(const YamlNode& node) {
  return node.is_quoted() ? "write it without quotes" : "";
}

}  // namespace

std::string YamlPlace(const std::string& file, int line, int column) {
  return fmt::format("{}:{}:{}", file, line, column);
}

YamlNode::Kind YamlNode::kind() const { return data_->kind; }

std::string YamlNode::Where() const { return YamlPlace(*data_->file, data_->line, data_->column); }

const std::string& YamlNode::text() const { return data_->text; }

bool YamlNode::is_quoted() const { return data_->is_quoted; }

const std::vector<YamlNode>& YamlNode::items() const { return data_->items; }

const std::vector<YamlNode::Entry>& YamlNode::entries() const { return data_->entries; }

const YamlNode* YamlNode::Find(std::string_view key) const {
  for (const Entry& entry : data_->entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Result<int64_t> YamlNode::AsInt(std::string_view name, int64_t min, int64_t max) const {
  if (!IsPlainScalar(*this) || !IsInteger(text())) {
    return WrongKind(*this, name, "an integer", UnquoteHint(*this));
  }
  if (HasLeadingZero(text())) {
    return Error(fmt::format("{} has a leading zero ({})", name, ShownText(text())),
                 "drop the zero: some readers take such numbers as octal");
  }
  const std::string_view digits = WithoutPlus(text());
  int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc() || value < min || value > max) {
    return Error(fmt::format("{} is {}, not within {} to {}", name, ShownText(text()), min, max));
  }
  return value;
}

Result<double> YamlNode::AsDouble(std::string_view name) const {
  const std::optional<double> value =
      IsPlainScalar(*this) ? ParseDouble(text()) : std::optional<double>();
  if (!value) return WrongKind(*this, name, "a number", UnquoteHint(*this));
  return *value;
}

Result<bool> YamlNode::AsBool(std::string_view name) const {
  const std::optional<bool> value =
      IsPlainScalar(*this) ? ParseBool(text()) : std::optional<bool>();
  if (!value) return WrongKind(*this, name, "true or false", UnquoteHint(*this));
  return *value;
}

Result<std::string> YamlNode::AsString(std::string_view name) const {
  if (kind() == Kind::kNull) {
    return WrongKind(*this, name, "a string",
                     "write \"\" for an empty string, \"null\" for the word");
  }
  if (kind() != Kind::kScalar) return WrongKind(*this, name, "a string");
  if (text().find('\0') != std::string::npos) {
    return Error(fmt::format("{} holds a NUL byte", name));
  }
  return text();
}

Result<std::vector<std::string>> YamlNode::AsStrings(std::string_view name) const {
  if (kind() != Kind::kSequence) return WrongKind(*this, name, "a list of strings");
  std::vector<std::string> strings;
  strings.reserve(items().size());
  for (size_t i = 0; i < items().size(); ++i) {
    HVDRAY_ASSIGN_OR_RETURN(std::string item, items()[i].AsString(fmt::format("{}[{}]", name, i)));
    strings.push_back(std::move(item));
  }
  return strings;
}

Status YamlNode::Error(std::string_view what, std::string hint) const {
  return {ErrorCode::kSpecInvalid, fmt::format("{}: {}", Where(), what), std::move(hint)};
}

}  // namespace hvdray
