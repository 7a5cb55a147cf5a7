// All output of a job on its way to the user: tags lines, writes them to stdout, stderr and files,
// and gives credit back to the workers only for what has been written. Decides nothing about the
// job.
#ifndef HVDRAY_LAUNCHER_REPORT_JOB_OUTPUT_H_
#define HVDRAY_LAUNCHER_REPORT_JOB_OUTPUT_H_

#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "launcher/driver/last_error.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/placement.h"
#include "launcher/report/last_lines.h"
#include "wire/message.h"

namespace hvdray {

struct JobOutputOptions {
  TagOutput tag = TagOutput::kRank;
  bool is_timestamped = false;
  std::string folder;  ///< --output-filename; empty: none.
  int np = 1;          ///< As asked for: sets the width of rank folders.
  int stdout_fd = 1;   ///< Stay the caller's; must be open as long as the JobOutput lives.
  int stderr_fd = 2;
  /// A plain file that takes both as records (launcher/report/record_file.h) in their place; -1:
  /// none. Stays the caller's.
  int record_fd = -1;
  /// Wall clock for time stamps; a test gives its own.
  std::function<std::time_t()> clock = [] { return std::time(nullptr); };
};

/// Called from the loop; on_consumed also from within OnOutput(), the others never from within a
/// call. None of them may destroy the JobOutput.
struct JobOutputHandlers {
  /// `bytes` that a worker wrote (stdout and stderr share its window) are at their destination, or
  /// their destination is gone: return them as credit.
  std::function<void(int rank, uint32_t bytes)> on_consumed;
  /// Nobody reads our stdout any more. Once. What still comes for it is swallowed.
  std::function<void()> on_reader_gone;
  /// stdout, stderr or the output folder can't be written whole. Once for each of the three.
  std::function<void(Status)> on_damaged;
};

/// Threads: the loop's. SIGPIPE must be ignored in this process.
class JobOutput {
 public:
  /// Makes the output folder with the files of ranks 0..np-1. Errors: kFileUnwritable.
  static Result<std::unique_ptr<JobOutput>> Open(Loop& loop, JobOutputOptions options,
                                                 JobOutputHandlers handlers);
  virtual ~JobOutput() = default;

  /// These workers are about to start: begins their streams and files anew; what is in the files
  /// moves to a folder of the attempt that wrote it. What is still queued of that is written
  /// before.
  virtual void StartGeneration(std::span<const RankInfo> ranks) = 0;

  // Elastic jobs, where a worker is named by a number that it keeps while its rank changes.
  /// This one is about to start at `rank`. Its output follows in the files of that rank what others
  /// had written there.
  virtual void StartWorker(int worker, int rank, std::string_view host) = 0;
  /// A living one has another rank from now on: the tag of its lines, and its files.
  virtual void MoveWorker(int worker, int rank, std::string_view host) = 0;

  /// What an agent sent. `is_end` comes once a stream. Unknown ranks are taken as on host "".
  virtual void OnOutput(int rank, wire::StreamId stream, std::string bytes, bool is_end) = 0;

  /// A line of ours (its '\n' is added) for stderr, in order with the workers' lines there and
  /// never in the middle of one.
  virtual void Say(std::string_view line) = 0;
  /// Shows `text` (one line, no '\n') as the line that is being rewritten at the bottom of a
  /// terminal; empty takes it away. Nothing where stderr is no terminal.
  virtual void ShowProgress(std::string_view text) = 0;

  /// The last lines of a worker's stderr, as far as they have arrived.
  virtual std::vector<std::string> LastErrorLines(int rank) const = 0;
  /// The same of its stdout.
  virtual std::vector<std::string> LastOutLines(int rank) const = 0;
  LastWords LastWordsOf(int rank) const {
    LastWords words{LastErrorLines(rank), {}};
    if (words.err.empty()) words.out = LastOutLines(rank);
    return words;
  }
  /// What they say of its end, as far as they have arrived.
  virtual LastError ErrorOf(int rank) const = 0;
  /// Files of the output folder that are not whole.
  virtual std::vector<std::string> DamagedFiles() const = 0;
  /// Folders in the output folder that another run has left there; see OutputFolder.
  virtual std::vector<std::string> StrangersInFolder() const = 0;
  /// Bytes of workers that are held here: not more than the credit that they were given.
  virtual size_t QueuedBytes() const = 0;
  /// stdout or stderr takes no more for now (a pager). An open line that is held is no block.
  virtual bool IsBlocked() const = 0;

  /// No more output will come: ends all streams and calls `done` (which may destroy this) once
  /// everything is written, or when `limit` has passed (nullopt: waits for the reader as long as it
  /// takes). ok: all of it is at its destinations. kOutputLost: the limit passed, or something
  /// could not be written whole, now or earlier. kReaderGone: the same for the reader of stdout.
  /// (What breaks in the very last bytes is told here only.) May be called again after `done`, for
  /// what was said since.
  virtual void Drain(std::optional<Duration> limit, std::function<void(Status)> done) = 0;

  virtual bool IsStderrTerminal() const = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_JOB_OUTPUT_H_
