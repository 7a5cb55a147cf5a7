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

/// A line without an end is held up to this size, then passed on in pieces of it. So memory is
/// bounded, and only lines longer than this can have another worker's line between their pieces.
inline constexpr size_t kMaxHeldLine = size_t{64} << 10;

/// "[3]<stdout>:", "[node7:3]<stderr>:", or nothing.
std::string TagText(TagOutput mode, int rank, std::string_view host, wire::StreamId stream);

/// "Sat Nov 21 03:37:30 2026": C's asctime without its newline, for a local time.
std::string StampText(const std::tm& local_time);

/// One worker's stdout or stderr. A line ends at '\n' or '\r' and keeps its end, so "\r\n" gives a
/// second line that is only a tag and '\n' (Horovod spec 1.7). Bytes pass through unharmed.
class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  /// Appends to `out` all lines that `bytes` completes, each with `stamp` and the tag in front; the
  /// rest is held.
  void Feed(ByteView bytes, std::string_view stamp, std::string& out);
  /// Appends what is held of the open line; the rest of the line follows without another tag.
  void PassHeld(std::string_view stamp, std::string& out);
  /// The stream has ended: appends what is held, without adding a newline. Whether there was an
  /// open line.
  bool Finish(std::string_view stamp, std::string& out);

  /// From the next line on.
  void SetTag(std::string tag) { tag_ = std::move(tag); }

  size_t held_bytes() const { return held_.size(); }

 private:
  void BeginLine(std::string_view stamp, std::string& out);

  std::string tag_;
  std::string held_;            // Bytes of the open line that are not passed on yet.
  bool is_line_begun_ = false;  // A piece of the open line has been passed on, with its tag.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_LINE_TAGGER_H_
