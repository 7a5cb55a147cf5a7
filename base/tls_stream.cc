// SPDX-License-Identifier: Apache-2.0
#include "base/tls_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "base/io_channel.h"
#include "base/tls_session.h"

namespace hvdray {
namespace {

constexpr int kDrainReads = 64;

struct Connection {
  UniqueFd socket;
  std::unique_ptr<TlsSession> session;  // over `socket`, so gone before it
};

// A socket that is closed with something unread in it tells the peer "reset", and what was sent
// last may be lost on the way: read it off first.
void CloseInOrder(Connection& connection, bool has_last_word) {
  if (has_last_word) connection.session->CloseNotify();
  const int fd = connection.socket.get();
  std::array<char, 4096> dropped;
  for (int i = 0; i < kDrainReads; ++i) {
    if (::recv(fd, dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0) break;
  }
  ::shutdown(fd, SHUT_WR);
}

class TlsChannel : public IoChannel {
 public:
  explicit TlsChannel(Connection connection) : connection_(std::move(connection)) {}

  Status Prepare() override { return {}; }  // the handshake has seen to it
  int read_fd() const override { return connection_.socket.get(); }
  int write_fd() const override { return connection_.socket.get(); }
  IoStep Read(char* buffer, size_t size, size_t& count) override {
    return connection_.session->Read(buffer, size, count);
  }
  IoStep Write(ByteView bytes, size_t& count) override {
    return connection_.session->Write(bytes, count);
  }
  Status error() const override { return connection_.session->error(); }
  bool is_close_its_word() const override { return true; }
  void Close(bool has_last_word) override { CloseInOrder(connection_, has_last_word); }

 private:
  Connection connection_;
};

class Handshake : public TlsHandshake {
 public:
  Handshake(Loop& loop, Connection connection, Duration limit, TlsDone done)
      : loop_(loop), connection_(std::move(connection)), done_(std::move(done)) {
    // Small messages (heartbeats, keys of the rendezvous) wait for nothing.
    const int one = 1;
    ::setsockopt(connection_.socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    limit_ = loop_.After(limit, [this] {
      Finish(Status(ErrorCode::kConnectTimeout, "TLS handshake: the peer did not answer in time"));
    });
    later_ = loop_.After(Duration::zero(), [this] { Advance(); });
  }

 private:
  void Advance() {
    const Status status = SetNonBlocking(connection_.socket.get());
    if (!status.ok()) return Finish(status);
    switch (connection_.session->Handshake()) {
      case IoStep::kWantRead:
        return WaitFor(FdEvent::kRead);
      case IoStep::kWantWrite:
        return WaitFor(FdEvent::kWrite);
      case IoStep::kDone:
        return Finish({});
      case IoStep::kClosed:
      case IoStep::kFailed:
        return Finish(connection_.session->error());
    }
  }

  void WaitFor(FdEvent event) {
    if (watch_.is_active() && watched_ == event) return;
    watched_ = event;
    watch_ = loop_.OnFd(connection_.socket.get(), event, [this] { Advance(); });
  }

  /// The callee may destroy us.
  void Finish(const Status& status) {
    limit_.Cancel();
    watch_.Cancel();
    later_.Cancel();
    const TlsDone done = std::exchange(done_, nullptr);
    if (!status.ok()) {
      CloseInOrder(connection_, false);  // an alert that says why is on its way
      return done(status);
    }
    std::string identity = connection_.session->identity();
    done(TlsConnection{
        MakeChannelStream(loop_, std::make_unique<TlsChannel>(std::move(connection_))),
        std::move(identity)});
  }

  Loop& loop_;
  Connection connection_;
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
  return std::make_unique<Handshake>(loop, Connection{std::move(socket), std::move(session)}, limit,
                                     std::move(done));
}

std::unique_ptr<TlsHandshake> StartTlsServer(Loop& loop, UniqueFd socket, TlsKeyFn key_of,
                                             Duration limit, TlsDone done) {
  auto session = TlsSession::Server(socket.get(), std::move(key_of));
  return std::make_unique<Handshake>(loop, Connection{std::move(socket), std::move(session)}, limit,
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
