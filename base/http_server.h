// SPDX-License-Identifier: Apache-2.0
// A small HTTP/1.1 server on the Loop that can hold requests without a time limit, as Horovod's
// rendezvous needs (docs/adr/0002-own-http-server.md). One listener per object.
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

/// Threads: the loop's, its owner's functions included. The destructor closes the listener and all
/// connections at once and loses replies that are still being written: drain first
/// (CloseListener(), then wait for IsIdle()). An owner that wants the server gone within its own
/// function posts that to the loop; a destructor that runs there aborts the process (HVDRAY_CHECK).
class HttpServer final : private EdgeSink {
 public:
  class Owner {
   public:
    /// Asked about each new connection. false: it is closed unread and replaces no other
    /// connection.
    virtual bool IsWelcome(const HttpPeer& /*peer*/) { return true; }
    /// A complete request; Reply() never calls it.
    virtual void OnRequest(HttpExchange exchange) = 0;

   protected:
    ~Owner() = default;
  };
  /// Loop and owner outlive the server. Errors: kAddressInUse, kSystem, kOutOfResources; kUsage for
  /// an address that is not IPv4, since Horovod's client in the workers knows nothing else.
  static Result<std::unique_ptr<HttpServer>> Listen(Loop& loop, HttpServerOptions options,
                                                    Owner& owner);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The port bound, also if HttpServerOptions::port was 0.
  uint16_t port() const;
  /// Accepts no more connections; open ones are still served.
  void CloseListener();
  /// No request is held and no answer is being written.
  bool IsIdle() const;
  /// Open connections, idle ones included.
  size_t ConnectionCount() const;

 private:
  HttpServer(std::unique_ptr<HttpShared> shared, UniqueFd listener);
  Status Start();
  void OnReady(uint32_t events) override;
  void PauseAccepting(std::string_view why);
  void ResumeAccepting();

  const std::unique_ptr<HttpShared> shared_;
  UniqueFd listener_;
  bool is_full_ = false;    // max_connections reached: a close resumes accepting
  bool is_paused_ = false;  // descriptors or memory ran out: resume_watch_ resumes it
  bool has_logged_pause_ = false;
  Watch resume_watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_SERVER_H_
