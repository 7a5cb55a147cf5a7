// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/kv_bridge.h"

#include <gtest/gtest.h>

#include "base/gzip.h"

namespace hvdray {
namespace {

class KvBridgeTest : public testing::Test, public AgentLinks {
 protected:
  KvBridgeTest() : bridge_(*this) {
    const std::vector<HostSlots> hosts{{"a", 1}, {"b", 1}, {"c", 1}};
    bridge_.Reset(*AssignRanks(hosts, 3, 3), 1);
  }

  void Send(int agent, wire::Message message) override {
    sent_.emplace_back(agent, std::get<wire::KvReply>(std::move(message.body)));
  }
  bool HasControlRoom(int agent) const override { return agent != full_; }
  bool HasOutputRoom(int /*agent*/) const override { return true; }
  bool TakesDeflated(int agent) const override { return agent != old_; }
  bool SharesMemory(int /*agent*/) const override { return false; }

  void Ask(int agent, KvOp operation, std::string key = {}, std::string value = {},
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
  Ask(1, KvOp::kFollow);
  Ask(2, KvOp::kFollow);
  full_ = 1;
  Ask(0, KvOp::kPut, "0", "first");
  full_ = -1;
  Ask(0, KvOp::kPut, "1", "second");
  EXPECT_EQ(ValuesOf(1), Texts{}) << "what came later does not overtake";
  EXPECT_EQ(ValuesOf(2), (Texts{"first", "second"})) << "nor do the others wait";
  bridge_.OnRoom(1);
  EXPECT_EQ(ValuesOf(1), (Texts{"first", "second"}));
  bridge_.OnRoom(1);
  EXPECT_EQ(ValuesOf(1).size(), 2U);
}

TEST_F(KvBridgeTest, NothingIsKeptForAnAgentThatIsLost) {
  Ask(1, KvOp::kFollow);
  full_ = 1;
  Ask(0, KvOp::kPut, "0", "value");
  bridge_.DropAgent(1);
  full_ = -1;
  bridge_.OnRoom(1);
  EXPECT_EQ(ValuesOf(1), Texts{});
}

TEST_F(KvBridgeTest, ADeflatedValueTravelsAsItIsAndPlainToAnOldAgent) {
  const std::string value(100'000, '\0');
  const std::string deflated = Deflate(value).value();
  old_ = 2;
  Ask(1, KvOp::kFollow);
  Ask(2, KvOp::kFollow);
  Ask(0, KvOp::kPut, "0", deflated, 100'000);
  EXPECT_EQ(ValuesOf(1), Texts{deflated});
  EXPECT_EQ(ValuesOf(2), Texts{value});
  EXPECT_LT(bridge_.store().stored_bytes(), 1'000U);
}

TEST_F(KvBridgeTest, AnAgentsNonsenseIsAnEmptyValue) {
  old_ = 1;
  Ask(0, KvOp::kPut, "0", "no stream of zlib", 100'000);
  Ask(1, KvOp::kGet, "0");
  EXPECT_EQ(ValuesOf(1), Texts{""});
}

TEST_F(KvBridgeTest, AValueThatWouldBeTooLargeIsRefused) {
  Ask(0, KvOp::kPut, "0", "small", (16U << 20) + 1);
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].second.status, 413);
}

// In an elastic job: requests held until a generation is published, or answered at once.

constexpr const char* kRemoved = "-1,-1,-1,-1,-1,-1";

class HeldRanksTest : public testing::Test, public AgentLinks, public KvBridge::Listener {
 protected:
  void Make(KvBridge::Hold hold) { kv_.emplace(*this, hold, this); }
  void SetUp() override { Make(KvBridge::Hold::kRanks); }

  void OnRankAsked(int worker) override { asked_.push_back(worker); }
  void OnRegistered(int worker) override { registered_.push_back(worker); }
  void OnMet(int worker, uint32_t member) override { met_.emplace_back(worker, member); }
  void OnConnected(int worker) override { connected_.push_back(worker); }

  void Send(int agent, wire::Message message) override {
    const auto& reply = std::get<wire::KvReply>(message.body);
    said_.push_back(std::to_string(agent) + ": " + std::to_string(reply.id) + " " +
                    std::to_string(reply.status) + " " + reply.value + " in " +
                    std::to_string(message.generation));
  }
  bool HasControlRoom(int /*agent*/) const override { return true; }
  bool HasOutputRoom(int /*agent*/) const override { return true; }
  bool TakesDeflated(int /*agent*/) const override { return true; }
  bool SharesMemory(int /*agent*/) const override { return false; }

  void Ask(int agent, uint64_t id, KvOp operation, int worker, std::string scope, std::string key,
           std::string value = {}) {
    kv_->OnRequest(agent, generation_,
                   {id, operation, worker, std::move(scope), std::move(key), std::move(value)});
  }
  void AskRank(int agent, uint64_t id, int worker, std::string slot) {
    Ask(agent, id, KvOp::kRankAndSize, worker, "rank_and_size", std::move(slot));
  }
  void Publish(Generation generation, std::vector<HostSlots> hosts) {
    int slots = 0;
    for (const HostSlots& host : hosts) slots += host.slots;
    generation_ = generation;
    kv_->Reset(*AssignRanks(hosts, slots, slots), generation);
  }
  std::vector<std::string> Said() { return std::exchange(said_, {}); }
  using Texts = std::vector<std::string>;

  Generation generation_ = 1;
  std::optional<KvBridge> kv_;
  Texts said_;
  std::vector<int> asked_;
  std::vector<int> registered_;
  std::vector<std::pair<int, uint32_t>> met_;
  std::vector<int> connected_;
};

TEST_F(HeldRanksTest, WhoAsksForARankWaitsForTheNextGeneration) {
  kv_->Admit("a", 0);
  Publish(1, {{"a", 1}});
  AskRank(3, 7, 70'000, "a:0");
  EXPECT_TRUE(Said().empty());
  EXPECT_EQ(asked_, std::vector<int>{70'000});
  Publish(2, {{"b", 1}, {"a", 1}});
  EXPECT_TRUE(Said().empty()) << "KvReset goes between";
  kv_->Release();
  EXPECT_EQ(Said(), Texts{"3: 7 200 1,2,0,1,1,2 in 2"});
  kv_->Release();
  EXPECT_TRUE(Said().empty());
}

TEST_F(HeldRanksTest, AddressesAreToldAndHeldUntilTheBarrierOpens) {
  Make(KvBridge::Hold::kRanksAndBarrier);
  Publish(1, {{"a", 1}, {"b", 1}});
  Ask(0, 1, KvOp::kFollow, -1, "global", "");
  EXPECT_TRUE(Said().empty());
  Ask(1, 2, KvOp::kPut, 71, "global", "rank_1", "host");
  EXPECT_TRUE(met_.empty()) << "a name is no address";
  Ask(1, 3, KvOp::kPut, 71, "global", "1", "there");
  Ask(1, 4, KvOp::kPut, 71, "local_b", "0", "");
  EXPECT_EQ(met_, (std::vector<std::pair<int, uint32_t>>{{71, 1}}));
  EXPECT_EQ(Said(), (Texts{"1: 2 200  in 1", "1: 3 200  in 1", "1: 4 200  in 1"}));
  kv_->OpenBarrier();
  EXPECT_EQ(Said(), (Texts{"0: 1 200 there in 1", "0: 1 404  in 1"}));
  Ask(1, 5, KvOp::kPut, 71, "global", "1", "again");
  EXPECT_EQ(met_.size(), 1u) << "the meeting is over";
}

TEST_F(HeldRanksTest, WhoHasLeftTheLastScopeIsTold) {
  constexpr const char* kLast = "cross_0_process_set_hash_ab12";
  Make(KvBridge::Hold::kRanksAndBarrier);
  Publish(1, {{"a", 1}, {"b", 1}});
  Ask(1, 1, KvOp::kDelete, 71, "cross_0", "1");
  Ask(1, 2, KvOp::kPut, 71, kLast, "1", "there");
  EXPECT_TRUE(connected_.empty());
  Ask(1, 3, KvOp::kDelete, 71, kLast, "1");
  EXPECT_EQ(connected_, std::vector<int>{71});
  Publish(2, {{"a", 1}, {"b", 1}});
  generation_ = 1;
  Ask(0, 4, KvOp::kDelete, 70, kLast, "0");
  EXPECT_EQ(connected_.size(), 1u) << "of a generation that is over";
}

TEST_F(HeldRanksTest, AskingAgainIsNoNews) {
  kv_->Admit("a", 0);
  AskRank(3, 7, 5, "a:0");
  AskRank(3, 8, 5, "a:0");
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(HeldRanksTest, ASlotThatWasNotAdmittedOrIsForgottenHasNoRank) {
  AskRank(3, 7, 5, "a:0");
  EXPECT_EQ(Said(), Texts{std::string("3: 7 200 ") + kRemoved + " in 0"});
  kv_->Admit("a", 0);
  AskRank(3, 8, 5, "a:0");
  kv_->Forget("a", 0);
  Publish(2, {{"a", 1}});
  kv_->Release();
  EXPECT_TRUE(Said().empty()) << "its process is gone";
  AskRank(3, 9, 5, "a:0");
  EXPECT_EQ(Said().size(), 1u);
  EXPECT_EQ(asked_, std::vector<int>{5});
  EXPECT_EQ(kv_->refused_questions(), 2u);
}

TEST_F(HeldRanksTest, WhatALostAgentHeldIsNeverAnswered) {
  kv_->Admit("a", 0);
  kv_->Admit("b", 0);
  AskRank(3, 7, 5, "a:0");
  AskRank(4, 7, 6, "b:0");
  kv_->DropAgent(3);
  Publish(2, {{"a", 1}, {"b", 1}});
  kv_->Release();
  EXPECT_EQ(Said(), Texts{"4: 7 200 1,2,0,1,1,2 in 2"});
}

TEST_F(HeldRanksTest, ClosingRemovesThoseThatWaitAndThoseThatAskLater) {
  kv_->Admit("a", 0);
  Publish(1, {{"a", 1}});
  AskRank(3, 7, 5, "a:0");
  kv_->Close();
  AskRank(3, 8, 5, "a:0");
  const Texts said = Said();
  ASSERT_EQ(said.size(), 2u);
  for (const std::string& text : said) EXPECT_NE(text.find(kRemoved), std::string::npos) << text;
}

TEST_F(HeldRanksTest, RegistrationsCountForWorkersThatThereAre) {
  kv_->Admit("a", 0);
  Ask(3, 1, KvOp::kWorkerAddresses, 5, "worker_addresses", "a:0", "eth0 10.0.0.5:1\n");
  Ask(3, 2, KvOp::kWorkerAddresses, 6, "worker_addresses", "z:0", "eth0 10.0.0.5:1\n");
  EXPECT_EQ(registered_, std::vector<int>{5});
  EXPECT_TRUE(Said().empty());
}

TEST_F(HeldRanksTest, KeysAreTheStoresAndOfOneGeneration) {
  Publish(1, {{"a", 2}});
  Ask(3, 1, KvOp::kPut, 5, "global", "0", "v");
  Ask(4, 1, KvOp::kGet, 6, "global", "0");
  EXPECT_EQ(Said(), (Texts{"3: 1 200  in 1", "4: 1 200 v in 1"}));
  Publish(2, {{"a", 2}});
  Ask(4, 2, KvOp::kGet, 6, "global", "0");
  EXPECT_EQ(Said(), Texts{"4: 2 404  in 2"});
}

TEST_F(HeldRanksTest, InAGangNobodyWaits) {
  Make(KvBridge::Hold::kNothing);
  Publish(1, {{"a", 2}});
  AskRank(3, 7, 5, "a:1");
  EXPECT_EQ(Said(), Texts{"3: 7 200 1,2,1,2,0,1 in 1"});
  EXPECT_TRUE(asked_.empty());
  Ask(3, 8, KvOp::kWorkerAddresses, 5, "worker_addresses", "a:1", "eth0 10.0.0.5:1\n");
  EXPECT_TRUE(registered_.empty());
  Said();
  kv_->Close();
  kv_->Release();
  EXPECT_TRUE(Said().empty());
}

}  // namespace
}  // namespace hvdray
