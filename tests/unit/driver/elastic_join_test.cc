// SPDX-License-Identifier: Apache-2.0
// How hosts join an elastic job and leave it.
#include "launcher/driver/membership_log.h"
#include "tests/unit/driver/elastic_job.h"

namespace hvdray {
namespace {

ElasticWorld Imports(Duration time) {
  ElasticWorld world;
  world.import_time = time;
  return world;
}

TEST(ElasticJoinTest, ANewcomerThatDiesBeforeItArrivesIsNoEventForTheGang) {
  ElasticJob job(Workers(1, 1), {{"a", 1}}, Imports(seconds(10)));
  job.Register("a", 0);
  job.Find({{"a", 1}, {"b", 1}});
  job.Advance(seconds(5));
  job.Fail("b", 0);
  EXPECT_EQ(job.state(), ElasticState::kJoining);
  job.Advance(seconds(5));
  job.Fail("b", 0);
  EXPECT_EQ(job.state(), ElasticState::kRunning) << "the second time its host is left out";
  EXPECT_EQ(job.Count<effect::Notify>(), 0u);
  EXPECT_EQ(job.generation(), 1u);
  EXPECT_EQ(job.Count<effect::StartWorkers>(), 3u);
}

TEST(ElasticJoinTest, ANewcomerThatFailsBesideMembersCostsThemNothing) {
  ElasticJob job(Workers(2, 2), {{"a", 2}}, Imports(seconds(10)));
  job.Find({{"a", 3}});
  for (int i = 0; i < 2; ++i) job.Fail("a", 2);
  job.Advance(seconds(100));
  EXPECT_EQ(job.state(), ElasticState::kRunning);
  EXPECT_TRUE(job.IsAlive("a", 0));
  EXPECT_EQ(job.Count<effect::StartWorkers>(), 3u);
  EXPECT_EQ(job.Count<effect::StopWorkers>(), 0u);
}

TEST(ElasticJoinTest, ANewcomerThatNeverArrivesIsGivenUpAfterTheElasticTimeout) {
  ElasticPolicy policy = Workers(1, 1);
  policy.join_retries = 0;
  policy.elastic_timeout = seconds(60);
  ElasticJob job(policy, {{"a", 1}}, Imports(seconds(1000)));
  job.Advance(seconds(1));
  job.Find({{"a", 1}, {"b", 1}});
  job.Advance(seconds(59));
  EXPECT_EQ(job.state(), ElasticState::kJoining);
  job.Advance(seconds(2));
  EXPECT_EQ(job.state(), ElasticState::kRunning);
  EXPECT_FALSE(job.IsAlive("b", 0));
}

TEST(ElasticJoinTest, SurvivorsOfALossGoOnAtOnceAndTheSpareHostJoinsWarm) {
  ElasticJob job(Workers(2, 1, 2), {{"a", 1}, {"b", 1}, {"c", 1}}, Imports(seconds(10)));
  EXPECT_EQ(job.size(), 2);
  job.Fail("b", 0);
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.state(), ElasticState::kJoining);
  job.Advance(seconds(10));
  job.AllMeet();
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.RankOf("c", 0), 1);
}

TEST(ElasticJoinTest, TogetherIsOneResetForALossAndItsReplacement) {
  ElasticPolicy policy = Workers(2, 1, 2);
  policy.join = JoinMode::kTogether;
  ElasticJob job(policy, {{"a", 1}, {"b", 1}}, Imports(seconds(10)));
  job.Find({{"a", 1}, {"b", 1}, {"c", 1}});
  job.Fail("b", 0);
  job.AllMeet();
  EXPECT_EQ(job.state(), ElasticState::kGate) << "c's agent has started during the meeting";
  job.Advance(seconds(10));
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.RankOf("c", 0), 1);
}

TEST(ElasticJoinTest, TogetherCallsTheGangBeforeNewcomersStart) {
  ElasticPolicy policy = Workers(1, 1);
  policy.join = JoinMode::kTogether;
  ElasticJob job(policy, {{"a", 1}});
  job.Register("a", 0);
  job.Find({{"a", 1}, {"b", 1}});
  EXPECT_EQ(job.Count<effect::Notify>(), 1u);
  EXPECT_EQ(job.Count<effect::StartWorkers>(), 1u);
  job.AllMeet();
  EXPECT_EQ(job.Count<effect::StartWorkers>(), 2u);
  EXPECT_EQ(job.size(), 2);
}

TEST(ElasticJoinTest, ANewcomerWhosePlaceChangesIsStartedAgainAndNeverLetInByMistake) {
  ElasticJob job(Workers(3, 1), {{"a", 1}, {"b", 1}, {"c", 1}}, Imports(seconds(10)));
  job.Find({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}});
  job.Advance(seconds(5));
  job.Fail("b", 0);
  job.AllMeet();
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.generation(), 3u) << "2 was promised to a newcomer with another place";
  job.Advance(seconds(11));
  job.AllMeet();
  EXPECT_EQ(job.size(), 3);
  EXPECT_EQ(job.RankOf("d", 0), 2);
}

TEST(ElasticJoinTest, AChangeThatIsTakenBackEndsTheJoin) {
  ElasticJob job(Workers(1, 1), {{"a", 1}}, Imports(seconds(10)));
  job.Find({{"a", 1}, {"b", 1}});
  EXPECT_EQ(job.state(), ElasticState::kJoining);
  job.Find({{"a", 1}});
  EXPECT_EQ(job.state(), ElasticState::kRunning);
  job.Advance(seconds(1));
  EXPECT_FALSE(job.IsAlive("b", 0));
  EXPECT_EQ(job.Count<effect::ReleaseHost>(), 1u);
}

TEST(ElasticJoinTest, NeverTakesMoreThanMaxNpAndConnectsNoMoreHosts) {
  const ElasticJob job(Workers(2, 2, 3), {{"a", 2}, {"b", 2}, {"c", 2}});
  EXPECT_EQ(job.size(), 3);
  EXPECT_EQ(job.RankOf("b", 0), 2);
  EXPECT_EQ(job.Count<effect::ConnectHost>(), 2u);
}

TEST(ElasticJoinTest, ASpareHostThatIsListedBeforeASurvivorDoesNotGetRank0) {
  ElasticJob job(Workers(2, 1));
  job.machine("s").connect_later = seconds(10);
  job.Find({{"s", 1}, {"a", 1}, {"b", 1}});
  job.Advance(seconds(3));
  EXPECT_EQ(job.size(), 2);
  job.Fail("a", 0);
  job.AllMeet();
  EXPECT_EQ(job.RankOf("b", 0), 0);
  job.Advance(seconds(10));
  job.AllMeet();
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.RankOf("b", 0), 0);
  EXPECT_EQ(job.RankOf("s", 0), 1);
}

TEST(ElasticJoinTest, FewerSlotsOfAHostRemoveItsHighestLocalRanks) {
  ElasticJob job(Workers(3, 1), {{"a", 3}});
  job.Find({{"a", 1}});
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.AnswerOf("a", 0), "0,1,0,1,0,1");
  EXPECT_EQ(job.AnswerOf("a", 2), "-1,-1,-1,-1,-1,-1");
  job.Advance(seconds(1));
  EXPECT_FALSE(job.IsAlive("a", 2));
  EXPECT_FALSE(job.driver().hosts().host(0).is_blacklisted);
}

TEST(ElasticJoinTest, AWorkerThatWasRemovedAndDoesNotGoIsStopped) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Hang("b", 0);
  job.Find({{"a", 1}});
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  job.Advance(seconds(9));
  EXPECT_TRUE(job.IsAlive("b", 0));
  job.Advance(seconds(2));
  EXPECT_FALSE(job.IsAlive("b", 0));
}

TEST(ElasticJoinTest, AHostThatLeavesIsTakenOutWithoutBlame) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Register("a", 0);
  job.Leave("b", seconds(60));
  EXPECT_EQ(job.Count<effect::Notify>(), 1u);
  EXPECT_EQ(job.Count<effect::StopWorkers>(), 0u) << "survivors are told first";
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.AnswerOf("b", 0), "-1,-1,-1,-1,-1,-1");
  EXPECT_EQ(job.driver().hosts().host(1).failures, 0u);
  EXPECT_FALSE(job.driver().hosts().host(1).is_blacklisted);
  EXPECT_FALSE(job.All<effect::MembershipChanged>().back().is_counted);
  job.ExpectSaid({"host b", "1", "told to leave"});
}

TEST(ElasticJoinTest, WorkersOfALeavingHostGetTheirGraceBeforeItsTimeIsOver) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Leave("b", seconds(30));
  job.Advance(seconds(24));
  EXPECT_EQ(job.Count<effect::StopWorkers>(), 0u);
  job.Advance(seconds(2));
  ASSERT_EQ(job.Count<effect::StopWorkers>(), 1u);
  EXPECT_EQ(job.All<effect::StopWorkers>()[0].grace, job.policy().grace);
  EXPECT_GT(job.policy().grace, seconds(6)) << "a short notice is not all grace";
  EXPECT_EQ(job.Count<effect::BreakConnections>(), 1u) << "survivors do not wait for the dead";
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  EXPECT_FALSE(job.driver().hosts().host(1).is_blacklisted);
}

TEST(ElasticJoinTest, ALeavingHostIsNotKeptForNewcomersThatImport) {
  ElasticJob job(Workers(2, 1, 2), {{"a", 1}, {"b", 1}, {"c", 1}}, Imports(seconds(100)));
  job.Register("a", 0);
  job.Leave("b", seconds(30));
  EXPECT_EQ(job.Count<effect::Notify>(), 1u);
  job.AllMeet();
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.state(), ElasticState::kJoining);
}

TEST(ElasticJoinTest, TwentyChangesInARowEndInTheLastList) {
  ElasticJob job(Workers(2, 1), {{"a", 2}}, Imports(milliseconds(1500)));
  for (int i = 0; i < 20; ++i) {
    job.Find(i % 2 == 0 ? Hosts{{"a", 2}, {"b", 1 + i % 3}} : Hosts{{"a", 2}});
    job.Advance(seconds(3));
    if (i % 3 == 0) job.AllMeet();
  }
  job.Find({{"a", 2}, {"c", 1}});
  for (int i = 0; i < 3; ++i) {
    job.Advance(seconds(3));
    job.AllMeet();
  }
  job.Advance(seconds(20));
  EXPECT_EQ(job.size(), 3);
  EXPECT_EQ(job.RankOf("c", 0), 2);
  EXPECT_FALSE(job.IsAlive("b", 0));
}

TEST(ElasticJoinTest, AHostThatDoesNotConnectIsLeftOutAndOthersStart) {
  ElasticPolicy policy = Workers(1, 1);
  policy.start_timeout = seconds(10);
  ElasticJob job(policy);
  job.machine("b").is_refusing = true;
  job.Find({{"a", 1}, {"b", 1}});
  EXPECT_EQ(job.size(), 1);
  job.ExpectSaid({"excluding host b", "connection refused"});
}

TEST(ElasticJoinTest, ASlowHostIsWaitedForAMomentAndThenJoinsLater) {
  ElasticWorld world;
  world.connect = seconds(5);
  ElasticPolicy policy = Workers(1, 1);
  ElasticJob job(policy, {{"a", 1}}, world);
  job.Advance(seconds(4));
  job.Find({{"a", 1}, {"b", 1}});
  job.Advance(seconds(2));
  EXPECT_EQ(job.size(), 0) << "a is ready since a second; b still connects";
  job.Advance(seconds(2));
  EXPECT_EQ(job.size(), 1);
  job.Advance(seconds(5));
  EXPECT_EQ(job.state(), ElasticState::kCalling);
}

TEST(ElasticJoinTest, AHostThatTakesACopyOfTheDirectoriesIsNotLate) {
  ElasticWorld world;
  world.connect = seconds(20);
  ElasticPolicy policy = Workers(1, 1);
  policy.start_timeout = seconds(10);
  for (const bool is_copying : {false, true}) {
    ElasticJob job(policy, {{"a", 1}}, world);
    job.Advance(seconds(9));
    if (is_copying) job.Feed(event::HostCopying{0});
    job.Advance(seconds(10));
    if (is_copying) {
      EXPECT_EQ(job.said().size(), 1u) << "that it waits";
    } else {
      job.ExpectSaid({"excluding host a", "agent", "10 s"});
    }
    job.Advance(seconds(10));
    EXPECT_EQ(job.size(), is_copying ? 1 : 0);
  }
}

TEST(MembershipLogTest, SaysWhoCameWhoWentWhyAndForHowLongTheGangStood) {
  effect::MembershipChanged change{.generation = 3,
                                   .size = 6,
                                   .changes = {{"c", 2, ""}, {"d", 2, ""}, {"b", -2, "it is gone"}},
                                   .stood_still = milliseconds(420)};
  ExpectSays(MembershipLine(change), {"generation 3", "6 workers", "hosts c,d", "2 each", "host b",
                                      "2", "it is gone", "420 ms"});
  change = {.generation = 2, .size = 1, .changes = {{"a", 0, "why"}}};
  ExpectSays(MembershipLine(change), {"generation 2", "1 worker", "host a", "new workers", "why"});
}

TEST(ElasticJoinTest, AMembershipChangeCarriesTheReasonAndTheStandstill) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Fail("b", 0, {.signal = SIGKILL});
  job.Advance(milliseconds(499));
  job.AllMeet();
  const effect::MembershipChanged change = job.All<effect::MembershipChanged>().back();
  EXPECT_EQ(change.generation, 2u);
  EXPECT_EQ(change.size, 1);
  EXPECT_TRUE(change.is_counted);
  EXPECT_GE(change.stood_still, milliseconds(499));
  ASSERT_EQ(change.changes.size(), 1u);
  EXPECT_EQ(change.changes[0].host, "b");
  EXPECT_EQ(change.changes[0].workers, -1);
  ExpectSays(change.changes[0].why, {"rank 1", "host b", "SIGKILL", "signal 9"});
}

TEST(ElasticJoinTest, TheReasonOfALostHostNamesItOnce) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Feed(event::HostLost{1, {ErrorCode::kAgentLost, "host b: silent for 5.0 s"}});
  job.AllMeet();
  const effect::MembershipChanged change = job.All<effect::MembershipChanged>().back();
  ASSERT_EQ(change.changes.size(), 1u);
  EXPECT_EQ(change.changes[0], (HostChange{"b", -1, "silent for 5.0 s"}));
}

}  // namespace
}  // namespace hvdray
