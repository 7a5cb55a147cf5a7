// The last lines that a worker wrote, for the verdict. Pure, and bounded whatever is written.
#ifndef HVDRAY_LAUNCHER_REPORT_LAST_LINES_H_
#define HVDRAY_LAUNCHER_REPORT_LAST_LINES_H_

#include <deque>
#include <string>
#include <vector>

#include "base/types.h"

namespace hvdray {

/// What a worker wrote last: to stderr; if that was nothing, to stdout.
struct LastWords {
  std::vector<std::string> err;
  std::vector<std::string> out;
};

class LastLines {
 public:
  static constexpr size_t kMaxLines = 20;
  static constexpr size_t kMaxBytes = size_t{8} << 10;
  static constexpr size_t kMaxLineBytes = size_t{2} << 10;
  /// Kept beyond what is shown: two chained tracebacks are longer than a person wants to see.
  static constexpr size_t kKeptLines = 80;
  static constexpr size_t kKeptBytes = size_t{16} << 10;

  /// As on a terminal, text after '\r' replaces its line: a progress bar is one line, not hundreds.
  void Feed(ByteView bytes);
  /// Oldest first, without line ends; the unfinished line too. Empty lines are left out. What was
  /// cut off a long line is marked by "…".
  std::vector<std::string> Lines() const;
  /// The same, all that are kept.
  std::vector<std::string> Kept() const;
  void Clear();

 private:
  void EndLine();

  std::deque<std::string> lines_;
  size_t bytes_ = 0;
  std::string open_;
  bool is_cut_ = false;        // Something of the open line was left out.
  bool is_at_return_ = false;  // '\r' was last: what follows replaces the line, unless it is '\n'.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_LAST_LINES_H_
