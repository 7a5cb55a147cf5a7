// SPDX-License-Identifier: Apache-2.0
// Values as people write them (durations, numbers, sizes, yes and no, --sync), and numbers as
// Python prints them. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_VALUE_TEXT_H_
#define HVDRAY_LAUNCHER_JOB_VALUE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

// Errors of all parsers: kUsage with half a sentence ("must be …, not 'x'"); the caller puts the
// origin in front.

/// "4", "+4", "-1"; decimal, from `min` to `max`.
Result<int64_t> ParseWhole(std::string_view text, int64_t min, int64_t max);

/// "20", "0.5", "1e-3"; finite.
Result<double> ParseNumber(std::string_view text);

/// Bytes, with an optional unit (B KB MB GB TB KiB MiB GiB TiB): "512", "1.5GiB". Rounded up. May
/// be negative.
Result<double> ParseBytes(std::string_view text);

/// true/false, yes/no, on/off, y/n, 1/0; any case.
Result<bool> ParseYesNo(std::string_view text);

/// Seconds with an optional unit: "0.5", "200ms", "2m", "1.5h"; units us ms s m h d. From 0 to
/// 10 years.
Result<Duration> ParseDuration(std::string_view text);

/// Seconds, as short as it is exact: "0.2", "30".
std::string FormatSeconds(Duration duration);

/// For messages, to three digits: "30 s", "1.5 s", "200 ms".
std::string ShowDuration(Duration duration);

/// As Python's str(float): the fewest digits that read back as the same value, "20.0", "1e-05".
std::string FormatPythonFloat(double value);

/// `text` in quotes, for a one-line message: as ShownText(), cut after some 80 bytes.
std::string Quoted(std::string_view text);

/// Adds the names of "torch,horovod.torch" to `modules`, each once, at most `limit` in all.
Status AddModules(std::string_view list, size_t limit, std::vector<std::string>& modules);

/// The value of --sync, in its parts.
struct SyncWord {
  std::string directory;  ///< As it was written.
  std::string target;     ///< Empty without one; else as written, less a leading "~/".
  bool has_target = false;
  bool operator==(const SyncWord&) const = default;
};

/// "DIR" or "DIR:TARGET". The last colon counts, so a directory with a colon in its name is written
/// "DIR:".
Result<SyncWord> ParseSyncWord(std::string_view word);

/// The inverse of ParseSyncWord().
std::string SyncText(const SyncWord& word);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_VALUE_TEXT_H_
