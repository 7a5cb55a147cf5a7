// SPDX-License-Identifier: Apache-2.0
// stdout and stderr of a client that follows a job on Ray: writes the driver's bytes unchanged,
// without blocking the loop.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_OUTPUT_H_
#define HVDRAY_LAUNCHER_RAY_RAY_OUTPUT_H_

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcher/ray/ray_attach.h"
#include "launcher/ray/ray_stream.h"
#include "launcher/report/output_sink.h"

namespace hvdray {

/// Threads: the loop's. Handlers must not destroy it.
class RayOutput {
 public:
  struct Handlers {
    /// Once: stdout has no reader. Not called for stderr: the job can work without it.
    std::function<void()> on_reader_gone;
    /// Output was lost. Errors: kOutputLost.
    std::function<void(Status why)> on_lost;
    /// waiting() may have changed. Called from within Write() and Say(), too.
    std::function<void()> on_waiting;
  };
  RayOutput(Loop& loop, Handlers handlers);

  void Write(RecordKind kind, ByteView bytes);
  /// Prints a line of ours to stderr: "hvdray run: text".
  void Say(std::string_view line);

  /// What on_lost reported or will report; ok: nothing lost.
  const Status& lost() const { return lost_; }

  /// Bytes not yet taken by a slow reader.
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
  Watch trouble_;                  // delivers Break()'s report
  Status lost_;                    // the first
};

// A local copy of a file of a Ray job's driver, written while the job runs: its events.

/// Loop and pool outlive it. Writes block. Threads: the loop's.
class RayLiveFile {
 public:
  RayLiveFile(Loop& loop, BlockingPool& pool, RayAccess access, const std::string& job_id,
              RayWantedFile file);

  /// Reads from the driver's node from now on.
  void Follow(const std::string& node);
  /// Returns the file with the number of bytes fetched; the caller fetches the rest. Errors:
  /// kFileUnwritable; kOutputLost: a write failed.
  Result<RayWantedFile> End();

 private:
  void OnBytes(const std::string& bytes);

  RayWantedFile file_;
  RayStream stream_;
  Status lost_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_OUTPUT_H_
