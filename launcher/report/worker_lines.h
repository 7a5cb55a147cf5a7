// SPDX-License-Identifier: Apache-2.0
// One stream of a worker as lines: its last ones, for the verdict, and all of them with a tag in
// front, as horovodrun prints them. Pure; bounded memory for any input.
#ifndef HVDRAY_LAUNCHER_REPORT_WORKER_LINES_H_
#define HVDRAY_LAUNCHER_REPORT_WORKER_LINES_H_

#include <ctime>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "launcher/job/job_spec.h"
#include "wire/message.h"

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

/// An unfinished line is held up to this size, then passed on in pieces. This bounds memory; only
/// longer lines can have another worker's line between their pieces.
inline constexpr size_t kMaxHeldLine = size_t{64} << 10;

/// "[3]<stdout>:", "[node7:3]<stderr>:", or empty.
std::string TagText(TagOutput mode, int rank, std::string_view host, wire::StreamId stream);

/// "Sat Nov 21 03:37:30 2026": C's asctime without its newline, for a local time.
std::string StampText(const std::tm& local_time);

/// One worker's stdout or stderr. A line ends at '\n' or '\r' and keeps its end, so "\r\n" gives a
/// second line of only a tag and '\n', as horovodrun prints it. Other bytes pass through unchanged.
/// Threads: one.
class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  /// Appends to `out` all lines that `bytes` completes, each after `stamp` and the tag; holds the
  /// rest.
  void Feed(ByteView bytes, std::string_view stamp, std::string& out);
  /// Appends the held part of the open line; its rest follows without another tag.
  void PassHeld(std::string_view stamp, std::string& out);
  /// The stream has ended: appends the held part, without adding a newline. Returns whether a line
  /// was open.
  bool Finish(std::string_view stamp, std::string& out);

  /// Appends what stands before a line, for the rest of the open one.
  void RepeatTag(std::string_view stamp, std::string& out) const;
  /// A piece of the open line was passed on.
  bool is_line_begun() const { return is_line_begun_; }

  /// Takes effect with the next line.
  void SetTag(std::string tag) { tag_ = std::move(tag); }

  size_t held_bytes() const { return held_.size(); }

 private:
  void BeginLine(std::string_view stamp, std::string& out);

  std::string tag_;
  std::string held_;            // Bytes of the open line not passed on yet.
  bool is_line_begun_ = false;  // Tag and a piece of the open line were passed on.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_WORKER_LINES_H_
