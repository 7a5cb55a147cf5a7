// SPDX-License-Identifier: Apache-2.0
#include "base/web_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "base/fd.h"
#include "base/local_peer.h"
#include "base/text.h"
#include "base/unix_socket.h"

namespace hvdray {
namespace {

using Clock = std::chrono::steady_clock;

// The library's own limits only back up ours.
constexpr std::chrono::seconds kMargin(2);
// A log may be silent for days. More than 24 days would overflow the library's milliseconds.
constexpr std::chrono::hours kSilence(24 * 7);
// Pause before cutting again: a call whose connection was cut may go on with the name's next
// address.
constexpr std::chrono::milliseconds kCutAgain(20);
constexpr size_t kSendPiece = size_t{256} << 10;

bool IsSafePath(std::string_view path) {
  return path.starts_with('/') && std::ranges::none_of(path, [](char c) {
           return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F;
         });
}

bool IsSafeHeader(const std::string& name, const std::string& value) {
  const auto is_control = [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  };
  return !name.empty() && std::ranges::none_of(name, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == ':' || c == 0x7F;
  }) && std::ranges::none_of(value, is_control);
}

/// Without keep-alive, a reader would wait forever for a peer that was switched off.
void NoticeLostPeers(int fd) {
  const int on = 1, idle_s = 15, interval_s = 5, count = 3;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/// The numbers are OpenSSL's (x509_vfy.h); its own texts are not for users.
std::string CertificateFault(long verify_result) {
  switch (verify_result) {
    case 0:
    case 62:
    case 64:
      return "its certificate is for another name";
    case 9:
      return "its certificate is not valid yet";
    case 10:
      return "its certificate has expired";
    case 18:
    case 19:
    case 20:
    case 21:
      return "its certificate is not signed by an authority that this host trusts";
    default:
      return fmt::format("its certificate is not valid (X.509 error {})", verify_result);
  }
}

/// A client in clear text that is told of each new connection before it sends anything.
class PlainClient final : public httplib::ClientImpl {
 public:
  /// on_connected: false ends the connection.
  PlainClient(const WebClientOptions& options, std::function<bool(int fd)> on_connected)
      : ClientImpl(options.host, options.port),
        socket_path_(options.socket_path),
        on_connected_(std::move(on_connected)) {}

 protected:
  bool create_and_connect_socket(Socket& socket, httplib::Error& error) override {
    if (!socket_path_.empty()) {
      UniqueFd fd;
      if (ConnectUnix(socket_path_, fd) == 0) socket.sock = fd.Release();
      error = socket.is_open() ? httplib::Error::Success : httplib::Error::Connection;
    } else if (!ClientImpl::create_and_connect_socket(socket, error)) {
      return false;
    }
    if (!socket.is_open()) return false;
    if (on_connected_(socket.sock)) return true;
    close_socket(socket);
    error = httplib::Error::Connection;
    return false;
  }

 private:
  const std::string socket_path_;
  const std::function<bool(int fd)> on_connected_;
};

}  // namespace

struct WebClient::Impl {
  explicit Impl(WebClientOptions with)
      : options(std::move(with)), are_secrets_sent(options.is_tls && MayLeaveByTls()) {
    if (options.is_tls) {
      auto secure = std::make_unique<httplib::SSLClient>(options.host, options.port);
      secure->enable_server_certificate_verification(options.trust.is_checked);
      tls = secure.get();
      client = std::move(secure);
    } else {
      client =
          std::make_unique<PlainClient>(options, [this](int fd) { return MayUseConnection(fd); });
    }
    if (!options.trust.path.empty()) {
      struct ::stat entry {};
      const bool is_directory =
          ::stat(options.trust.path.c_str(), &entry) == 0 && S_ISDIR(entry.st_mode);
      client->set_ca_cert_path(is_directory ? "" : options.trust.path,
                               is_directory ? options.trust.path : "");
    }
    if (options.is_tls && options.proxy) {
      client->set_proxy(options.proxy->host, options.proxy->port);
      if (!options.proxy->user.empty()) {
        client->set_proxy_basic_auth(options.proxy->user, options.proxy->password);
      }
    }
    client->set_keep_alive(true);
    client->set_url_encode(false);
    client->set_decompress(false);
    client->set_tcp_nodelay(true);
    client->set_socket_options([this](int fd) {
      NoticeLostPeers(fd);
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      const std::lock_guard lock(mutex);
      has_address = true;
      socket.Reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    });
  }

  std::string Place() const {
    const bool is_ipv6 = options.host.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", options.host, is_ipv6 ? "]" : "",
                       options.port);
  }

  Status Check(const WebRequest& request) const {
    if (!IsSafePath(request.path)) {
      return {ErrorCode::kUsage, fmt::format("{}: not a valid request path", request.method)};
    }
    for (const WebHeaders* headers : {&options.headers, &options.secrets}) {
      for (const auto& [name, value] : *headers) {
        if (!IsSafeHeader(name, value)) {
          return {ErrorCode::kUsage, "a header contains bytes that can't be sent"};
        }
      }
    }
    return {};
  }

  // A server with any certificate may be anybody.
  bool MayLeaveByTls() const { return options.trust.is_checked || options.are_secrets_for_others; }

  /// For each new connection in clear text. Whether the request that it was made for may be sent;
  /// gives it the secrets, or takes them from it.
  bool MayUseConnection(int fd) {
    using Kind = LocalPeer::Kind;
    if (!options.socket_path.empty()) {
      const std::lock_guard lock(mutex);
      has_address = true;
      socket.Reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    }
    const bool is_trusted = !options.socket_path.empty() || !options.is_peer_checked;
    peer = is_trusted ? LocalPeer{Kind::kTrusted, 0} : FindLocalPeer(fd);
    const bool is_elsewhere = peer.kind == Kind::kElsewhere;
    is_refused = peer.kind != Kind::kTrusted && !is_elsewhere && is_confidential;
    are_secrets_sent =
        peer.kind == Kind::kTrusted || (is_elsewhere && options.are_secrets_for_others);
    AddSecrets(*current);
    return !is_refused;
  }

  void AddSecrets(httplib::Request& request) const {
    for (const auto& [name, value] : options.secrets) {
      request.headers.erase(name);
      if (are_secrets_sent) request.headers.emplace(name, value);
    }
  }

  httplib::Request MakeRequest(const WebRequest& from) {
    httplib::Request request;
    request.method = from.method;
    request.path = from.path;
    request.headers = {{"Host", Place()}, {"Accept", "*/*"}, {"Accept-Encoding", "identity"}};
    for (const auto& [name, value] : options.headers) {
      request.headers.erase(name);
      request.headers.emplace(name, value);
    }
    AddSecrets(request);
    if (from.body.empty()) return request;
    if (!from.content_type.empty()) request.headers.emplace("Content-Type", from.content_type);
    request.content_length_ = from.body.size();
    request.content_provider_ = [this, body = from.body](size_t offset, size_t length,
                                                         httplib::DataSink& sink) {
      bytes_sent = offset;
      Extend();
      const size_t size = std::min(length, kSendPiece);
      return sink.write(body.data() + offset, size);
    };
    return request;
  }

  /// Makes one attempt. `take`: nullptr to keep the whole answer.
  httplib::Error Attempt(const WebRequest& from, const std::function<bool(ByteView)>* take,
                         WebReply& reply) {
    httplib::Request request = MakeRequest(from);
    current = &request;
    reply = {};
    request.response_handler = [&](const httplib::Response& response) {
      reply.status = response.status;
      reply.content_type = response.get_header_value("Content-Type");
      reply.location = response.get_header_value("Location");
      if (take != nullptr && reply.status != 200) Extend();
      return true;
    };
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      if (size == 0) return true;
      if (take != nullptr && reply.status == 200) {
        if (WasCut()) return false;
        if (is_endless) {
          is_enough = !(*take)(ByteView(data, size));
        } else {
          Pause();
          is_enough = !(*take)(ByteView(data, size));
          Extend();
        }
        return !is_enough;
      }
      is_too_large = reply.body.size() + size > options.max_body_bytes;
      if (is_too_large) return false;
      reply.body.append(data, size);
      return true;
    };
    httplib::Response response;
    httplib::Error error = httplib::Error::Success;
    if (client->send(request, response, error)) {
      // A proxy's refusal of the tunnel reaches no handler.
      if (reply.status == 0) reply.status = response.status;
      reply.has_had_secrets = are_secrets_sent;
      return httplib::Error::Success;
    }
    return error == httplib::Error::Success ? httplib::Error::Unknown : error;
  }

  /// Cuts the connection at the deadline or on Cancel(): nothing else ends a blocking call.
  void Watch() {
    std::unique_lock lock(mutex);
    while (!is_done) {
      if (is_cancelled || (deadline && Clock::now() >= *deadline)) {
        was_cut = true;
        if (socket.is_valid()) ::shutdown(socket.get(), SHUT_RDWR);
        wakeup.wait_for(lock, kCutAgain);
      } else if (deadline) {
        wakeup.wait_until(lock, *deadline);
      } else {
        wakeup.wait(lock);
      }
    }
  }

  /// Runs Watch() on a thread while it lives.
  class Watcher {
   public:
    explicit Watcher(Impl& of) : impl_(of), thread_([&of] { of.Watch(); }) {}
    ~Watcher() {
      {
        const std::lock_guard lock(impl_.mutex);
        impl_.is_done = true;
        impl_.wakeup.notify_all();
      }
      thread_.join();
    }
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

   private:
    Impl& impl_;
    std::thread thread_;
  };

  void Pause() {
    const std::lock_guard lock(mutex);
    deadline.reset();
  }

  void Extend() {
    const std::lock_guard lock(mutex);
    if (was_cut) return;
    deadline = Clock::now() + options.timeout;
    wakeup.notify_all();
  }

  bool WasCut() {
    const std::lock_guard lock(mutex);
    return was_cut || is_cancelled;
  }

  bool Begin(bool may_be_silent) {
    const std::lock_guard lock(mutex);
    is_endless = may_be_silent;
    is_done = was_cut = is_enough = is_too_large = has_address = is_refused = false;
    bytes_sent = 0;
    deadline.reset();
    if (!is_endless) deadline = Clock::now() + options.timeout;
    client->set_connection_timeout(options.timeout);
    client->set_write_timeout(options.timeout + kMargin);
    client->set_read_timeout(is_endless ? Duration(kSilence) : options.timeout + kMargin);
    return !is_cancelled;
  }

  void Close() {
    client->stop();
    const std::lock_guard lock(mutex);
    socket.Reset();
  }

  Result<WebReply> Run(const WebRequest& request, const std::function<bool(ByteView)>* take,
                       bool may_be_silent = false) {
    HVDRAY_RETURN_IF_ERROR(Check(request));
    is_confidential = !options.secrets.empty() || !request.body.empty();
    // A POST can't be repeated, so it gets a connection that the server can't have closed yet. A
    // connection that was good enough for less is judged anew.
    if (request.method == "POST" || is_confidential != was_confidential) Close();
    was_confidential = is_confidential;
    if (!Begin(may_be_silent)) return Status(ErrorCode::kCancelled, "cancelled");
    WebReply reply;
    httplib::Error error = httplib::Error::Unknown;
    try {
      const Watcher watcher(*this);
      const bool is_kept = client->is_socket_open() != 0;
      error = Attempt(request, take, reply);
      const bool is_cut = error == httplib::Error::Read || error == httplib::Error::Write;
      if (is_cut && is_kept && reply.status == 0 && !WasCut()) {
        error = Attempt(request, take, reply);
      }
    } catch (const std::system_error& thrown) {
      return Status(ErrorCode::kOutOfResources, fmt::format("start a thread: {}", thrown.what()));
    } catch (const std::exception& thrown) {
      Close();
      return Status(ErrorCode::kInternal,
                    fmt::format("{} request: {}", request.method, thrown.what()));
    }
    if (error == httplib::Error::Success && !was_cut) return reply;
    Close();
    if (is_enough) return reply;
    if (IsCancelled()) return Status(ErrorCode::kCancelled, "cancelled");
    return ToStatus(error, reply, request.body.size());
  }

  bool IsCancelled() {
    const std::lock_guard lock(mutex);
    return is_cancelled;
  }

  Status NotOurs() const {
    const bool is_known = peer.kind == LocalPeer::Kind::kOtherUser;
    return {ErrorCode::kAuthenticationFailed,
            fmt::format("port {} of this machine belongs to {}", options.port,
                        is_known ? fmt::format("another user (uid {})", peer.uid)
                                 : std::string("an unknown user"))};
  }

  /// Call after the Watcher has ended: only Cancel() may still touch what the mutex guards.
  Status ToStatus(httplib::Error error, const WebReply& reply, size_t body_bytes) const {
    const std::string timeout = SecondsText(options.timeout);
    if (is_refused) return NotOurs();
    const bool is_connecting =
        error == httplib::Error::Connection || error == httplib::Error::ConnectionTimeout;
    if (is_connecting && !options.socket_path.empty()) {
      return {ErrorCode::kHostUnreachable, "the tunnel has ended"};
    }
    if (is_connecting && (was_cut || error == httplib::Error::ConnectionTimeout)) {
      return {ErrorCode::kConnectTimeout, fmt::format("no answer within {}", timeout)};
    }
    const bool has_proxy = options.is_tls && options.proxy.has_value();
    if (is_connecting && !has_address) {
      return {ErrorCode::kUnknownHost,
              fmt::format("no address for the name {}",
                          has_proxy ? options.proxy->host + ", the proxy's" : options.host)};
    }
    if (is_connecting) {
      return {ErrorCode::kHostUnreachable,
              has_proxy ? fmt::format("connection to the proxy {}:{} refused, or no route",
                                      options.proxy->host, options.proxy->port)
                        : "connection refused, or no route"};
    }
    if (error == httplib::Error::SSLLoadingCerts) {
      return {ErrorCode::kFileUnreadable,
              fmt::format("{}: no certificates in PEM form", options.trust.path)};
    }
    if (error == httplib::Error::SSLServerVerification) {
      return {ErrorCode::kHostKeyRejected, CertificateFault(tls->get_openssl_verify_result())};
    }
    if (error == httplib::Error::SSLConnection) {
      // A plain HTTP server waits for the end of a line, so it may say nothing at all.
      return {
          ErrorCode::kHandshakeFailed,
          was_cut ? fmt::format("it does not speak TLS: no handshake within {}", timeout)
          : has_proxy
              ? fmt::format("the proxy {}:{} refused the tunnel, or the server does not speak TLS",
                            options.proxy->host, options.proxy->port)
              : "it does not speak TLS, or no version accepted here"};
    }
    if (was_cut) {
      return {ErrorCode::kDeadlineExceeded, fmt::format("no complete answer within {}", timeout)};
    }
    if (is_too_large) {
      return {ErrorCode::kProtocolError,
              fmt::format("answer larger than {} bytes", options.max_body_bytes)};
    }
    if (error == httplib::Error::Write && body_bytes > 0) {
      return {
          ErrorCode::kProtocolError,
          fmt::format("connection closed after {} of {} bytes were sent", bytes_sent, body_bytes)};
    }
    return {ErrorCode::kProtocolError, reply.status == 0
                                           ? "connection closed without an HTTP answer"
                                           : "connection closed in the middle of the answer"};
  }

  const WebClientOptions options;
  std::unique_ptr<httplib::ClientImpl> client;
  httplib::SSLClient* tls = nullptr;  // `client`, if that is one
  bool is_enough = false;
  bool is_too_large = false;
  bool is_endless = false;
  size_t bytes_sent = 0;
  httplib::Request* current = nullptr;  // of the attempt that runs
  bool is_confidential = false;         // of the request: it has secrets or a body
  bool was_confidential = false;        // the one before
  bool are_secrets_sent;                // on this connection
  bool is_refused = false;              // it is not sent to `peer`
  LocalPeer peer;                       // of this connection, in clear text

  std::mutex mutex;  // guards the rest while a call runs
  std::condition_variable wakeup;
  std::optional<Clock::time_point> deadline;
  UniqueFd socket;  // a duplicate of the library's, so that Watch() can cut the connection
  bool has_address = false;
  bool is_done = true;
  bool was_cut = false;
  bool is_cancelled = false;
};

WebClient::WebClient(WebClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
WebClient::~WebClient() = default;

Result<WebReply> WebClient::Send(const WebRequest& request) { return impl_->Run(request, nullptr); }

Result<WebReply> WebClient::Stream(const std::string& path,
                                   const std::function<bool(ByteView piece)>& take) {
  return impl_->Run({.method = "GET", .path = path}, &take, /*may_be_silent=*/true);
}

Result<WebReply> WebClient::Fetch(const std::string& path,
                                  const std::function<bool(ByteView piece)>& take) {
  return impl_->Run({.method = "GET", .path = path}, &take);
}

void WebClient::Cancel() {
  const std::lock_guard lock(impl_->mutex);
  impl_->is_cancelled = true;
  impl_->wakeup.notify_all();
}

}  // namespace hvdray
