// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/job_output.h"

#include <fmt/format.h>

#include <map>

#include "base/report_file.h"
#include "launcher/job/exit_code.h"
#include "launcher/report/console.h"
#include "launcher/report/output_directory.h"
#include "launcher/report/stream_file.h"
#include "launcher/report/worker_lines.h"

namespace hvdray {
namespace {

using wire::StreamId;

// A worker that writes part of a line and then nothing for this long may be prompting.
constexpr Duration kPartialLineDelay = std::chrono::milliseconds(100);

// One stream of a worker. The tagger runs when text is written, later than it arrives.
struct Stream {
  Stream(std::string tag, int rank) : tagger(std::move(tag)), place(rank) {}
  LineTagger tagger;
  int place;  // the rank whose files it writes to
  bool is_ended = false;
};

}  // namespace

struct JobOutput::Worker {
  Worker(TagOutput mode, int rank, std::string_view host)
      : out(TagText(mode, rank, host, StreamId::kStdout), rank),
        err(TagText(mode, rank, host, StreamId::kStderr), rank) {}
  Stream& Of(StreamId id) { return id == StreamId::kStderr ? err : out; }
  Stream out;
  Stream err;
  LastLines last_lines;
  // stdout is data and may be large: keeps its raw tail and cuts it into lines on demand.
  void KeepTail(ByteView bytes);
  std::string out_tail;
};

void JobOutput::Worker::KeepTail(ByteView bytes) {
  if (bytes.size() >= LastLines::kMaxBytes) {
    out_tail = bytes.substr(bytes.size() - LastLines::kMaxBytes);
    return;
  }
  out_tail += bytes;
  if (out_tail.size() > 2 * LastLines::kMaxBytes) {
    out_tail.erase(0, out_tail.size() - LastLines::kMaxBytes);
  }
}

JobOutput::JobOutput(Loop& loop, JobOutputOptions options, JobOutputHandlers handlers,
                     std::unique_ptr<OutputDirectory> directory)
    : loop_(loop),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      directory_(std::move(directory)) {
  const auto open = [&](int fd, RecordKind kind, std::optional<RecordPlaces>& places) {
    const int file = options_.record_fd;
    if (file < 0) return std::make_unique<OutputSink>(loop, fd);
    return std::make_unique<OutputSink>(loop, file, kind, &places.emplace(kind, options_.np));
  };
  auto out = open(options_.stdout_fd, RecordKind::kStdout, out_places_);
  auto err = open(options_.stderr_fd, RecordKind::kStderr, err_places_);
  is_stderr_terminal_ = err->is_terminal();
  // Two queues into one pipe would split each other's lines.
  const bool is_shared = out->IsSamePlace(*err);
  out_ = std::make_unique<Console>(loop, std::move(out), HandlersOf(StreamId::kStdout));
  if (!is_shared) {
    err_ = std::make_unique<Console>(loop, std::move(err), HandlersOf(StreamId::kStderr));
  }
}

Console::Handlers JobOutput::HandlersOf(StreamId id) {
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

JobOutput::~JobOutput() = default;

JobOutput::Worker& JobOutput::WorkerOf(int rank, std::string_view host) {
  return workers_.try_emplace(rank, options_.tag, rank, host).first->second;
}

void JobOutput::StartGeneration(std::span<const RankInfo> ranks) {
  for (const RankInfo& info : ranks) {
    Worker& worker = WorkerOf(info.rank, info.host);
    worker.last_lines.Clear();
    worker.out_tail.clear();
    for (const StreamId id : {StreamId::kStdout, StreamId::kStderr}) {
      // The item carries the tag: queued items of the last generation still get the old one.
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

void JobOutput::StartWorker(int worker, int rank, std::string_view host) {
  workers_.try_emplace(worker, options_.tag, rank, host);
}

void JobOutput::MoveWorker(int worker, int rank, std::string_view host) {
  for (const StreamId id : {StreamId::kStdout, StreamId::kStderr}) {
    // After queued items, which belong to the old rank.
    ConsoleOf(id).Push(
        {ConsoleItem::Kind::kMove, worker, id, TagText(options_.tag, rank, host, id), false, rank});
  }
}

void JobOutput::OnOutput(int rank, StreamId stream, std::string bytes, bool is_end) {
  Worker& worker = WorkerOf(rank);
  if (stream == StreamId::kStderr) {
    worker.last_lines.Feed(bytes);
  } else {
    worker.KeepTail(bytes);
  }
  queued_bytes_ += bytes.size();
  ConsoleOf(stream).Push({ConsoleItem::Kind::kOutput, rank, stream, std::move(bytes), is_end});
}

void JobOutput::Say(std::string_view line) {
  err().Push({ConsoleItem::Kind::kSay, 0, StreamId::kStderr, std::string(line), false});
}

void JobOutput::OnceWritten(std::function<void()> done) {
  out_->OnceWritten([this, done = std::move(done)] { err().OnceWritten(done); });
}

std::vector<std::string> JobOutput::LastErrorLines(int rank) const {
  const auto found = workers_.find(rank);
  return found != workers_.end() ? found->second.last_lines.Lines() : std::vector<std::string>();
}

std::vector<std::string> JobOutput::LastOutLines(int rank) const {
  const auto found = workers_.find(rank);
  if (found == workers_.end()) return {};
  LastLines lines;
  lines.Feed(found->second.out_tail);
  return lines.Lines();
}

LastError JobOutput::ErrorOf(int rank) const {
  const auto found = workers_.find(rank);
  return found != workers_.end() ? ReadLastError(found->second.last_lines.Kept()) : LastError();
}

size_t JobOutput::Render(ConsoleItem& item, std::string& text) {
  Stream& stream = WorkerOf(item.rank).Of(item.stream);
  if (item.kind == ConsoleItem::Kind::kMove) {
    stream.tagger.SetTag(std::move(item.bytes));
    stream.place = item.place;
    return 0;
  }
  const bool is_restart = item.kind == ConsoleItem::Kind::kRestart;
  const std::pair<int, StreamId> writer(item.rank, item.stream);
  const bool is_answered = !item.bytes.empty() && !is_restart && stream.tagger.is_line_begun();
  if (is_answered && last_writer_ != writer && ConsoleOf(item.stream).is_terminal()) {
    // Others wrote after its question: the rest begins a line on the terminal, though not in files.
    stream.tagger.RepeatTag(Stamp(), text);
  }
  const size_t begin = text.size();
  size_t owned = stream.tagger.held_bytes();
  if (!is_restart) {
    owned += item.bytes.size();
    stream.tagger.Feed(item.bytes, Stamp(), text);
    stream.is_ended = stream.is_ended || item.is_end;
  }
  // The stream of a lost agent restarts without an end.
  const bool is_over = is_restart || item.is_end;
  const bool is_cut = is_over && stream.tagger.Finish(Stamp(), text);
  if (item.kind == ConsoleItem::Kind::kPartial) stream.tagger.PassHeld(Stamp(), text);
  if (text.size() > begin) last_writer_ = writer;
  const size_t held = stream.tagger.held_bytes();
  if (directory_ != nullptr) {
    OnFileDamaged(directory_->Append(stream.place, item.stream, ByteView(text).substr(begin)));
  }
  std::optional<RecordPlaces>& places = PlacesOf(item.stream);
  if (places) places->Add(stream.place, begin, text.size());
  // The next line is another worker's. Only on the console; files keep the bytes as they are.
  if (is_cut && (is_restart || workers_.size() > 1)) text += '\n';
  if (held > 0) AwaitRestOfLine(item.rank, item.stream);
  if (is_restart) {
    if (places) places->Empty(item.place);
    stream = Stream(std::move(item.bytes), item.place);
    if (directory_ != nullptr) OnFileDamaged(directory_->BeginAttempt(item.place, item.stream));
  }
  return owned - held;
}

// Only on a terminal, and only of one worker: lines of several would cut each other.
void JobOutput::AwaitRestOfLine(int rank, StreamId id) {
  if (!MayBeAsking(rank) || !ConsoleOf(id).is_terminal() || partial_line_.is_active()) return;
  partial_line_ = loop_.After(kPartialLineDelay, [this] {
    partial_line_.Cancel();
    for (const auto& [worker, streams] : workers_) {
      if (!MayBeAsking(worker)) continue;
      for (const StreamId stream : {StreamId::kStdout, StreamId::kStderr}) {
        ConsoleOf(stream).Push({ConsoleItem::Kind::kPartial, worker, stream, {}, false});
      }
    }
  });
}

std::string_view JobOutput::Stamp() {
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

void JobOutput::OnTrouble(StreamId console, OutputSink::Outcome outcome, int error) {
  const bool is_stdout = console == StreamId::kStdout;
  PlacesOf(console).reset();  // of records that are never written
  if (outcome == OutputSink::Outcome::kReaderGone) {
    // Without a reader of stderr the job can still do its work.
    if (!is_stdout) return;
    if (loss_.ok()) loss_ = Status(ErrorCode::kReaderGone, "the reader of stdout went away");
    handlers_.on_reader_gone();
    return;
  }
  Status why = OutputLost(is_stdout ? "stdout" : "stderr", error);
  if (loss_.ok()) loss_ = why;
  handlers_.on_damaged(std::move(why));
}

void JobOutput::OnFileDamaged(Status why) {
  // A full disk hits every file of the directory: report it once; DamagedFiles() has all.
  if (why.ok() || is_directory_damaged_) return;
  is_directory_damaged_ = true;
  if (loss_.ok()) loss_ = why;
  directory_trouble_ =
      loop_.After(Duration::zero(), [this, why = std::move(why)] { handlers_.on_damaged(why); });
}

void JobOutput::Drain(std::optional<Duration> limit, std::function<void(Status)> done) {
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

void JobOutput::CheckDrained() {
  if (drained_ == nullptr || drain_done_.is_active()) return;
  if (!out_->is_idle() || !err().is_idle()) return;
  // After pending trouble.
  drain_done_ = loop_.After(Duration::zero(), [this] {
    drain_done_.Cancel();
    if (!out_->is_idle() || !err().is_idle()) return;  // New lines came in between.
    FinishDrain(loss_);
  });
}

void JobOutput::FinishDrain(Status status) {
  const std::function<void(Status)> done = std::exchange(drained_, nullptr);
  drain_limit_.Cancel();
  drain_done_.Cancel();
  if (done != nullptr) done(std::move(status));
}

Result<std::unique_ptr<JobOutput>> JobOutput::Open(Loop& loop, JobOutputOptions options,
                                                   JobOutputHandlers handlers) {
  std::unique_ptr<OutputDirectory> directory;
  if (!options.directory.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(directory, OutputDirectory::Create(options.directory, options.np));
  }
  return std::unique_ptr<JobOutput>(
      new JobOutput(loop, std::move(options), std::move(handlers), std::move(directory)));
}

}  // namespace hvdray
