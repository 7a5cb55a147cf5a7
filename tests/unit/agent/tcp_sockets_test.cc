// SPDX-License-Identifier: Apache-2.0
#include "agent/tcp_sockets.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tests/fakes/test_sockets.h"

namespace hvdray {
namespace {

std::vector<int> Descriptors(const std::vector<ProcessConnection>& connections) {
  std::vector<int> fds;
  for (const ProcessConnection& connection : connections) fds.push_back(connection.fd);
  std::sort(fds.begin(), fds.end());
  return fds;
}

class TcpSocketsTest : public testing::Test {
 protected:
  std::vector<ProcessConnection> Own() {
    TcpSockets sockets(diag_);
    auto own = sockets.Connections(::getpid());
    EXPECT_TRUE(own.ok()) << own.status().ToString();
    return own.ok() ? *own : std::vector<ProcessConnection>();
  }
  SockDiag diag_;
};

TEST_F(TcpSocketsTest, NamesDescriptorAndEndsOfAConnection) {
  const TestListener listener;
  const std::vector<int> before = Descriptors(Own());
  UniqueFd client;
  ASSERT_EQ(ConnectTo(listener.port(), &client), 0);
  const auto own = Own();
  ASSERT_EQ(own.size(), before.size() + 1) << "the other end has not been accepted";
  const auto found = std::find_if(
      own.begin(), own.end(), [&](const ProcessConnection& one) { return one.fd == client.get(); });
  ASSERT_NE(found, own.end());
  EXPECT_EQ(found->row.state, TCP_ESTABLISHED);
  EXPECT_EQ(found->row.remote, TcpAddress::FromIpv4(htonl(INADDR_LOOPBACK), listener.port()));
  EXPECT_EQ(found->row.uid, ::getuid());
  EXPECT_TRUE(found->is_in_our_namespace);
}

TEST_F(TcpSocketsTest, AListenerIsNamedAsOne) {
  const TestListener listener;
  const auto own = Own();
  const TcpAddress address = TcpAddress::FromIpv4(htonl(INADDR_LOOPBACK), listener.port());
  const auto found = std::find_if(own.begin(), own.end(), [&](const ProcessConnection& one) {
    return one.row.local == address;
  });
  ASSERT_NE(found, own.end());
  EXPECT_EQ(found->row.state, TCP_LISTEN);
}

TEST_F(TcpSocketsTest, AConnectionWithTwoDescriptorsIsNamedOnce) {
  const TestListener listener;
  UniqueFd client;
  ASSERT_EQ(ConnectTo(listener.port(), &client), 0);
  const size_t before = Own().size();
  const UniqueFd second(::dup(client.get()));
  EXPECT_EQ(Own().size(), before);
}

TEST_F(TcpSocketsTest, OtherSocketsAreDescriptorsButNoConnections) {
  const auto before = Own();
  const auto pair = MakeSocketPair();
  ASSERT_TRUE(pair.ok());
  const UniqueFd udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd unconnected(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(Descriptors(Own()), Descriptors(before));
  const auto sockets = ListSocketDescriptors(::getpid());
  ASSERT_TRUE(sockets.ok());
  for (const int fd : {pair->first.get(), udp.get(), unconnected.get()}) {
    EXPECT_EQ(std::count_if(sockets->begin(), sockets->end(),
                            [&](const SocketDescriptor& one) { return one.fd == fd; }),
              1);
  }
}

TEST_F(TcpSocketsTest, AProcessThatIsNotThereIsAnError) {
  TcpSockets sockets(diag_);
  EXPECT_EQ(sockets.Connections(0x7FFFFFFF).status().code(), ErrorCode::kSystem);
}

}  // namespace
}  // namespace hvdray
