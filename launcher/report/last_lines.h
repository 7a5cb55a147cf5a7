// SPDX-License-Identifier: Apache-2.0
// The last lines that a worker printed, for the verdict. Pure; bounded memory for any input.
#ifndef HVDRAY_LAUNCHER_REPORT_LAST_LINES_H_
#define HVDRAY_LAUNCHER_REPORT_LAST_LINES_H_

#include <deque>
#include <string>
#include <vector>

#include "base/types.h"

namespace hvdray {

/// A worker's last lines: of stderr; if empty, of stdout.
struct LastWords {
  std::vector<std::string> err;
  std::vector<std::string> out;
};

/// Keeps the last lines of one stream. Threads: one.
class LastLines {
 public:
  static constexpr size_t kMaxLines = 20;
  static constexpr size_t kMaxBytes = size_t{8} << 10;
  static constexpr size_t kMaxLineBytes = size_t{2} << 10;
  /// More than is printed: chained tracebacks are longer than a user wants to see.
  static constexpr size_t kKeptLines = 80;
  static constexpr size_t kKeptBytes = size_t{16} << 10;

  /// As on a terminal, text after '\r' replaces the line: a progress bar is one line, not hundreds.
  void Feed(ByteView bytes);
  /// Lines to print: oldest first, without line ends, including an unfinished one. Omits empty
  /// lines. "…" marks where a long line was cut.
  std::vector<std::string> Lines() const;
  /// The same, but all kept lines.
  std::vector<std::string> Kept() const;
  void Clear();

 private:
  void EndLine();

  std::deque<std::string> lines_;
  size_t bytes_ = 0;
  std::string open_;
  bool is_cut_ = false;        // The open line was cut.
  bool is_at_return_ = false;  // '\r' was last: what follows replaces the line, unless it is '\n'.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_LAST_LINES_H_
