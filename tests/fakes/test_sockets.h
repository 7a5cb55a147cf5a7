// SPDX-License-Identifier: Apache-2.0
// Sockets on loopback for tests of who can connect to whom.
#ifndef HVDRAY_TESTS_FAKES_TEST_SOCKETS_H_
#define HVDRAY_TESTS_FAKES_TEST_SOCKETS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/fd.h"

namespace hvdray {

inline sockaddr_in Ipv4(const std::string& address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), &result.sin_addr), 1) << address;
  return result;
}

/// A blocking connection to 127.0.0.1; 0 or the errno of connect.
inline int ConnectTo(uint16_t port, UniqueFd* socket) {
  socket->Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in peer = Ipv4("127.0.0.1", port);
  const auto* generic = reinterpret_cast<const sockaddr*>(&peer);
  return ::connect(socket->get(), generic, sizeof peer) == 0 ? 0 : errno;
}

/// Listens on 127.0.0.1 and is never asked to accept by anyone but the test.
class TestListener {
 public:
  explicit TestListener(int backlog = 16)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = Ipv4("127.0.0.1", 0);
    socklen_t size = sizeof own;
    auto* generic = reinterpret_cast<sockaddr*>(&own);
    EXPECT_EQ(::bind(socket_.get(), generic, size), 0);
    EXPECT_EQ(::listen(socket_.get(), backlog), 0);
    EXPECT_EQ(::getsockname(socket_.get(), generic, &size), 0);
    port_ = ntohs(own.sin_port);
  }
  uint16_t port() const { return port_; }

  /// Somebody has connected and was not accepted.
  bool HasVisitor() const {
    pollfd ready{socket_.get(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }

  /// The address that a connection comes from. Blocks until there is one.
  std::string AcceptAndNamePeer() const {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    const UniqueFd fd(::accept(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &size));
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text);
    return text;
  }

 private:
  UniqueFd socket_;
  uint16_t port_ = 0;
};

/// A port behind which nobody answers: its queue is full, so the kernel drops what comes.
class DeafListener {
 public:
  DeafListener() : listener_(/*backlog=*/0) {
    EXPECT_EQ(ConnectTo(listener_.port(), &in_queue_), 0);
  }
  uint16_t port() const { return listener_.port(); }

 private:
  TestListener listener_;
  UniqueFd in_queue_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_TEST_SOCKETS_H_
