// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/terminal_control.h"

namespace hvdray {
namespace {

size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

/// The most slips that leave a likeness. "--", "HVDRAY_" and whatever else both begin with, up to a
/// separator, is none.
size_t MostSlips(std::string_view a, std::string_view b) {
  const auto common = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const size_t begin = a.substr(0, common).find_last_of("-_") + 1;  // npos + 1 is 0
  const size_t rest = std::min(a.size(), b.size()) - begin;
  return rest < 2 ? 0 : std::max<size_t>(1, rest / 3);
}

}  // namespace

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view Trimmed(std::string_view text, std::string_view blanks) {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

bool IsAllDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string_view> BlankSeparated(std::string_view text, std::string_view blanks) {
  std::vector<std::string_view> words;
  size_t at = 0;
  while ((at = text.find_first_not_of(blanks, at)) != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(blanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(lines.back().size() + 1, text.size()));
  }
  return lines;
}

std::string Count(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string SecondsText(Duration duration) {
  return fmt::format("{:.3g} s", Seconds(duration).count());
}

std::string AtHome(std::string_view path, std::string_view home) {
  if (home.empty() || (path != "~" && !path.starts_with("~/"))) return std::string(path);
  return fmt::format("{}{}", home, path.substr(1));
}

std::string_view WithoutPlus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

std::optional<double> ParseDouble(std::string_view text) {
  text = WithoutPlus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

size_t Utf8Length(std::string_view text) {
  const auto byte = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto is_tail = [&byte](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead >= 0xC2 && lead <= 0xDF) return is_tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool is_overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool is_surrogate = lead == 0xED && byte(1) > 0x9F;
    return is_tail(1) && is_tail(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool is_overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool is_too_large = lead == 0xF4 && byte(1) > 0x8F;
    return is_tail(1) && is_tail(2) && is_tail(3) && !is_overlong && !is_too_large ? 4 : 0;
  }
  return 0;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = word.size() + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = Distance(word, candidate);
    if (distance <= MostSlips(word, candidate) && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

bool IsTerminalControl(std::string_view character) {
  const auto byte = [character](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) {
    return (byte(0) == 0xC2 && byte(1) < 0xA0) || (byte(0) == 0xD8 && byte(1) == 0x9C);
  }
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  if (byte(1) == 0x80)
    return byte(2) == 0x8E || byte(2) == 0x8F || (byte(2) >= 0xA8 && byte(2) <= 0xAE);
  return byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
}

namespace {

std::string Escaped(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

/// The first character, or one byte that is part of none.
std::string_view First(std::string_view text) {
  return text.substr(0, std::max<size_t>(Utf8Length(text), 1));
}

bool IsFit(std::string_view first) {
  return Utf8Length(first) > 0 && !IsControl(first[0]) && !IsTerminalControl(first);
}

/// Bytes of "ESC [ ... m" and the like at the start of `text`; 1 for other uses of ESC.
size_t ColorLength(std::string_view text) {
  if (text.size() < 2 || text[1] != '[') return 1;
  size_t i = 2;
  while (i < text.size() && (text[i] < 0x40 || text[i] > 0x7e)) ++i;
  return std::min(i + 1, text.size());
}

}  // namespace

Result<std::string> WithPart(std::string_view page, std::string_view begin, std::string_view end,
                             std::string_view part) {
  const size_t first = page.find(begin);
  const size_t last = page.find(end);
  const bool is_there_once = first != std::string_view::npos && last != std::string_view::npos &&
                             first < last && page.rfind(begin) == first && page.rfind(end) == last;
  if (!is_there_once) {
    return Status(ErrorCode::kSpecInvalid, "the page has no place for the generated part, or two",
                  fmt::format("put one '{}' before one '{}'", Trimmed(begin), Trimmed(end)));
  }
  return fmt::format("{}{}{}", page.substr(0, first + begin.size()), part, page.substr(last));
}

std::string ShownText(std::string_view text, size_t limit) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= limit) return shown + "...";
    const std::string_view first = First(text);
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
    const std::string_view first = First(line);
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
