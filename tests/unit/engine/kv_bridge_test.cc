// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/kv_bridge.h"

#include <gtest/gtest.h>

#include "base/gzip.h"

namespace hvdray {
namespace {

class KvBridgeTest : public testing::Test {
 protected:
  KvBridgeTest()
      : bridge_({.send =
                     [this](int agent, wire::Message message) {
                       sent_.emplace_back(agent, std::get<wire::KvReply>(std::move(message.body)));
                     },
                 .has_room = [this](int agent) { return agent != full_; },
                 .takes_deflated = [this](int agent) { return agent != old_; }}) {
    const std::vector<HostSlots> hosts{{"a", 1}, {"b", 1}, {"c", 1}};
    bridge_.Reset(*AssignRanks(hosts, 3, 3), 1);
  }

  void Ask(int agent, wire::KvOperation operation, std::string key = {}, std::string value = {},
           uint32_t inflated_bytes = 0) {
    bridge_.OnRequest(
        agent, 1,
        {++last_id_, operation, agent, "global", std::move(key), std::move(value), inflated_bytes});
  }
  std::vector<std::string> ValuesOf(int agent) const {
    std::vector<std::string> values;
    for (const auto& [to, reply] : sent_) {
      if (to == agent && !reply.key.empty()) values.push_back(reply.value);
    }
    return values;
  }
  using Texts = std::vector<std::string>;

  int full_ = -1;
  int old_ = -1;
  uint64_t last_id_ = 0;
  std::vector<std::pair<int, wire::KvReply>> sent_;
  KvBridge bridge_;
};

TEST_F(KvBridgeTest, AnAgentWithoutRoomGetsItsValuesLaterAndInOrder) {
  Ask(1, wire::KvOperation::kFollow);
  Ask(2, wire::KvOperation::kFollow);
  full_ = 1;
  Ask(0, wire::KvOperation::kPut, "0", "first");
  full_ = -1;
  Ask(0, wire::KvOperation::kPut, "1", "second");
  EXPECT_EQ(ValuesOf(1), Texts{}) << "what came later does not overtake";
  EXPECT_EQ(ValuesOf(2), (Texts{"first", "second"})) << "nor do the others wait";
  bridge_.OnRoom(1);
  EXPECT_EQ(ValuesOf(1), (Texts{"first", "second"}));
  bridge_.OnRoom(1);
  EXPECT_EQ(ValuesOf(1).size(), 2U);
}

TEST_F(KvBridgeTest, NothingIsKeptForAnAgentThatIsLost) {
  Ask(1, wire::KvOperation::kFollow);
  full_ = 1;
  Ask(0, wire::KvOperation::kPut, "0", "value");
  bridge_.DropHost(1);
  full_ = -1;
  bridge_.OnRoom(1);
  EXPECT_EQ(ValuesOf(1), Texts{});
}

TEST_F(KvBridgeTest, ADeflatedValueTravelsAsItIsAndPlainToAnOldAgent) {
  const std::string value(100'000, '\0');
  const std::string deflated = Deflate(value).value();
  old_ = 2;
  Ask(1, wire::KvOperation::kFollow);
  Ask(2, wire::KvOperation::kFollow);
  Ask(0, wire::KvOperation::kPut, "0", deflated, 100'000);
  EXPECT_EQ(ValuesOf(1), Texts{deflated});
  EXPECT_EQ(ValuesOf(2), Texts{value});
  EXPECT_LT(bridge_.store().stored_bytes(), 1'000U);
}

TEST_F(KvBridgeTest, AnAgentsNonsenseIsAnEmptyValue) {
  old_ = 1;
  Ask(0, wire::KvOperation::kPut, "0", "no stream of zlib", 100'000);
  Ask(1, wire::KvOperation::kGet, "0");
  EXPECT_EQ(ValuesOf(1), Texts{""});
}

TEST_F(KvBridgeTest, AValueThatWouldBeTooLargeIsRefused) {
  Ask(0, wire::KvOperation::kPut, "0", "small", (16U << 20) + 1);
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].second.status, 413);
}

}  // namespace
}  // namespace hvdray
