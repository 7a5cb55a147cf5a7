// SPDX-License-Identifier: Apache-2.0
// The only user of cpp-httplib's client: plain HTTP/1.1 requests to one server, one at a time. No
// TLS, no redirects, no compression.
#ifndef HVDRAY_BASE_HTTP_CLIENT_H_
#define HVDRAY_BASE_HTTP_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// A complete reply of the server.
struct HttpReply {
  int status = 0;  ///< As sent: 404 and 500 are replies, not errors.
  std::string body;
};

/// Keeps its connection between requests and reconnects when the server has closed it. Each call
/// blocks. Threads: one caller at a time. Move-only. Does not change the process's SIGPIPE setting.
class HttpClient {
 public:
  /// Connects on the first request. `host`: a name or an address. `timeout`: limits connecting, and
  /// then the answer. A peer that sends its header byte by byte can stretch it; one that does so
  /// with the body can't.
  HttpClient(const std::string& host, uint16_t port, Duration timeout = std::chrono::seconds(30));
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  /// Sends `path` unchanged, query included. If the server closes a kept connection without an
  /// answer, sends the request once more: all three verbs are idempotent.
  /// Errors: kHostUnreachable (refused, no such name), kConnectTimeout, kDeadlineExceeded,
  /// kProtocolError (closed without an answer, not HTTP, body over 16 MiB), kInternal; kUsage
  /// for a path that does not start with '/' or contains white space or control bytes.
  Result<HttpReply> Get(const std::string& path);
  Result<HttpReply> Put(const std::string& path, const std::string& body);
  Result<HttpReply> Delete(const std::string& path);

  /// For the requests to come; see the constructor.
  void set_timeout(Duration timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_CLIENT_H_
