// SPDX-License-Identifier: Apache-2.0
#include "cluster/staged_stream.h"

#include <utility>

namespace hvdray {
namespace {

// The limit before the announcement (docs/protocol.md, "Start-up").
constexpr size_t kMaxNoise = size_t{64} << 10;

}  // namespace

StagedStream::StagedStream(Loop& loop, std::unique_ptr<ByteStream> inner)
    : loop_(loop), inner_(std::move(inner)) {}

void StagedStream::Scan(ScanHandlers handlers) {
  scan_ = std::make_shared<ScanHandlers>(std::move(handlers));
  Handlers inner;
  inner.on_data = [this](ByteView bytes) { OnData(bytes); };
  inner.on_drained = [this] {
    const auto held = handlers_;
    if (is_passing_ && held->on_drained) held->on_drained();
  };
  inner.on_closed = [this](Status why) { OnClosed(std::move(why)); };
  inner_->Start(std::move(inner));
}

void StagedStream::OnData(ByteView bytes) {
  if (is_passing_ && kept_.empty()) {
    const auto held = handlers_;
    held->on_data(bytes);
    return;
  }
  if (is_found_) {
    kept_ += bytes;
    return;
  }
  pending_ += bytes;
  TakeLines();
}

void StagedStream::TakeLines() {
  const auto held = scan_;
  for (;;) {
    const size_t end = pending_.find('\n');
    if (end == std::string::npos) break;
    const BootstrapLine line = ParseBootstrapLine(ByteView(pending_).substr(0, end));
    const bool is_ours = std::holds_alternative<bootstrap::NeedsAgent>(line) ||
                         std::holds_alternative<bootstrap::Failed>(line);
    if (!is_ours) kept_.append(pending_, 0, end + 1);
    pending_.erase(0, end + 1);
    if (std::holds_alternative<bootstrap::AgentSpeaks>(line)) {
      is_found_ = true;
      kept_ += std::exchange(pending_, {});
      inner_->SetReading(false);
    }
    if (!std::holds_alternative<bootstrap::Noise>(line)) held->on_line(line);
    const bool is_destroyed = held.use_count() == 1;
    if (is_destroyed || is_found_) return;
  }
  if (kept_.size() + pending_.size() > kMaxNoise) {
    inner_->SetReading(false);
    OnClosed({ErrorCode::kProtocolError,
              "its shell printed over 64 KiB before any agent announced itself",
              "check what the shell's start-up files print for logins without a terminal"});
  }
}

void StagedStream::OnClosed(Status why) {
  if (std::exchange(is_closed_, true)) return;
  if (is_passing_ && kept_.empty()) {
    const auto held = handlers_;
    held->on_closed(std::move(why));
  } else if (is_found_) {
    closed_ = std::move(why);
  } else {
    const auto held = scan_;
    held->on_closed(std::move(why));
  }
}

void StagedStream::Start(Handlers handlers) {
  handlers_ = std::make_shared<Handlers>(std::move(handlers));
  is_passing_ = true;
  deliver_ = loop_.After(Duration::zero(), [this] { Deliver(); });
}

void StagedStream::SetReading(bool is_reading) {
  const bool was_reading = std::exchange(wants_reading_, is_reading);
  if (kept_.empty()) {
    inner_->SetReading(is_reading);
  } else if (is_reading && !was_reading && is_passing_) {
    deliver_ = loop_.After(Duration::zero(), [this] { Deliver(); });
  }
}

void StagedStream::Deliver() {
  if (!wants_reading_ || kept_.empty()) return;
  const auto held = handlers_;
  const std::string kept = std::exchange(kept_, {});
  held->on_data(kept);
  const bool is_destroyed = held.use_count() == 1;
  if (is_destroyed) return;
  if (is_closed_) {
    held->on_closed(std::move(closed_));
  } else {
    inner_->SetReading(wants_reading_);
  }
}

}  // namespace hvdray
