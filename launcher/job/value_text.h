// SPDX-License-Identifier: Apache-2.0
// Values as people write them: durations, numbers, yes and no; and numbers as Python prints them.
#ifndef HVDRAY_LAUNCHER_JOB_VALUE_TEXT_H_
#define HVDRAY_LAUNCHER_JOB_VALUE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

// Errors of all parsers: kUsage with half a sentence ("must be …, not 'x'") for the caller to put
// the origin in front of.

/// "4", "+4", "-1".
Result<int64_t> ParseWhole(std::string_view text, int64_t min, int64_t max);

/// "20", "0.5", "1e-3"; finite.
Result<double> ParseNumber(std::string_view text);

/// true/false, yes/no, on/off, 1/0; any case.
Result<bool> ParseYesNo(std::string_view text);

/// Seconds with an optional unit: "0.5", "200ms", "2m", "1.5h"; units us ms s m h d. From 0 to
/// 10 years.
Result<Duration> ParseDuration(std::string_view text);

/// Seconds, as short as it is exact: "0.2", "30".
std::string FormatSeconds(Duration duration);

/// As Python's str(float): shortest digits that read back as the same value, "20.0", "1e-05".
std::string FormatPythonFloat(double value);

/// A word of somebody's for a message: cut at 80 bytes, control characters as '?', in quotes.
std::string Quoted(std::string_view text);

// The word behind --sync, cut into its parts. Pure.

struct SyncWord {
  std::string directory;  ///< As it was written.
  std::string target;     ///< "" when none was named; else as it was written, but for "~/".
  bool has_target = false;
  bool operator==(const SyncWord&) const = default;
};

/// "DIR" or "DIR:TARGET"; the last colon counts, so a directory with a colon in its name is written
/// "DIR:". Errors: kUsage, half a sentence for the caller to put the origin in front of.
Result<SyncWord> ParseSyncWord(std::string_view word);

/// The word again.
std::string SyncText(const SyncWord& word);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_VALUE_TEXT_H_
