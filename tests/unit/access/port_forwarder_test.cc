// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/port_forwarder.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "base/unix_socket.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"
#include "tests/fakes/test_sockets.h"

namespace hvdray {
namespace {

constexpr uid_t kNobody = 65534;

/// A Unix socket that the test serves by hand, and a port that leads to it.
class PortForwarderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto address = UnixAddress(path_);
    ASSERT_TRUE(address.ok());
    server_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::bind(server_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address),
              0);
    ASSERT_EQ(::listen(server_.get(), 4), 0);
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    Open(/*is_peer_checked=*/true);
  }
  void TearDown() override { forwarder_.reset(); }

  void Open(bool is_peer_checked) {
    auto forwarder = PortForwarder::Open(*loop_, 0, is_peer_checked);
    ASSERT_TRUE(forwarder.ok()) << forwarder.status().ToString();
    forwarder_ = std::move(forwarder).value();
    forwarder_->LeadTo(path_);
  }
  /// The server's end of a connection; waits for it.
  UniqueFd Accept() {
    UniqueFd peer;
    EXPECT_TRUE(RunUntil(*loop_, [&] {
      if (!peer.is_valid()) peer.Reset(::accept4(server_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return peer.is_valid();
    }));
    return peer;
  }
  /// What arrives until the other end closes, or `size` bytes.
  std::string Receive(int fd, size_t size) {
    std::string got;
    RunUntil(*loop_, [&] {
      std::array<char, 65536> bytes{};
      const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n > 0) got.append(bytes.data(), static_cast<size_t>(n));
      return got.size() >= size || n == 0 || (n < 0 && errno != EAGAIN);
    });
    return got;
  }

  TempDirectory directory_;
  const std::string path_ = directory_ / "socket";
  UniqueFd server_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<PortForwarder> forwarder_;
};

TEST_F(PortForwarderTest, BytesPassBothWaysAndAllBeforeAnEnd) {
  UniqueFd client;
  ASSERT_EQ(ConnectTo(forwarder_->port(), &client), 0);
  ASSERT_EQ(::send(client.get(), "question", 8, 0), 8);
  UniqueFd peer = Accept();
  EXPECT_EQ(Receive(peer.get(), 8), "question");
  const std::string answer(size_t{1} << 20, 'a');
  size_t sent = 0;
  std::string got;
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    if (sent < answer.size()) {
      const ssize_t n = ::send(peer.get(), answer.data() + sent, answer.size() - sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<size_t>(n);
      return false;
    }
    return true;
  }));
  peer.Reset();
  EXPECT_EQ(Receive(client.get(), answer.size()), answer);
  EXPECT_EQ(Receive(client.get(), 1), "");
}

TEST_F(PortForwarderTest, AnotherUserIsNotForwarded) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give sockets away";
  for (const bool is_checked : {true, false}) {
    Open(is_checked);
    UniqueFd client;
    ASSERT_EQ(ConnectTo(forwarder_->port(), &client), 0);
    ASSERT_EQ(::fchown(client.get(), kNobody, kNobody), 0);
    ASSERT_EQ(::send(client.get(), "x", 1, MSG_NOSIGNAL), 1);
    if (is_checked) {
      EXPECT_EQ(Receive(client.get(), 1), "");
      EXPECT_LT(::accept(server_.get(), nullptr, nullptr), 0);
    } else {
      EXPECT_EQ(Receive(Accept().get(), 1), "x");
    }
  }
}

TEST_F(PortForwarderTest, AConnectionEndsWhereNobodyListensAnyMore) {
  server_.Reset();
  UniqueFd client;
  ASSERT_EQ(ConnectTo(forwarder_->port(), &client), 0);
  EXPECT_EQ(Receive(client.get(), 1), "");
}

TEST_F(PortForwarderTest, APortInUseIsToldAsThat) {
  const auto second = PortForwarder::Open(*loop_, forwarder_->port(), true);
  EXPECT_EQ(second.status().code(), ErrorCode::kAddressInUse);
}

}  // namespace
}  // namespace hvdray
