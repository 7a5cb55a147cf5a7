// The one door to cpp-httplib's client: plain HTTP/1.1 requests to one server, one after another.
// No TLS, no redirects, no compression.
#ifndef HVDRAY_BASE_HTTP_CLIENT_H_
#define HVDRAY_BASE_HTTP_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

struct HttpReply {
  int status = 0;  ///< As sent: 404 and 500 are replies, not errors.
  std::string body;
};

struct HttpClientOptions {
  /// For connecting, and then for the whole answer; a peer that drips header bytes can stretch it,
  /// one that drips the body can't.
  Duration timeout{std::chrono::seconds(30)};
  size_t max_body_bytes = size_t{16} << 20;
};

/// A connection that is kept between requests and made anew when the server has closed it. Each
/// call blocks. Threads: one caller at a time. Move-only. The process's SIGPIPE setting is left
/// alone.
class HttpClient {
 public:
  /// Connects with the first request. `host`: a name or an address.
  HttpClient(const std::string& host, uint16_t port, HttpClientOptions options = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  /// `path` goes out as it stands, query included. A request on a kept connection that the server
  /// closes without an answer is sent once more: all three verbs may be repeated.
  /// Errors: kHostUnreachable (refused, no such name), kConnectTimeout, kDeadlineExceeded,
  /// kProtocolError (closed without an answer, no HTTP, body over the limit), kUsage for a path
  /// that does not start with '/' or holds white space or control bytes.
  Result<HttpReply> Get(const std::string& path);
  Result<HttpReply> Put(const std::string& path, const std::string& body);
  Result<HttpReply> Delete(const std::string& path);

  void set_timeout(Duration timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_CLIENT_H_
