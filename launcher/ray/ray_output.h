// stdout and stderr of a client that follows a job on Ray: the bytes that the driver wrote, as they
// are, without ever blocking the loop.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_OUTPUT_H_
#define HVDRAY_LAUNCHER_RAY_RAY_OUTPUT_H_

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/status.h"
#include "launcher/report/output_sink.h"

namespace hvdray {

/// Threads: the loop's.
class RayOutput {
 public:
  struct Handlers {
    /// Once, from the loop. Without a reader of stderr the job can still do its work: not told.
    std::function<void()> on_reader_gone;
    /// From the loop. Errors: kOutputLost.
    std::function<void(Status why)> on_lost;
    /// waiting() may be another now.
    std::function<void()> on_waiting;
  };
  RayOutput(Loop& loop, Handlers handlers);

  void Write(RecordKind kind, ByteView bytes);
  /// A line of ours to stderr: "hvdray run: text".
  void Say(std::string_view line);

  /// What on_lost has been told of, or is about to be: ok while nothing is.
  const Status& lost() const { return lost_; }

  /// Bytes that a slow reader has not taken yet.
  size_t waiting() const { return streams_[0].text.size() + streams_[1].text.size(); }

 private:
  struct Stream {
    int fd = -1;
    std::unique_ptr<OutputSink> sink;
    std::string text;  // waits
    bool is_waiting = false;
    bool is_broken = false;
    bool is_at_line_start = true;
  };
  void Append(Stream& stream, ByteView bytes);
  void Flush(Stream& stream);
  void Break(Stream& stream, const OutputSink::Progress& progress);

  Loop& loop_;
  Handlers handlers_;
  std::array<Stream, 2> streams_;  // stdout, stderr
  Watch trouble_;                  // delivers what Break() has to tell
  Status lost_;                    // the first
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_OUTPUT_H_
