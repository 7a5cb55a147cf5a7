// A small HTTP/1.1 server on the Loop whose requests can be held for as long as one likes, as
// Horovod's rendezvous needs it. One listener an object.
#ifndef HVDRAY_BASE_HTTP_SERVER_H_
#define HVDRAY_BASE_HTTP_SERVER_H_

#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/edge_poller.h"
#include "base/fd.h"
#include "base/http_parser.h"
#include "base/loop.h"
#include "base/result.h"

namespace hvdray {

struct HttpShared;

/// A request that has arrived whole and waits for its answer. Move-only. Destroyed unanswered, its
/// connection is closed without one. Answering after the peer or the server is gone does nothing.
class HttpExchange {
 public:
  struct Impl;
  explicit HttpExchange(std::unique_ptr<Impl> impl);
  HttpExchange(HttpExchange&&) noexcept;
  HttpExchange& operator=(HttpExchange&&) noexcept;
  ~HttpExchange();
  const HttpRequest& request() const;
  HttpRequest& request();
  /// Sends the status line, `Content-Length: N` in exactly that spelling and the body, which is
  /// shared, not copied. Call once. nullptr: empty body.
  void Reply(int status, std::shared_ptr<const std::string> body = nullptr);
  /// Called once if the peer goes away before Reply().
  void OnGone(std::function<void()> callback);

 private:
  std::unique_ptr<Impl> impl_;
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  ///< 0: ephemeral.
  HttpLimits limits;
  Duration read_timeout{std::chrono::seconds(10)};  ///< For a whole request, from its first byte.
  Duration idle_timeout{std::chrono::seconds(60)};  ///< Kept-alive connection without a request.
  /// Beyond, the oldest that has not sent the header of a request yet makes room; where each has,
  /// the next ones wait to be accepted.
  size_t max_connections = 65536;
  /// Of bodies that are not complete yet, all connections together; beyond: 503.
  size_t max_buffered_bytes = size_t{1} << 30;
  int backlog = 8192;  ///< The kernel cuts it to net.core.somaxconn.
};

/// The two ends of a connection, as the kernel gave them.
struct HttpPeer {
  int fd = -1;
  sockaddr_in remote{};
  sockaddr_in local{};
};

/// Threads: the loop's. Destroying it closes the listener and all its connections at once; replies
/// that are still being written are lost, so drain first (CloseListener, then wait for IsIdle).
class HttpServer final : private EdgeSink {
 public:
  struct Handlers {
    /// Somebody has connected. false: the connection is closed without an answer, unread, and takes
    /// nobody's place. Unset: everybody may speak.
    std::function<bool(const HttpPeer&)> on_connect;
    std::function<void(HttpExchange)> on_request;
  };
  /// Errors: kAddressInUse, kSystem, kOutOfResources; kUsage for an address that is not IPv4 (the
  /// worker's client speaks nothing else, Horovod spec 2.2).
  static Result<std::unique_ptr<HttpServer>> Listen(Loop& loop, HttpServerOptions options,
                                                    Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  void CloseListener();
  /// No request is held and no answer is on its way.
  bool IsIdle() const;
  size_t ConnectionCount() const;

 private:
  HttpServer(std::shared_ptr<HttpShared> shared, UniqueFd listener);
  Status Start();
  void OnReady(uint32_t events) override;
  void PauseAccepting(std::string_view why);
  void ResumeAccepting();

  std::shared_ptr<HttpShared> shared_;  // with itself, while one of its functions runs
  UniqueFd listener_;
  bool is_full_ = false;
  bool is_paused_ = false;
  bool has_logged_pause_ = false;
  Watch resume_watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_SERVER_H_
