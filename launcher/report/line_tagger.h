// SPDX-License-Identifier: Apache-2.0
// Cuts one stream of a worker into lines and puts a tag in front of each, as horovodrun does. Pure:
// it neither writes nor reads a clock.
#ifndef HVDRAY_LAUNCHER_REPORT_LINE_TAGGER_H_
#define HVDRAY_LAUNCHER_REPORT_LINE_TAGGER_H_

#include <ctime>
#include <string>
#include <string_view>

#include "base/types.h"
#include "launcher/job/job_spec.h"
#include "wire/message.h"

namespace hvdray {

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

#endif  // HVDRAY_LAUNCHER_REPORT_LINE_TAGGER_H_
