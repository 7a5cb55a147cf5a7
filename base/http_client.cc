// SPDX-License-Identifier: Apache-2.0
#include "base/http_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <csignal>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRounding(1);
constexpr size_t kMaxBodyBytes = size_t{16} << 20;  // of an answer

/// Keeps a SIGPIPE of this thread's sends from ending the process: cpp-httplib sends without
/// MSG_NOSIGNAL, and the disposition of the signal belongs to the program that links us.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeGuard() {
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

/// Blanks and control bytes in a path could smuggle in a second request or header.
bool IsSafePath(std::string_view path) {
  if (!path.starts_with('/')) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) return false;
  }
  return true;
}

}  // namespace

struct HttpClient::Impl {
  Impl(const std::string& to_host, uint16_t to_port, Duration limit)
      : host(to_host), port(to_port), timeout(limit), client(to_host, to_port) {
    client.set_keep_alive(true);
    client.set_url_encode(false);
    client.set_decompress(false);
    client.set_tcp_nodelay(true);
  }

  /// Makes one attempt. Sets `refusal` if the body is refused.
  httplib::Error Attempt(const std::string& method, const std::string& path,
                         const std::string& body, Clock::time_point deadline, HttpReply& reply,
                         Status& refusal) {
    // Rounded up, since the library counts whole microseconds: otherwise it gives up just before
    // the deadline, and the timeout looks like a closed connection.
    const Duration left = std::max(deadline - Clock::now(), Duration::zero()) + kRounding;
    client.set_connection_timeout(left);
    client.set_read_timeout(left);
    client.set_write_timeout(left);
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    reply.body.clear();
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      if (reply.body.size() + size > kMaxBodyBytes) {
        refusal = Status(ErrorCode::kProtocolError,
                         fmt::format("answer of over {} bytes", kMaxBodyBytes));
        return false;
      }
      if (Clock::now() >= deadline) return false;
      reply.body.append(data, size);
      return true;
    };
    httplib::Response response;
    httplib::Error error = httplib::Error::Success;
    const bool is_done = client.send(request, response, error);
    reply.status = response.status;
    if (is_done) return httplib::Error::Success;
    return error == httplib::Error::Success ? httplib::Error::Unknown : error;
  }

  Status ToStatus(httplib::Error error, bool is_late) const {
    const std::string place = fmt::format("{}:{}", host, port);
    if (error == httplib::Error::ConnectionTimeout ||
        (error == httplib::Error::Connection && is_late)) {
      return {ErrorCode::kConnectTimeout, fmt::format("connect {}: no answer in time", place)};
    }
    if (error == httplib::Error::Connection) {
      return {ErrorCode::kHostUnreachable,
              fmt::format("connect {}: refused, unreachable or no such name", place)};
    }
    if (is_late) {
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("{}: no complete answer within {}", place, SecondsText(timeout))};
    }
    return {ErrorCode::kProtocolError,
            fmt::format("{}: connection closed without a valid answer", place)};
  }

  Result<HttpReply> Send(const std::string& method, const std::string& path,
                         const std::string& body) {
    const std::string attempt = fmt::format("{} {}", method, path);
    if (!IsSafePath(path)) {
      return Status(ErrorCode::kUsage, fmt::format("{}: invalid request path", method));
    }
    const SigpipeGuard guard;
    const auto deadline = Clock::now() + timeout;
    HttpReply reply;
    Status refusal;
    try {
      const bool is_kept = client.is_socket_open() != 0;
      httplib::Error error = Attempt(method, path, body, deadline, reply, refusal);
      const bool is_cut = error == httplib::Error::Read || error == httplib::Error::Write;
      if (is_cut && is_kept && Clock::now() < deadline) {
        error = Attempt(method, path, body, deadline, reply, refusal);
      }
      if (error == httplib::Error::Success) return reply;
      client.stop();
      if (!refusal.ok()) return std::move(refusal).WithContext(attempt);
      return ToStatus(error, Clock::now() >= deadline).WithContext(attempt);
    } catch (const std::exception& error) {
      return Status(ErrorCode::kInternal, fmt::format("{}: {}", attempt, error.what()));
    }
  }

  std::string host;
  uint16_t port;
  Duration timeout;
  httplib::Client client;
};

HttpClient::HttpClient(const std::string& host, uint16_t port, Duration timeout)
    : impl_(std::make_unique<Impl>(host, port, timeout)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::Get(const std::string& path) { return impl_->Send("GET", path, {}); }

Result<HttpReply> HttpClient::Put(const std::string& path, const std::string& body) {
  return impl_->Send("PUT", path, body);
}

Result<HttpReply> HttpClient::Delete(const std::string& path) {
  return impl_->Send("DELETE", path, {});
}

void HttpClient::set_timeout(Duration timeout) { impl_->timeout = timeout; }

}  // namespace hvdray
