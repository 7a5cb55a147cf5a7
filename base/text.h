// Small questions about ASCII text that everybody asks. Pure.
#ifndef HVDRAY_BASE_TEXT_H_
#define HVDRAY_BASE_TEXT_H_

#include <cstdint>
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

}  // namespace hvdray

#endif  // HVDRAY_BASE_TEXT_H_
