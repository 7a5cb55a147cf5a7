// SPDX-License-Identifier: Apache-2.0
// The output of a Ray job's driver while no launcher runs: the job's own log (stderr), which a
// single non-text byte would break for good, and the stream file that the client reads.
#ifndef HVDRAY_CLUSTER_RAY_RAY_LAUNCH_LOG_H_
#define HVDRAY_CLUSTER_RAY_RAY_LAUNCH_LOG_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/status.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/report/stream_file.h"

namespace hvdray {

/// `text` as one line of printable ASCII, which is all that the job's log can hold.
std::string AsciiLine(std::string_view text);

/// Writes block. Threads: one. Do not use while a launcher writes to the stream file.
class RayLaunchLog {
 public:
  explicit RayLaunchLog(int log_fd) : log_fd_(log_fd) {}

  /// Creates the stream file, mode 0600, and writes the lines from before to it. Errors:
  /// kFileUnwritable.
  Status Open(const std::string& path);
  int stream_fd() const { return stream_.is_valid() ? stream_.get() : -1; }

  /// Prints "hvdray: text" to both. is_quiet (-q): to the log only.
  void Say(std::string_view text, bool is_quiet);
  /// Prints "hvdray: text" to the log only.
  void Note(std::string_view text);
  /// Prints a line to the stream file only, as the launcher would to stderr.
  void Print(std::string_view line);
  /// Writes a message for the client of a session. Errors: kOutputLost.
  Status Control(ByteView message);
  /// Writes an empty record, so that proxies do not cut a silent stream.
  void Pulse();
  /// Continues in a new file when this one is large, so that a client whose connection was cut
  /// reads at most one file again. When all files exceed `limit_bytes`, replaces the oldest by a
  /// short note.
  void Roll(uint64_t limit_bytes);
  /// Writes the stream's last record. Errors: kOutputLost.
  Status End(int exit_code, const Status& error);

 private:
  void Append(RecordKind kind, std::string_view bytes);

  void DropOldest();

  const int log_fd_;
  std::string path_;
  UniqueFd stream_;  // its number never changes: a launcher writes there, too
  uint32_t file_ = 0;
  std::deque<uint64_t> kept_;  // sizes of the earlier files that still exist
  uint64_t kept_bytes_ = 0;
  uint64_t dropped_bytes_ = 0;
  uint64_t control_bytes_ = 0;
  std::vector<std::string> early_;  // Lines from before Open().
  int lost_error_ = 0;              // errno of the first failed write.
};

// The job file of a job on Ray, from its second package, unpacked.

/// Reads the job file in directory `directory`. Blocks. Errors: kFileUnreadable, and those of
/// ParseRayJobFile(), with its path.
Result<RayJobFile> LoadJob(const std::string& directory);

/// Opens what a client of `hvdray serve` says in this job; an invalid descriptor if the job has no
/// such client. Errors: kFileUnreadable.
Result<UniqueFd> OpenControl(const std::string& directory);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_LAUNCH_LOG_H_
