// SPDX-License-Identifier: Apache-2.0
#include "base/tcp_table.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "tests/fakes/test_sockets.h"

namespace hvdray {
namespace {

TcpAddress Local(uint16_t port) { return TcpAddress::FromIpv4(htonl(INADDR_LOOPBACK), port); }

std::vector<TcpTableRow> Read(std::string_view text) {
  std::vector<TcpTableRow> rows;
  ReadProcNetTcp(text, [&](const TcpTableRow& row) {
    rows.push_back(row);
    return true;
  });
  return rows;
}

const TcpTableRow* To(const std::vector<TcpTableRow>& rows, uint16_t port) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const TcpTableRow& one) {
    return one.remote == Local(port) && one.inode != 0;
  });
  return row == rows.end() ? nullptr : &*row;
}

TEST(SockDiagTest, ListAndProcTellTheSame) {
  const TestListener listener;
  UniqueFd client;
  ASSERT_EQ(ConnectTo(listener.port(), &client), 0);
  SockDiag diag;
  const auto listed = diag.List(1U << TCP_ESTABLISHED);
  ASSERT_TRUE(listed.ok()) << listed.status().ToString();
  const TcpTableRow* row = To(*listed, listener.port());
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->state, TCP_ESTABLISHED);
  EXPECT_EQ(row->uid, ::getuid());
  const auto text = ReadFile("/proc/self/net/tcp");
  ASSERT_TRUE(text.ok());
  const auto read = Read(*text);
  const TcpTableRow* same = To(read, listener.port());
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->local, row->local);
  EXPECT_EQ(same->state, row->state);
  EXPECT_EQ(same->inode, row->inode);
  EXPECT_EQ(same->uid, row->uid);
}

TEST(SockDiagTest, ThousandsOfConnectionsAreListedWhole) {
  constexpr int kConnections = 2000;
  ASSERT_TRUE(RaiseOpenFileLimit(kConnections + 200).ok());
  const TestListener listener(kConnections);
  std::vector<UniqueFd> clients(kConnections);
  for (UniqueFd& client : clients) ASSERT_EQ(ConnectTo(listener.port(), &client), 0);
  SockDiag diag;
  const auto listed = diag.List(1U << TCP_ESTABLISHED);
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(std::count_if(listed->begin(), listed->end(),
                          [&](const TcpTableRow& row) {
                            return row.remote == Local(listener.port()) && row.inode != 0;
                          }),
            kConnections);
  EXPECT_EQ(diag.Find(Local(1), Local(2), nullptr), SockDiag::Answer::kNoSuchSocket)
      << "nothing of the list is left over for the next question";
}

TEST(SockDiagTest, DestroyEndsThatConnectionAndNoOther) {
  if (::getuid() != 0) GTEST_SKIP() << "wants CAP_NET_ADMIN";
  const TestListener listener;
  UniqueFd ended;
  UniqueFd other;
  ASSERT_EQ(ConnectTo(listener.port(), &ended), 0);
  ASSERT_EQ(ConnectTo(listener.port(), &other), 0);
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ASSERT_EQ(::getsockname(ended.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  SockDiag diag;
  TcpTableRow row;
  ASSERT_EQ(diag.Find(Local(ntohs(own.sin_port)), Local(listener.port()), &row),
            SockDiag::Answer::kFound);
  EXPECT_EQ(diag.Destroy(row), 0);
  EXPECT_EQ(diag.Destroy(row), ENOENT);
  char byte = 0;
  EXPECT_EQ(::recv(ended.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, ECONNABORTED);
  EXPECT_EQ(::recv(other.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(ReadProcNetTcpTest, StopsWhenTold) {
  const std::string line =
      "   1: 0100007F:C350 0100007F:1F90 01 0:0 00:0 0  1000 0 4711 1 0 20 4 30 10 -1\n";
  int rows = 0;
  ReadProcNetTcp(line + line, [&](const TcpTableRow&) { return ++rows < 1; });
  EXPECT_EQ(rows, 1);
  EXPECT_EQ(Read(line + line).size(), 2U);
}

TEST(ReadProcNetTcpTest, MappedAddressesOfTcp6AreIpv4) {
  const auto rows = Read(
      "   0: 0000000000000000FFFF00000100007F:C350 00000000000000000000000001000000:1F90 01 0:0 "
      "00:0 0 33 0 815 1\n");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].local.ToString(), "127.0.0.1:50000");
  EXPECT_EQ(rows[0].remote.ToString(), "[::1]:8080");
}

TEST(ReadProcNetTcpTest, MalformedLinesAreSkipped) {
  for (const char* line :
       {"", "\n\n", "  sl  local_address rem_address st", "0: : : 01 0 0 0 0 0 1",
        "0: 0100007F:C350 0100007F:1F90 zz 0:0 00:0 0 0 0 1",
        "0: 0100007F:C350 0100007F:1F900 01 0:0 00:0 0 0 0 1",
        "0: 0100007F0100007F:C350 0100007F:1F90 01 0:0 00:0 0 0 0 1"}) {
    EXPECT_TRUE(Read(line).empty()) << line;
  }
}

}  // namespace
}  // namespace hvdray
