// SPDX-License-Identifier: Apache-2.0
// When a worker's error began, and what it says: ErrorClock from tracebacks on stderr,
// ErrorFile from the file that torch's error handler writes. Memory is bounded for any input.
#ifndef HVDRAY_AGENT_WORKER_ERROR_H_
#define HVDRAY_AGENT_WORKER_ERROR_H_

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/types.h"

namespace hvdray {

/// Notes the arrival of a traceback's first line on one worker's stderr. Pure. Threads: one.
class ErrorClock {
 public:
  /// The next bytes of the worker's stderr, read at `now`.
  void Feed(ByteView bytes, TimePoint now);
  /// When the last error began; nullopt: no traceback yet. Chained tracebacks (within 1 s) are one
  /// error, which began with the first.
  std::optional<TimePoint> erred() const { return erred_; }

 private:
  std::string tail_;  // The end of earlier bytes: a first line may arrive in two parts.
  std::optional<TimePoint> erred_;
  TimePoint last_;
};

/// The file in which a worker may record its error: TORCHELASTIC_ERROR_FILE, as with torchrun. It
/// exists in memory, under a descriptor of the agent, so that no kill can leave it behind.
class ErrorFile {
 public:
  struct Record {
    std::string message;  ///< UTF-8, at most wire::kMaxRecordedError bytes.
    Duration age;         ///< Time since the last write.
  };

  /// Errors: those of memfd_create(2), as ErrnoStatus() maps them.
  static Result<ErrorFile> Make();

  /// The path for the worker, which must run as the same user as this process. Valid while this
  /// object lives.
  std::string path() const;
  /// The message that torch's `record` wrote, or else the file's plain text; nullopt: empty. Does
  /// not block.
  std::optional<Record> Read() const;

 private:
  explicit ErrorFile(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_WORKER_ERROR_H_
