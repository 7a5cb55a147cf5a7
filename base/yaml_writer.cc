// SPDX-License-Identifier: Apache-2.0
#include "base/yaml_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/json.h"
#include "base/terminal_control.h"
#include "base/text.h"
#include "base/yaml_scalar.h"

namespace hvdray {
namespace {

/// YAML allows shorter keys only, where no '?' stands before them.
constexpr size_t kMaxPlainKey = 1000;

/// What a reader may take for a line break, a byte-order mark or no character at all, and what
/// makes a terminal show something else than the file says.
bool NeedsEscape(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return IsTerminalControl(character) || character == "\xEF\xBB\xBF" ||
         character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF";
}

bool HasEscape(std::string_view text) {
  while (!text.empty()) {
    const size_t length = std::max<size_t>(1, Utf8Length(text));
    if (NeedsEscape(text.substr(0, length))) return true;
    text.remove_prefix(length);
  }
  return false;
}

/// Whether the text, without quotes, would be one scalar and the same text.
bool IsPlain(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  if (HasEscape(text) || text.starts_with("---") || text.starts_with("...")) return false;
  if (text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos) {
    return false;
  }
  if (text[0] == '-') return text.size() > 1 && text[1] != ' ';
  return std::string_view("?:,[]{}#&*!|>'\"%@`").find(text[0]) == std::string_view::npos;
}

/// Whether some reader could take the text, without quotes, for something else than a string: a
/// number, a date, a time, a boolean, null, or one of the words with a meaning of their own.
bool LooksTyped(std::string_view text) {
  constexpr std::array<std::string_view, 34> kWords = {
      "~",     "null", "Null", "NULL", "true", "True", "TRUE", "false", "False",
      "FALSE", "yes",  "Yes",  "YES",  "no",   "No",   "NO",   "on",    "On",
      "ON",    "off",  "Off",  "OFF",  "y",    "Y",    "n",    "N",     "=",
      "<<",    ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
  if (std::ranges::find(kWords, text) != kWords.end()) return true;
  const size_t start = text.find_first_not_of("+-.");
  if (start == std::string_view::npos) return true;
  if (start > 0 && text.substr(start - 1, 1) == "." && text.size() > start &&
      (text[start] == 'i' || text[start] == 'I')) {
    return true;  // -.inf
  }
  return text[start] >= '0' && text[start] <= '9';
}

std::string InSingleQuotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += '\'';
    quoted += c;
  }
  return quoted + "'";
}

std::string InDoubleQuotes(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = std::max<size_t>(1, Utf8Length(text));
    const std::string_view character = text.substr(0, length);
    const auto first = static_cast<unsigned char>(character[0]);
    if (character == "\n") {
      quoted += "\\n";
    } else if (character == "\t") {
      quoted += "\\t";
    } else if (character == "\"" || character == "\\") {
      quoted += '\\';
      quoted += character;
    } else if (!NeedsEscape(character)) {
      quoted += character;
    } else if (length == 1) {
      quoted += fmt::format("\\x{:02x}", first);
    } else {
      uint32_t point = length == 2 ? first & 0x1FU : first & 0x0FU;
      for (const char c : character.substr(1)) {
        point = (point << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
      }
      quoted += fmt::format("\\u{:04x}", point);
    }
    text.remove_prefix(length);
  }
  return quoted + "\"";
}

/// What is a scalar only because of a tag.
bool LooksNull(std::string_view text) {
  return text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// A scalar on one line.
std::string InLine(std::string_view text, bool is_string) {
  const bool is_other = is_string ? LooksTyped(text) : LooksNull(text);
  if (IsPlain(text) && !is_other) return std::string(text);
  return HasEscape(text) ? InDoubleQuotes(text) : InSingleQuotes(text);
}

/// Whether a literal block can hold the text: several lines, none with anything that a reader could
/// take for indentation or cut off.
bool IsBlock(std::string_view text) {
  const size_t lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines == 0 || text[0] == ' ' || text[0] == '\n' || text.ends_with("\n\n")) return false;
  for (const std::string_view line : LinesOf(text)) {
    const bool is_blank = line.find_first_not_of(' ') == std::string_view::npos;
    if (HasEscape(line) || (is_blank && !line.empty())) return false;
  }
  return true;
}

class Writer {
 public:
  std::string Take(const YamlNode& root) {
    if (IsCollection(root)) {
      PutCollection(root, 0, /*is_begun=*/false);
    } else {
      PutScalar(root, 0);
    }
    return std::move(out_);
  }

 private:
  static bool IsCollection(const YamlNode& node) {
    return !node.items().empty() || !node.entries().empty();
  }

  void Indent(size_t indent) { out_.append(indent, ' '); }

  /// `is_begun`: the first line has its indentation already.
  void PutCollection(const YamlNode& node, size_t indent, bool is_begun) {
    for (const YamlNode& item : node.items()) {
      if (!is_begun) Indent(indent);
      is_begun = false;
      out_ += "- ";
      if (IsCollection(item)) {
        PutCollection(item, indent + 2, /*is_begun=*/true);
      } else {
        PutScalar(item, indent);
      }
    }
    for (const YamlNode::Entry& entry : node.entries()) {
      if (!is_begun) Indent(indent);
      is_begun = false;
      PutKey(entry.key, indent);
      if (IsCollection(entry.value)) {
        out_ += '\n';
        PutCollection(entry.value, indent + 2, /*is_begun=*/false);
      } else {
        out_ += ' ';
        PutScalar(entry.value, indent);
      }
    }
  }

  void PutKey(std::string_view key, size_t indent) {
    const std::string text = InLine(key, /*is_string=*/true);
    if (text.size() <= kMaxPlainKey) {
      out_ += text + ":";
      return;
    }
    out_ += "? " + text + "\n";
    Indent(indent);
    out_ += ":";
  }

  /// A scalar, null, or an empty list or map, with its line break. `indent`: of the line.
  void PutScalar(const YamlNode& node, size_t indent) {
    switch (node.kind()) {
      case YamlNode::Kind::kNull:
        out_ += "null\n";
        return;
      case YamlNode::Kind::kSequence:
        out_ += "[]\n";
        return;
      case YamlNode::Kind::kMap:
        out_ += "{}\n";
        return;
      case YamlNode::Kind::kScalar:
        break;
    }
    if (IsBlock(node.text())) {
      PutBlock(node.text(), indent + 2);
    } else {
      out_ += InLine(node.text(), node.is_quoted()) + "\n";
    }
  }

  void PutBlock(std::string_view text, size_t indent) {
    out_ += text.ends_with('\n') ? "|\n" : "|-\n";
    for (const std::string_view line : LinesOf(text)) {
      if (!line.empty()) Indent(indent);
      out_.append(line);
      out_ += '\n';
    }
  }

  std::string out_;
};

Json ScalarJson(const YamlNode& node) {
  const PythonValue value = TypeScalar(node);
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const int64_t* whole = std::get_if<int64_t>(&value)) return *whole;
  const double* number = std::get_if<double>(&value);
  // JSON has no infinity.
  if (number != nullptr && std::isfinite(*number)) return *number;
  return node.text();
}

}  // namespace

std::string YamlText(const YamlNode& root) { return Writer().Take(root); }

Json YamlJson(const YamlNode& node) {
  switch (node.kind()) {
    case YamlNode::Kind::kNull:
      return nullptr;
    case YamlNode::Kind::kScalar:
      return ScalarJson(node);
    case YamlNode::Kind::kSequence: {
      Json list = Json::array();
      for (const YamlNode& item : node.items()) list.push_back(YamlJson(item));
      return list;
    }
    case YamlNode::Kind::kMap:
      break;
  }
  Json map = Json::object();
  // Keys are distinct: no need to look for each in a list.
  auto& object = map.get_ref<Json::object_t&>();
  object.reserve(node.entries().size());
  for (const YamlNode::Entry& entry : node.entries()) {
    object.emplace_back(entry.key, YamlJson(entry.value));
  }
  return map;
}

}  // namespace hvdray
