// SPDX-License-Identifier: Apache-2.0
// The adapter of OpenSSL: a session over a socket, the handshake that makes it, and the channel of
// the stream that it becomes.
#include "base/tls_stream.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/io_channel.h"

namespace hvdray {
namespace {

constexpr size_t kRecordBytes = size_t{16} << 10;
constexpr int kDrainReads = 64;
// AES-GCM keys last for 2^24.5 full records (RFC 8446, 5.5); well before, a new one.
constexpr uint64_t kBytesPerKey = uint64_t{1} << 36;
// A pre-shared key goes with SHA-256, and these are the suites that use it.
constexpr char kSuites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kSessionSuite = {0x13, 0x01};

enum class Side : uint8_t { kClient, kServer };

struct SslFree {
  void operator()(SSL* ssl) const { ::SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslFree>;

/// The socket as OpenSSL sees it. OpenSSL's own BIO would raise SIGPIPE.
struct Wire {
  int fd = -1;
  int error = 0;  // errno of the call that failed
  bool is_at_end = false;
};

bool MayRetry(int error) { return error == EAGAIN || error == EINTR; }

int WireWrite(BIO* bio, const char* bytes, int size) {
  auto* wire = static_cast<Wire*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(wire->fd, bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (n >= 0) return static_cast<int>(n);
  if (MayRetry(errno)) {
    BIO_set_retry_write(bio);
  } else {
    wire->error = errno;
  }
  return -1;
}

int WireRead(BIO* bio, char* buffer, int size) {
  auto* wire = static_cast<Wire*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(wire->fd, buffer, static_cast<size_t>(size), 0);
  if (n > 0) return static_cast<int>(n);
  if (n == 0 || errno == ECONNRESET) {
    wire->is_at_end = true;
    return 0;
  }
  if (MayRetry(errno)) {
    BIO_set_retry_read(bio);
  } else {
    wire->error = errno;
  }
  return -1;
}

// NOLINTNEXTLINE(google-runtime-int): OpenSSL's type.
long WireControl(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_EOF) return static_cast<Wire*>(::BIO_get_data(bio))->is_at_end ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO* MakeWireBio(Wire* wire) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    HVDRAY_CHECK(made != nullptr && ::BIO_meth_set_write(made, &WireWrite) == 1 &&
                 ::BIO_meth_set_read(made, &WireRead) == 1 &&
                 ::BIO_meth_set_ctrl(made, &WireControl) == 1);
    return made;
  }();
  BIO* bio = ::BIO_new(method);
  HVDRAY_CHECK(bio != nullptr);
  ::BIO_set_data(bio, wire);
  ::BIO_set_init(bio, 1);
  return bio;
}

/// One end of a TLS connection over a non-blocking socket, step by step. Knows no loop and no time.
class Session {
 public:
  /// A client's, which offers `key` as `identity`. The caller owns the socket, which outlives this.
  Session(int socket, std::string identity, Secret key) : Session(Side::kClient, socket) {
    HVDRAY_CHECK(!identity.empty() && identity.size() <= kMaxTlsIdentity &&
                 key.view().size() == kTlsKeyBytes);
    identity_ = std::move(identity);
    key_ = std::move(key);
  }
  /// A server's.
  Session(int socket, TlsKeyFn key_of) : Session(Side::kServer, socket) {
    key_of_ = std::move(key_of);
  }

  /// After kFailed, here as below, only error() may be called.
  IoStep Handshake() {
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    if (result != 1) {
      const IoStep step = StepOf(result);
      if (step == IoStep::kClosed || step == IoStep::kFailed) error_ = HandshakeError();
      return step == IoStep::kClosed ? IoStep::kFailed : step;
    }
    key_ = Secret();
    // A second lock: a peer with a certificate and no key should have failed before this.
    if (::SSL_session_reused(ssl_.get()) == 1) return IoStep::kDone;
    error_ = {ErrorCode::kAuthenticationFailed, "TLS: the peer did not use the key"};
    return IoStep::kFailed;
  }

  /// Reads at most `size` bytes; less than 16 KiB at a time would leave part of a record behind,
  /// for which the socket does not become readable. `count`: bytes read, whatever the step.
  IoStep Read(char* buffer, size_t size, size_t& count) {
    count = 0;
    while (size - count >= kRecordBytes) {
      ::ERR_clear_error();
      size_t n = 0;
      const int result = ::SSL_read_ex(ssl_.get(), buffer + count, size - count, &n);
      if (result != 1) return StepOf(result);
      count += n;
    }
    return IoStep::kDone;
  }

  /// `count`: bytes sent, whatever the step. After kWantRead or kWantWrite, call again with the
  /// rest.
  IoStep Write(ByteView bytes, size_t& count) {
    count = 0;
    while (count < bytes.size()) {
      if (sent_with_key_ >= kBytesPerKey) {
        sent_with_key_ = 0;
        (void)::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
      }
      ::ERR_clear_error();
      size_t n = 0;
      const int result = ::SSL_write_ex(ssl_.get(), bytes.data() + count, bytes.size() - count, &n);
      if (result != 1) return StepOf(result);
      count += n;
      sent_with_key_ += n;
    }
    return IoStep::kDone;
  }

  /// Tells the peer that nothing more will come. What the socket does not take is lost.
  void CloseNotify() {
    ::ERR_clear_error();
    if (error_.ok()) (void)::SSL_shutdown(ssl_.get());
    ::ERR_clear_error();
  }

  const Status& error() const { return error_; }
  /// The client's name for itself, once the handshake is done.
  const std::string& identity() const { return identity_; }

 private:
  Session(Side side, int socket) : side_(side) {
    wire_.fd = socket;
    ssl_.reset(::SSL_new(ContextOf(side)));
    HVDRAY_CHECK(ssl_ != nullptr && SSL_set_app_data(ssl_.get(), this) == 1);
    BIO* bio = MakeWireBio(&wire_);
    ::SSL_set_bio(ssl_.get(), bio, bio);
    if (side == Side::kClient) {
      ::SSL_set_connect_state(ssl_.get());
    } else {
      ::SSL_set_accept_state(ssl_.get());
    }
  }

  static SSL_CTX* ContextOf(Side side);
  static Session* Of(SSL* ssl) { return static_cast<Session*>(SSL_get_app_data(ssl)); }

  /// A pre-shared key as OpenSSL takes it. The caller owns the session.
  static SSL_SESSION* SessionOf(SSL* ssl, ByteView key) {
    SSL_SESSION* session = ::SSL_SESSION_new();
    HVDRAY_CHECK(
        session != nullptr &&
        ::SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                      key.size()) == 1 &&
        ::SSL_SESSION_set_cipher(session, ::SSL_CIPHER_find(ssl, kSessionSuite.data())) == 1 &&
        ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
    return session;
  }

  static int OfferKey(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity,
                      size_t* size, SSL_SESSION** session) {
    Session* self = Of(ssl);
    *identity = reinterpret_cast<const unsigned char*>(self->identity_.data());
    *size = self->identity_.size();
    *session = SessionOf(ssl, self->key_.view());
    return 1;
  }

  static int FindKey(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
    Session* self = Of(ssl);
    self->was_asked_ = true;
    std::optional<Secret> key;
    if (size > 0 && size <= kMaxTlsIdentity) {
      self->identity_.assign(reinterpret_cast<const char*>(identity), size);
      key = self->key_of_(self->identity_);
    }
    if (!key) {
      // A random key, so that an unknown identity fails as a wrong key does.
      std::array<char, kTlsKeyBytes> random{};
      HVDRAY_CHECK(::RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), random.size()) ==
                   1);
      key.emplace(ByteView(random.data(), random.size()));
    }
    *session = SessionOf(ssl, key->view());
    return 1;
  }

  IoStep StepOf(int result) {
    switch (::SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return IoStep::kWantRead;
      case SSL_ERROR_WANT_WRITE:
        return IoStep::kWantWrite;
      case SSL_ERROR_ZERO_RETURN:
        return IoStep::kClosed;
      default:
        error_ = StreamError();
        return IoStep::kFailed;
    }
  }

  Status StreamError() const {
    // Before wire_.error: an alert that could not be sent any more is not the cause.
    if (wire_.is_at_end) {
      return {ErrorCode::kAgentLost, "the connection ended without a close_notify"};
    }
    if (wire_.error != 0) return ErrnoStatus("TLS", wire_.error);
    return {ErrorCode::kProtocolError, fmt::format("TLS: {}", Reason())};
  }

  static std::string Reason() {
    const char* reason = ::ERR_reason_error_string(::ERR_peek_error());
    return reason == nullptr ? "unknown error" : reason;
  }

  Status HandshakeError() const {
    if (IsAboutTheKey(ERR_GET_REASON(::ERR_peek_error()))) {
      return {ErrorCode::kAuthenticationFailed,
              side_ == Side::kServer ? fmt::format("TLS handshake: '{}' is unknown, or has another "
                                                   "key",
                                                   ShownIdentity())
                                     : "TLS handshake: the peer has another key, or does not "
                                       "expect us"};
    }
    if (wire_.is_at_end) {
      return {ErrorCode::kHandshakeFailed, "TLS handshake: the peer left"};
    }
    if (wire_.error != 0) return ErrnoStatus("TLS handshake", wire_.error);
    return {ErrorCode::kHandshakeFailed, fmt::format("TLS handshake: {}", Reason())};
  }

  bool IsAboutTheKey(int reason) const {
    if (side_ == Side::kServer) return was_asked_ && reason == SSL_R_BINDER_DOES_NOT_VERIFY;
    return reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
           reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER;
  }

  /// A client may send any bytes.
  std::string ShownIdentity() const {
    std::string shown = identity_;
    for (char& c : shown) {
      if (c < ' ' || c > '~') c = '?';
    }
    return shown;
  }

  const Side side_;
  Wire wire_;  // before ssl_, which uses it
  SslPtr ssl_;
  std::string identity_;
  Secret key_;
  TlsKeyFn key_of_;
  bool was_asked_ = false;
  uint64_t sent_with_key_ = 0;
  Status error_;
};

// Two for the whole process: all that differs between connections is in the Session.
SSL_CTX* Session::ContextOf(Side side) {
  static const auto make = [](Side of) {
    // No openssl.cnf: a remote host's may ask for what a static program can't load.
    HVDRAY_CHECK(::OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1);
    SSL_CTX* context =
        ::SSL_CTX_new(of == Side::kClient ? ::TLS_client_method() : ::TLS_server_method());
    HVDRAY_CHECK(context != nullptr &&
                 SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                 SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                 ::SSL_CTX_set_ciphersuites(context, kSuites) == 1 &&
                 ::SSL_CTX_set_num_tickets(context, 0) == 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    if (of == Side::kClient) {
      // Trusts no authority, so it refuses a server that has a certificate instead of the key.
      ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
      ::SSL_CTX_set_psk_use_session_callback(context, &Session::OfferKey);
    } else {
      ::SSL_CTX_set_psk_find_session_callback(context, &Session::FindKey);
    }
    return context;
  };
  static SSL_CTX* const client = make(Side::kClient);
  static SSL_CTX* const server = make(Side::kServer);
  return side == Side::kClient ? client : server;
}

struct Connection {
  UniqueFd socket;
  std::unique_ptr<Session> session;  // over `socket`, so it ends first
};

// Closing a socket with unread input resets the connection, and the peer may lose what was sent
// last: drops the input first.
void CloseInOrder(Connection& connection, bool all_sent) {
  if (all_sent) connection.session->CloseNotify();
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

  Status Prepare() override { return {}; }  // the handshake has done it
  int read_fd() const override { return connection_.socket.get(); }
  int write_fd() const override { return connection_.socket.get(); }
  IoStep Read(char* buffer, size_t size, size_t& count) override {
    return connection_.session->Read(buffer, size, count);
  }
  IoStep Write(ByteView bytes, size_t& count) override {
    return connection_.session->Write(bytes, count);
  }
  Status error() const override { return connection_.session->error(); }
  bool is_explicit_close() const override { return true; }
  void Close(bool all_sent) override { CloseInOrder(connection_, all_sent); }

 private:
  Connection connection_;
};

class Handshake : public TlsHandshake {
 public:
  Handshake(Loop& loop, Connection connection, Duration limit, TlsDone done)
      : loop_(loop), connection_(std::move(connection)), done_(std::move(done)) {
    // Small messages (heartbeats, keys of the rendezvous) must not wait for more.
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

  /// The last act: `done` gets the outcome, and its owner may drop this handshake.
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
  auto session = std::make_unique<Session>(socket.get(), std::move(identity), std::move(key));
  return std::make_unique<Handshake>(loop, Connection{std::move(socket), std::move(session)}, limit,
                                     std::move(done));
}

std::unique_ptr<TlsHandshake> StartTlsServer(Loop& loop, UniqueFd socket, TlsKeyFn key_of,
                                             Duration limit, TlsDone done) {
  auto session = std::make_unique<Session>(socket.get(), std::move(key_of));
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
