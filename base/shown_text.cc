// SPDX-License-Identifier: Apache-2.0
#include "base/shown_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace hvdray {
namespace {

/// A character of more than one byte that a terminal obeys (U+0080 to U+009F) or that reorders the
/// text around it (bidirectional marks, embeddings and isolates, line and paragraph separators).
bool IsCommand(std::string_view character) {
  const auto byte = [character](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) {
    return (byte(0) == 0xC2 && byte(1) < 0xA0) || (byte(0) == 0xD8 && byte(1) == 0x9C);
  }
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  if (byte(1) == 0x80)
    return byte(2) == 0x8E || byte(2) == 0x8F || (byte(2) >= 0xA8 && byte(2) <= 0xAE);
  return byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
}

std::string Escaped(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

/// The first character, or one byte that is part of none.
std::string_view FirstOf(std::string_view text) {
  return text.substr(0, std::max<size_t>(Utf8Length(text), 1));
}

bool IsFit(std::string_view first) {
  return Utf8Length(first) > 0 && !IsControl(first[0]) && !IsCommand(first);
}

/// Bytes of "ESC [ ... m" and the like at the start of `text`; 1 for other uses of ESC.
size_t ColorLength(std::string_view text) {
  if (text.size() < 2 || text[1] != '[') return 1;
  size_t i = 2;
  while (i < text.size() && (text[i] < 0x40 || text[i] > 0x7e)) ++i;
  return std::min(i + 1, text.size());
}

}  // namespace

std::string ShownText(std::string_view text, size_t limit) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= limit) return shown + "...";
    const std::string_view first = FirstOf(text);
    shown += IsFit(first) ? std::string(first) : Escaped(first);
    text.remove_prefix(first.size());
  }
  return shown;
}

std::string ShownLine(std::string_view line) {
  std::string shown;
  shown.reserve(line.size());
  while (!line.empty()) {
    if (line[0] == '\x1b') {
      line.remove_prefix(ColorLength(line));
      continue;
    }
    const std::string_view first = FirstOf(line);
    if (IsFit(first) || first == "\t") {
      shown += first;
    } else if (!IsControl(first[0])) {
      shown += Escaped(first);
    } else if (first == "\n" || first == "\r") {
      shown += ' ';
    }
    line.remove_prefix(first.size());
  }
  return shown;
}

}  // namespace hvdray
