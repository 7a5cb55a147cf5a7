#include "launcher/report/job_output.h"

#include <fmt/format.h>

#include <map>

#include "launcher/report/console.h"
#include "launcher/report/line_tagger.h"
#include "launcher/report/output_folder.h"
#include "launcher/report/record_places.h"

namespace hvdray {
namespace {

using wire::StreamId;

// A worker that has written part of a line and no more for so long may be asking something.
constexpr Duration kPartialLineDelay = std::chrono::milliseconds(100);

// One stream of a worker. The tagger works in the order of writing, which lags behind arrival.
struct Stream {
  Stream(std::string tag, int rank) : tagger(std::move(tag)), place(rank) {}
  LineTagger tagger;
  int place;  // the rank whose files it writes to
  bool is_ended = false;
};

struct Worker {
  Worker(TagOutput mode, int rank, std::string_view host)
      : out(TagText(mode, rank, host, StreamId::kStdout), rank),
        err(TagText(mode, rank, host, StreamId::kStderr), rank) {}
  Stream& Of(StreamId id) { return id == StreamId::kStderr ? err : out; }
  Stream out;
  Stream err;
  LastLines last_lines;
  // stdout is data, and may be a flood: its end is kept as it came and cut into lines when asked.
  void KeepTail(ByteView bytes);
  std::string out_tail;
};

void Worker::KeepTail(ByteView bytes) {
  if (bytes.size() >= LastLines::kMaxBytes) {
    out_tail = bytes.substr(bytes.size() - LastLines::kMaxBytes);
    return;
  }
  out_tail += bytes;
  if (out_tail.size() > 2 * LastLines::kMaxBytes) {
    out_tail.erase(0, out_tail.size() - LastLines::kMaxBytes);
  }
}

class JobOutputImpl final : public JobOutput {
 public:
  JobOutputImpl(Loop& loop, JobOutputOptions options, JobOutputHandlers handlers,
                std::unique_ptr<OutputFolder> folder);
  void StartGeneration(std::span<const RankInfo> ranks) override;
  void StartWorker(int worker, int rank, std::string_view host) override;
  void MoveWorker(int worker, int rank, std::string_view host) override;
  void OnOutput(int rank, StreamId stream, std::string bytes, bool is_end) override;
  void Say(std::string_view line) override;
  void ShowProgress(std::string_view text) override { err().ShowProgress(text); }
  std::vector<std::string> LastErrorLines(int rank) const override;
  std::vector<std::string> LastOutLines(int rank) const override;
  LastError ErrorOf(int rank) const override;
  std::vector<std::string> DamagedFiles() const override {
    return folder_ != nullptr ? folder_->damaged() : std::vector<std::string>();
  }
  size_t QueuedBytes() const override { return queued_bytes_; }
  bool IsBlocked() const override {
    return out_->is_blocked() || (err_ != nullptr && err_->is_blocked());
  }
  std::vector<std::string> StrangersInFolder() const override {
    return folder_ != nullptr ? folder_->strangers() : std::vector<std::string>();
  }
  void Drain(std::optional<Duration> limit, std::function<void(Status)> done) override;
  bool IsStderrTerminal() const override { return is_stderr_terminal_; }

 private:
  Console& err() { return err_ != nullptr ? *err_ : *out_; }
  std::optional<RecordPlaces>& PlacesOf(StreamId id) {
    return id == StreamId::kStderr ? err_places_ : out_places_;
  }
  Console& ConsoleOf(StreamId id) { return id == StreamId::kStderr ? err() : *out_; }
  Worker& WorkerOf(int rank, std::string_view host = {});
  Console::Handlers HandlersOf(StreamId id);
  size_t Render(ConsoleItem& item, std::string& text);
  void AwaitRestOfLine(int rank, StreamId id);
  std::string_view Stamp();
  void OnTrouble(StreamId console, OutputSink::Outcome outcome, int error);
  void OnFileDamaged(Status why);
  void CheckDrained();
  void FinishDrain(Status status);

  Loop& loop_;
  JobOutputOptions options_;
  JobOutputHandlers handlers_;
  std::unique_ptr<OutputFolder> folder_;
  std::optional<RecordPlaces> out_places_, err_places_;  // With record_fd; the consoles write them.
  std::unique_ptr<Console> out_;
  std::unique_ptr<Console> err_;  // Null: stderr leads where stdout does, and shares its queue.
  bool is_stderr_terminal_ = false;
  std::map<int, Worker> workers_;
  size_t queued_bytes_ = 0;
  std::time_t stamp_time_ = -1;
  std::string stamp_;
  Status loss_;  // The first thing that was not written whole.
  bool is_folder_damaged_ = false;
  Watch folder_trouble_;
  Watch partial_line_;
  std::function<void(Status)> drained_;
  Watch drain_limit_;
  Watch drain_done_;
};

JobOutputImpl::JobOutputImpl(Loop& loop, JobOutputOptions options, JobOutputHandlers handlers,
                             std::unique_ptr<OutputFolder> folder)
    : loop_(loop),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      folder_(std::move(folder)) {
  const auto open = [&](int fd, RecordKind kind, std::optional<RecordPlaces>& places) {
    const int file = options_.record_fd;
    if (file < 0) return std::make_unique<OutputSink>(loop, fd);
    return std::make_unique<OutputSink>(loop, file, kind, &places.emplace(kind, options_.np));
  };
  auto out = open(options_.stdout_fd, RecordKind::kStdout, out_places_);
  auto err = open(options_.stderr_fd, RecordKind::kStderr, err_places_);
  is_stderr_terminal_ = err->is_terminal();
  // Two queues into one pipe would tear each other's lines.
  const bool is_shared = out->IsSamePlace(*err);
  out_ = std::make_unique<Console>(loop, std::move(out), HandlersOf(StreamId::kStdout));
  if (!is_shared) {
    err_ = std::make_unique<Console>(loop, std::move(err), HandlersOf(StreamId::kStderr));
  }
}

Console::Handlers JobOutputImpl::HandlersOf(StreamId id) {
  Console::Handlers handlers;
  handlers.render = [this](ConsoleItem& item, std::string& text) { return Render(item, text); };
  handlers.on_consumed = [this](int rank, size_t bytes) {
    queued_bytes_ -= bytes;
    handlers_.on_consumed(rank, static_cast<uint32_t>(bytes));
  };
  handlers.on_trouble = [this, id](OutputSink::Outcome outcome, int error) {
    OnTrouble(id, outcome, error);
  };
  handlers.on_idle = [this] { CheckDrained(); };
  return handlers;
}

Worker& JobOutputImpl::WorkerOf(int rank, std::string_view host) {
  return workers_.try_emplace(rank, options_.tag, rank, host).first->second;
}

void JobOutputImpl::StartGeneration(std::span<const RankInfo> ranks) {
  for (const RankInfo& info : ranks) {
    Worker& worker = WorkerOf(info.rank, info.host);
    worker.last_lines.Clear();
    worker.out_tail.clear();
    for (const StreamId id : {StreamId::kStdout, StreamId::kStderr}) {
      // The tag rides along: items of the last generation are still rendered with the old one.
      ConsoleItem item{ConsoleItem::Kind::kRestart,
                       info.rank,
                       id,
                       TagText(options_.tag, info.rank, info.host, id),
                       false,
                       info.rank};
      ConsoleOf(id).Push(std::move(item));
    }
  }
}

void JobOutputImpl::StartWorker(int worker, int rank, std::string_view host) {
  workers_.try_emplace(worker, options_.tag, rank, host);
}

void JobOutputImpl::MoveWorker(int worker, int rank, std::string_view host) {
  for (const StreamId id : {StreamId::kStdout, StreamId::kStderr}) {
    // Behind what is queued: that was written at the old place.
    ConsoleOf(id).Push(
        {ConsoleItem::Kind::kMove, worker, id, TagText(options_.tag, rank, host, id), false, rank});
  }
}

void JobOutputImpl::OnOutput(int rank, StreamId stream, std::string bytes, bool is_end) {
  Worker& worker = WorkerOf(rank);
  if (stream == StreamId::kStderr) {
    worker.last_lines.Feed(bytes);
  } else {
    worker.KeepTail(bytes);
  }
  queued_bytes_ += bytes.size();
  ConsoleOf(stream).Push({ConsoleItem::Kind::kOutput, rank, stream, std::move(bytes), is_end});
}

void JobOutputImpl::Say(std::string_view line) {
  err().Push({ConsoleItem::Kind::kSay, 0, StreamId::kStderr, std::string(line), false});
}

std::vector<std::string> JobOutputImpl::LastErrorLines(int rank) const {
  const auto found = workers_.find(rank);
  return found != workers_.end() ? found->second.last_lines.Lines() : std::vector<std::string>();
}

std::vector<std::string> JobOutputImpl::LastOutLines(int rank) const {
  const auto found = workers_.find(rank);
  if (found == workers_.end()) return {};
  LastLines lines;
  lines.Feed(found->second.out_tail);
  return lines.Lines();
}

LastError JobOutputImpl::ErrorOf(int rank) const {
  const auto found = workers_.find(rank);
  return found != workers_.end() ? ReadLastError(found->second.last_lines.Kept()) : LastError();
}

size_t JobOutputImpl::Render(ConsoleItem& item, std::string& text) {
  Stream& stream = WorkerOf(item.rank).Of(item.stream);
  if (item.kind == ConsoleItem::Kind::kMove) {
    stream.tagger.SetTag(std::move(item.bytes));
    stream.place = item.place;
    return 0;
  }
  const bool is_restart = item.kind == ConsoleItem::Kind::kRestart;
  const size_t begin = text.size();
  size_t owned = stream.tagger.held_bytes();
  if (!is_restart) {
    owned += item.bytes.size();
    stream.tagger.Feed(item.bytes, Stamp(), text);
    stream.is_ended = stream.is_ended || item.is_end;
  }
  // A stream whose agent was lost has had no end before it begins anew.
  const bool is_over = is_restart || item.is_end;
  const bool is_cut = is_over && stream.tagger.Finish(Stamp(), text);
  if (item.kind == ConsoleItem::Kind::kPartial) stream.tagger.PassHeld(Stamp(), text);
  const size_t held = stream.tagger.held_bytes();
  if (folder_ != nullptr) {
    OnFileDamaged(folder_->Append(stream.place, item.stream, ByteView(text).substr(begin)));
  }
  std::optional<RecordPlaces>& places = PlacesOf(item.stream);
  if (places) places->Add(stream.place, begin, text.size());
  // The next line is another worker's: only here, files have the bytes as they are.
  if (is_cut && (is_restart || workers_.size() > 1)) text += '\n';
  if (held > 0) AwaitRestOfLine(item.rank, item.stream);
  if (is_restart) {
    if (places) places->Empty(item.place);
    stream = Stream(std::move(item.bytes), item.place);
    if (folder_ != nullptr) OnFileDamaged(folder_->BeginAttempt(item.place, item.stream));
  }
  return owned - held;
}

// Only where nobody else's lines can come in between, and somebody looks.
void JobOutputImpl::AwaitRestOfLine(int rank, StreamId id) {
  if (workers_.size() != 1 || !ConsoleOf(id).is_terminal() || partial_line_.is_active()) return;
  partial_line_ = loop_.After(kPartialLineDelay, [this, rank] {
    partial_line_.Cancel();
    if (workers_.size() != 1) return;
    for (const StreamId stream : {StreamId::kStdout, StreamId::kStderr}) {
      ConsoleOf(stream).Push({ConsoleItem::Kind::kPartial, rank, stream, {}, false});
    }
  });
}

std::string_view JobOutputImpl::Stamp() {
  if (!options_.is_timestamped) return {};
  const std::time_t now = options_.clock();
  if (now != stamp_time_) {
    std::tm local{};
    ::localtime_r(&now, &local);
    stamp_ = StampText(local);
    stamp_time_ = now;
  }
  return stamp_;
}

void JobOutputImpl::OnTrouble(StreamId console, OutputSink::Outcome outcome, int error) {
  const bool is_stdout = console == StreamId::kStdout;
  PlacesOf(console).reset();  // of records that are not written any more
  if (outcome == OutputSink::Outcome::kReaderGone) {
    // Without a reader of stderr the job can still do its work.
    if (!is_stdout) return;
    if (loss_.ok()) loss_ = Status(ErrorCode::kReaderGone, "the reader of stdout went away");
    handlers_.on_reader_gone();
    return;
  }
  Status why = ErrnoStatus(fmt::format("write to {}", is_stdout ? "stdout" : "stderr"), error)
                   .WithCode(ErrorCode::kOutputLost)
                   .WithHint("free space there, or send it elsewhere");
  if (loss_.ok()) loss_ = why;
  handlers_.on_damaged(std::move(why));
}

void JobOutputImpl::OnFileDamaged(Status why) {
  // A full disk hits every file of the folder: said once; DamagedFiles() has them all.
  if (why.ok() || is_folder_damaged_) return;
  is_folder_damaged_ = true;
  if (loss_.ok()) loss_ = why;
  folder_trouble_ =
      loop_.After(Duration::zero(), [this, why = std::move(why)] { handlers_.on_damaged(why); });
}

void JobOutputImpl::Drain(std::optional<Duration> limit, std::function<void(Status)> done) {
  drained_ = std::move(done);
  if (limit.has_value()) {
    drain_limit_ = loop_.After(*limit, [this, limit = *limit] {
      FinishDrain({ErrorCode::kOutputLost,
                   fmt::format("{} bytes of output were not taken within {} s", queued_bytes_,
                               std::chrono::duration_cast<Seconds>(limit).count()),
                   "the reader of stdout or stderr is too slow, or has stopped"});
    });
  }
  for (auto& [rank, worker] : workers_) {
    for (const StreamId id : {StreamId::kStdout, StreamId::kStderr}) {
      if (!worker.Of(id).is_ended) OnOutput(rank, id, {}, true);
    }
  }
  CheckDrained();
}

void JobOutputImpl::CheckDrained() {
  if (drained_ == nullptr || drain_done_.is_active()) return;
  if (!out_->is_idle() || !err().is_idle()) return;
  // From the loop: `done` may destroy this, and trouble that was found comes first.
  drain_done_ = loop_.After(Duration::zero(), [this] {
    drain_done_.Cancel();
    if (!out_->is_idle() || !err().is_idle()) return;  // Something was said in between.
    FinishDrain(loss_);
  });
}

void JobOutputImpl::FinishDrain(Status status) {
  const std::function<void(Status)> done = std::exchange(drained_, nullptr);
  drain_limit_.Cancel();
  drain_done_.Cancel();
  if (done != nullptr) done(std::move(status));
}

}  // namespace

Result<std::unique_ptr<JobOutput>> JobOutput::Open(Loop& loop, JobOutputOptions options,
                                                   JobOutputHandlers handlers) {
  std::unique_ptr<OutputFolder> folder;
  if (!options.folder.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(folder, OutputFolder::Create(options.folder, options.np));
  }
  std::unique_ptr<JobOutput> output = std::make_unique<JobOutputImpl>(
      loop, std::move(options), std::move(handlers), std::move(folder));
  return output;
}

}  // namespace hvdray
