// SPDX-License-Identifier: Apache-2.0
// HTTP and HTTPS requests to one server that is not ours: own headers, large bodies, answers
// without end. An adapter of cpp-httplib; base/http_client.h is the small one that training
// programs link. No redirects, no compression; a proxy only for https.
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

/// Which certificates to trust.
struct WebTrust {
  bool is_checked = true;  ///< False: any certificate will do.
  std::string path;  ///< PEM file, or directory as `openssl rehash` makes it. Empty: the system's.
};

/// Name and value of each. Values may be secrets: no message shows them.
using WebHeaders = std::vector<std::pair<std::string, std::string>>;

/// A proxy that is asked, in plain HTTP (CONNECT), for a tunnel to an https server. No message
/// shows the password.
struct WebProxy {
  std::string host;  ///< IPv6 without brackets.
  uint16_t port = 0;
  std::string user, password;  ///< Empty: not sent.
};

/// The server, how to reach it, and limits. For all requests of a client.
struct WebClientOptions {
  std::string host;  ///< A name or an address; IPv6 without brackets.
  uint16_t port = 0;
  std::string socket_path;  ///< A Unix socket that leads there. Empty: by TCP. Not with is_tls.
  bool is_tls = false;
  WebTrust trust;
  std::optional<WebProxy> proxy;  ///< Ignored without is_tls.
  WebHeaders headers;  ///< Sent with every request; replace those the client sends (User-Agent).
  /// Further headers, for those whom nobody else can replace: a server with a verified certificate,
  /// one behind `socket_path`, a process of this user or of root on this machine.
  WebHeaders secrets;
  bool are_secrets_for_others = false;  ///< The secrets also go to other machines, in clear text.
  bool is_peer_checked = true;          ///< false: any process of this machine is trusted.
  Duration timeout{std::chrono::seconds(30)};  ///< Without a byte sent, and for the whole answer.
  size_t max_body_bytes = size_t{64} << 20;    ///< Of an answer that Send() returns.
};

/// One request.
struct WebRequest {
  std::string method;        ///< GET, PUT, POST or DELETE.
  std::string path;          ///< As sent, query included.
  ByteView body;             ///< Not copied: outlives the call.
  std::string content_type;  ///< Of the body.
};

/// An answer: its head, and its body where the call says so.
struct WebReply {
  int status = 0;  ///< As received: 404 and 500 are replies, not errors.
  std::string body;
  std::string content_type;
  std::string location;          ///< Where a redirect points.
  bool has_had_secrets = false;  ///< The request had the client's secrets.
};

/// Sends requests one after another over one connection, and reconnects when the server has closed
/// it. The process must ignore SIGPIPE. Threads: one caller at a time; Cancel() from any.
class WebClient {
 public:
  /// Opens nothing: the first request reads the certificates of `trust` and connects.
  explicit WebClient(WebClientOptions options);
  ~WebClient();
  WebClient(const WebClient&) = delete;
  WebClient& operator=(const WebClient&) = delete;

  /// Blocks until the whole answer has arrived. Repeats a GET, PUT or DELETE once if the server
  /// closes a kept connection without an answer.
  /// Errors: kUnknownHost, kHostUnreachable (refused, no route), kConnectTimeout, kHostKeyRejected
  /// (certificate), kAuthenticationFailed (a request with secrets or a body is for a process of
  /// another user of this machine: nothing was sent), kHandshakeFailed (not TLS), kFileUnreadable
  /// (trust.path), kDeadlineExceeded, kProtocolError (incomplete answer, not HTTP, body too large),
  /// kCancelled, kOutOfResources, kUsage (invalid path or header).
  Result<WebReply> Send(const WebRequest& request);

  /// GETs an answer that may last for days: calls `take` on this thread with each piece as it
  /// arrives, until that returns false. The timeout covers connecting; after that only TCP
  /// keep-alive (a peer lost for 30 s) ends the wait. Returns the reply's head when the answer or
  /// `take` has ended it. With a status other than 200, returns the body too and does not call
  /// `take`. Errors: as Send(); kProtocolError if it is cut off.
  Result<WebReply> Stream(const std::string& path, const std::function<bool(ByteView piece)>& take);

  /// As Stream(), for an answer that exists already: kDeadlineExceeded if its next piece does not
  /// arrive within the timeout. The time `take` needs does not count.
  Result<WebReply> Fetch(const std::string& path, const std::function<bool(ByteView piece)>& take);

  /// Ends the current call and all later ones with kCancelled. Returns at once, but a name look-up
  /// in progress takes its own time.
  void Cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_WEB_CLIENT_H_
