// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 requests to one server, one at a time. The only user of cpp-httplib, which writes
// requests and reads answers; the connection below is ours, so that a deadline and Cancel() end a
// call anywhere. TLS is plugged in (base/http_tls.h): programs without it don't link OpenSSL. No
// redirects, no compression.
#ifndef HVDRAY_BASE_HTTP_CLIENT_H_
#define HVDRAY_BASE_HTTP_CLIENT_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/url.h"

namespace hvdray {

/// Name and value of each. Values may be secrets: no message shows them.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// An answer: its head, and its body where the call says so.
struct HttpReply {
  int status = 0;  ///< As received: 404 and 500 are replies, not errors.
  std::string body;
  std::string content_type;
  std::string location;          ///< Where a redirect points.
  bool has_had_secrets = false;  ///< The request had the client's secrets.
};

/// What is between HTTP and a connected, non-blocking socket, which it does not own.
class HttpChannel {
 public:
  /// Instead of a count of bytes: call again once the socket is readable, or writable; or never.
  enum : ssize_t { kWantsRead = -1, kWantsWrite = -2, kBroken = -3 };
  virtual ~HttpChannel() = default;
  /// Returns 1 when the channel can be used. HandshakeFault(): why it returned kBroken.
  virtual ssize_t Handshake() = 0;
  virtual Status HandshakeFault() const = 0;
  virtual bool is_verified() const = 0;  ///< The peer has proven that it is the host.
  /// As read(2) and write(2), but never 0 for a write. A broken pipe may raise SIGPIPE.
  virtual ssize_t Read(char* to, size_t size) = 0;
  virtual ssize_t Write(const char* from, size_t size) = 0;
};

/// Makes the channel of a new connection to `host`. Threads: any.
using HttpChannelMaker =
    std::function<Result<std::unique_ptr<HttpChannel>>(int fd, const std::string& host)>;

/// Which processes of this machine get a request in clear text: anybody may listen on loopback.
/// Those of this user and of root always do, as does whoever is behind a socket's path.
enum class HttpLocalPeer : uint8_t {
  kAny,            ///< All.
  kNotForSecrets,  ///< Others get only requests without secrets and without a body.
  kOwnerOnly,      ///< Others get nothing.
};

/// The server, how to reach it, and limits. For all requests of a client.
struct HttpClientOptions {
  std::string host;  ///< A name or an address; IPv6 without brackets.
  uint16_t port = 0;
  std::string socket_path;  ///< A Unix socket that leads there. Empty: by TCP. Not with `tls`.
  HttpChannelMaker tls;     ///< MakeHttpTls(); the process must ignore SIGPIPE. Empty: clear text.
  /// Asked for a tunnel (CONNECT) with `tls`, otherwise to pass the request on.
  std::optional<HttpProxy> proxy;
  HttpHeaders headers;  ///< Sent with every request; replace those the client sends (User-Agent).
  /// Further headers, for those whom nobody else can replace: a server with a verified certificate,
  /// one behind `socket_path`, a process of this machine that `local_peer` trusts.
  HttpHeaders secrets;
  bool are_secrets_for_others = false;  ///< The secrets also go to servers that may be anybody.
  HttpLocalPeer local_peer = HttpLocalPeer::kNotForSecrets;
  Duration timeout{std::chrono::seconds(30)};  ///< Without a byte sent, and for the whole answer.
  Duration connect_timeout = timeout;          ///< Of that, until a connection can be used.
  size_t max_body_bytes = size_t{64} << 20;    ///< Of an answer that is kept whole.
};

/// One request.
struct HttpCall {
  std::string method;        ///< GET, PUT, POST or DELETE.
  std::string path;          ///< As sent, query included.
  ByteView body = {};        ///< Not copied: outlives the call.
  HttpHeaders headers = {};  ///< Beside the client's, which they replace.
  /// If the server closes a kept connection without an answer, the request is sent once more.
  /// nullopt: unless it is a POST, which then gets a new connection.
  std::optional<bool> is_repeatable = std::nullopt;
};

/// Keeps its connection between requests and reconnects when the server has closed it. Each call
/// blocks. Threads: one caller at a time; Cancel() from any. Move-only. Does not change the
/// process's SIGPIPE setting.
class HttpClient {
 public:
  /// Opens nothing: the first request connects.
  explicit HttpClient(HttpClientOptions options);
  /// To any process at that place, in clear text, answers of at most 16 MiB.
  HttpClient(const std::string& host, uint16_t port, Duration timeout = std::chrono::seconds(30));
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  /// Returns the whole answer.
  /// Errors: kUnknownHost, kHostUnreachable (refused, no route), kConnectTimeout, kHostKeyRejected
  /// (certificate), kAuthenticationFailed (`local_peer`: nothing was sent), kHandshakeFailed (not
  /// TLS, no tunnel), kFileUnreadable (certificates), kDeadlineExceeded, kProtocolError (incomplete
  /// answer, not HTTP, body too large), kCancelled, kOutOfResources; kUsage for a path that does
  /// not start with '/' or contains white space or control bytes, and for such headers.
  Result<HttpReply> Send(const HttpCall& call);

  /// GETs an answer that may last for days: calls `take` on this thread with each piece as it
  /// arrives, until that returns false. The timeout covers connecting; after that only TCP
  /// keep-alive (a peer lost for 30 s) ends the wait. Returns the reply's head when the answer or
  /// `take` has ended it. With a status other than 200, returns the body too and does not call
  /// `take`. Errors: as Send(); kProtocolError if it is cut off.
  Result<HttpReply> Stream(const std::string& path,
                           const std::function<bool(ByteView piece)>& take);

  /// As Stream(), for an answer that exists already: kDeadlineExceeded if its next piece does not
  /// arrive within the timeout. The time `take` needs does not count.
  Result<HttpReply> Fetch(const std::string& path, const std::function<bool(ByteView piece)>& take);

  /// Send(), whose errors also name method, path and server.
  Result<HttpReply> Get(const std::string& path);
  Result<HttpReply> Put(const std::string& path, const std::string& body);
  Result<HttpReply> Delete(const std::string& path);

  /// Ends the current call and all later ones with kCancelled.
  void Cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_CLIENT_H_
