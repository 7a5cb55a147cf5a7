// SPDX-License-Identifier: Apache-2.0
#include "base/tls_session.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace hvdray {
namespace {

constexpr size_t kRecordBytes = size_t{16} << 10;
// AES-GCM keys last for 2^24.5 full records (RFC 8446, 5.5); well before, a new one.
constexpr uint64_t kBytesPerKey = uint64_t{1} << 36;
// A key that both have beforehand goes with SHA-256, hence with these two.
constexpr char kSuites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kSessionSuite = {0x13, 0x01};

enum class Side : uint8_t { kClient, kServer };

struct SslFree {
  void operator()(SSL* ssl) const { ::SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslFree>;

/// The socket as OpenSSL sees it: its own BIO would raise SIGPIPE.
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

class Session : public TlsSession {
 public:
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

  void Offer(std::string identity, Secret key) {
    identity_ = std::move(identity);
    key_ = std::move(key);
  }
  void Ask(TlsKeyFn key_of) { key_of_ = std::move(key_of); }

  IoStep Handshake() override {
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    if (result != 1) {
      const IoStep step = StepOf(result);
      if (step == IoStep::kClosed || step == IoStep::kFailed) error_ = HandshakeError();
      return step == IoStep::kClosed ? IoStep::kFailed : step;
    }
    key_ = Secret();
    // A peer with a certificate and no key has not got here; this is the second lock.
    if (::SSL_session_reused(ssl_.get()) == 1) return IoStep::kDone;
    error_ = {ErrorCode::kAuthenticationFailed, "TLS: the peer did not use the key"};
    return IoStep::kFailed;
  }

  IoStep Read(char* buffer, size_t size, size_t& count) override {
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

  IoStep Write(ByteView bytes, size_t& count) override {
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

  void CloseNotify() override {
    ::ERR_clear_error();
    if (error_.ok()) (void)::SSL_shutdown(ssl_.get());
    ::ERR_clear_error();
  }

  const Status& error() const override { return error_; }
  const std::string& identity() const override { return identity_; }

 private:
  static SSL_CTX* ContextOf(Side side);
  static Session* Of(SSL* ssl) { return static_cast<Session*>(SSL_get_app_data(ssl)); }

  /// Of SHA-256: what a key that is known beforehand looks like to OpenSSL.
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
      // A key that nobody has, so that an unknown identity fails as a wrong key does.
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
    // First: an alert that could not be sent any more is no cause.
    if (wire_.is_at_end) {
      return {ErrorCode::kAgentLost, "the connection ended in the middle"};
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
                                     : "TLS handshake: the peer has another key, or does not wait "
                                       "for us"};
    }
    if (wire_.is_at_end) {
      return {ErrorCode::kHandshakeFailed, "TLS handshake: the peer went away in the middle"};
    }
    if (wire_.error != 0) return ErrnoStatus("TLS handshake", wire_.error);
    return {ErrorCode::kHandshakeFailed, fmt::format("TLS handshake: {}", Reason())};
  }

  bool IsAboutTheKey(int reason) const {
    if (side_ == Side::kServer) return was_asked_ && reason == SSL_R_BINDER_DOES_NOT_VERIFY;
    return reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
           reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER;
  }

  /// As a client gave it, so it may be anything.
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

// Two for the whole process: what differs from one connection to another is in the Session.
SSL_CTX* Session::ContextOf(Side side) {
  static const auto make = [](Side of) {
    // Nobody's openssl.cnf: on a foreign host it may ask for what a static program can't load.
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
      // No authority is known, so a server with a certificate in place of the key is refused.
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

}  // namespace

std::unique_ptr<TlsSession> TlsSession::Client(int socket, std::string identity, Secret key) {
  HVDRAY_CHECK(!identity.empty() && identity.size() <= kMaxTlsIdentity &&
               key.view().size() == kTlsKeyBytes);
  auto session = std::make_unique<Session>(Side::kClient, socket);
  session->Offer(std::move(identity), std::move(key));
  return session;
}

std::unique_ptr<TlsSession> TlsSession::Server(int socket, TlsKeyFn key_of) {
  auto session = std::make_unique<Session>(Side::kServer, socket);
  session->Ask(std::move(key_of));
  return session;
}

}  // namespace hvdray
