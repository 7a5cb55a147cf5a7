// SPDX-License-Identifier: Apache-2.0
// Moves bytes between the loop and a channel: owns the write queue, back-pressure, and the order in
// which a stream ends.
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "base/io_channel.h"

namespace hvdray {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr int kMaxLastReads = 1 << 10;  // 256 MiB: more than a socket's buffer holds

/// Calls its owner at most once per callback of the loop, and does nothing after it: by then the
/// owner may have dropped the stream.
class ChannelStream : public ByteStream {
 public:
  ChannelStream(Loop& loop, std::unique_ptr<IoChannel> channel)
      : loop_(loop), channel_(std::move(channel)) {}
  ~ChannelStream() override {
    if (state_ != State::kClosed) channel_->Close(queue_.empty() && !write_failure_);
  }
  ChannelStream(const ChannelStream&) = delete;
  ChannelStream& operator=(const ChannelStream&) = delete;

  void Start(Owner& owner) override {
    owner_ = &owner;
    if (Status status = channel_->Prepare(); !status.ok()) return CloseLater(std::move(status));
    state_ = State::kOpen;
    SetReading(true);
    if (!queue_.empty()) WaitToWrite();
  }

  void Write(std::string bytes) override {
    if (bytes.empty() || state_ > State::kOpen || write_failure_) return;
    size_t sent = 0;
    if (state_ == State::kOpen && queue_.empty()) {
      const IoStep step = channel_->Write(bytes, sent);
      if (step == IoStep::kFailed || step == IoStep::kClosed) return OnWriteFailed();
    }
    if (sent == bytes.size()) return;
    queued_bytes_ += bytes.size() - sent;
    queue_.push_back({std::move(bytes), sent});
    WaitToWrite();
  }

  size_t QueuedBytes() const override { return queued_bytes_; }

  void SetReading(bool is_reading) override {
    if (state_ != State::kOpen) return;
    if (!is_reading) {
      read_watch_.Cancel();
    } else if (!read_watch_.is_active()) {
      read_watch_ = loop_.OnFd(channel_->read_fd(), FdEvent::kRead, [this] { ReadOnce(); });
    }
  }

 private:
  struct Chunk {
    std::string bytes;
    size_t sent;
  };
  enum class State : uint8_t {
    kNotStarted,
    kOpen,
    kEnding,  // no more input; OnClosed() is due
    kClosed,
  };

  void WaitToWrite() {
    if (state_ != State::kOpen || write_watch_.is_active()) return;
    write_watch_ = loop_.OnFd(channel_->write_fd(), FdEvent::kWrite, [this] { OnWritable(); });
  }

  void ReadOnce() {
    static thread_local std::array<char, kReadBytes> buffer;
    size_t count = 0;
    const IoStep step = channel_->Read(buffer.data(), buffer.size(), count);
    const std::optional<Status> end = EndAfter(step);
    if (end && count == 0) return Close(*end);
    if (end) {
      CloseLater(*end);
    } else if (write_failure_) {
      ReadRestLater();
    } else if (step == IoStep::kWantWrite) {
      is_read_waiting_to_write_ = true;
      WaitToWrite();
    }
    if (count == 0) return;
    owner_->OnData(ByteView(buffer.data(), count));
  }

  /// How the stream ends after a read that ended in `step`; nullopt: it goes on.
  std::optional<Status> EndAfter(IoStep step) {
    if (step == IoStep::kClosed && (!write_failure_ || channel_->is_explicit_close())) {
      return Status();
    }
    if (write_failure_) {
      const bool is_more = step == IoStep::kDone && ++last_reads_ < kMaxLastReads;
      return is_more ? std::nullopt : write_failure_;
    }
    if (step == IoStep::kFailed) return channel_->error();
    return std::nullopt;
  }

  void OnWritable() {
    if (std::exchange(is_read_waiting_to_write_, false)) {
      if (queue_.empty()) write_watch_.Cancel();
      if (read_watch_.is_active()) ReadOnce();
      return;
    }
    while (!queue_.empty()) {
      Chunk& chunk = queue_.front();
      size_t count = 0;
      const IoStep step = channel_->Write(ByteView(chunk.bytes).substr(chunk.sent), count);
      chunk.sent += count;
      queued_bytes_ -= count;
      if (step == IoStep::kFailed || step == IoStep::kClosed) return OnWriteFailed();
      if (step != IoStep::kDone) return;
      queue_.pop_front();
    }
    write_watch_.Cancel();
    owner_->OnDrained();
  }

  /// The peer's last bytes may still be unread, and they explain why it left: reads them first.
  void OnWriteFailed() {
    write_failure_ = channel_->error();
    DropQueue();
    ReadRestLater();
  }

  void ReadRestLater() {
    later_ = loop_.After(Duration::zero(), [this] {
      if (read_watch_.is_active()) return ReadOnce();
      Close(*write_failure_);
    });
  }

  void CloseLater(Status status) {
    state_ = State::kEnding;
    read_watch_.Cancel();
    DropQueue();
    later_ = loop_.After(Duration::zero(), [this, status = std::move(status)] { Close(status); });
  }

  void Close(Status status) {
    state_ = State::kClosed;
    read_watch_.Cancel();
    later_.Cancel();
    DropQueue();
    channel_->Close(status.ok());
    owner_->OnClosed(std::move(status));
  }

  void DropQueue() {
    write_watch_.Cancel();
    queue_.clear();
    queued_bytes_ = 0;
  }

  Loop& loop_;
  const std::unique_ptr<IoChannel> channel_;
  Owner* owner_ = nullptr;  // once started
  State state_ = State::kNotStarted;
  Watch read_watch_;  // inactive: the owner has paused reading
  Watch write_watch_;
  Watch later_;
  std::deque<Chunk> queue_;
  size_t queued_bytes_ = 0;
  std::optional<Status> write_failure_;
  int last_reads_ = 0;  // since then
  bool is_read_waiting_to_write_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> MakeChannelStream(Loop& loop, std::unique_ptr<IoChannel> channel) {
  return std::make_unique<ChannelStream>(loop, std::move(channel));
}

}  // namespace hvdray
