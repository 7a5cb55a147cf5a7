// SPDX-License-Identifier: Apache-2.0
// All output of a job: tags lines, writes them to stdout, stderr and files, and returns credit to
// the workers only for what has been written. Decides nothing about the job.
#ifndef HVDRAY_LAUNCHER_REPORT_JOB_OUTPUT_H_
#define HVDRAY_LAUNCHER_REPORT_JOB_OUTPUT_H_

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "launcher/driver/last_error.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/placement.h"
#include "launcher/report/console.h"
#include "launcher/report/output_directory.h"
#include "launcher/report/stream_file.h"
#include "launcher/report/worker_lines.h"
#include "wire/message.h"

namespace hvdray {

/// Settings of the output, from the job's options.
struct JobOutputOptions {
  TagOutput tag = TagOutput::kRank;
  bool is_timestamped = false;
  std::string directory;  ///< --output-filename; empty: none.
  int np = 1;             ///< As asked for: sets the width of rank directories' names.
  /// The worker that our stdin goes to: its unfinished lines may be questions. -1: none.
  int asking_worker = -1;
  int stdout_fd = 1;  ///< Not owned; open as long as the JobOutput lives.
  int stderr_fd = 2;
  /// A plain file that takes both as records (launcher/report/stream_file.h) instead; -1: none. Not
  /// owned.
  int record_fd = -1;
  /// Wall clock for time stamps; tests replace it.
  std::function<std::time_t()> clock = [] { return std::time(nullptr); };
};

/// None may destroy the JobOutput. on_consumed is also called from within OnOutput().
struct JobOutputHandlers {
  /// `bytes` of a worker (stdout and stderr share its window) have reached their destination, or
  /// the destination is gone: return them as credit.
  std::function<void(int rank, uint32_t bytes)> on_consumed;
  /// Once: the reader of our stdout is gone. Later output to it is discarded.
  std::function<void()> on_reader_gone;
  /// Once for each: stdout, stderr or the output directory can't be written whole.
  std::function<void(Status)> on_damaged;
};

/// Owns the queues and the files of --output-filename. Never blocks. Threads: the loop's. SIGPIPE
/// must be ignored in this process.
class JobOutput {
 public:
  /// Creates the output directory with the files of ranks 0..np-1. Errors: kFileUnwritable.
  static Result<std::unique_ptr<JobOutput>> Open(Loop& loop, JobOutputOptions options,
                                                 JobOutputHandlers handlers);
  ~JobOutput();
  JobOutput(const JobOutput&) = delete;
  JobOutput& operator=(const JobOutput&) = delete;

  /// These workers are about to start: restarts their streams and files. Moves the files of an
  /// earlier attempt to that attempt's directory, after its queued output is written.
  void StartGeneration(std::span<const RankInfo> ranks);

  // Elastic jobs: a worker keeps its number while its rank changes.
  /// `worker` is about to start at `rank`. Its output is appended to the files of that rank.
  void StartWorker(int worker, int rank, std::string_view host);
  /// A living worker changes its rank: its lines get another tag and go to other files.
  void MoveWorker(int worker, int rank, std::string_view host);

  /// Output from an agent. `is_end`: once per stream. An unknown rank gets host "".
  void OnOutput(int rank, wire::StreamId stream, std::string bytes, bool is_end);

  /// Prints a line of hvdray itself (adding '\n') to stderr, in order with the workers' lines and
  /// never in the middle of one.
  void Say(std::string_view line);
  /// Shows `text` (one line, no '\n') as the status line at the bottom of a terminal; empty removes
  /// it. No effect unless stderr is a terminal.
  void ShowProgress(std::string_view text) { err().ShowProgress(text); }

  /// Calls `done` once all that has arrived is written to stdout and stderr, or never will be; but
  /// for a held open line. Maybe at once.
  void OnceWritten(std::function<void()> done);

  /// The last lines of a worker's stderr that have arrived.
  std::vector<std::string> LastErrorLines(int rank) const;
  /// The same for its stdout.
  std::vector<std::string> LastOutLines(int rank) const;
  LastWords LastWordsOf(int rank) const {
    LastWords words{LastErrorLines(rank), {}};
    if (words.err.empty()) words.out = LastOutLines(rank);
    return words;
  }
  /// The error in the last lines that have arrived.
  LastError ErrorOf(int rank) const;
  /// Incomplete files of the output directory.
  std::vector<std::string> DamagedFiles() const {
    return directory_ != nullptr ? directory_->damaged() : std::vector<std::string>();
  }
  /// Directories that another run left in the output directory; see OutputDirectory.
  std::vector<std::string> ForeignDirectories() const {
    return directory_ != nullptr ? directory_->foreign_directories() : std::vector<std::string>();
  }
  /// Queued bytes of workers: never more than their credit.
  size_t QueuedBytes() const { return queued_bytes_; }
  /// stdout or stderr takes no more for now (a pager). A held open line does not count.
  bool IsBlocked() const { return out_->is_blocked() || (err_ != nullptr && err_->is_blocked()); }

  /// No more output will come: ends all streams and calls `done` once everything is written, or
  /// when `limit` has passed (nullopt: no limit). ok: everything has reached its destination.
  /// kOutputLost: the limit passed, or something could not be written whole, now or earlier.
  /// kReaderGone: the reader of stdout is gone. (Faults in the last bytes are reported only here.)
  /// May be called again after `done`, for later lines.
  void Drain(std::optional<Duration> limit, std::function<void(Status)> done);

  bool IsStderrTerminal() const { return is_stderr_terminal_; }

 private:
  struct Worker;

  JobOutput(Loop& loop, JobOutputOptions options, JobOutputHandlers handlers,
            std::unique_ptr<OutputDirectory> directory);
  Console& err() { return err_ != nullptr ? *err_ : *out_; }
  std::optional<RecordPlaces>& PlacesOf(wire::StreamId id) {
    return id == wire::StreamId::kStderr ? err_places_ : out_places_;
  }
  Console& ConsoleOf(wire::StreamId id) { return id == wire::StreamId::kStderr ? err() : *out_; }
  Worker& WorkerOf(int rank, std::string_view host = {});
  Console::Handlers HandlersOf(wire::StreamId id);
  size_t Render(ConsoleItem& item, std::string& text);
  bool MayBeAsking(int worker) const {
    return workers_.size() == 1 || worker == options_.asking_worker;
  }
  void AwaitRestOfLine(int rank, wire::StreamId id);
  std::string_view Stamp();
  void OnTrouble(wire::StreamId console, OutputSink::Outcome outcome, int error);
  void OnFileDamaged(Status why);
  void CheckDrained();
  void FinishDrain(Status status);

  Loop& loop_;
  JobOutputOptions options_;
  JobOutputHandlers handlers_;
  std::unique_ptr<OutputDirectory> directory_;
  std::optional<RecordPlaces> out_places_, err_places_;  // With record_fd; written by the consoles.
  std::unique_ptr<Console> out_;
  std::unique_ptr<Console> err_;  // Null: stderr is the same file as stdout and shares its queue.
  bool is_stderr_terminal_ = false;
  std::map<int, Worker> workers_;
  std::pair<int, wire::StreamId> last_writer_{-1, wire::StreamId::kStdout};  // of an item with text
  size_t queued_bytes_ = 0;
  std::time_t stamp_time_ = -1;
  std::string stamp_;
  Status loss_;  // The first loss of output.
  bool is_directory_damaged_ = false;
  Watch directory_trouble_;
  Watch partial_line_;
  std::function<void(Status)> drained_;
  Watch drain_limit_;
  Watch drain_done_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_JOB_OUTPUT_H_
