// SPDX-License-Identifier: Apache-2.0
// The file behind --events and --record: lines written as things happen. Never blocks the loop.
#ifndef HVDRAY_LAUNCHER_REPORT_LINE_FILE_H_
#define HVDRAY_LAUNCHER_REPORT_LINE_FILE_H_

#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/types.h"
#include "launcher/report/output_sink.h"

namespace hvdray {

/// A file of lines, written while a job runs: opened before anything starts, never blocks the loop,
/// reports once that it can't be written whole. Threads: the loop's.
class LineFile {
 public:
  struct Options {
    std::string option;  ///< "--events": for messages.
    std::string path;
    /// Called once, maybe from within Write(): the file can't be written whole (kOutputLost,
    /// kReaderGone). Must not destroy the file.
    std::function<void(Status)> on_damaged;
  };

  /// Opens (a named pipe: waits for its reader) and truncates. Errors: kFileUnwritable.
  static Result<std::unique_ptr<LineFile>> Open(Loop& loop, Options options);
  /// Waits a moment for a pipe that has not taken all lines. Doesn't call on_damaged.
  ~LineFile();

  /// `line`: without its newline.
  void Write(ByteView line);

 private:
  LineFile(Loop& loop, Options options, UniqueFd target)
      : options_(std::move(options)), fd_(std::move(target)), sink_(loop, fd_.get()) {}
  void Flush();
  void Break(Status why);

  Options options_;
  UniqueFd fd_;
  OutputSink sink_;
  std::string pending_;      // Lines not written to a pipe yet.
  bool is_waiting_ = false;  // For the pipe.
  bool is_broken_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_LINE_FILE_H_
