// SPDX-License-Identifier: Apache-2.0
// Raw clients and a server on one loop in one thread: what a test sends goes out as it stands, and
// nothing waits for the clock but the limit after which a test is given up.
#ifndef HVDRAY_TESTS_UNIT_HTTP_HTTP_CLIENT_FIXTURE_H_
#define HVDRAY_TESTS_UNIT_HTTP_HTTP_CLIENT_FIXTURE_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/http_server.h"
#include "base/loop.h"

namespace hvdray {

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ =
        ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  bool is_connected() const { return is_connected_; }
  int fd() const { return fd_.get(); }
  /// Blocks only if the server's socket is full.
  void Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  /// As much as goes without waiting; the number of bytes that went.
  size_t TrySend(std::string_view bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n =
          ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    return sent;
  }
  /// Takes over what has come so far.
  void Poll() {
    char buffer[65536];
    for (;;) {
      const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) {
        received_.append(buffer, static_cast<size_t>(n));
        continue;
      }
      if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) is_closed_ = true;
      return;
    }
  }
  const std::string& received() const { return received_; }
  bool is_closed() const { return is_closed_; }
  void HalfClose() const { ::shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  bool is_connected_ = false;
  bool is_closed_ = false;
  std::string received_;
};

class HttpServerFixture : public testing::Test, protected HttpServerOwner {
 protected:
  HttpServerFixture() : loop_(Loop::Create().value()) {}

  /// Answers GET with the target, PUT with its body; keeps what goes to "/hold" in held_.
  void Serve(HttpServerOptions options = {},
             std::function<bool(const HttpPeer&)> on_connect = nullptr) {
    on_connect_ = std::move(on_connect);
    on_request_ = [this](HttpExchange exchange) {
      ++requests_;
      if (exchange.request().target.starts_with("/hold")) {
        exchange.OnGone([this] { ++gone_; });
        held_.push_back(std::move(exchange));
        return;
      }
      const HttpRequest& request = exchange.request();
      exchange.Reply(200, std::make_shared<const std::string>(
                              request.method == "PUT" ? request.body : request.target));
    };
    auto server = HttpServer::Listen(*loop_, std::move(options), *this);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }

  bool IsWelcome(const HttpPeer& peer) override { return !on_connect_ || on_connect_(peer); }
  void OnRequest(HttpExchange exchange) override { on_request_(std::move(exchange)); }

  RawClient Connect() const { return RawClient(server_->port()); }

  /// Runs the loop until `done`, looked at after every event; fails the test after a minute.
  void RunUntil(const std::function<bool()>& done) {
    if (done()) return;
    bool is_late = false;
    const Watch limit = loop_->After(std::chrono::minutes(1), [&] {
      is_late = true;
      loop_->Stop();
    });
    const Watch look = loop_->Every(std::chrono::microseconds(200), [&] {
      if (done()) loop_->Stop();
    });
    loop_->Run();
    ASSERT_FALSE(is_late) << "gave up waiting";
  }

  void RunUntilReceived(RawClient& client, std::string_view text) {
    RunUntil([&] {
      client.Poll();
      return client.received().find(text) != std::string::npos || client.is_closed();
    });
    EXPECT_NE(client.received().find(text), std::string::npos) << client.received();
  }

  /// All that the server says until it closes.
  std::string RunUntilClosed(RawClient& client) {
    RunUntil([&] {
      client.Poll();
      return client.is_closed();
    });
    return client.received();
  }

  static std::string Answer(int status, std::string_view reason, std::string_view body,
                            bool closes = false) {
    return "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason) +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           (closes ? "Connection: close\r\n" : "") + "\r\n" + std::string(body);
  }

  std::unique_ptr<Loop> loop_;
  std::function<bool(const HttpPeer&)> on_connect_;  // empty: all are welcome
  std::function<void(HttpExchange)> on_request_;
  std::unique_ptr<HttpServer> server_;
  std::vector<HttpExchange> held_;
  int requests_ = 0;
  int gone_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_HTTP_HTTP_CLIENT_FIXTURE_H_
