// One destination of text that this process inherited (stdout, stderr) or opened (a pipe for
// events): writes without ever blocking the loop and without changing flags that others share.
#ifndef HVDRAY_LAUNCHER_REPORT_OUTPUT_SINK_H_
#define HVDRAY_LAUNCHER_REPORT_OUTPUT_SINK_H_

#include <functional>
#include <optional>

#include "base/fd.h"
#include "base/loop.h"
#include "base/types.h"
#include "launcher/report/record_file.h"
#include "launcher/report/record_places.h"

namespace hvdray {

/// Threads: the loop's. SIGPIPE must be ignored in this process.
class OutputSink {
 public:
  enum class Outcome : uint8_t {
    kWritten,     ///< All of it.
    kMustWait,    ///< `written` bytes went out; the rest when OnWritable() calls back.
    kReaderGone,  ///< Pipe or socket without a reader, or a terminal that hung up.
    kFailed,      ///< `error` says why: disk full, and the like.
  };
  /// kNever: for tests of the way without a description of our own.
  enum class Reopen : uint8_t { kTry, kNever };
  struct Progress {
    Outcome outcome = Outcome::kWritten;
    size_t written = 0;
    int error = 0;  ///< errno of kFailed and kReaderGone.
  };

  /// `fd` stays the caller's and open. Pipes and terminals get an open file description of our own,
  /// since O_NONBLOCK on the inherited one would also hit whoever shares it; where that is refused,
  /// writes are small and only made when poll() sees room. An fd that is not open swallows all.
  OutputSink(Loop& loop, int fd, Reopen reopen = Reopen::kTry);
  /// `fd`: a plain file, to which each Write() appends one record of `kind`. `places`: of the bytes
  /// of the next Write(), taken by it; stay the caller's.
  OutputSink(Loop& loop, int fd, RecordKind kind, RecordPlaces* places);

  Progress Write(ByteView bytes);
  /// Calls back once, when Write() should get further. Replaces an earlier request.
  void OnWritable(std::function<void()> callback);

  bool is_terminal() const { return kind_ == Kind::kTerminal; }
  /// Both lead to the same pipe, socket or terminal, where their bytes would mix.
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
