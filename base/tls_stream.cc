#include "base/tls_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <utility>

#include "base/tls_session.h"

namespace hvdray {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr int kReadsPerWakeup = 4;  // so that one busy peer does not starve the rest of the loop
constexpr int kDrainReads = 64;

struct Channel {
  UniqueFd socket;
  std::unique_ptr<TlsSession> session;  // over `socket`, so gone before it
};

// A socket that is closed with something unread in it tells the peer "reset", and what was sent
// last may be lost on the way: read it off first.
void CloseInOrder(Channel& channel, bool has_last_word) {
  if (has_last_word) channel.session->CloseNotify();
  const int fd = channel.socket.get();
  std::array<char, 4096> dropped;
  for (int i = 0; i < kDrainReads; ++i) {
    if (::recv(fd, dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0) break;
  }
  ::shutdown(fd, SHUT_WR);
}

class TlsStream : public ByteStream {
 public:
  TlsStream(Loop& loop, Channel channel) : loop_(loop), channel_(std::move(channel)) {}
  ~TlsStream() override {
    if (!is_closed_) CloseInOrder(channel_, queue_.empty() && !is_write_broken_);
  }

  void Start(Handlers handlers) override {
    handlers_ = std::make_shared<Handlers>(std::move(handlers));
    is_started_ = true;
    SetReading(true);
    if (!queue_.empty()) WaitToWrite();
  }

  void Write(std::string bytes) override {
    if (bytes.empty() || is_closed_ || is_write_broken_) return;
    size_t sent = 0;
    if (is_started_ && queue_.empty()) {
      const TlsStep step = channel_.session->Write(bytes, sent);
      if (step == TlsStep::kFailed || step == TlsStep::kClosed) return FailLater(Error());
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
      read_watch_ = loop_.OnFd(channel_.socket.get(), FdEvent::kRead, [this] { OnReadable(); });
    }
  }

 private:
  struct Chunk {
    std::string bytes;
    size_t sent;
  };
  enum class ReadEnd : uint8_t { kMoreLater, kPaused, kClosed, kFailed, kDestroyed };

  const Status& Error() const { return channel_.session->error(); }

  void WaitToWrite() {
    if (!is_started_ || write_watch_.is_active()) return;
    write_watch_ = loop_.OnFd(channel_.socket.get(), FdEvent::kWrite, [this] { OnWritable(); });
  }

  /// Reads and hands on, at most `max_reads` times.
  ReadEnd ReadSome(int max_reads) {
    const std::weak_ptr<Handlers> alive = handlers_;
    const std::shared_ptr<Handlers> handlers = handlers_;
    static thread_local std::array<char, kReadBytes> buffer;
    for (int i = 0; i < max_reads; ++i) {
      if (!read_watch_.is_active()) return ReadEnd::kPaused;
      size_t count = 0;
      const TlsStep step = channel_.session->Read(buffer.data(), buffer.size(), count);
      if (count > 0) {
        handlers->on_data(ByteView(buffer.data(), count));
        // Only the stream itself holds the handlers besides this call.
        if (alive.use_count() == 1) return ReadEnd::kDestroyed;
      }
      switch (step) {
        case TlsStep::kDone:
          break;
        case TlsStep::kWantWrite:  // an answer to a new key of the peer's
          is_read_waiting_to_write_ = true;
          WaitToWrite();
          return ReadEnd::kMoreLater;
        case TlsStep::kWantRead:
          return ReadEnd::kMoreLater;
        case TlsStep::kClosed:
          return ReadEnd::kClosed;
        case TlsStep::kFailed:
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
        return Fail(Error());
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
      const TlsStep step = channel_.session->Write(ByteView(chunk.bytes).substr(chunk.sent), count);
      chunk.sent += count;
      queued_bytes_ -= count;
      if (step == TlsStep::kFailed || step == TlsStep::kClosed) return FailLater(Error());
      if (step != TlsStep::kDone) return;
      queue_.pop_front();
    }
    write_watch_.Cancel();
    const std::shared_ptr<Handlers> handlers = handlers_;
    if (handlers->on_drained) handlers->on_drained();
  }

  /// Nothing can be written any more. The peer's last words may still wait to be read.
  void FailLater(Status status) {
    is_write_broken_ = true;
    write_watch_.Cancel();
    queue_.clear();
    queued_bytes_ = 0;
    failed_later_ = loop_.After(Duration::zero(), [this, status = std::move(status)] {
      constexpr int kAll = 1 << 10;  // 256 MiB, more than any socket holds
      const ReadEnd end = ReadSome(kAll);
      if (end == ReadEnd::kDestroyed) return;
      Fail(end == ReadEnd::kClosed ? Status() : status);
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
    CloseInOrder(channel_, status.ok());
    const std::shared_ptr<Handlers> handlers = handlers_;
    if (handlers->on_closed) handlers->on_closed(status);
  }

  Loop& loop_;
  Channel channel_;
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

class Handshake : public TlsHandshake {
 public:
  Handshake(Loop& loop, Channel channel, Duration limit, TlsDone done)
      : loop_(loop), channel_(std::move(channel)), done_(std::move(done)) {
    // Small messages (heartbeats, keys of the rendezvous) wait for nothing.
    const int one = 1;
    ::setsockopt(channel_.socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    limit_ = loop_.After(limit, [this] {
      Finish(Status(ErrorCode::kConnectTimeout, "TLS handshake: the peer did not answer in time"));
    });
    later_ = loop_.After(Duration::zero(), [this] { Advance(); });
  }

 private:
  void Advance() {
    const Status status = SetNonBlocking(channel_.socket.get());
    if (!status.ok()) return Finish(status);
    switch (channel_.session->Handshake()) {
      case TlsStep::kWantRead:
        return WaitFor(FdEvent::kRead);
      case TlsStep::kWantWrite:
        return WaitFor(FdEvent::kWrite);
      case TlsStep::kDone:
        return Finish({});
      case TlsStep::kClosed:
      case TlsStep::kFailed:
        return Finish(channel_.session->error());
    }
  }

  void WaitFor(FdEvent event) {
    if (watch_.is_active() && watched_ == event) return;
    watched_ = event;
    watch_ = loop_.OnFd(channel_.socket.get(), event, [this] { Advance(); });
  }

  /// The callee may destroy us.
  void Finish(const Status& status) {
    limit_.Cancel();
    watch_.Cancel();
    later_.Cancel();
    const TlsDone done = std::exchange(done_, nullptr);
    if (!status.ok()) {
      CloseInOrder(channel_, false);  // an alert that says why is on its way
      return done(status);
    }
    std::string identity = channel_.session->identity();
    done(TlsConnection{std::make_unique<TlsStream>(loop_, std::move(channel_)),
                       std::move(identity)});
  }

  Loop& loop_;
  Channel channel_;
  TlsDone done_;
  Watch limit_;
  Watch later_;
  Watch watch_;
  FdEvent watched_ = FdEvent::kRead;
};

}  // namespace

std::unique_ptr<TlsHandshake> StartTlsClient(Loop& loop, UniqueFd socket, std::string identity,
                                             Secret key, Duration limit, TlsDone done) {
  auto session = TlsSession::Client(socket.get(), std::move(identity), std::move(key));
  return std::make_unique<Handshake>(loop, Channel{std::move(socket), std::move(session)}, limit,
                                     std::move(done));
}

std::unique_ptr<TlsHandshake> StartTlsServer(Loop& loop, UniqueFd socket, TlsKeyFn key_of,
                                             Duration limit, TlsDone done) {
  auto session = TlsSession::Server(socket.get(), std::move(key_of));
  return std::make_unique<Handshake>(loop, Channel{std::move(socket), std::move(session)}, limit,
                                     std::move(done));
}

Result<Secret> ParseTlsKey(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::array<char, kTlsKeyBytes> bytes{};
  bool is_key = text.size() == 2 * kTlsKeyBytes;
  for (size_t i = 0; is_key && i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    is_key = high >= 0 && low >= 0;
    bytes[i] = static_cast<char>(high * 16 + low);
  }
  Secret key(is_key ? ByteView(bytes.data(), bytes.size()) : ByteView());
  ::explicit_bzero(bytes.data(), bytes.size());
  if (!is_key) return Status(ErrorCode::kSpecInvalid, "the key is not 64 hexadecimal digits");
  return key;
}

}  // namespace hvdray
