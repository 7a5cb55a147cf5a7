// SPDX-License-Identifier: Apache-2.0
// HTTP and HTTPS requests to one server that we do not own: own headers, large bodies, answers that
// never end. The second door to cpp-httplib, beside base/http_client.h for the plain ones of
// training programs. No redirects, no compression; a proxy for https alone.
#ifndef HVDRAY_BASE_WEB_CLIENT_H_
#define HVDRAY_BASE_WEB_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Whose certificates are believed. With a path: those of that file (PEM), or of that directory as
/// `openssl rehash` leaves it; else those of the system.
struct WebTrust {
  bool is_checked = true;
  std::string path;
};

/// Name and value. Values may be secrets: they appear in no message.
using WebHeaders = std::vector<std::pair<std::string, std::string>>;

/// Where a tunnel to an https server is asked for, in plain HTTP (CONNECT). The password appears in
/// no message.
struct WebProxy {
  std::string host;  ///< IPv6 without brackets.
  uint16_t port = 0;
  std::string user, password;  ///< Empty: none are sent.
};

struct WebClientOptions {
  std::string host;  ///< A name or an address, IPv6 without brackets.
  uint16_t port = 0;
  bool is_tls = false;
  WebTrust trust;
  std::optional<WebProxy> proxy;  ///< With is_tls; else it has no meaning.
  WebHeaders headers;  ///< Of every request. A name that is sent anyway (User-Agent) is replaced.
  Duration timeout{std::chrono::seconds(30)};  ///< Without a byte sent, and of the whole answer.
  size_t max_body_bytes = size_t{64} << 20;    ///< Of an answer that is kept.
};

struct WebRequest {
  std::string method;        ///< GET, PUT, POST or DELETE.
  std::string path;          ///< As it goes out, query included.
  ByteView body;             ///< Not copied: outlives the call.
  std::string content_type;  ///< Of the body.
};

struct WebReply {
  int status = 0;  ///< As sent: 404 and 500 are replies, not errors.
  std::string body;
  std::string content_type;
  std::string location;  ///< Where a redirect points to.
};

/// Requests one after another over one connection that is made anew when the server has closed it.
/// Threads: one caller at a time; Cancel() from any. SIGPIPE is ignored by the process, as hvdray
/// does. Not movable.
class WebClient {
 public:
  /// Opens nothing. The certificates of `trust` are read with the first request.
  explicit WebClient(WebClientOptions options);
  ~WebClient();
  WebClient(const WebClient&) = delete;
  WebClient& operator=(const WebClient&) = delete;

  /// Blocks until the whole answer is there. A GET or DELETE on a kept connection that the server
  /// closes without an answer is sent once more.
  /// Errors: kUnknownHost, kHostUnreachable (refused, no route), kConnectTimeout, kHostKeyRejected
  /// (its certificate, in words), kHandshakeFailed (no TLS there), kFileUnreadable (trust.path),
  /// kDeadlineExceeded, kProtocolError (closed before a whole answer, no HTTP, body over the
  /// limit), kCancelled, kUsage for a path or header that is none.
  Result<WebReply> Send(const WebRequest& request);

  /// GET whose answer comes in pieces, for as long as the server goes on: `take` gets each as it
  /// comes, on this thread, and returns false to end. Only a peer that is gone (TCP keep-alive, 30
  /// s) ends the wait for a piece; connecting has the timeout. Returns the reply's head once the
  /// answer has ended or `take` has said so; with a status other than 200 its body is in the reply
  /// and `take` is not called. Errors: as Send(); kProtocolError when it is cut off.
  Result<WebReply> Stream(const std::string& path, const std::function<bool(ByteView piece)>& take);

  /// The same for an answer that is there already: kDeadlineExceeded when the next piece of it does
  /// not come within the timeout; what `take` needs does not count.
  Result<WebReply> Fetch(const std::string& path, const std::function<bool(ByteView piece)>& take);

  /// Ends the call under way with kCancelled, and every later one at once. Returns at once; a name
  /// look-up that is under way ends in its own time.
  void Cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_WEB_CLIENT_H_
