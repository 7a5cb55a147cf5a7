// Where the driver of a job on Ray speaks while no launcher runs: the job's own log (stderr), which
// one byte that is not text would break for good, and the stream file that the client reads.
#ifndef HVDRAY_LAUNCHER_RAY_DRIVE_LOG_H_
#define HVDRAY_LAUNCHER_RAY_DRIVE_LOG_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "launcher/report/record_file.h"

namespace hvdray {

/// `text` as the job's log takes it: one line of printable ASCII.
std::string AsciiLine(std::string_view text);

/// Threads: one. Not while a launcher writes to the stream file.
class DriveLog {
 public:
  explicit DriveLog(int log_fd) : log_fd_(log_fd) {}

  /// Makes the stream file, mode 0600; what was said before is written to it. Errors:
  /// kFileUnwritable.
  Status Open(const std::string& path);
  int stream_fd() const { return stream_.is_valid() ? stream_.get() : -1; }

  /// "hvdray: text" for the person: to both. is_quiet (-q): to the log only.
  void Say(std::string_view text, bool is_quiet);
  /// To the log only: "hvdray: text".
  void Note(std::string_view text);
  /// A line to the stream file only, as the launcher would write it to stderr.
  void Print(std::string_view line);
  /// Keeps proxies from taking a silent stream for a dead one: a record of nothing.
  void Pulse();
  /// Goes on in a new file when this one is large: a client whose connection is cut reads no more
  /// than one again. When all are larger than `limit_bytes`, the oldest goes; a short file in its
  /// place says so.
  void Roll(uint64_t limit_bytes);
  /// The stream's last record. Errors: kOutputLost.
  Status End(int exit_code, const Status& error);

 private:
  void Append(RecordKind kind, std::string_view bytes);

  void DropOldest();

  const int log_fd_;
  std::string path_;
  UniqueFd stream_;  // keeps its number: a launcher writes there, too
  uint32_t file_ = 0;
  std::deque<uint64_t> kept_;  // sizes of the files before it that are there
  uint64_t kept_bytes_ = 0;
  uint64_t dropped_bytes_ = 0;
  std::vector<std::string> early_;  // Lines from before Open().
  int lost_error_ = 0;              // errno of the first record that could not be written.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_DRIVE_LOG_H_
