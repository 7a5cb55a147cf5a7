// SPDX-License-Identifier: Apache-2.0
// Moves bytes between the loop and a channel: owns the write queue, back-pressure, and the order in
// which a stream ends.
#include <array>
#include <deque>
#include <utility>

#include "base/io_channel.h"

namespace hvdray {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr int kReadsPerWakeup = 4;  // so that one busy peer does not starve the rest of the loop

class ChannelStream : public ByteStream {
 public:
  ChannelStream(Loop& loop, std::unique_ptr<IoChannel> channel)
      : loop_(loop), channel_(std::move(channel)) {}
  ~ChannelStream() override {
    if (!is_closed_) channel_->Close(queue_.empty() && !is_write_broken_);
  }
  ChannelStream(const ChannelStream&) = delete;
  ChannelStream& operator=(const ChannelStream&) = delete;

  void Start(Handlers handlers) override {
    handlers_ = std::make_shared<Handlers>(std::move(handlers));
    if (Status status = channel_->Prepare(); !status.ok()) return FailLater(std::move(status));
    is_started_ = true;
    SetReading(true);
    if (!queue_.empty()) WaitToWrite();
  }

  void Write(std::string bytes) override {
    if (bytes.empty() || is_closed_ || is_write_broken_) return;
    size_t sent = 0;
    if (is_started_ && queue_.empty()) {
      const IoStep step = channel_->Write(bytes, sent);
      if (step == IoStep::kFailed || step == IoStep::kClosed) return FailLater(channel_->error());
    }
    if (sent == bytes.size()) return;
    queued_bytes_ += bytes.size() - sent;
    queue_.push_back({std::move(bytes), sent});
    WaitToWrite();
  }

  size_t QueuedBytes() const override { return queued_bytes_; }

  void SetReading(bool is_reading) override {
    if (is_closed_ || !is_started_) return;
    if (!is_reading) {
      read_watch_.Cancel();
    } else if (!read_watch_.is_active()) {
      read_watch_ = loop_.OnFd(channel_->read_fd(), FdEvent::kRead, [this] { OnReadable(); });
    }
  }

 private:
  struct Chunk {
    std::string bytes;
    size_t sent;
  };
  enum class ReadEnd : uint8_t { kMoreLater, kPaused, kClosed, kFailed, kDestroyed };

  void WaitToWrite() {
    if (!is_started_ || write_watch_.is_active()) return;
    write_watch_ = loop_.OnFd(channel_->write_fd(), FdEvent::kWrite, [this] { OnWritable(); });
  }

  /// Reads and calls on_data, at most `max_reads` times.
  ReadEnd ReadSome(int max_reads) {
    const std::weak_ptr<Handlers> alive = handlers_;
    const std::shared_ptr<Handlers> handlers = handlers_;
    static thread_local std::array<char, kReadBytes> buffer;
    for (int i = 0; i < max_reads; ++i) {
      if (!read_watch_.is_active()) return ReadEnd::kPaused;
      size_t count = 0;
      const IoStep step = channel_->Read(buffer.data(), buffer.size(), count);
      if (count > 0) {
        handlers->on_data(ByteView(buffer.data(), count));
        // Besides this call only the stream holds the handlers: on_data has destroyed it.
        if (alive.use_count() == 1) return ReadEnd::kDestroyed;
      }
      switch (step) {
        case IoStep::kDone:
          break;
        case IoStep::kWantWrite:
          is_read_waiting_to_write_ = true;
          WaitToWrite();
          return ReadEnd::kMoreLater;
        case IoStep::kWantRead:
          return ReadEnd::kMoreLater;
        case IoStep::kClosed:
          return ReadEnd::kClosed;
        case IoStep::kFailed:
          return ReadEnd::kFailed;
      }
    }
    return ReadEnd::kMoreLater;
  }

  void OnReadable() {
    switch (ReadSome(kReadsPerWakeup)) {
      case ReadEnd::kMoreLater:
      case ReadEnd::kPaused:
      case ReadEnd::kDestroyed:
        return;
      case ReadEnd::kClosed:
        return Fail({});
      case ReadEnd::kFailed:
        return Fail(channel_->error());
    }
  }

  void OnWritable() {
    if (std::exchange(is_read_waiting_to_write_, false)) {
      const std::weak_ptr<Handlers> alive = handlers_;
      OnReadable();
      if (alive.expired() || is_closed_) return;
    }
    while (!queue_.empty()) {
      Chunk& chunk = queue_.front();
      size_t count = 0;
      const IoStep step = channel_->Write(ByteView(chunk.bytes).substr(chunk.sent), count);
      chunk.sent += count;
      queued_bytes_ -= count;
      if (step == IoStep::kFailed || step == IoStep::kClosed) return FailLater(channel_->error());
      if (step != IoStep::kDone) return;
      queue_.pop_front();
    }
    write_watch_.Cancel();
    const std::shared_ptr<Handlers> handlers = handlers_;
    if (handlers->on_drained) handlers->on_drained();
  }

  /// Writing has failed. The peer's last bytes may still be unread, and they explain why it left:
  /// reads them first.
  void FailLater(Status status) {
    is_write_broken_ = true;
    write_watch_.Cancel();
    queue_.clear();
    queued_bytes_ = 0;
    failed_later_ = loop_.After(Duration::zero(), [this, status = std::move(status)] {
      constexpr int kAll = 1 << 10;  // 256 MiB: more than a socket's buffer holds
      const ReadEnd end = is_started_ ? ReadSome(kAll) : ReadEnd::kFailed;
      if (end == ReadEnd::kDestroyed) return;
      Fail(end == ReadEnd::kClosed && channel_->is_close_its_word() ? Status() : status);
    });
  }

  void Fail(const Status& status) {
    if (is_closed_) return;
    is_closed_ = true;
    read_watch_.Cancel();
    write_watch_.Cancel();
    failed_later_.Cancel();
    queue_.clear();
    queued_bytes_ = 0;
    channel_->Close(status.ok());
    const std::shared_ptr<Handlers> handlers = handlers_;
    if (handlers->on_closed) handlers->on_closed(status);
  }

  Loop& loop_;
  const std::unique_ptr<IoChannel> channel_;
  std::shared_ptr<Handlers> handlers_;  // shared with the call in progress, which may destroy this
  Watch read_watch_;
  Watch write_watch_;
  Watch failed_later_;
  std::deque<Chunk> queue_;
  size_t queued_bytes_ = 0;
  bool is_started_ = false;
  bool is_closed_ = false;
  bool is_write_broken_ = false;
  bool is_read_waiting_to_write_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> MakeChannelStream(Loop& loop, std::unique_ptr<IoChannel> channel) {
  return std::make_unique<ChannelStream>(loop, std::move(channel));
}

}  // namespace hvdray
