// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

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

std::string Count(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
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
    const size_t limit = (std::max(word.size(), candidate.size()) + 2) / 3;
    if (distance <= limit && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace hvdray
