// SPDX-License-Identifier: Apache-2.0
// A server on loopback that says, connection by connection, what a test wrote down for it: raw
// bytes, so that an answer may be cut anywhere.
#ifndef HVDRAY_TESTS_FAKES_SCRIPTED_SERVER_H_
#define HVDRAY_TESTS_FAKES_SCRIPTED_SERVER_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace hvdray {

/// An answer for each request in turn; then the connection is closed, or held until the client
/// goes.
struct ConnectionScript {
  std::vector<std::string> answers;
  bool is_held = false;
};

class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<ConnectionScript> scripts)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), scripts_(std::move(scripts)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~ScriptedServer() { Stop(); }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  uint16_t port() const { return port_; }

  /// As if another user listened. Only root can.
  void GiveTo(uid_t user) {
    EXPECT_EQ(::fchown(listener_.get(), user, user), 0);
    user_ = user;
  }

  /// Ends the server; the requests that it got, head and body.
  const std::vector<std::string>& Stop() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    return requests_;
  }

  static std::string Answer(int status, const std::string& body) {
    return "HTTP/1.1 " + std::to_string(status) +
           " x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string Chunk(const std::string& bytes) {
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    return size + bytes + "\r\n";
  }
  /// The head and the first piece of an answer that goes on.
  static std::string Pieces(const std::string& bytes) {
    return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + Chunk(bytes);
  }

 private:
  void Run() {
    for (const ConnectionScript& script : scripts_) {
      // A connection belongs to whoever has begun to accept it, and that user may come later.
      pollfd waits{listener_.get(), POLLIN, 0};
      ::poll(&waits, 1, -1);
      if (user_ != 0) ::setfsuid(user_);  // this thread's only
      const UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.is_valid()) return;
      Serve(connection.get(), script);
    }
  }

  void Serve(int fd, const ConnectionScript& script) {
    for (const std::string& answer : script.answers) {
      if (!ReadRequest(fd)) return;
      (void)!::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    char byte;
    while (script.is_held && ::read(fd, &byte, 1) > 0) {
    }
  }

  bool ReadRequest(int fd) {
    std::string request;
    char byte;
    while (!request.ends_with("\r\n\r\n")) {
      if (::read(fd, &byte, 1) != 1) return false;
      request += byte;
    }
    const size_t at = request.find("Content-Length: ");
    size_t left =
        at == std::string::npos ? 0 : std::strtoul(request.c_str() + at + 16, nullptr, 10);
    std::string buffer(65536, '\0');
    while (left > 0) {
      const ssize_t n = ::read(fd, buffer.data(), std::min(left, buffer.size()));
      if (n <= 0) return false;
      request.append(buffer, 0, static_cast<size_t>(n));
      left -= static_cast<size_t>(n);
    }
    requests_.push_back(std::move(request));
    return true;
  }

  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<uid_t> user_ = 0;
  const std::vector<ConnectionScript> scripts_;
  std::vector<std::string> requests_;  // the server's thread only, until it has ended
  std::thread thread_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_SCRIPTED_SERVER_H_
