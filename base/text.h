// SPDX-License-Identifier: Apache-2.0
// Small questions about ASCII text that everybody asks. Pure.
#ifndef HVDRAY_BASE_TEXT_H_
#define HVDRAY_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray {

inline constexpr std::string_view kBlankBytes = " \t\r\n\v\f";

/// `text` with A to Z in lower case; every other byte stays.
std::string Lower(std::string_view text);

/// `text` without `blanks` at both ends.
std::string_view Trimmed(std::string_view text, std::string_view blanks = kBlankBytes);

/// At least one digit and nothing else.
bool IsAllDigits(std::string_view text);

/// "1 worker", "3 workers".
std::string Count(uint64_t count, std::string_view noun);

/// What stands between `blanks` in `text`, as views into it.
std::vector<std::string_view> BlankSeparated(std::string_view text,
                                             std::string_view blanks = kBlankBytes);

// What is well-formed UTF-8. Pure.

/// Bytes of the well-formed sequence at the start of `text` (1 to 4); 0 if there is none.
/// Source: Unicode 15, table 3-7.
size_t Utf8Length(std::string_view text);

// "Did you mean …": the nearest of some known names.

/// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours) to
/// `word`, if that is at most a third of the longer word's length, rounded up; else empty.
std::string Nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TEXT_H_
