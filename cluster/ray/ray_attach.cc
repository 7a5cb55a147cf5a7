// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_attach.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/blocking_pool.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/report_file.h"
#include "cluster/ray/job_package.h"
#include "cluster/ray/ray_rank_files.h"
#include "cluster/ray/ray_stream.h"
#include "launcher/engine/signals.h"
#include "launcher/job/exit_code.h"
#include "launcher/report/output_sink.h"

namespace hvdray {
namespace {

// Interval for deadlines; everything else is an event.
constexpr Duration kTick = std::chrono::milliseconds(500);
constexpr size_t kBusyBytes = size_t{1} << 20;  // of unread output
constexpr Duration kPresencePeriod = std::chrono::seconds(15);

/// Our stdout and stderr: writes the driver's bytes unchanged, without blocking the loop.
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

  /// See RayJobClient.
  void OnceWritten(std::function<void()> done);

  /// Bytes not yet taken by a slow reader.
  size_t waiting() const { return streams_[0].text.size() + streams_[1].text.size(); }

 private:
  struct Stream {
    int fd = -1;
    std::unique_ptr<OutputSink> sink;
    std::string text;       // waits
    uint64_t appended = 0;  // bytes, those that wait among them
    bool is_waiting = false;
    bool is_broken = false;
    bool is_at_line_start = true;
  };
  void Append(Stream& stream, ByteView bytes);
  void Flush(Stream& stream);
  void Break(Stream& stream, const OutputSink::Progress& progress);
  bool IsWritten(const std::array<uint64_t, 2>& until) const;

  Loop& loop_;
  Handlers handlers_;
  std::array<Stream, 2> streams_;  // stdout, stderr
  // By what is to be written of each.
  std::deque<std::pair<std::array<uint64_t, 2>, std::function<void()>>> awaited_;
  Watch trouble_;  // delivers Break()'s report
  Status lost_;    // the first
};

RayOutput::RayOutput(Loop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    Stream& stream = streams_.at(fd == STDOUT_FILENO ? 0 : 1);
    stream.fd = fd;
    stream.sink = std::make_unique<OutputSink>(loop, fd);
  }
}

void RayOutput::Write(RecordKind kind, ByteView bytes) {
  Append(streams_.at(kind == RecordKind::kStdout ? 0 : 1), bytes);
}

void RayOutput::Say(std::string_view line) {
  Stream& stream = streams_[1];
  Append(stream, fmt::format("{}{}\n", stream.is_at_line_start ? "" : "\n", line));
}

void RayOutput::Append(Stream& stream, ByteView bytes) {
  if (bytes.empty() || stream.is_broken) return;
  stream.is_at_line_start = bytes.back() == '\n';
  stream.text.append(bytes);
  stream.appended += bytes.size();
  if (stream.is_waiting) {
    handlers_.on_waiting();
  } else {
    Flush(stream);
  }
}

void RayOutput::Flush(Stream& stream) {
  stream.is_waiting = false;
  const OutputSink::Progress progress = stream.sink->Write(stream.text);
  switch (progress.outcome) {
    case OutputSink::Outcome::kWritten:
      stream.text.clear();
      break;
    case OutputSink::Outcome::kMustWait:
      stream.text.erase(0, progress.written);
      stream.is_waiting = true;
      stream.sink->OnWritable([this, &stream] { Flush(stream); });
      break;
    case OutputSink::Outcome::kReaderGone:
    case OutputSink::Outcome::kFailed:
      Break(stream, progress);
      break;
  }
  while (!awaited_.empty() && IsWritten(awaited_.front().first)) {
    const std::function<void()> done = std::move(awaited_.front().second);
    awaited_.pop_front();
    done();
  }
  handlers_.on_waiting();
}

bool RayOutput::IsWritten(const std::array<uint64_t, 2>& until) const {
  const auto is_written = [](const Stream& stream, uint64_t bytes) {
    return stream.appended - stream.text.size() >= bytes;
  };
  return is_written(streams_[0], until[0]) && is_written(streams_[1], until[1]);
}

void RayOutput::OnceWritten(std::function<void()> done) {
  const std::array until = {streams_[0].appended, streams_[1].appended};
  if (IsWritten(until)) return done();
  awaited_.emplace_back(until, std::move(done));
}

void RayOutput::Break(Stream& stream, const OutputSink::Progress& progress) {
  stream.is_broken = true;
  stream.text.clear();
  const bool is_stdout = stream.fd == STDOUT_FILENO;
  const bool is_gone = progress.outcome == OutputSink::Outcome::kReaderGone;
  if (is_gone && !is_stdout) return;
  Status why = OutputLost(is_stdout ? "stdout" : "stderr", progress.error);
  if (!is_gone && lost_.ok()) lost_ = why;
  trouble_ = loop_.After(Duration::zero(), [this, is_gone, why = std::move(why)] {
    if (is_gone) {
      handlers_.on_reader_gone();
    } else {
      handlers_.on_lost(why);
    }
  });
}

/// A local copy of a file of the driver that is written while the job runs: its events. Loop and
/// pool outlive it. Writes block.
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

RayLiveFile::RayLiveFile(Loop& loop, BlockingPool& pool, RayAccess access,
                         const std::string& job_id, RayWantedFile file)
    : file_(std::move(file)),
      stream_(
          loop, pool, std::move(access), job_id, file_.suffix,
          {.on_bytes = [this](const std::string& bytes) { OnBytes(bytes); }, .on_rest = nullptr}) {
  Result<UniqueFd> out = OpenForWriting(file_.path);
  if (out.ok()) {
    file_.out = std::make_shared<UniqueFd>(std::move(out).value());
  } else {
    lost_ = std::move(out).status();
  }
}

void RayLiveFile::Follow(const std::string& node) {
  if (lost_.ok()) stream_.Follow(node);
}

void RayLiveFile::OnBytes(const std::string& bytes) {
  if (!lost_.ok()) return;
  lost_ = WriteAll(file_.out->get(), bytes).WithContext(file_.path);
  if (!lost_.ok()) lost_ = std::move(lost_).WithCode(ErrorCode::kOutputLost);
}

Result<RayWantedFile> RayLiveFile::End() {
  stream_.Stop();
  file_.begin = stream_.offset();
  if (!lost_.ok()) return lost_;
  return file_;
}

/// Calls to Ray, one after another over one connection, off the loop.
class RayCalls {
 public:
  RayCalls(BlockingPool& pool, RayAccess access)
      : pool_(pool), client_(std::make_shared<DashboardClient>(std::move(access))) {}
  ~RayCalls() { client_->Cancel(); }
  RayCalls(const RayCalls&) = delete;
  RayCalls& operator=(const RayCalls&) = delete;

  template <typename T>
  void Run(std::function<T(DashboardClient&)> call, std::function<void(T)> done) {
    waiting_.push_back([this, call = std::move(call), done = std::move(done)] {
      pool_.Run<std::shared_ptr<T>>(
          // Shared, since what is posted to the loop must be copyable.
          [client = client_, call] { return std::make_shared<T>(call(*client)); },
          [this, done](std::shared_ptr<T> result) {
            is_running_ = false;
            Next();
            done(std::move(*result));
          });
    });
    Next();
  }

 private:
  void Next() {
    if (is_running_ || waiting_.empty()) return;
    is_running_ = true;
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }

  BlockingPool& pool_;
  const std::shared_ptr<DashboardClient> client_;  // shared with the call that runs
  std::deque<std::function<void()>> waiting_;
  bool is_running_ = false;
};

/// Written while the job runs; the other files are written at its end.
bool IsLive(const RayWantedFile& file) { return file.suffix == "events.jsonl"; }

/// Fetches the missing rest of `file` from the driver's log directory.
Status FetchFile(DashboardClient& client, const std::string& node, const std::string& id,
                 const RayWantedFile& file) {
  const auto failed = [&file](Status why) {
    return std::move(why).WithContext(fmt::format("fetch {}", file.path));
  };
  UniqueFd opened;
  if (file.out == nullptr) {
    HVDRAY_ASSIGN_OR_RETURN(opened, OpenForWriting(file.path));
  }
  const int out = file.out == nullptr ? opened.get() : file.out->get();
  uint64_t to_skip = file.begin;
  Status written;
  Status got = client.ReadLog(node, RayStreamName(id, file.suffix), [&](ByteView piece) {
    const auto skipped = static_cast<size_t>(std::min<uint64_t>(to_skip, piece.size()));
    to_skip -= skipped;
    written = WriteAll(out, piece.substr(skipped));
    return written.ok();
  });
  if (!written.ok()) return failed(std::move(written).WithCode(ErrorCode::kOutputLost));
  return got.ok() ? Status() : failed(std::move(got));
}

}  // namespace

class RayJobClient::Attachment {
 public:
  Attachment(Loop& loop, RayAttachOptions options)
      : loop_(loop),
        options_(std::move(options)),
        pool_(loop),
        asks_(pool_, options_.access.Copy()),
        orders_(pool_, options_.access.Copy()),
        output_(loop, {.on_reader_gone = [this] { Do(plan_.OnReaderGone()); },
                       .on_lost = [this](const Status& why) { plan_.OnOutputLost(why); },
                       .on_waiting = [this] { OnWaiting(); }}),
        stream_(loop, pool_, options_.access.Copy(), options_.plan.id, "stream",
                {.on_bytes = [this](const std::string& bytes) { OnBytes(bytes); },
                 .on_rest = [this](const std::string& line) { Do(plan_.OnRest(line)); }}),
        rank_files_(options_.output_directory),
        reader_({.on_output = [this](RecordKind kind, ByteView bytes) { OnOutput(kind, bytes); },
                 .on_end = [this](StreamEnd end) { OnEnd(std::move(end)); },
                 .on_places = [this](PlacesOfRecord record) { OnPlaces(std::move(record)); },
                 .on_next = [this](uint32_t file) { next_file_ = file; },
                 .on_control = [this](ByteView message,
                                      uint64_t offset) { return OnControl(message, offset); }}),
        plan_(options_.plan, loop.Now()) {
    for (const RayWantedFile& file : options_.files) {
      if (!IsLive(file)) continue;
      live_.push_back(std::make_unique<RayLiveFile>(loop, pool_, options_.access.Copy(),
                                                    options_.plan.id, file));
    }
  }

  int Run() {
    const UserSignals signals(
        loop_, {.on_stop = [this](int signo) { OnSignal(signo); },
                .on_pause =
                    [this](const std::function<void()>& stop_now) {
                      Say(LogLevel::kInfo,
                          fmt::format("paused: job {} {}; 'fg' or 'kill -CONT {}' continues this",
                                      options_.plan.id,
                                      options_.tells_presence
                                          ? "is stopped if it misses its client for long"
                                          : "continues in the cluster",
                                      ::getpid()));
                      stop_now();
                    },
                .on_resume = [] {},
                .on_forward = nullptr});
    options_.held_signals.reset();
    const Watch tick = loop_.Every(kTick, [this] { Do(plan_.OnTick(loop_.Now())); });
    Do(plan_.Begin(options_.likely_node));
    if (options_.is_stopped_at_once) Do(plan_.StopNow());
    if (options_.tells_presence) {
      TellPresence();
      presence_ = loop_.Every(kPresencePeriod, [this] { TellPresence(); });
    }
    Ask();
    loop_.Run();
    stream_.Stop();
    if (!output_.lost().ok()) plan_.OnOutputLost(output_.lost());
    const FollowPlan::Outcome& outcome = plan_.outcome();
    if (!outcome.error.ok() && outcome.error.code() != ErrorCode::kReaderGone) {
      error_ = outcome.error;
      (void)Fail(options_.command, error_);
    }
    if (!fetched_.ok()) {
      (void)Fail(options_.command, fetched_);
      if (error_.ok()) error_ = fetched_;
    }
    if (!control_fault_.ok()) error_ = control_fault_;  // has been printed
    return outcome.exit_code == 0 && !fetched_.ok() ? kHvdrayFailed : outcome.exit_code;
  }

  void Stop() {
    constexpr int kForced = 2;
    if (!plan_.is_done() && stops_ < kForced) {
      ++stops_;
      Do(plan_.OnSignalTo(SIGTERM));
    }
  }

  void SetBusy(bool is_busy) {
    is_control_busy_ = is_busy;
    OnWaiting();
  }

  void OnceWritten(std::function<void()> done) { output_.OnceWritten(std::move(done)); }

  const std::optional<StreamEnd>& end() const { return end_; }
  const Status& error() const { return error_; }
  int stop_signo() const { return signo_ != 0 || stops_ > 0 ? signo_ : plan_.stop_signo(); }

 private:
  void Say(LogLevel level, std::string_view text) {
    output_.Say(NoticeLine(level, "hvdray " + options_.command, text));
  }

  void Do(const FollowPlan::Steps& steps) {
    for (const FollowPlan::Step& step : steps) {
      switch (step.kind) {
        case FollowPlan::Step::Kind::kSay:
          Say(LogLevel::kInfo, step.text);
          break;
        case FollowPlan::Step::Kind::kFollow:
          stream_.Follow(step.text);
          for (const auto& file : live_) file->Follow(step.text);
          break;
        case FollowPlan::Step::Kind::kReadRest:
          stream_.ReadRest();
          break;
        case FollowPlan::Step::Kind::kStop:
          SendStop();
          break;
        case FollowPlan::Step::Kind::kForceStop:
          SendForceStop();
          break;
        case FollowPlan::Step::Kind::kFinish:
          next_ask_.Cancel();
          Fetch();
          break;
        case FollowPlan::Step::Kind::kLeave:
          loop_.Stop();
          break;
      }
    }
  }

  void OnOutput(RecordKind kind, ByteView bytes) {
    output_.Write(kind, bytes);
    rank_files_.OnOutput(kind, bytes);
    CheckRankFiles();
  }

  void OnPlaces(PlacesOfRecord record) {
    rank_files_.OnPlaces(std::move(record));
    CheckRankFiles();
  }

  void CheckRankFiles() {
    if (rank_files_.lost().ok() || is_loss_told_) return;
    is_loss_told_ = true;
    // Report it now: the user may still free some space.
    Say(LogLevel::kError, rank_files_.lost().message());
    plan_.OnOutputLost(rank_files_.lost());
  }

  Status OnControl(ByteView message, uint64_t offset) {
    if (!options_.on_control || !control_fault_.ok()) return {};
    if (offset == control_bytes_) {
      control_bytes_ += message.size();
      control_fault_ = options_.on_control(message);
    } else {
      control_fault_ = {ErrorCode::kOutputLost,
                        fmt::format("the cluster has dropped {} bytes of what workers sent",
                                    offset - control_bytes_),
                        "raise --ray-log-limit"};
    }
    if (control_fault_.ok()) return {};
    Say(LogLevel::kError, control_fault_.message());
    plan_.OnOutputLost(control_fault_);
    Stop();
    return {};
  }

  void OnBytes(const std::string& bytes) {
    if (const Status fault = reader_.Feed(bytes); !fault.ok() && stream_fault_.ok()) {
      stream_fault_ = fault;
      Say(LogLevel::kError, fault.ToString());
      plan_.OnOutputLost(fault);
    }
    if (const auto file = std::exchange(next_file_, std::nullopt)) stream_.GoOnIn(*file);
  }

  void OnEnd(StreamEnd end) {
    end_ = end;
    Do(plan_.OnEnd(std::move(end), loop_.Now()));
    // We are in the stream's callback, which still uses the stream.
    if (!plan_.is_done()) next_ask_ = loop_.After(Duration::zero(), [this] { Ask(); });
  }

  void OnWaiting() {
    stream_.SetBusy(output_.waiting() > kBusyBytes || is_control_busy_);
    if (is_fetched_) LeaveWhenWritten();
  }

  void OnSignal(int signo) {
    if (signo_ == 0) signo_ = signo;
    // Only a reader that does not read is left.
    if (plan_.is_done()) return loop_.Stop();
    Do(plan_.OnSignalTo(signo));
  }

  void Ask() {
    if (is_asking_ || plan_.is_done()) return;
    is_asking_ = true;
    using Answer = Result<std::optional<RayJob>>;
    asks_.Run<Answer>(
        [id = options_.plan.id](DashboardClient& client) { return client.GetJob(id); },
        [this](Answer answer) { OnAnswer(std::move(answer)); });
  }

  void OnAnswer(Result<std::optional<RayJob>> answer) {
    is_asking_ = false;
    if (!answer.ok()) {
      Do(plan_.OnNoAnswer(answer.status(), loop_.Now()));
    } else if (!answer->has_value()) {
      Do(plan_.OnJobUnknown());
    } else {
      Do(plan_.OnJob(**answer, loop_.Now()));
    }
    if (plan_.is_done()) return;
    next_ask_ = loop_.After(plan_.AskPause(), [this] { Ask(); });
  }

  void SendStop() {
    orders_.Run<Result<bool>>(
        [id = options_.plan.id](DashboardClient& client) { return client.StopJob(id); },
        [this](const Result<bool>& stopped) {
          if (!stopped.ok()) Do(plan_.OnStopFailed(stopped.status()));
        });
  }

  void TellPresence() {
    if (plan_.is_done()) return;
    orders_.Run<Status>([name = PresencePackageName(options_.plan.id)](
                            DashboardClient& client) { return client.PutPackage(name, "here"); },
                        [](const Status& sent) {
                          // The next one may succeed; the driver tolerates several failures.
                          if (!sent.ok())
                            Log(LogLevel::kInfo, "ray", "presence: {}", sent.message());
                        });
  }

  void SendForceStop() {
    orders_.Run<Status>([name = ForceStopPackageName(options_.plan.id)](
                            DashboardClient& client) { return client.PutPackage(name, "now"); },
                        [this](const Status& sent) {
                          if (sent.ok() || plan_.is_done()) return;
                          Say(LogLevel::kError, sent.message());
                        });
  }

  void Fetch() {
    // Without the driver's last record there are no complete reports.
    if (options_.files.empty() || !reader_.is_at_end()) return Fetched({});
    std::vector<RayWantedFile> files;
    Status lost;
    for (const RayWantedFile& file : options_.files) {
      if (!IsLive(file)) files.push_back(file);
    }
    for (const auto& live : live_) {
      Result<RayWantedFile> rest = live->End();
      if (lost.ok()) lost = rest.status();
      if (rest.ok()) files.push_back(std::move(rest).value());
    }
    orders_.Run<Status>(
        [node = stream_.node(), id = options_.plan.id, files, lost](DashboardClient& client) {
          Status first = lost;
          for (const RayWantedFile& file : files) {
            Status status = FetchFile(client, node, id, file);
            if (first.ok()) first = std::move(status);
          }
          return first;
        },
        [this](Status status) { Fetched(std::move(status)); });
  }

  void Fetched(Status status) {
    fetched_ = std::move(status);
    is_fetched_ = true;
    LeaveWhenWritten();
  }

  void LeaveWhenWritten() {
    if (output_.waiting() == 0) loop_.Stop();
  }

  Loop& loop_;
  RayAttachOptions options_;
  BlockingPool pool_;  // outlives what runs in it
  RayCalls asks_;
  RayCalls orders_;
  RayOutput output_;
  RayStream stream_;
  std::vector<std::unique_ptr<RayLiveFile>> live_;
  RayRankFiles rank_files_;
  RecordReader reader_;
  std::optional<uint32_t> next_file_;  // the stream's next file
  FollowPlan plan_;
  Watch next_ask_;
  Watch presence_;
  bool is_asking_ = false;
  bool is_fetched_ = false;
  bool is_loss_told_ = false;
  bool is_control_busy_ = false;
  int stops_ = 0;               // asked for by Stop()
  int signo_ = 0;               // the first signal of the system
  uint64_t control_bytes_ = 0;  // of messages
  Status control_fault_;
  std::optional<StreamEnd> end_;
  Status error_;
  Status fetched_;
  Status stream_fault_;
};

RayJobClient::RayJobClient(Loop& loop, RayAttachOptions options)
    : attachment_(std::make_unique<Attachment>(loop, std::move(options))) {}
RayJobClient::~RayJobClient() = default;
int RayJobClient::Run() { return attachment_->Run(); }
void RayJobClient::Stop() { attachment_->Stop(); }
void RayJobClient::SetBusy(bool is_busy) { attachment_->SetBusy(is_busy); }
void RayJobClient::OnceWritten(std::function<void()> done) {
  attachment_->OnceWritten(std::move(done));
}
const std::optional<StreamEnd>& RayJobClient::end() const { return attachment_->end(); }
const Status& RayJobClient::error() const { return attachment_->error(); }
int RayJobClient::stop_signo() const { return attachment_->stop_signo(); }

Status CheckWantedFiles(const std::vector<RayWantedFile>& files) {
  for (const RayWantedFile& file : files) {
    HVDRAY_RETURN_IF_ERROR(OpenForWriting(file.path).status());
  }
  return {};
}

Status CheckOutputDirectory(const std::string& path, int np) {
  if (path.empty()) return {};
  if (np > 0) return OutputDirectory::Create(path, np).status();
  HVDRAY_RETURN_IF_ERROR(MakeDirs(path));
  if (::access(path.c_str(), W_OK | X_OK) == 0) return {};
  return ErrnoStatus(path, errno).WithCode(ErrorCode::kFileUnwritable);
}

int AttachToRayJob(RayAttachOptions options) {
  const std::string command = options.command;
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(command, loop.status());
  return RayJobClient(**loop, std::move(options)).Run();
}

}  // namespace hvdray
