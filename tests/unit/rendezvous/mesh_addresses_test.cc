// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/mesh_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstring>

namespace hvdray {
namespace {

// A record as Gloo leaves it: what is not address is memory that nobody has set.
std::string Record(const char* ip, uint16_t port) {
  std::string record(kMeshRecordBytes, '\xA5');
  sockaddr_in end{};
  end.sin_family = AF_INET;
  end.sin_port = htons(port);
  end.sin_addr.s_addr = ::inet_addr(ip);
  std::memcpy(record.data(), &end, offsetof(sockaddr_in, sin_zero));
  return record;
}

std::string Record6(const char* ip, uint16_t port) {
  std::string record(kMeshRecordBytes, '\xA5');
  sockaddr_in6 end{};
  end.sin6_family = AF_INET6;
  end.sin6_port = htons(port);
  ::inet_pton(AF_INET6, ip, &end.sin6_addr);
  std::memcpy(record.data(), &end, sizeof end);
  return record;
}

std::string Show(const std::vector<TcpAddress>& addresses) {
  std::string text;
  for (const TcpAddress& address : addresses) {
    text += (text.empty() ? "" : " ") + address.ToString();
  }
  return text;
}

TEST(MeshAddressesTest, KeepsTheAddressOfEachMemberOfEachScope) {
  MeshAddresses mesh;
  mesh.Note("global", "0", Record("10.0.0.1", 4000) + Record("10.0.0.1", 4000));
  mesh.Note("global", "1", Record("10.0.0.2", 4001) + Record("10.0.0.2", 4001));
  mesh.Note("local_a", "0", Record("10.0.0.1", 5000));
  mesh.Note("cross_0", "1", Record("10.0.0.2", 5001));
  mesh.Note("global_process_set_hash_ab12", "0", Record("10.0.0.1", 6000));
  EXPECT_EQ(mesh.problem(), "");
  EXPECT_EQ(Show(mesh.AddressesOf("global", 1)), "10.0.0.2:4001");
  EXPECT_EQ(Show(mesh.AddressesOf("local_a", 0)), "10.0.0.1:5000");
  EXPECT_EQ(Show(mesh.AddressesOf("local_a", 1)), "");
  EXPECT_EQ(Show(mesh.AddressesOf("local_b", 0)), "");
  EXPECT_EQ(Show(mesh.Addresses()),
            "10.0.0.1:4000 10.0.0.1:5000 10.0.0.1:6000 10.0.0.2:4001 10.0.0.2:5001");
}

TEST(MeshAddressesTest, RecordsMayNameDifferentListeners) {
  EXPECT_EQ(
      Show(ReadMeshRecords(Record("10.0.0.1", 2) + Record("10.0.0.1", 1) + Record("10.0.0.1", 2))),
      "10.0.0.1:1 10.0.0.1:2");
}

TEST(MeshAddressesTest, Ipv6IsReadWhereTheRecordSaysSo) {
  EXPECT_EQ(Show(ReadMeshRecords(Record6("fd00::7", 4000) + Record6("::ffff:10.0.0.1", 2))),
            "10.0.0.1:2 [fd00::7]:4000");
}

TEST(MeshAddressesTest, ARecordThatDoesNotParseIsSkipped) {
  std::string foreign = Record("10.0.0.1", 4000);
  foreign[0] = AF_UNIX;
  MeshAddresses mesh;
  mesh.Note("global", "2",
            foreign + Record("10.0.0.1", 0) + Record("0.0.0.0", 4000) + Record6("::", 4000) +
                Record("10.0.0.9", 9));
  EXPECT_EQ(mesh.problem(), "");
  EXPECT_EQ(Show(mesh.Addresses()), "10.0.0.9:9");
}

TEST(MeshAddressesTest, AMeshOfOneHasNoAddress) {
  MeshAddresses mesh;
  mesh.Note("cross_0", "0", "");
  EXPECT_EQ(mesh.problem(), "");
  EXPECT_TRUE(mesh.Addresses().empty());
}

TEST(MeshAddressesTest, OnlyNumbersOfHorovodsMeshesCount) {
  MeshAddresses mesh;
  for (const char* scope : {"hvdray_job", "rank_and_size", "worker_addresses", "mine", "cross_x"}) {
    mesh.Note(scope, "0", Record("10.0.0.1", 1));
    mesh.Note(scope, "0", "of another length");
  }
  for (const char* key : {"rank_0", "00", "-1", "x", ""}) {
    mesh.Note("global", key, "a host name");
  }
  EXPECT_EQ(mesh.problem(), "");
  EXPECT_TRUE(mesh.Addresses().empty());
}

TEST(MeshAddressesTest, ALaterValueOfAMemberReplacesItsEarlierOne) {
  MeshAddresses mesh;
  mesh.Note("global", "0", Record("10.0.0.1", 1));
  mesh.Note("global", "1", Record("10.0.0.2", 1));
  mesh.Note("global", "0", Record("10.0.0.1", 7));
  EXPECT_EQ(Show(mesh.Addresses()), "10.0.0.1:7 10.0.0.2:1");
  EXPECT_EQ(mesh.address_count(), 2U);
}

TEST(MeshAddressesTest, AWorkerOfThisHostListensUntilItHasDeletedItsKey) {
  MeshAddresses mesh;
  mesh.NoteListening("global", "0", Record("10.0.0.1", 4000));
  mesh.Note("global", "1", Record("10.0.0.2", 4001));
  mesh.NoteListening("rank_and_size", "0", Record("10.0.0.1", 4009));
  EXPECT_EQ(Show(mesh.Listening()), "10.0.0.1:4000") << "the other one is elsewhere";
  EXPECT_EQ(Show(mesh.Addresses()), "10.0.0.1:4000 10.0.0.2:4001");
  mesh.NoteDone("global", "rank_0");
  mesh.NoteDone("global", "1");
  mesh.NoteDone("local_a", "0");
  EXPECT_EQ(Show(mesh.Listening()), "10.0.0.1:4000");
  mesh.NoteDone("global", "0");
  EXPECT_EQ(Show(mesh.Listening()), "");
  EXPECT_EQ(Show(mesh.Addresses()), "10.0.0.1:4000 10.0.0.2:4001") << "its connections live on";
}

TEST(MeshAddressesTest, AnotherLengthMeansThatNothingIsKnownOfThisGeneration) {
  const std::string good = Record("10.0.0.1", 1);
  for (const std::string& bad : {good.substr(1), good + "x", std::string("x")}) {
    MeshAddresses mesh;
    mesh.Note("local_a", "0", good);
    mesh.Note("global", "0", bad);
    EXPECT_TRUE(mesh.Addresses().empty());
    EXPECT_NE(mesh.problem().find(fmt::format("global/0: {} bytes", bad.size())), std::string::npos)
        << mesh.problem();
    mesh.Note("local_a", "1", good);
    EXPECT_TRUE(mesh.Addresses().empty()) << "until the next generation";
    mesh.Clear();
    EXPECT_EQ(mesh.problem(), "");
    mesh.Note("local_a", "1", good);
    EXPECT_EQ(Show(mesh.Addresses()), "10.0.0.1:1");
  }
}

TEST(MeshAddressesTest, MembersThatDisagreeOnTheSizeAreAProblem) {
  MeshAddresses mesh;
  mesh.Note("global", "0", Record("10.0.0.1", 1));
  mesh.Note("global", "1", Record("10.0.0.2", 1) + Record("10.0.0.2", 1));
  EXPECT_NE(mesh.problem(), "");
  EXPECT_TRUE(mesh.Addresses().empty());
}

TEST(MeshAddressesTest, AMemberBeyondTheSizeIsAProblem) {
  MeshAddresses mesh;
  mesh.Note("global", "1", Record("10.0.0.1", 1));
  EXPECT_EQ(mesh.problem(), "");
  mesh.Note("global", "2", Record("10.0.0.1", 1));
  EXPECT_NE(mesh.problem(), "");
}

TEST(MeshAddressesTest, ANewGenerationKnowsNothing) {
  MeshAddresses mesh;
  mesh.Note("global", "0", Record("10.0.0.1", 1));
  mesh.Clear();
  EXPECT_TRUE(mesh.Addresses().empty());
  EXPECT_EQ(mesh.address_count(), 0U);
  mesh.Note("global", "0", Record("10.0.0.1", 1) + Record("10.0.0.1", 1));
  EXPECT_EQ(mesh.problem(), "") << "another size is no contradiction";
}

TEST(MeshAddressesTest, ScopesAndAddressesAreBounded) {
  MeshAddresses scopes;
  for (size_t i = 0; i < kMaxMeshScopes; ++i) {
    scopes.Note(fmt::format("cross_{}", i), "0", Record("10.0.0.1", 1));
  }
  EXPECT_EQ(scopes.problem(), "");
  scopes.Note("global", "0", Record("10.0.0.1", 1));
  EXPECT_NE(scopes.problem(), "");
  EXPECT_EQ(scopes.address_count(), 0U);

  std::string all_ports;
  for (uint32_t port = 1; port <= 0xFFFF; ++port) {
    all_ports += Record("10.0.0.1", static_cast<uint16_t>(port));
  }
  MeshAddresses addresses;
  for (size_t member = 0; member < kMaxMeshAddresses / 0xFFFF; ++member) {
    EXPECT_LE(addresses.address_count(), kMaxMeshAddresses);
    addresses.Note("global", fmt::to_string(member), all_ports);
  }
  EXPECT_EQ(addresses.problem(), "");
  addresses.Note("global", "10", all_ports);
  EXPECT_NE(addresses.problem(), "");
  EXPECT_EQ(addresses.address_count(), 0U);
}

}  // namespace
}  // namespace hvdray
