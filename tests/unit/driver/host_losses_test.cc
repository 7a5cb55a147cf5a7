// SPDX-License-Identifier: Apache-2.0
// Losses shared by many hosts, reported once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "launcher/driver/cause.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using Names = std::vector<std::string>;

struct LostHost {
  std::string name;
  Status why;
};

std::vector<HostLoss> Grouped(std::span<const LostHost> lost) {
  std::vector<HostLoss> losses;
  losses.reserve(lost.size());
  for (const LostHost& host : lost) losses.push_back({host.why, {host.name}});
  return GroupLosses(losses);
}

std::string Messages(std::span<const LostHost> lost) {
  std::string text;
  for (const HostLoss& loss : Grouped(lost)) text += loss.error.message() + "\n";
  return text;
}

LostHost Unknown(const std::string& name) {
  return {name,
          {ErrorCode::kUnknownHost,
           fmt::format("host {0}: start agent on {0}: ssh: Could not resolve hostname {0}: Name or "
                       "service not known",
                       name),
           "check the spelling"}};
}

TEST(GroupLossesTest, NothingLostIsNothingToTell) { EXPECT_TRUE(Grouped({}).empty()); }

TEST(GroupLossesTest, OneHostKeepsItsWordsAndIsNamed) {
  const std::vector<LostHost> named = {Unknown("b")};
  EXPECT_EQ(Grouped(named)[0].error, named[0].why);
  const std::vector<LostHost> unnamed = {{"c1", {ErrorCode::kAgentLost, "10.0.0.1 is gone", "x"}}};
  EXPECT_EQ(Grouped(unnamed)[0].error,
            Status(ErrorCode::kAgentLost, "host c1: 10.0.0.1 is gone", "x"));
}

TEST(GroupLossesTest, TwoHundredHostsWithTheSameReasonAreOneLine) {
  std::vector<LostHost> lost;
  for (int i = 3; i <= 202; ++i) lost.push_back(Unknown(fmt::format("node{:03}", i)));
  const std::vector<HostLoss> losses = Grouped(lost);
  ASSERT_EQ(losses.size(), 1u);
  ExpectError(losses[0].error, ErrorCode::kUnknownHost,
              {"hosts node[003-202]", "HOST", "ssh", "HOST", "hint: check the spelling"});
  EXPECT_EQ(losses[0].hosts.size(), 200u);
  EXPECT_EQ(losses[0].hosts.front(), "node003");
}

TEST(GroupLossesTest, ReasonsStayInTheOrderOfTheirFirstHost) {
  const std::vector<LostHost> lost = {{"b2", {ErrorCode::kHostRefused, "refused"}},
                                      Unknown("a1"),
                                      {"b1", {ErrorCode::kHostRefused, "refused"}},
                                      {"b3", {ErrorCode::kConnectTimeout, "refused"}}};
  const std::vector<HostLoss> losses = Grouped(lost);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0].error.message(), "hosts b[1-2]: refused");
  EXPECT_EQ(losses[0].hosts, (Names{"b2", "b1"}));
  EXPECT_EQ(losses[1].error, lost[1].why);
  EXPECT_EQ(losses[2].error.code(), ErrorCode::kConnectTimeout) << "another code, another reason";
}

TEST(GroupLossesTest, ANameCountsAsAWholeWordInAnyCaseAndWithItsDomain) {
  const std::vector<LostHost> lost = {
      {"A", {ErrorCode::kHostRefused, "start agent on A: a.lan said: a-b, a_b, ab, ba refused"}},
      {"c", {ErrorCode::kHostRefused, "start agent on c: c.lan said: a-b, a_b, ab, ba refused"}}};
  EXPECT_EQ(Grouped(lost).size(), 1u);
  ExpectSays(Messages(lost), {"hosts A,c", "HOST", "HOST.lan", "a-b, a_b, ab, ba"});
}

TEST(GroupLossesTest, AddressesThatDifferAreNoDifferenceAndThoseThatAreEqualStay) {
  const auto closed = [](const std::string& name, const std::string& address) {
    return LostHost{name, {ErrorCode::kHostBusy, "Connection closed by " + address + " port 22"}};
  };
  const std::vector<LostHost> own = {closed("n1", "10.0.0.1"), closed("n2", "10.0.0.2"),
                                     closed("n3", "fe80::12:3")};
  EXPECT_EQ(Grouped(own).size(), 1u);
  ExpectSays(Messages(own), {"hosts n[1-3]", "ADDRESS port 22"});
  const std::vector<LostHost> jump = {closed("n1", "10.0.0.9"), closed("n2", "10.0.0.9")};
  EXPECT_EQ(Grouped(jump).size(), 1u);
  ExpectSays(Messages(jump), {"hosts n[1-2]", "10.0.0.9 port 22"});
  const std::vector<LostHost> ports = {
      {"n1", {ErrorCode::kConnectTimeout, "connect 10.0.0.1:22: timed out"}},
      {"n2", {ErrorCode::kConnectTimeout, "connect 10.0.0.2:22: timed out"}}};
  EXPECT_EQ(Grouped(ports).size(), 1u);
  ExpectSays(Messages(ports), {"hosts n[1-2]", "ADDRESS:22"});
  const std::vector<LostHost> named_so = {
      {"10.0.0.1", {ErrorCode::kHostRefused, "connect to 10.0.0.1: refused"}},
      {"10.0.0.2", {ErrorCode::kHostRefused, "connect to 10.0.0.2: refused"}}};
  EXPECT_EQ(Grouped(named_so).size(), 1u);
  ExpectSays(Messages(named_so), {"hosts 10.0.0.[1-2]", "HOST"});
}

TEST(GroupLossesTest, NumbersThatAreNoAddressAreADifference) {
  for (const char* other : {"exited with code 127", "1.2.3 is too old", "at 12:30", "cafe"}) {
    const std::vector<LostHost> lost = {{"n1", {ErrorCode::kAgentLost, "exited with code 255"}},
                                        {"n2", {ErrorCode::kAgentLost, "1.2.4 is too old"}},
                                        {"n3", {ErrorCode::kAgentLost, other}}};
    EXPECT_EQ(Grouped(lost).size(), 3u) << other;
  }
}

TEST(GroupLossesTest, AHintOfManyNamesNoneOfThem) {
  const std::vector<LostHost> lost = {{"n1", {ErrorCode::kHostRefused, "no", "ssh n1 true"}},
                                      {"n2", {ErrorCode::kHostRefused, "no", "ssh n2 true"}}};
  EXPECT_EQ(Grouped(lost)[0].error.hint(), "ssh HOST true");
}

TEST(GroupLossesTest, MoreThanFiveReasonsAreCountedAndTheirHostsNamed) {
  std::vector<LostHost> lost;
  for (int i = 1; i <= 6; ++i) {
    lost.push_back({fmt::format("n{}", i), {ErrorCode::kAgentLost, fmt::format("code {}", i)}});
  }
  std::vector<HostLoss> losses = Grouped(lost);
  ASSERT_EQ(losses.size(), 6u);
  EXPECT_EQ(losses[4].error.message(), "host n5: code 5");
  ExpectError(losses[5].error, ErrorCode::kAgentLost, {"host n6", "another reason"});
  lost.push_back({"n7", {ErrorCode::kHostRefused, "code 7"}});
  lost.push_back({"n8", {ErrorCode::kHostRefused, "code 7"}});
  losses = Grouped(lost);
  ASSERT_EQ(losses.size(), 6u);
  ExpectError(losses[5].error, ErrorCode::kAgentLost, {"hosts n[6-8]", "2 other reasons"});
  EXPECT_EQ(losses[5].hosts, (Names{"n6", "n7", "n8"}));
}

}  // namespace
}  // namespace hvdray
