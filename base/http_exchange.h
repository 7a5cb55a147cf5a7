// SPDX-License-Identifier: Apache-2.0
// What an HTTP server and its owner exchange: options, peers, and requests that wait for an answer.
#ifndef HVDRAY_BASE_HTTP_EXCHANGE_H_
#define HVDRAY_BASE_HTTP_EXCHANGE_H_

#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/http_parser.h"
#include "base/types.h"

namespace hvdray {

/// A complete request that waits for its answer. Move-only. If destroyed unanswered, closes the
/// connection. Answering after the peer or the server has gone does nothing. Threads: the loop's.
class HttpExchange {
 public:
  struct Impl;
  explicit HttpExchange(std::unique_ptr<Impl> impl);
  HttpExchange(HttpExchange&&) noexcept;
  HttpExchange& operator=(HttpExchange&&) noexcept;
  ~HttpExchange();
  const HttpRequest& request() const;
  HttpRequest& request();
  /// Sends the status line, `Content-Length: N` in exactly that spelling (Horovod's client matches
  /// it case-sensitively), and the body, which is shared, not copied; nullptr: empty. Call once.
  void Reply(int status, std::shared_ptr<const std::string> body = nullptr);
  /// `callback` is called once if the peer disconnects before Reply().
  void OnGone(std::function<void()> callback);

 private:
  std::unique_ptr<Impl> impl_;
};

/// Where to listen, and the limits that keep a hostile client from exhausting the process.
struct HttpServerOptions {
  std::string address = "127.0.0.1";  ///< IPv4.
  uint16_t port = 0;                  ///< 0: ephemeral.
  HttpLimits limits;
  Duration read_timeout{std::chrono::seconds(10)};  ///< For a whole request, from its first byte.
  Duration idle_timeout{std::chrono::seconds(60)};  ///< Kept-alive connection without a request.
  /// At the limit, a new connection replaces the oldest one that has not sent a request header yet.
  /// If all have sent one, new connections wait in the backlog.
  size_t max_connections = 65536;
  /// Of incomplete bodies, all connections together; beyond: 503.
  size_t max_buffered_bytes = size_t{1} << 30;
  int backlog = 8192;  ///< The kernel lowers it to net.core.somaxconn.
};

/// The two ends of a connection, as the kernel reports them. `fd` still belongs to the server.
struct HttpPeer {
  int fd = -1;
  sockaddr_in remote{};
  sockaddr_in local{};
};

/// Whom a server asks and tells. Its functions are called from the loop.
class HttpServerOwner {
 public:
  /// Asked about each new connection. false: it is closed unread and replaces no other
  /// connection.
  virtual bool IsWelcome(const HttpPeer& /*peer*/) { return true; }
  /// A complete request; Reply() never calls it.
  virtual void OnRequest(HttpExchange exchange) = 0;

 protected:
  ~HttpServerOwner() = default;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_EXCHANGE_H_
