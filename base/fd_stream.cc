#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <utility>

#include "base/byte_stream.h"

namespace hvdray {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr int kReadsPerWakeup = 4;  // so that one busy peer does not starve the rest of the loop

bool IsSocket(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

class FdStream : public ByteStream {
 public:
  FdStream(Loop& loop, UniqueFd read_fd, UniqueFd write_fd)
      : loop_(loop),
        read_fd_(std::move(read_fd)),
        write_fd_(std::move(write_fd)),
        is_socket_(IsSocket(write_fd_.get())) {}

  void Start(Handlers handlers) override {
    handlers_ = std::make_shared<Handlers>(std::move(handlers));
    Status status = SetNonBlocking(read_fd_.get());
    if (status.ok()) status = SetNonBlocking(write_fd_.get());
    if (!status.ok()) return FailLater(std::move(status));
    is_started_ = true;
    SetReading(true);
    if (!queue_.empty()) WaitToWrite();
  }

  void Write(std::string bytes) override {
    if (bytes.empty() || is_closed_ || is_write_broken_) return;
    size_t sent = 0;
    if (is_started_ && queue_.empty()) {
      const ssize_t n = WriteSome(bytes);
      if (n > 0) sent = static_cast<size_t>(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR) {
        return FailLater(ErrnoStatus("write", errno));
      }
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
      read_watch_ = loop_.OnFd(read_fd_.get(), FdEvent::kRead, [this] { OnReadable(); });
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
    write_watch_ = loop_.OnFd(write_fd_.get(), FdEvent::kWrite, [this] { OnWritable(); });
  }

  ssize_t WriteSome(ByteView bytes) const {
    return is_socket_ ? ::send(write_fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
                      : ::write(write_fd_.get(), bytes.data(), bytes.size());
  }

  /// Reads and hands on, at most `max_reads` times. kFailed: errno says why.
  ReadEnd ReadSome(int max_reads) {
    const std::weak_ptr<Handlers> alive = handlers_;
    const std::shared_ptr<Handlers> handlers = handlers_;
    static thread_local std::array<char, kReadBytes> buffer;
    for (int i = 0; i < max_reads; ++i) {
      if (!read_watch_.is_active()) return ReadEnd::kPaused;
      const ssize_t n = ::read(read_fd_.get(), buffer.data(), buffer.size());
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return ReadEnd::kMoreLater;
      if (n == 0 || (n < 0 && errno == ECONNRESET)) return ReadEnd::kClosed;
      if (n < 0) return ReadEnd::kFailed;
      handlers->on_data(ByteView(buffer.data(), static_cast<size_t>(n)));
      // Only the stream itself holds the handlers besides this call.
      if (alive.use_count() == 1) return ReadEnd::kDestroyed;
      if (static_cast<size_t>(n) < buffer.size()) return ReadEnd::kMoreLater;
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
        return Fail(ErrnoStatus("read", errno));
    }
  }

  void OnWritable() {
    while (!queue_.empty()) {
      Chunk& chunk = queue_.front();
      const ssize_t n = WriteSome(ByteView(chunk.bytes).substr(chunk.sent));
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n < 0) return FailLater(ErrnoStatus("write", errno));
      chunk.sent += static_cast<size_t>(n);
      queued_bytes_ -= static_cast<size_t>(n);
      if (chunk.sent == chunk.bytes.size()) queue_.pop_front();
    }
    write_watch_.Cancel();
    const std::shared_ptr<Handlers> handlers = handlers_;
    if (handlers->on_drained) handlers->on_drained();
  }

  /// Nothing can be written any more. The peer's last words may still wait to be read: they say
  /// why it went away, so they come first.
  void FailLater(Status status) {
    is_write_broken_ = true;
    write_watch_.Cancel();
    queue_.clear();
    queued_bytes_ = 0;
    failed_later_ = loop_.After(Duration::zero(), [this, status = std::move(status)] {
      constexpr int kAll = 1 << 10;  // 256 MiB, more than any socket holds
      if (is_started_ && ReadSome(kAll) == ReadEnd::kDestroyed) return;
      Fail(status);
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
    const std::shared_ptr<Handlers> handlers = handlers_;
    if (handlers->on_closed) handlers->on_closed(status);
  }

  Loop& loop_;
  UniqueFd read_fd_;
  UniqueFd write_fd_;
  const bool is_socket_;
  std::shared_ptr<Handlers> handlers_;  // shared with the call in progress, which may destroy this
  Watch read_watch_;
  Watch write_watch_;
  Watch failed_later_;
  std::deque<Chunk> queue_;
  size_t queued_bytes_ = 0;
  bool is_started_ = false;
  bool is_closed_ = false;
  bool is_write_broken_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> MakeFdStream(Loop& loop, UniqueFd read_fd, UniqueFd write_fd) {
  return std::make_unique<FdStream>(loop, std::move(read_fd), std::move(write_fd));
}

}  // namespace hvdray
