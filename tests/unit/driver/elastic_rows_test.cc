// SPDX-License-Identifier: Apache-2.0
// One test per known defect of Horovod's elastic driver that ours could share. Defects 6, 8 and 10
// concern discovery, store and server, and are tested there.
#include "tests/unit/driver/elastic_job.h"

namespace hvdray {
namespace {

ElasticPolicy WithCooldown(ElasticPolicy policy) {
  policy.cooldown = CooldownRange{seconds(1), seconds(10)};
  return policy;
}

TEST(ElasticRowsTest, Row1SurvivorsAreReleasedOnlyWhenEveryNewcomerIsThere) {
  ElasticWorld world;
  world.import_time = seconds(20);
  ElasticPolicy policy = WithCooldown(Workers(4, 4));
  ElasticJob job(policy, {{"a", 2}, {"b", 2}}, world);
  job.Fail("b", 0);
  job.Advance(seconds(1));
  job.AllMeet();
  job.Advance(seconds(10));
  EXPECT_EQ(job.state(), ElasticState::kGate);
  EXPECT_EQ(job.generation(), 1u);
  EXPECT_EQ(job.AnswerOf("a", 0), "");
  job.Advance(seconds(20));
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.AnswerOf("a", 0), "0,4,0,2,0,2");
}

TEST(ElasticRowsTest, Row1ANewcomerThatDiesAtTheGateIsReplacedWhileNobodyIsCommitted) {
  ElasticWorld world;
  world.import_time = seconds(5);
  ElasticJob job(WithCooldown(Workers(2, 2)), {{"a", 1}, {"b", 1}}, world);
  job.Fail("b", 0);
  job.AllMeet();
  job.Advance(seconds(4));
  ASSERT_EQ(job.state(), ElasticState::kGate);
  job.Fail("b", 0);
  EXPECT_EQ(job.state(), ElasticState::kGate);
  job.Advance(seconds(6));
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.size(), 2);
  job.ExpectSaid({"b", "restarting"});
}

TEST(ElasticRowsTest, Row1WhoAbortsAfterAPeerDiedInTheBarrierIsNotBlamed) {
  ElasticJob job(Workers(3, 1), {{"a", 1}, {"b", 1}, {"c", 1}});
  job.Fail("b", 0, {.signal = SIGKILL});
  job.Fail("c", 0, {.signal = SIGABRT});
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.state(), ElasticState::kCalling) << "c has joined again by now, b is left out";
  job.AllMeet();
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.RankOf("c", 0), 1);
  EXPECT_EQ(job.RankOf("b", 0), -1);
}

TEST(ElasticRowsTest, Row1WhoAbortedIsNotBlamedOnceAPeersCrashIsKnown) {
  for (const bool is_host_lost : {false, true}) {
    ElasticJob job(Workers(3, 1), {{"a", 1}, {"b", 1}, {"c", 1}});
    job.Fail("c", 0, {.signal = SIGABRT});
    if (is_host_lost) {
      job.Feed(event::HostLost{1, {ErrorCode::kAgentLost, "host b: silent for 5.0 s"}});
    } else {
      job.Fail("b", 0, {.signal = SIGKILL});
    }
    job.AllMeet();
    job.AllMeet();
    EXPECT_EQ(job.size(), 2);
    EXPECT_EQ(job.RankOf("c", 0), 1);
    EXPECT_EQ(job.RankOf("b", 0), -1);
  }
}

TEST(ElasticRowsTest, Row1WhoAbortsBeforeAPeersExceptionIsToBlame) {
  ElasticJob job(Workers(3, 1), {{"a", 1}, {"b", 1}, {"c", 1}});
  job.Fail("c", 0, {.signal = SIGABRT});
  job.Fail("b", 0);
  job.AllMeet();
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.RankOf("c", 0), -1);
}

TEST(ElasticRowsTest, Row2AHostThatReturnsDuringTheWaitForItGetsNewWorkers) {
  ElasticJob job(WithCooldown(Workers(4, 4)), {{"a", 2}, {"b", 2}});
  job.Fail("b", 1);
  job.Advance(milliseconds(100));
  job.AllMeet();
  EXPECT_EQ(job.state(), ElasticState::kShort);
  job.Advance(seconds(4));
  EXPECT_EQ(job.size(), 4);
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_TRUE(job.IsAlive("b", 0));
  EXPECT_TRUE(job.IsAlive("b", 1));
  EXPECT_EQ(job.RankOf("a", 0), 0);
}

TEST(ElasticRowsTest, Row3ANoticeIsRepeatedWithRisingTimestampsUntilTheGangComes) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Find({{"a", 1}});
  job.Advance(seconds(3));
  EXPECT_EQ(job.Count<effect::Notify>(), 0u) << "rank 0 has not said where it listens";
  job.Register("a", 0);
  EXPECT_EQ(job.Count<effect::Notify>(), 1u);
  job.Advance(seconds(3));
  EXPECT_EQ(job.Count<effect::Notify>(), 4u);
  job.Park("a", 0);
  job.Advance(seconds(3));
  EXPECT_EQ(job.Count<effect::Notify>(), 4u);
  int64_t last = 0;
  for (const effect::Notify& notice : job.All<effect::Notify>()) {
    EXPECT_GT(notice.timestamp, last);
    EXPECT_EQ(notice.code, UpdateCode::kMixed);
    last = notice.timestamp;
  }
}

TEST(ElasticRowsTest, Row4NothingIsPublishedBeforeEveryOldWorkerIsParkedOrDead) {
  ElasticWorld world;
  world.ignores_sigterm_of_10 = 10;
  ElasticPolicy policy = Workers(4, 2);
  policy.grace = seconds(5);
  ElasticJob job(policy, {{"a", 2}, {"b", 2}}, world);
  job.Fail("b", 0);
  job.ParkAll("a");
  job.Advance(seconds(4));
  EXPECT_EQ(job.generation(), 1u) << "b's other worker has the grace of 5 s";
  job.Advance(seconds(2));
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.size(), 2);
}

TEST(ElasticRowsTest, Row4AHostThatDoesNotReportWhatItWasToldToStopIsGivenUp) {
  ElasticPolicy policy = Workers(3, 1);
  policy.grace = seconds(5);
  ElasticJob job(policy, {{"a", 1}, {"b", 2}});
  job.machine("b").is_stuck_in_stop = true;
  job.Fail("b", 0);
  job.ParkAll("a");
  job.Advance(seconds(14));
  EXPECT_EQ(job.generation(), 1u);
  job.Advance(seconds(2));
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.Count<effect::ReleaseHost>(), 1u);
}

TEST(ElasticRowsTest, Row5FactsAreTakenWhileTheGangWaitsForSlots) {
  ElasticJob job(Workers(3, 2), {{"a", 1}, {"b", 1}, {"c", 1}});
  job.Fail("b", 0);
  job.Fail("c", 0);
  job.AllMeet();
  EXPECT_EQ(job.state(), ElasticState::kShort);
  job.Find({{"a", 1}, {"d", 1}});
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.RankOf("d", 0), 1);
}

TEST(ElasticRowsTest, Row7AStragglerIsStoppedAndItsHostLeftOutWhenALimitIsSet) {
  ElasticPolicy policy = Workers(3, 1);
  policy.straggler_timeout = seconds(30);
  ElasticJob job(policy, {{"a", 1}, {"b", 1}, {"c", 1}});
  job.Hang("c", 0);
  job.Park("a", 0);
  job.Park("b", 0);
  job.Advance(seconds(29));
  EXPECT_EQ(job.generation(), 1u);
  job.Advance(seconds(2));
  EXPECT_EQ(job.size(), 2);
  job.ExpectSaid({"host c", "30 s"});
}

TEST(ElasticRowsTest, Row7WithoutALimitAStragglerIsWaitedFor) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Park("a", 0);
  job.Advance(seconds(100000));
  EXPECT_EQ(job.generation(), 1u);
  EXPECT_EQ(job.state(), ElasticState::kMeeting);
}

TEST(ElasticRowsTest, Row9SurvivorsAreFreedAsSoonAsALossIsCertain) {
  ElasticJob job(Workers(4, 2), {{"a", 2}, {"b", 1}, {"c", 1}});
  job.Fail("c", 0, {.signal = SIGKILL});
  const std::vector<effect::BreakConnections> orders = job.All<effect::BreakConnections>();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].generation, 1u);
  EXPECT_EQ(orders[0].hosts, (std::vector<int>{0, 1}));
}

TEST(ElasticRowsTest, Row9TheSameHoldsForAHostThatFallsSilent) {
  ElasticJob job(Workers(3, 2), {{"a", 1}, {"b", 1}, {"c", 1}});
  job.CutOff("b");
  job.Settle();
  ASSERT_EQ(job.Count<effect::BreakConnections>(), 1u);
  EXPECT_EQ(job.All<effect::BreakConnections>()[0].hosts, (std::vector<int>{0, 2}));
}

TEST(ElasticRowsTest, Row9NothingIsBrokenForAPlannedChangeASuccessOrASetting) {
  ElasticJob planned(Workers(2, 1), {{"a", 1}, {"b", 1}});
  planned.Find({{"a", 1}});
  planned.AllMeet();
  EXPECT_EQ(planned.size(), 1);
  EXPECT_EQ(planned.Count<effect::BreakConnections>(), 0u);

  ElasticJob success(Workers(2, 1), {{"a", 1}, {"b", 1}});
  success.Succeed("b", 0);
  EXPECT_EQ(success.Count<effect::BreakConnections>(), 0u);

  ElasticPolicy policy = Workers(2, 1);
  policy.breaks_connections = false;
  ElasticJob unwanted(policy, {{"a", 1}, {"b", 1}});
  unwanted.Fail("b", 0);
  EXPECT_EQ(unwanted.Count<effect::BreakConnections>(), 0u);
}

TEST(ElasticRowsTest, Row9WhoIsParkedAlreadyIsLeftAlone) {
  ElasticJob job(Workers(3, 1), {{"a", 1}, {"b", 1}, {"c", 1}});
  job.Park("a", 0);
  job.Fail("c", 0);
  ASSERT_EQ(job.Count<effect::BreakConnections>(), 1u);
  EXPECT_EQ(job.All<effect::BreakConnections>()[0].hosts, std::vector<int>{1});
}

TEST(ElasticRowsTest, Row11TheGangWorksOnUntilTheNewcomerIsThere) {
  ElasticWorld world;
  world.import_time = seconds(45);
  ElasticJob job(Workers(2, 2), {{"a", 2}}, world);
  job.Register("a", 0);
  job.Find({{"a", 2}, {"b", 1}});
  job.Advance(seconds(44));
  EXPECT_EQ(job.state(), ElasticState::kJoining);
  EXPECT_EQ(job.Count<effect::Notify>(), 0u);
  job.Advance(seconds(2));
  EXPECT_EQ(job.state(), ElasticState::kCalling);
  EXPECT_GE(job.Count<effect::Notify>(), 1u);
  job.AllMeet();
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.size(), 3);
}

}  // namespace
}  // namespace hvdray
