// SPDX-License-Identifier: Apache-2.0
// A small HTTP/1.1 server on the Loop that can hold requests without a time limit, as Horovod's
// rendezvous needs (docs/adr/0002-own-http-server.md). One listener per object.
#ifndef HVDRAY_BASE_HTTP_SERVER_H_
#define HVDRAY_BASE_HTTP_SERVER_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/edge_poller.h"
#include "base/fd.h"
#include "base/http_exchange.h"
#include "base/loop.h"
#include "base/result.h"

namespace hvdray {

struct HttpShared;

/// Threads: the loop's, its owner's functions included. The destructor closes the listener and all
/// connections at once and loses replies that are still being written: drain first
/// (CloseListener(), then wait for IsIdle()). An owner that wants the server gone within its own
/// function posts that to the loop; a destructor that runs there aborts the process (HVDRAY_CHECK).
class HttpServer final : private EdgeSink {
 public:
  /// Loop and owner outlive the server. Errors: kAddressInUse, kSystem, kOutOfResources; kUsage for
  /// an address that is not IPv4, since Horovod's client in the workers knows nothing else.
  static Result<std::unique_ptr<HttpServer>> Listen(Loop& loop, HttpServerOptions options,
                                                    HttpServerOwner& owner);
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
