// SPDX-License-Identifier: Apache-2.0
// One destination of text that this process inherited (stdout, stderr) or opened (a pipe for
// events): writes without blocking the loop and without changing file flags shared with other
// processes.
#ifndef HVDRAY_LAUNCHER_REPORT_OUTPUT_SINK_H_
#define HVDRAY_LAUNCHER_REPORT_OUTPUT_SINK_H_

#include <functional>
#include <optional>

#include "base/fd.h"
#include "base/loop.h"
#include "base/types.h"
#include "launcher/report/stream_file.h"

namespace hvdray {

/// Keeps no text: the caller repeats what was not written. Threads: the loop's. SIGPIPE must be
/// ignored in this process.
class OutputSink {
 public:
  enum class Outcome : uint8_t {
    kWritten,     ///< All of it.
    kMustWait,    ///< `written` bytes are out; the rest when OnWritable() calls back.
    kReaderGone,  ///< A pipe or socket without a reader, or a terminal that hung up.
    kFailed,      ///< See `error`: disk full, for example.
  };
  /// kNever: for tests of the fallback without an own file description.
  enum class Reopen : uint8_t { kTry, kNever };
  struct Progress {
    Outcome outcome = Outcome::kWritten;
    size_t written = 0;
    int error = 0;  ///< errno of kFailed and kReaderGone.
  };

  /// Does not own `fd`, which stays open. Reopens pipes and terminals for an open file description
  /// of its own, since O_NONBLOCK on the inherited one would affect all processes that share it; if
  /// that is refused, writes are small and only made when poll() sees room. Writes to a closed fd
  /// are discarded.
  OutputSink(Loop& loop, int fd, Reopen reopen = Reopen::kTry);
  /// `fd`: a plain file; each Write() appends one record of `kind`. `places`: whose the bytes of
  /// the next Write() are; emptied by it, not owned.
  OutputSink(Loop& loop, int fd, RecordKind kind, RecordPlaces* places);

  /// Writes as much as possible now.
  Progress Write(ByteView bytes);
  /// Calls back once, when Write() can continue. Replaces an earlier request.
  void OnWritable(std::function<void()> callback);

  bool is_terminal() const { return kind_ == Kind::kTerminal; }
  /// Both are the same pipe, socket or terminal, where their bytes would mix.
  bool IsSamePlace(const OutputSink& other) const;

 private:
  enum class Kind : uint8_t { kFile, kPipe, kSocket, kTerminal, kNowhere };
  ssize_t WriteOnce(ByteView bytes);
  Progress WriteRecord(ByteView bytes);

  Loop& loop_;
  int fd_;        // The caller's.
  UniqueFd own_;  // Our non-blocking description of the same place, if we got one.
  Kind kind_ = Kind::kNowhere;
  uint64_t device_ = 0, inode_ = 0;
  std::optional<RecordKind> record_kind_;
  RecordPlaces* places_ = nullptr;  // The caller's.
  Watch watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_OUTPUT_SINK_H_
