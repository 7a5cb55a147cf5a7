// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/kv_store.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/horovod_protocol.h"

namespace hvdray {
namespace {

KvValue Text(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

/// The store with its answers collected by relay.
class KvStoreTest : public testing::Test, private KvStore::Owner {
 protected:
  explicit KvStoreTest(size_t limit_bytes = size_t{1} << 30) : store_(*this, limit_bytes) {
    store_.Reset(TwoHosts(1));
  }
  void Answer(int relay, KvAnswer answer) override {
    answers_.emplace_back(relay, std::move(answer));
  }

  /// Hosts a (2 workers) and b (1).
  static KvAssignment TwoHosts(Generation generation) {
    KvAssignment assignment;
    assignment.generation = generation;
    assignment.Add("a", 0, 3, 0, 2, 0, 2);
    assignment.Add("a", 1, 3, 1, 2, 0, 1);
    assignment.Add("b", 2, 3, 0, 1, 1, 2);
    return assignment;
  }

  uint64_t Ask(int relay, KvOp op, std::string scope, std::string key, KvValue value = nullptr) {
    KvQuestion question;
    question.id = ++last_id_;
    question.generation = generation_;
    question.op = op;
    question.scope = std::move(scope);
    question.key = std::move(key);
    question.value = std::move(value);
    answers_.clear();
    store_.Ask(relay, question);
    return question.id;
  }
  int Put(std::string scope, std::string key, std::string value, int relay = 0) {
    const uint64_t id = Ask(relay, KvOp::kPut, std::move(scope), std::move(key), Text(value));
    EXPECT_EQ(answers_.front().second.id, id);
    return answers_.front().second.status;
  }
  std::string Get(std::string scope, std::string key, int relay = 0) {
    Ask(relay, KvOp::kGet, std::move(scope), std::move(key));
    const KvAnswer& answer = answers_.front().second;
    return answer.status == 200 ? *answer.value : std::to_string(answer.status);
  }
  void Delete(std::string scope, std::string key, int relay = 0) {
    Ask(relay, KvOp::kDelete, std::move(scope), std::move(key));
    ASSERT_EQ(answers_.size(), 1u);
    EXPECT_EQ(answers_.front().second.status, 200);
  }
  std::set<std::pair<std::string, std::string>> Values() const {
    std::set<std::pair<std::string, std::string>> values;
    for (const auto& [relay, answer] : answers_) {
      if (answer.status == 200) values.emplace(answer.key, *answer.value);
    }
    return values;
  }

  std::vector<std::pair<int, KvAnswer>> answers_;
  KvStore store_;
  uint64_t last_id_ = 0;
  Generation generation_ = 1;
};

using Pairs = std::set<std::pair<std::string, std::string>>;

TEST_F(KvStoreTest, AHeldBarrierHandsOutNothingBeforeItOpens) {
  KvAssignment assignment = TwoHosts(1);
  assignment.is_barrier_held = true;
  store_.Reset(assignment);
  const uint64_t early = Ask(0, KvOp::kFollow, "global", "");
  EXPECT_TRUE(answers_.empty());
  Put("global", "rank_2", "m", 1);
  Put("global", "2", "of b", 1);
  Put("global", "0", "of a", 0);
  EXPECT_EQ(Get("global", "2"), "404");
  EXPECT_EQ(Get("global", "rank_2"), "m") << "a name tells nobody where to connect";
  Put("local_a", "0", "there", 0);
  EXPECT_EQ(Get("local_a", "0"), "there") << "only the first scope is held";
  answers_.clear();
  store_.OpenBarrier();
  ASSERT_EQ(answers_.size(), 2u) << "its own value is not sent back to relay 0";
  EXPECT_EQ(answers_[0].second.id, early);
  EXPECT_EQ(*answers_[0].second.value, "of b");
  EXPECT_EQ(answers_[1].second.status, 404);
  EXPECT_EQ(Get("global", "2"), "of b");
  Ask(1, KvOp::kFollow, "global", "");
  EXPECT_EQ(answers_.size(), 3u) << "who follows later gets all at once";
}

TEST_F(KvStoreTest, ABarrierThatBeginsAnewIsHeldAgain) {
  KvAssignment assignment = TwoHosts(1);
  assignment.is_barrier_held = true;
  store_.Reset(assignment);
  Put("global", "0", "old");
  Put("global", "0", "new", 1);
  store_.OpenBarrier();
  EXPECT_EQ(Get("global", "0"), "new") << "who is started again says it anew";
  assignment.generation = generation_ = 2;
  store_.Reset(assignment);
  Put("global", "0", "next");
  EXPECT_EQ(Get("global", "0"), "404");
}

TEST_F(KvStoreTest, ReturnsWhatWasPutAndKeepsTheBuffer) {
  const KvValue value = Text(std::string("a\0b", 3));
  Ask(0, KvOp::kPut, "runfunc", "func", value);
  Ask(1, KvOp::kGet, "runfunc", "func");
  EXPECT_EQ(answers_.front().second.value.get(), value.get());
  EXPECT_EQ(answers_.front().first, 1);
  EXPECT_EQ(answers_.front().second.generation, 1u);
}

TEST_F(KvStoreTest, AnswersAMissingKeyWith404) {
  EXPECT_EQ(Get("global", "0"), "404");
  Put("global", "1", "x");
  EXPECT_EQ(Get("global", "0"), "404");
}

TEST_F(KvStoreTest, EmptyValuesAndMissingValuesAreValues) {
  EXPECT_EQ(Put("cross_1", "0", ""), 200);
  EXPECT_EQ(Get("cross_1", "0"), "");
  Ask(0, KvOp::kPut, "cross_1", "7");
  EXPECT_EQ(Get("cross_1", "7"), "");
}

TEST_F(KvStoreTest, PutOverwrites) {
  Put("global", "0", "old");
  Put("global", "0", "newer");
  EXPECT_EQ(Get("global", "0"), "newer");
  EXPECT_EQ(store_.stored_bytes(), kKvEntryOverhead + 1 + 5);
}

TEST_F(KvStoreTest, AKnownScopeKeepsItsValuesUntilAllMembersHaveDeleted) {
  for (const char* key : {"0", "1", "2"}) Put("global", key, "v");
  Delete("global", "0");
  Delete("global", "1");
  EXPECT_EQ(Get("global", "0"), "v");
  Delete("global", "2");
  EXPECT_EQ(Get("global", "0"), "404");
  EXPECT_EQ(store_.stored_bytes(), 0u);
}

TEST_F(KvStoreTest, AMemberThatDeletesTwiceCountsOnce) {
  for (const char* key : {"0", "1", "2"}) Put("global", key, "v");
  for (int i = 0; i < 5; ++i) Delete("global", "1");
  EXPECT_EQ(Get("global", "1"), "v");
}

TEST_F(KvStoreTest, OnlyKeysOfMembersFinishAKnownScope) {
  Put("global", "0", "v");
  for (const char* key : {"rank_0", "rank_1", "rank_2", "3", "99", "x", "00"}) {
    Delete("global", key);
  }
  EXPECT_EQ(Get("global", "0"), "v");
}

TEST_F(KvStoreTest, ScopesFinishAlone) {
  // Interleaved (docs/rendezvous.md, "Scopes and how they end"): local_b completes between two
  // deletes of local_a.
  Put("local_a", "0", "a0");
  Put("local_a", "1", "a1");
  Put("local_b", "0", "b0");
  Delete("local_a", "0");
  Delete("local_b", "0");
  EXPECT_EQ(Get("local_b", "0"), "404");
  EXPECT_EQ(Get("local_a", "1"), "a1");
  Delete("local_a", "1");
  EXPECT_EQ(Get("local_a", "1"), "404");
}

TEST_F(KvStoreTest, AFinishedScopeStartsAnewWithAnEmptyFinishSet) {
  for (int round = 0; round < 3; ++round) {
    Put("local_a", "0", std::to_string(round));
    Delete("local_a", "0");
    EXPECT_EQ(Get("local_a", "0"), std::to_string(round));
    Delete("local_a", "1");
    EXPECT_EQ(Get("local_a", "0"), "404");
  }
}

TEST_F(KvStoreTest, AnAdHocScopeLosesAKeyAtItsDelete) {
  const std::string scope = "global_process_set_hash_ab";
  Put(scope, "rank_0", "h");
  Put(scope, "rank_1", "h");
  Put(scope, "0", "x");
  Put(scope, "1", "y");
  Delete(scope, "0");
  EXPECT_EQ(Get(scope, "0"), "404");
  EXPECT_EQ(Get(scope, "1"), "y");
  EXPECT_EQ(Get(scope, "rank_0"), "h");
  Delete(scope, "1");
  EXPECT_EQ(Get(scope, "rank_0"), "404");
  EXPECT_EQ(Get(scope, "rank_1"), "404");
  EXPECT_EQ(store_.stored_bytes(), 0u);
}

TEST_F(KvStoreTest, TheLastNumericKeyLeavesOtherKeysAlone) {
  Put("mine", "0", "x");
  Put("mine", "note", "keep");
  Delete("mine", "0");
  Delete("mine", "0");
  EXPECT_EQ(Get("mine", "note"), "keep");
  Delete("mine", "note");
  Delete("nothing", "here");
  EXPECT_EQ(store_.stored_bytes(), 0u);
}

TEST_F(KvStoreTest, AFollowGivesTheNumericValuesNowAndAsTheyCome) {
  Put("global", "rank_0", "host");
  Put("global", "0", "zero");
  Put("global", "1", "one");
  const uint64_t follow = Ask(1, KvOp::kFollow, "global", "");
  EXPECT_EQ(Values(), (Pairs{{"0", "zero"}, {"1", "one"}}));
  EXPECT_EQ(answers_.back().second.status, 404) << "no more so far";
  EXPECT_EQ(answers_.size(), 3u);
  Put("global", "rank_2", "host", 2);
  EXPECT_EQ(answers_.size(), 1u);
  Put("global", "2", "two", 2);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answers_[0].first, 2);
  EXPECT_EQ(answers_[1].first, 1);
  EXPECT_EQ(answers_[1].second.id, follow);
  EXPECT_EQ(answers_[1].second.key, "2");
  EXPECT_EQ(*answers_[1].second.value, "two");
}

TEST_F(KvStoreTest, AFollowDoesNotReturnTheRelaysOwnLaterValues) {
  Ask(1, KvOp::kFollow, "global", "");
  EXPECT_TRUE(Values().empty());
  Put("global", "0", "mine", 1);
  EXPECT_EQ(answers_.size(), 1u);
  // A follow that begins later has to: the relay may have dropped it since.
  Ask(1, KvOp::kFollow, "global", "");
  EXPECT_EQ(Values(), (Pairs{{"0", "mine"}}));
}

TEST_F(KvStoreTest, ASecondFollowReplacesTheFirst) {
  Ask(1, KvOp::kFollow, "global", "");
  const uint64_t second = Ask(1, KvOp::kFollow, "global", "");
  Put("global", "0", "v");
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answers_[1].second.id, second);
}

TEST_F(KvStoreTest, FollowsEndByUnfollowByResetAndWithTheRelay) {
  Ask(1, KvOp::kFollow, "global", "");
  Ask(1, KvOp::kUnfollow, "global", "");
  EXPECT_TRUE(answers_.empty());
  Put("global", "0", "v");
  EXPECT_EQ(answers_.size(), 1u);
  Ask(1, KvOp::kFollow, "global", "");
  store_.DropRelay(1);
  Put("global", "1", "v");
  EXPECT_EQ(answers_.size(), 1u);
  Ask(1, KvOp::kFollow, "global", "");
  store_.Reset(TwoHosts(2));
  generation_ = 2;
  Put("global", "0", "v");
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(KvStoreTest, AnAdHocScopeThatIsOnlyFollowedIsForgottenAfterwards) {
  Ask(1, KvOp::kFollow, "global_process_set_hash_1", "");
  EXPECT_GT(store_.stored_bytes(), 0u);
  Ask(1, KvOp::kUnfollow, "global_process_set_hash_1", "");
  EXPECT_EQ(store_.stored_bytes(), 0u);
}

TEST_F(KvStoreTest, AFollowOutlivesTheValuesOfItsScope) {
  Ask(1, KvOp::kFollow, "global_process_set_hash_1", "");
  Put("global_process_set_hash_1", "0", "first");
  Delete("global_process_set_hash_1", "0");
  Put("global_process_set_hash_1", "0", "second");
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(*answers_[1].second.value, "second");
}

TEST_F(KvStoreTest, AStaleQuestionChangesNothingAndIsCounted) {
  Put("global", "0", "old");
  store_.Reset(TwoHosts(2));
  EXPECT_EQ(Put("global", "0", "late"), 200);
  EXPECT_EQ(answers_.front().second.generation, 2u);
  Delete("global", "0");
  EXPECT_EQ(Get("global", "0"), "404");
  Ask(1, KvOp::kFollow, "global", "");
  EXPECT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_.front().second.status, 404);
  Ask(1, KvOp::kUnfollow, "global", "");
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(store_.stale_questions(), 5u);
  generation_ = 2;
  EXPECT_EQ(Get("global", "0"), "404");
  EXPECT_EQ(Put("global", "0", "new"), 200);
  EXPECT_EQ(answers_.size(), 1u) << "the stale follow must not have been taken";
}

TEST_F(KvStoreTest, AStaleDeleteDoesNotFinishTheNewRound) {
  store_.Reset(TwoHosts(2));
  Delete("local_b", "0");
  generation_ = 2;
  Put("local_a", "0", "v");
  generation_ = 1;
  Delete("local_a", "0");
  Delete("local_a", "1");
  generation_ = 2;
  EXPECT_EQ(Get("local_a", "0"), "v");
}

TEST_F(KvStoreTest, AResetForgetsFinishSetsToo) {
  Delete("local_a", "0");
  store_.Reset(TwoHosts(2));
  generation_ = 2;
  Put("local_a", "0", "v");
  Delete("local_a", "1");
  EXPECT_EQ(Get("local_a", "0"), "v");
}

TEST_F(KvStoreTest, RankAndSizeComesFromTheAssignment) {
  Ask(1, KvOp::kRankAndSize, "rank_and_size", "b:0");
  EXPECT_EQ(*answers_.front().second.value, "2,3,0,1,1,2");
  generation_ = 0;
  Ask(0, KvOp::kRankAndSize, "rank_and_size", "a:1");
  EXPECT_EQ(*answers_.front().second.value, "1,3,1,2,0,1");
}

TEST_F(KvStoreTest, AnUnknownSlotIsToldToLeave) {
  for (const char* key : {"b:1", "c:0", "", "a", "a:0:0", "a:00"}) {
    Ask(0, KvOp::kRankAndSize, "rank_and_size", key);
    EXPECT_EQ(answers_.front().second.status, 200);
    EXPECT_EQ(*answers_.front().second.value, kRemovedFromJob) << key;
  }
}

TEST_F(KvStoreTest, WorkerAddressesAreKeptByKnownSlotAndNeverServed) {
  Ask(1, KvOp::kWorkerAddresses, "worker_addresses", "b:0", Text("eth0 10.0.0.2:1\n"));
  EXPECT_EQ(answers_.front().second.status, 200);
  EXPECT_EQ(*store_.WorkerAddressesOf("b:0"), "eth0 10.0.0.2:1\n");
  EXPECT_EQ(Get("worker_addresses", "b:0"), "404");
  Ask(1, KvOp::kWorkerAddresses, "worker_addresses", "nobody:0", Text("x"));
  EXPECT_EQ(answers_.front().second.status, 200);
  EXPECT_EQ(store_.WorkerAddressesOf("nobody:0"), nullptr);
}

TEST_F(KvStoreTest, WorkerAddressesOutliveAResetThatKeepsTheSlot) {
  Ask(0, KvOp::kWorkerAddresses, "worker_addresses", "a:0", Text("A"));
  Ask(1, KvOp::kWorkerAddresses, "worker_addresses", "b:0", Text("B"));
  KvAssignment only_a;
  only_a.generation = 2;
  only_a.Add("a", 0, 1, 0, 1, 0, 1);
  store_.Reset(std::move(only_a));
  EXPECT_EQ(*store_.WorkerAddressesOf("a:0"), "A");
  EXPECT_EQ(store_.WorkerAddressesOf("b:0"), nullptr);
}

TEST_F(KvStoreTest, CountsByScope) {
  Put("global", "0", "12345");
  Get("global", "0");
  Get("global", "9");
  Ask(1, KvOp::kFollow, "global", "");
  Delete("global", "0");
  const KvScopeStats& stats = store_.stats().at("global");
  EXPECT_EQ(stats.puts, 1u);
  EXPECT_EQ(stats.gets, 2u);
  EXPECT_EQ(stats.follows, 1u);
  EXPECT_EQ(stats.deletes, 1u);
  EXPECT_EQ(stats.bytes_in, 5u);
  EXPECT_EQ(stats.bytes_out, 10u);
}

TEST_F(KvStoreTest, EndlessScopeNamesShareOneLineOfTheStats) {
  for (size_t i = 0; i < kMaxKvStatsRows + 500; ++i) Get("s" + std::to_string(i), "k");
  EXPECT_LE(store_.stats().size(), kMaxKvStatsRows + 1);
  EXPECT_EQ(store_.stats().at("(others)").gets, 500u);
}

class SmallKvStoreTest : public KvStoreTest {
 protected:
  SmallKvStoreTest() : KvStoreTest(4096) {}
};

TEST_F(SmallKvStoreTest, AValueBeyondTheLimitOfAKeyIsRefusedWith413) {
  EXPECT_EQ(Put("global", "0", std::string(kMaxKvValueBytes + 1, 'x')), 413);
  EXPECT_EQ(Get("global", "0"), "404");
  EXPECT_EQ(store_.refused_questions(), 1u);
}

TEST_F(SmallKvStoreTest, AValueBeyondTheWholeLimitIsRefusedWith503AndTheOldOneStays) {
  EXPECT_EQ(Put("global", "0", std::string(3000, 'x')), 200);
  EXPECT_EQ(Put("global", "1", std::string(1000, 'y')), 503);
  EXPECT_EQ(Put("global", "0", std::string(5000, 'z')), 503);
  EXPECT_EQ(Get("global", "0"), std::string(3000, 'x'));
  EXPECT_EQ(Put("global", "0", std::string(3900, 'w')), 200) << "what it replaces makes room";
  EXPECT_EQ(store_.refused_questions(), 2u);
}

TEST_F(SmallKvStoreTest, EmptyValuesHaveAPrice) {
  int accepted = 0;
  for (int i = 0; i < 1000; ++i) accepted += Put("global", std::to_string(i), "") == 200 ? 1 : 0;
  EXPECT_LT(accepted, 40);
  EXPECT_LE(store_.stored_bytes(), 4096u);
}

TEST_F(SmallKvStoreTest, EmptyScopesHaveAPrice) {
  int accepted = 0;
  for (int i = 0; i < 1000; ++i) accepted += Put("s" + std::to_string(i), "k", "") == 200 ? 1 : 0;
  EXPECT_LT(accepted, 10);
}

TEST_F(SmallKvStoreTest, RoomComesBackWithDeletesAndResets) {
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(Put("mine", "0", std::string(2000, 'x')), 200);
    Delete("mine", "0");
    EXPECT_EQ(store_.stored_bytes(), 0u);
  }
  Put("mine", "0", std::string(2000, 'x'));
  store_.Reset(TwoHosts(1));
  EXPECT_EQ(store_.stored_bytes(), 0u);
}

TEST(KvAssignmentTest, AddKnowsTheScopesOfAWorker) {
  KvAssignment assignment;
  assignment.Add("node7", 4, 6, 0, 2, 2, 3);
  EXPECT_EQ(assignment.scope_sizes.at("global"), 6);
  EXPECT_EQ(assignment.scope_sizes.at("local_node7"), 2);
  EXPECT_EQ(assignment.scope_sizes.at("cross_0"), 3);
  EXPECT_EQ(assignment.rank_and_size.at("node7:0"), "4,6,0,2,2,3");
}

}  // namespace
}  // namespace hvdray
