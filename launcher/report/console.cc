// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/console.h"

#include "base/terminal.h"

namespace hvdray {
namespace {

// Large enough to outweigh the cost of the call, small enough to stay in the cache.
constexpr size_t kBatchBytes = size_t{64} << 10;
// Returns to the loop after this much, or a fast reader would starve everything else.
constexpr size_t kTurnBytes = size_t{2} << 20;
// Capacity that the text buffer keeps: tags before very short lines can inflate a single batch.
constexpr size_t kKeptText = size_t{512} << 10;
constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

Console::Console(Loop& loop, std::unique_ptr<OutputSink> sink, Handlers handlers)
    : loop_(loop), sink_(std::move(sink)), handlers_(std::move(handlers)) {}

void Console::Push(ConsoleItem item) {
  queue_.push_back(std::move(item));
  ++pushed_;
  // If earlier text waits for room or Pump() runs, that will continue with this item.
  if (sent_ == text_.size() && !again_.is_active()) Pump();
}

void Console::OnceWritten(std::function<void()> done) {
  if (queue_.empty() && !is_blocked()) return done();
  awaited_.emplace_back(pushed_, std::move(done));
}

void Console::ShowProgress(std::string_view text) {
  if (!sink_->is_terminal() || is_broken_ || !is_idle() || !is_at_line_start_) return;
  if (text.empty() && !is_progress_shown_) return;
  if (IsTerminalQuestionOpen()) return;  // its line is the last one
  sent_ = 0;
  text_.assign(kEraseLine);
  text_.append(text);
  is_progress_shown_ = !text.empty();
  Pump();
}

void Console::RenderBatch() {
  text_.clear();
  if (text_.capacity() > kKeptText) text_.shrink_to_fit();
  sent_ = 0;
  if (is_progress_shown_) text_ = kEraseLine;
  is_progress_shown_ = false;
  const size_t prelude = text_.size();
  while (!queue_.empty() && text_.size() < kBatchBytes) {
    ConsoleItem& item = queue_.front();
    const size_t begin = text_.size();
    const bool is_mid_line = begin > prelude ? text_.back() != '\n' : !is_at_line_start_;
    const bool is_open = begin > prelude ? is_mid_line && text_.back() != '\r' : is_line_open_;
    if (item.kind == ConsoleItem::Kind::kSay) {
      if (is_mid_line) text_ += '\n';
      text_.append(item.bytes);
      text_ += '\n';
    } else if (const size_t bytes = handlers_.render(item, text_); bytes > 0) {
      if (owed_.empty() || owed_.back().first != item.rank) owed_.emplace_back(item.rank, 0);
      owed_.back().second += bytes;
      const auto last = std::exchange(writer_, {item.rank, item.stream});
      // A prompt of one stream waits for its answer; then a line of the other arrives.
      if (is_open && is_terminal() && last != writer_) text_.insert(begin, 1, '\n');
    }
    queue_.pop_front();
  }
  if (text_.size() <= prelude) return;
  is_at_line_start_ = text_.back() == '\n';
  is_line_open_ = !is_at_line_start_ && text_.back() != '\r';
}

bool Console::Flush() {
  if (!is_broken_) {
    const OutputSink::Progress progress = sink_->Write(ByteView(text_).substr(sent_));
    sent_ += progress.written;
    switch (progress.outcome) {
      case OutputSink::Outcome::kWritten:
        break;
      case OutputSink::Outcome::kMustWait:
        sink_->OnWritable([this] { Pump(); });
        return false;
      case OutputSink::Outcome::kReaderGone:
      case OutputSink::Outcome::kFailed:
        Break(progress);
        break;
    }
  }
  sent_ = text_.size();
  return true;
}

void Console::Break(const OutputSink::Progress& progress) {
  is_broken_ = true;
  is_trouble_untold_ = true;
  trouble_ = loop_.After(Duration::zero(), [this, progress] {
    is_trouble_untold_ = false;
    handlers_.on_trouble(progress.outcome, progress.error);
    if (is_idle()) handlers_.on_idle();
  });
}

void Console::Settle() {
  const std::vector<std::pair<int, size_t>> owed = std::exchange(owed_, {});
  for (const auto& [rank, bytes] : owed) handlers_.on_consumed(rank, bytes);
  while (!awaited_.empty() && awaited_.front().first <= pushed_ - queue_.size()) {
    const std::function<void()> done = std::move(awaited_.front().second);
    awaited_.pop_front();
    done();
  }
}

void Console::Pump() {
  if (is_pumping_) return;
  is_pumping_ = true;
  size_t turn_bytes = 0;
  bool is_waiting = false;
  for (;;) {
    if (!Flush()) {
      is_waiting = true;
      break;
    }
    Settle();
    if (queue_.empty()) break;
    if (turn_bytes > kTurnBytes) {
      is_waiting = true;
      again_ = loop_.After(Duration::zero(), [this] {
        again_.Cancel();
        Pump();
      });
      break;
    }
    RenderBatch();
    turn_bytes += text_.size();
  }
  is_pumping_ = false;
  if (!is_waiting && is_idle()) handlers_.on_idle();
}

}  // namespace hvdray
