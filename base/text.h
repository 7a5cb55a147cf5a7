// SPDX-License-Identifier: Apache-2.0
// Small helpers for text: ASCII, numbers, UTF-8, misspelt names, text of others. All pure. Threads:
// any.
#ifndef HVDRAY_BASE_TEXT_H_
#define HVDRAY_BASE_TEXT_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

inline constexpr std::string_view kBlankBytes = " \t\r\n\v\f";

/// `text` with A to Z in lower case and every other byte as it is.
std::string Lower(std::string_view text);

/// `text` without `blanks` at either end; a view into it.
std::string_view Trimmed(std::string_view text, std::string_view blanks = kBlankBytes);

/// The words of `text`, which any number of `blanks` separate; views into it.
std::vector<std::string_view> BlankSeparated(std::string_view text,
                                             std::string_view blanks = kBlankBytes);

/// The lines of `text`, without their '\n' but with any '\r' before it; views into it. The last one
/// needs no '\n'.
std::vector<std::string_view> LinesOf(std::string_view text);

/// "1 worker", "3 workers".
std::string Count(uint64_t count, std::string_view noun);

/// "0.5 s", "30 s": three digits.
std::string SecondsText(Duration duration);

/// `path` with `home` in place of "~" in a leading "~/". An empty `home`: `path` as it is.
std::string AtHome(std::string_view path, std::string_view home);

/// At least one digit and nothing else.
bool IsAllDigits(std::string_view text);

/// All of `text` as an integer in `base`: digits, after '-' for a signed T; no '+', blank or
/// prefix. nullopt: anything else, or out of T's range.
template <typename T>
std::optional<T> ParseInteger(std::string_view text, int base = 10) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

/// `text` without the '+' of a number, which ParseInteger() does not take.
std::string_view WithoutPlus(std::string_view text);

/// All of `text` as a finite decimal number: "-1.5", "+2", "1e3". nullopt: anything else, or out of
/// a double's range.
std::optional<double> ParseDouble(std::string_view text);

/// Bytes (1 to 4) of the well-formed UTF-8 sequence that starts `text`; 0: none does.
/// Source: Unicode 15, table 3-7.
size_t Utf8Length(std::string_view text);

/// All of `text` is well-formed UTF-8.
bool IsUtf8(std::string_view text);

/// For "did you mean …": the candidate with the smallest edit distance to `word` (insert, delete,
/// replace, swap of neighbours), if that is at most a third of the shorter one's length (of two
/// letters, and more, one), not counting what both begin with up to a '-' or '_'; else empty.
std::string Nearest(std::string_view word, std::span<const std::string_view> candidates);

/// `page` with `part` instead of what is between its marker lines `begin` and `end`. Errors:
/// kSpecInvalid unless each marker occurs exactly once, begin before end.
Result<std::string> WithPart(std::string_view page, std::string_view begin, std::string_view end,
                             std::string_view part);

// Text from other programs and machines, made safe to show in our own output: it must not move a
// cursor, change colors or reorder the text around it. Workers' output passes unchanged, without
// this.

/// `text` for use inside a one-line message: control bytes and bytes that are not UTF-8 become
/// "\x1b". Cuts it after about `limit` bytes, at the end of a character, and appends "...".
std::string ShownText(std::string_view text, size_t limit = 60);

/// A whole `line` as one of ours. As ShownText(), but drops control bytes, and color sequences with
/// them; keeps tabs; turns line ends into blanks; cuts nothing. Call it once, where the line comes
/// in.
std::string ShownLine(std::string_view line);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TEXT_H_
