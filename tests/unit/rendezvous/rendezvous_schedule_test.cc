// SPDX-License-Identifier: Apache-2.0
// Schedules of messages that have gone wrong elsewhere, or would if a rule were left out.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/rendezvous/rendezvous_job.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Barrier = FakeHorovodMember::Barrier;

TEST(RendezvousScheduleTest, InitShutdownInitAHundredTimesOverASlowAndAThinLink) {
  RendezvousJob job({2, 3, 2}, 1);
  job.network().Shape(1, {milliseconds(50), {}, 0});
  job.network().Shape(2, {milliseconds(1), {}, 125000});
  job.StartGang();
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(job.Init()) << "round " << round;
  }
  EXPECT_EQ(job.Faults(), std::vector<std::string>{});
  EXPECT_EQ(job.network().store().stored_bytes(), 0u) << "every scope was finished";
}

TEST(RendezvousScheduleTest, NobodyCanReinitBeforeTheSlowestDeleteIsStored) {
  RendezvousJob job({1, 1}, 1);
  job.UseScopes(RendezvousJob::Scopes::kThree);
  job.network().Shape(1, {milliseconds(500), {}, 0});
  job.StartGang();
  job.BeginInit(Duration(0));
  // A, on the fast link, is through; B has left the same barrier and waits for its DELETE.
  ASSERT_TRUE(job.network().RunUntilDone([&] { return job.ready() == 1; }, seconds(60)));
  const uint64_t deletes = job.network().store().stats().at("cross_0").deletes;
  EXPECT_EQ(deletes, 1u) << "B's is on its way, and B's init is not over";
  ASSERT_TRUE(job.FinishInit());
  EXPECT_EQ(job.network().store().stats().at("cross_0").deletes, 2u);
  ASSERT_TRUE(job.Init());
  EXPECT_EQ(job.Faults(), std::vector<std::string>{});
}

TEST(RendezvousScheduleTest, ADeleteThatWereAnsweredEarlyWouldWipeTheNextRound) {
  // Why the above matters: what the store does if B's DELETE arrives after A's new PUT.
  std::vector<KvAnswer> answers;
  struct Answers final : KvStore::Owner {
    explicit Answers(decltype(answers)& its_list) : list(its_list) {}
    void Answer(int /*relay*/, KvAnswer answer) override { list.push_back(std::move(answer)); }
    decltype(answers)& list;
  } owner(answers);
  KvStore store(owner);
  KvAssignment assignment;
  assignment.scope_sizes["global"] = 2;
  store.Reset(std::move(assignment));
  const auto ask = [&](KvOp op, const char* key) {
    store.Ask(0, {1, 0, op, 0, "global", key, std::make_shared<const std::string>("new")});
    return answers.back().status;
  };
  ask(KvOp::kDelete, "0");
  ask(KvOp::kPut, "0");
  ask(KvOp::kDelete, "1");
  EXPECT_EQ(ask(KvOp::kGet, "0"), 404);
}

TEST(RendezvousScheduleTest, WhatAKilledWorkerHadSentDoesNotReachTheRestartedGang) {
  RendezvousJob job({1, 2}, 1);
  job.network().Shape(1, {milliseconds(300), {}, 0});
  job.StartGang();
  job.BeginInit(Duration(0));
  job.network().RunFor(milliseconds(750));  // PUTs of host 1 are on the link
  const uint64_t stale = job.network().store().stale_questions();
  job.StartGang();
  ASSERT_TRUE(job.Init());
  EXPECT_EQ(job.Faults(), std::vector<std::string>{});
  EXPECT_GT(job.network().store().stale_questions(), stale) << "they did arrive";
}

TEST(RendezvousScheduleTest, WhatAKilledWorkerHadSentDoesNotReachAnElasticRoundEither) {
  uint64_t stale = 0;
  for (const int gap_ms : {0, 50, 99, 101, 200, 400}) {
    RendezvousJob job({2, 1}, 1);
    job.network().HoldRankAndSize();
    job.network().Shape(0, {milliseconds(1), {}, 0});
    job.network().Shape(1, {milliseconds(100), {}, 0});
    job.StartGang();
    ASSERT_TRUE(job.Init());
    // The last words of h1:0, in the names that the next round uses.
    for (const char* key : {"0", "1", "2", "rank_0"}) {
      job.SendAs("h1:0", "PUT", std::string("/global/") + key, "poison");
      job.SendAs("h1:0", "DELETE", std::string("/cross_1/") + key, "");
    }
    job.Kill([](const FakeHorovodMember& member) { return member.slot() == "h1:0"; });
    job.network().RunFor(milliseconds(gap_ms));
    job.ElasticReset();
    ASSERT_TRUE(job.Init()) << gap_ms;
    ASSERT_EQ(job.Faults(), std::vector<std::string>{}) << gap_ms;
    stale += job.network().store().stale_questions();
  }
  EXPECT_GT(stale, 0u) << "some of it arrived after the reset";
}

TEST(RendezvousScheduleTest, ProcessSetsOfTheSameMembersComeAndGo) {
  RendezvousJob job({2, 2}, 1);
  job.network().Shape(1, {milliseconds(20), milliseconds(10), 0});
  job.StartGang();
  ASSERT_TRUE(job.Init());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(job.WalkProcessSet("abc")) << i;
    ASSERT_TRUE(job.WalkProcessSet("def")) << i;
  }
  EXPECT_EQ(job.Faults(), std::vector<std::string>{});
  EXPECT_EQ(job.network().store().stored_bytes(), 0u);
}

TEST(RendezvousScheduleTest, WithoutABarrierAMemberMayDeleteBeforeAnotherHasRead) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RendezvousJob job({3, 1, 2}, seed);
    job.UseBarrier(Barrier::kNone);
    job.UseScopes(RendezvousJob::Scopes::kThree);
    job.network().Shape(0, {milliseconds(1), milliseconds(30), 0});
    job.network().Shape(1, {milliseconds(40), milliseconds(5), 0});
    job.StartGang();
    for (int round = 0; round < 10; ++round) {
      job.BeginInit(milliseconds(100));
      ASSERT_TRUE(job.FinishInit()) << "seed " << seed << " round " << round;
    }
    ASSERT_EQ(job.Faults(), std::vector<std::string>{}) << "seed " << seed;
  }
}

TEST(RendezvousScheduleTest, ALauncherThatIsSilentForTenSecondsCostsNoWorker) {
  for (int at_ms = 1; at_ms < 60; at_ms += 3) {
    RendezvousJob job({2, 2}, 1);
    for (int host = 0; host < 2; ++host) job.network().Shape(host, {milliseconds(2), {}, 0});
    job.StartGang();
    job.BeginInit();
    job.network().RunFor(milliseconds(at_ms));
    const TimePoint back = job.network().now() + seconds(10);
    for (int host = 0; host < 2; ++host) job.network().Stall(host, back);
    ASSERT_TRUE(job.FinishInit()) << "silent at " << at_ms << " ms";
    EXPECT_EQ(job.Faults(), std::vector<std::string>{});
  }
}

TEST(RendezvousScheduleTest, HeldRequestsSaveThePolling) {
  RendezvousJob job({4, 4}, 1);
  job.network().Shape(1, {milliseconds(100), {}, 0});
  job.StartGang();
  job.BeginInit(Duration(0));
  ASSERT_TRUE(job.FinishInit());
  // 8 members: 6 scopes, in each 2 PUTs, a DELETE, names below and 2 GETs for each peer. Without
  // holds each 100 ms of waiting would add 10 GETs a member; with them each whole second adds one.
  const uint64_t least =
      2 * (8 * 3 + 28 + 2 * 56) + 2 * 2 * (4 * 3 + 6 + 2 * 12) + 2 * 4 * (2 * 3 + 1 + 2 * 2);
  const uint64_t repeated =
      job.network().relay(0).stats().held_too_long + job.network().relay(1).stats().held_too_long;
  EXPECT_EQ(job.network().request_count(), least + repeated);
  EXPECT_LE(repeated, 8u);
}

TEST(RendezvousScheduleTest, EachValueCrossesALinkOnceForEachOtherHost) {
  RendezvousJob job({4, 4, 4}, 1);
  job.network().Shape(1, {milliseconds(10), {}, 0});
  job.StartGang();
  job.BeginInit(milliseconds(20));
  ASSERT_TRUE(job.FinishInit());
  const KvScopeStats& global = job.network().store().stats().at("global");
  EXPECT_EQ(global.puts, 24u);
  EXPECT_EQ(global.gets, 0u) << "nobody asks for single keys";
  const size_t value_bytes = FakeHorovodMember::ValueOf({"global", 0, 12}, 0, "g1r1").size();
  EXPECT_LE(global.bytes_out, 3 * 12 * (value_bytes + 1)) << "H x n, not n x (n - 1) x 2";
}

}  // namespace
}  // namespace hvdray
