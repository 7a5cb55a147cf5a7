// SPDX-License-Identifier: Apache-2.0
#include "base/local_peer.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <vector>

#include "tests/fakes/test_sockets.h"

namespace hvdray {
namespace {

using Kind = LocalPeer::Kind;

constexpr uid_t kNobody = 65534, kUser = 1000, kOther = 1001;
constexpr uint16_t kServer = 8265, kClient = 40000;

TcpAddress On(const char* ip, uint16_t port) {
  return TcpAddress::FromIpv4(Ipv4(ip, port).sin_addr.s_addr, port);
}

TcpTableRow Listener(const char* ip, uid_t uid) {
  TcpTableRow row;
  row.local = On(ip, kServer);
  row.state = TCP_LISTEN;
  row.uid = uid;
  row.inode = 7;
  return row;
}

/// The server's end of the connection. inode 0: not accepted yet.
TcpTableRow Accepted(uid_t uid, uint64_t inode) {
  TcpTableRow row;
  row.local = On("127.0.0.1", kServer);
  row.remote = On("127.0.0.1", kClient);
  row.state = TCP_ESTABLISHED;
  row.uid = uid;
  row.inode = inode;
  return row;
}

Kind Judge(const std::vector<TcpTableRow>& table) {
  return JudgeLocalPeer(table, On("127.0.0.1", kClient), On("127.0.0.1", kServer), kUser).kind;
}

TEST(LocalPeerTest, WhoAcceptedTheConnectionDecides) {
  EXPECT_EQ(Judge({Listener("127.0.0.1", kUser), Accepted(kOther, 9)}), Kind::kOtherUser);
  EXPECT_EQ(Judge({Listener("127.0.0.1", kOther), Accepted(kUser, 9)}), Kind::kTrusted);
  EXPECT_EQ(Judge({Accepted(0, 9)}), Kind::kTrusted);
}

TEST(LocalPeerTest, ConnectionThatNobodyHasAcceptedIsTheListeners) {
  // Its own row says root whoever listens.
  EXPECT_EQ(Judge({Listener("127.0.0.1", kOther), Accepted(0, 0)}), Kind::kOtherUser);
  EXPECT_EQ(Judge({Listener("0.0.0.0", kOther), Accepted(0, 0)}), Kind::kOtherUser);
  EXPECT_EQ(Judge({Listener("0.0.0.0", kUser), Accepted(0, 0)}), Kind::kTrusted);
  EXPECT_EQ(Judge({Listener("127.0.0.2", kOther), Listener("127.0.0.1", 0)}), Kind::kTrusted);
}

TEST(LocalPeerTest, OfSeveralListenersEachMustBeTrusted) {
  TcpTableRow every_family = Listener("127.0.0.1", kOther);
  every_family.local = TcpAddress{{}, kServer};
  EXPECT_EQ(Judge({every_family, Listener("127.0.0.1", kUser)}), Kind::kOtherUser);
  EXPECT_EQ(Judge({Listener("127.0.0.1", kUser), every_family}), Kind::kOtherUser);
}

TEST(LocalPeerTest, AnUnknownOwnerIsNotRoot) {
  TcpTableRow closing = Listener("127.0.0.1", 0);
  closing.inode = 0;
  EXPECT_EQ(Judge({closing}), Kind::kUnknown);
}

TEST(LocalPeerTest, WithoutAnySocketHereTheServerIsElsewhere) {
  EXPECT_EQ(Judge({}), Kind::kElsewhere);
}

TEST(LocalPeerTest, TheKernelKnowsWhoListens) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give sockets away";
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Ipv4("127.0.0.1", 0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), generic, size), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  ASSERT_EQ(::getsockname(listener.get(), generic, &size), 0);
  UniqueFd client;
  ASSERT_EQ(ConnectTo(ntohs(address.sin_port), &client), 0);
  EXPECT_EQ(FindLocalPeer(client.get()).kind, Kind::kTrusted);
  ASSERT_EQ(::fchown(listener.get(), kNobody, kNobody), 0);
  const LocalPeer peer = FindLocalPeer(client.get());
  EXPECT_EQ(peer.kind, Kind::kOtherUser);
  EXPECT_EQ(peer.uid, kNobody);
}

}  // namespace
}  // namespace hvdray
