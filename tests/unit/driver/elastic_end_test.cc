// SPDX-License-Identifier: Apache-2.0
// How elastic jobs end, and with which exit code.
#include "tests/unit/driver/elastic_job.h"

namespace hvdray {
namespace {

TEST(ElasticEndTest, AllSucceedIsSuccessWhateverEarlierGenerationsDid) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Fail("b", 0);
  job.AllMeet();
  job.Succeed("a", 0);
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 0);
  EXPECT_EQ(job.All<effect::StopGeneration>().back().grace, Duration::zero());
}

TEST(ElasticEndTest, AWorkerThatSucceedsEarlyEndsNothing) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Succeed("b", 0);
  job.Advance(seconds(1000));
  EXPECT_FALSE(job.has_finished());
  job.Succeed("a", 0);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(ElasticEndTest, ASuccessBesideAFailureIsAFailureWithTheWorkersCode) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Succeed("b", 0);
  job.Fail("a", 0, {.exit_code = 7});
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 7);
  ExpectError(job.verdict().error, ErrorCode::kWorkerFailed,
              {"rank 0", "host a", "code 7", "rank 1", "host b", "succeeded"});
}

TEST(ElasticEndTest, OneSuccessIsEnoughWhereTheRuleSaysSo) {
  ElasticPolicy policy = Workers(2, 1);
  policy.success = SuccessRule::kAny;
  ElasticJob job(policy, {{"a", 1}, {"b", 1}});
  job.Succeed("b", 0);
  job.AllMeet();
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 0);
  job.ExpectSaid({"rank 1", "host b", "succeeded", "job"});
}

TEST(ElasticEndTest, TheResetLimitEndsTheJobInHorovodsWords) {
  ElasticPolicy policy = Workers(3, 1);
  policy.reset_limit = 1;
  ElasticJob job(policy, {{"a", 1}, {"b", 1}, {"c", 1}});
  job.Fail("c", 0);
  job.AllMeet();
  EXPECT_EQ(job.generation(), 2u);
  job.Fail("b", 0);
  job.AllMeet();
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 1);
  EXPECT_EQ(job.verdict().error.message(),
            "Horovod was shutdown because number of resets during elastic job exceeded limit: 1");
  EXPECT_EQ(job.verdict().error.code(), ErrorCode::kResetLimit);
}

TEST(ElasticEndTest, AReplacementThatJoinsWarmIsNotCountedAsAReset) {
  ElasticPolicy policy = Workers(2, 1, 2);
  policy.reset_limit = 1;
  ElasticJob job(policy, {{"a", 1}, {"b", 1}, {"c", 1}});
  job.Fail("b", 0);
  job.AllMeet();
  job.AllMeet();
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.driver().Snapshot().resets, 1u);
  EXPECT_FALSE(job.has_finished());
}

TEST(ElasticEndTest, GrowthBeyondWhatWasLostIsCounted) {
  ElasticPolicy policy = Workers(1, 1);
  policy.reset_limit = 1;
  ElasticJob job(policy, {{"a", 1}});
  job.Find({{"a", 1}, {"b", 1}});
  job.AllMeet();
  EXPECT_EQ(job.driver().Snapshot().resets, 1u);
}

TEST(ElasticEndTest, TooFewSlotsForTooLongEndTheJob) {
  ElasticPolicy policy = Workers(2, 2);
  policy.elastic_timeout = seconds(600);
  ElasticJob job(policy, {{"a", 1}, {"b", 1}});
  job.Fail("b", 0);
  job.AllMeet();
  job.Advance(seconds(599));
  EXPECT_EQ(job.state(), ElasticState::kShort);
  job.Advance(seconds(2));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 125);
  EXPECT_EQ(job.verdict().error.code(), ErrorCode::kNoCapacity);
}

TEST(ElasticWaitTest, AJobThatWaitsForItsFirstSlotsSaysItOnce) {
  ElasticJob job(Workers(16, 8), {{"a", 4}});
  job.Advance(milliseconds(4900));
  EXPECT_TRUE(job.said().empty()) << "most jobs have their slots by then";
  job.Advance(milliseconds(100));
  job.ExpectSaid({"4 of 16", "5 s", "595 s", "12"});
  job.Advance(seconds(300));
  job.Find({{"a", 4}, {"b", 4}});
  EXPECT_EQ(job.said().size(), 1u);
}

TEST(ElasticWaitTest, AJobThatWaitsNamesTheHostsThatConnect) {
  ElasticJob job(Workers(8, 8));
  for (const char* host : {"b", "c"}) job.machine(host).connect_later = seconds(20);
  job.Find({{"a", 4}, {"b", 2}, {"c", 2}});
  job.Advance(seconds(5));
  job.ExpectSaid({"4 of 8", "hosts b,c"});
  EXPECT_EQ(job.said().size(), 1u);
  ElasticJob short_one(Workers(8, 8));
  short_one.machine("b").connect_later = seconds(20);
  short_one.Find({{"a", 4}, {"b", 2}});
  short_one.Advance(seconds(5));
  short_one.ExpectSaid({"4 of 8", "host b", "2 more"});
}

TEST(ElasticWaitTest, AJobThatWaitsForItsFirstListSaysSo) {
  ElasticJob job(Workers(8, 8));
  job.Advance(seconds(5));
  job.ExpectSaid({"0 of 8", "list"});
}

TEST(ElasticWaitTest, AJobThatHasItsSlotsSaysNothing) {
  ElasticJob job(Workers(4, 2), {{"a", 4}});
  job.Advance(seconds(60));
  EXPECT_TRUE(job.said().empty());
}

TEST(ElasticEndTest, AFixedListThatCannotBringTheSlotsIsNotWaitedFor) {
  ElasticJob job(Workers(2, 2));
  job.Find({{"a", 1}, {"b", 1}}, true);
  job.Fail("b", 0);
  job.AllMeet();
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 125);
  EXPECT_NE(job.verdict().error.message().find("no more can come"), std::string::npos);
  for (const std::string& line : job.said()) EXPECT_EQ(line.find("waiting"), std::string::npos);

  ElasticJob start(Workers(5, 2));
  start.Find({{"a", 1}}, true);
  EXPECT_TRUE(start.has_finished());
}

TEST(ElasticEndTest, NobodyWithTheStateIsTheEndEvenIfThereAreHosts) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Find({{"c", 2}});
  job.AllMeet();
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 1);
  EXPECT_EQ(job.verdict().error.message(),
            "No hosts from previous set remaining, unable to broadcast state.");
  EXPECT_EQ(job.verdict().error.code(), ErrorCode::kStateLost);
}

TEST(ElasticEndTest, AllHostsLostIsNoWorkersFault) {
  ElasticJob job(Workers(1, 1), {{"a", 1}});
  job.CutOff("a");
  job.Settle();
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 1);
  EXPECT_EQ(job.verdict().origin, ExitOrigin::kHvdray);
  EXPECT_NE(job.verdict().error.message().find("its agent fell silent"), std::string::npos);
  EXPECT_EQ(job.verdict().error.code(), ErrorCode::kStateLost);
}

TEST(ElasticEndTest, EveryHostLostAtTheGateEndsTheJob) {
  ElasticWorld world;
  world.import_time = seconds(100);
  ElasticPolicy policy = Workers(2, 2);
  ElasticJob job(policy, {{"a", 1}, {"b", 1}}, world);
  job.Fail("b", 0);
  job.AllMeet();
  job.Find({{"a", 1}, {"c", 1}});
  ASSERT_EQ(job.state(), ElasticState::kGate);
  job.CutOff("c");
  job.Settle();
  EXPECT_EQ(job.state(), ElasticState::kShort);
  job.Find({{"a", 1}, {"d", 1}});
  job.CutOff("d");
  job.CutOff("a");
  job.Settle();
  EXPECT_TRUE(job.has_finished());
}

TEST(ElasticEndTest, TheFirstSignalGivesGraceTheSecondKills) {
  ElasticWorld world;
  world.ignores_sigterm_of_10 = 10;
  ElasticJob job(Workers(2, 1), {{"a", 2}}, world);
  job.Feed(event::UserSignal{SIGINT});
  job.Advance(seconds(1));
  EXPECT_EQ(job.state(), ElasticState::kStopping);
  job.Feed(event::UserSignal{SIGTERM});
  job.Settle();
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 130);
}

TEST(ElasticEndTest, TheUserIsToldThatSigintGoesToTheWorkersFirst) {
  for (const int signo : {SIGINT, SIGTERM}) {
    ElasticJob job(Workers(2, 1), {{"a", 2}});
    job.Feed(event::UserSignal{signo});
    if (signo == SIGINT) {
      job.ExpectSaid({"SIGINT", "SIGTERM", "SIGKILL"});
    } else {
      job.ExpectSaid({"SIGTERM"});
      for (const std::string& line : job.said()) EXPECT_FALSE(NamesFacts(line, {"SIGKILL"}));
    }
  }
}

TEST(ElasticEndTest, ASignalBeforeTheStartEndsAtOnce) {
  ElasticJob job(Workers(2, 1));
  job.Feed(event::UserSignal{SIGTERM});
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 143);
}

TEST(ElasticEndTest, ADismissedJobEndsWithZeroAndSoonerWithLessGrace) {
  ElasticWorld world;
  world.ignores_sigterm_of_10 = 10;
  ElasticJob job(Workers(2, 1), {{"a", 2}}, world);
  job.Feed(event::Dismissed{seconds(60)});
  job.Advance(seconds(30));
  EXPECT_EQ(job.state(), ElasticState::kStopping);
  job.Feed(event::Dismissed{seconds(0)});
  job.Settle();
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 0);
  EXPECT_TRUE(job.verdict().error.ok());
  EXPECT_FALSE(job.verdict().first_failure.has_value());
}

TEST(ElasticEndTest, AStricterCauseReplacesADismissalAndItsGrace) {
  const std::vector<std::pair<ElasticEvent, int>> stricter = {{event::UserSignal{SIGTERM}, 143},
                                                              {event::ReaderGone{}, 141}};
  for (const auto& [fact, exit_code] : stricter) {
    ElasticWorld world;
    world.ignores_sigterm_of_10 = 10;
    ElasticPolicy policy = Workers(2, 1);
    policy.grace = seconds(5);
    ElasticJob job(policy, {{"a", 2}}, world);
    job.Feed(event::Dismissed{seconds(3600)});
    job.Advance(seconds(1));
    job.Feed(fact);
    job.Advance(seconds(6));
    ASSERT_TRUE(job.has_finished());
    EXPECT_EQ(job.verdict().exit_code, exit_code);
  }
}

TEST(ElasticEndTest, WhoHasToBeKilledAfterTheGraceIsNamed) {
  ElasticWorld world;
  world.ignores_sigterm_of_10 = 10;
  ElasticPolicy policy = Workers(2, 1);
  policy.grace = seconds(7);
  ElasticJob job(policy, {{"a", 2}}, world);
  job.Feed(event::UserSignal{SIGTERM});
  job.Advance(seconds(8));
  ASSERT_TRUE(job.has_finished());
  ExpectSays(KilledAfterGrace(job.verdict().workers).message(), {"7 s", "ranks 0,1"});
}

TEST(ElasticEndTest, WhoHasToBeKilledWhileTheJobContinuesIsNamedAtOnce) {
  ElasticWorld world;
  world.ignores_sigterm_of_10 = 10;
  ElasticPolicy policy = Workers(3, 1);
  policy.grace = seconds(7);
  ElasticJob job(policy, {{"a", 1}, {"b", 2}}, world);
  job.Fail("b", 0);
  job.Advance(seconds(20));
  job.ExpectSaid({"killed", "7 s", "rank 2", "--grace"});
}

TEST(ElasticEndTest, NumbersGoOnInAJobOnAgentsThatHadOthers) {
  ElasticPolicy policy = Workers(2, 1);
  policy.last_generation = 7;
  policy.first_worker = 40;
  ElasticJob job(policy, {{"a", 1}, {"b", 1}});
  const auto first = job.All<effect::StartWorkers>();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].generation, 8U);
  EXPECT_EQ(first[0].workers[0].worker, 40U);
  EXPECT_EQ(first[0].workers[1].worker, 41U);
  EXPECT_TRUE(job.said().empty()) << "the first generation is no change";
  job.Fail("b", 0);
  job.AllMeet();
  EXPECT_EQ(job.driver().generation(), 9U);
  EXPECT_EQ(job.said().size(), 1U);
  job.Succeed("a", 0);
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(ElasticEndTest, AJobIsDismissedBeforeItHasHosts) {
  ElasticJob job(Workers(2, 1));
  job.Feed(event::Dismissed{seconds(1)});
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(ElasticEndTest, TheTimeoutOfTheJobIs124) {
  ElasticPolicy policy = Workers(1, 1);
  policy.timeout = seconds(10);
  ElasticJob job(policy, {{"a", 1}});
  job.Advance(seconds(11));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 124);
}

TEST(ElasticEndTest, AHostThatDoesNotReportItsEndIsGivenUpAndNamed) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.machine("b").is_stuck_in_stop = true;
  job.Succeed("a", 0);
  job.Succeed("b", 0);
  EXPECT_EQ(job.state(), ElasticState::kStopping);
  job.Advance(seconds(11));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 125);
  EXPECT_NE(job.verdict().error.message().find("host b did not report"), std::string::npos);
}

TEST(ElasticEndTest, ASuccessWhoseOutputIsLostWithItsHostIsNone) {
  ElasticJob job(Workers(1, 1), {{"a", 1}});
  job.machine("a").is_stuck_in_stop = true;
  job.Succeed("a", 0);
  job.CutOff("a");
  job.Settle();
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 125);
}

TEST(ElasticEndTest, FactsAboutNobodyAreDroppedAndCounted) {
  ElasticJob job(Workers(1, 1), {{"a", 1}});
  const uint64_t before = job.driver().Snapshot().stale_events;
  job.Feed(event::ProcessExited{77, {.exit_code = 1}});
  job.Feed(event::RankAsked{77});
  job.Feed(event::HostLost{77, {}});
  job.Feed(event::HostLeaving{-1, seconds(1)});
  job.Feed(event::GenerationStopped{1, 0, 0, 0});
  EXPECT_EQ(job.driver().Snapshot().stale_events, before + 5);
  EXPECT_EQ(job.state(), ElasticState::kRunning);
}

TEST(ElasticEndTest, AReaderThatDoesNotReadIsNoDeadHost) {
  ElasticJob job(Workers(1, 1), {{"a", 1}});
  job.machine("a").is_stuck_in_stop = true;
  job.Feed(event::OutputBlocked{true});
  job.Succeed("a", 0);
  job.Advance(seconds(1000));
  EXPECT_FALSE(job.has_finished());
  job.Feed(event::OutputBlocked{false});
  job.Advance(seconds(9));
  EXPECT_FALSE(job.has_finished()) << "its limit counts from now";
  job.Advance(seconds(2));
  EXPECT_TRUE(job.has_finished());
}

TEST(ElasticEndTest, TheTimeoutEndsTheWaitForASlowReaderAndNothingElse) {
  ElasticPolicy policy = Workers(1, 1);
  policy.timeout = seconds(60);
  for (const bool is_stuck : {false, true}) {
    ElasticJob job(policy, {{"a", 1}});
    job.machine("a").is_stuck_in_stop = true;
    job.Feed(event::OutputBlocked{true});
    job.Succeed("a", 0);
    job.Advance(seconds(65));
    EXPECT_FALSE(job.has_finished()) << "the host has its limit to report the end";
    if (!is_stuck) job.Feed(event::GenerationStopped{1, 0, 0, 0});
    job.Advance(seconds(10));
    ASSERT_TRUE(job.has_finished());
    EXPECT_EQ(job.verdict().exit_code, is_stuck ? 125 : 0) << "all workers succeeded in time";
  }
}

ElasticPolicy Gang(int np, int min_np, uint32_t max_restarts) {
  ElasticPolicy policy = Workers(np, min_np);
  policy.mode = ElasticMode::kGang;
  policy.max_restarts = max_restarts;
  return policy;
}

const LastError kFallen = {"RuntimeError: Connection closed by peer", "Connection closed by peer"};

TEST(ElasticGangTest, WhoBeganItIsBlamedThoughItEndsLater) {
  ElasticPolicy policy = Gang(3, 3, 0);
  policy.moment = milliseconds(300);
  ElasticJob job(policy, {{"a", 3}});
  job.Advance(seconds(1));
  job.Feed(event::ProcessErred{0, kFallen, milliseconds(10)});
  job.Fail("a", 0);
  job.Advance(milliseconds(200));
  EXPECT_EQ(job.Count<effect::StopGeneration>(), 0u);
  job.Fail("a", 1, {.exit_code = 17});
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 17);
  EXPECT_EQ(job.verdict().first_failure->rank, 1);
}

TEST(ElasticEndTest, WhatAMemberSaidInAnEarlierGenerationIsNoEvidence) {
  ElasticPolicy policy = Workers(3, 1);
  policy.moment = milliseconds(300);
  ElasticJob job(policy);
  job.Find({{"a", 1}, {"b", 1}, {"c", 1}}, /*is_final=*/true);
  for (const WorkerId worker : {0u, 1u}) {
    job.Feed(event::ProcessErred{worker, kFallen, milliseconds(10)});
  }
  job.Fail("c", 0, {.signal = SIGKILL});
  job.AllMeet();
  EXPECT_EQ(job.generation(), 2u);
  job.Advance(seconds(5));
  job.Fail("b", 0, {.exit_code = 3});
  job.Fail("a", 0, {.exit_code = 17});
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 3);
  EXPECT_TRUE(job.verdict().is_first_certain);
}

TEST(ElasticGangTest, TheEndComesAMomentAfterTheLastFailure) {
  ElasticPolicy policy = Gang(3, 3, 0);
  policy.moment = milliseconds(300);
  ElasticJob job(policy, {{"a", 3}});
  job.Fail("a", 1, {.exit_code = 9});
  EXPECT_EQ(job.Count<effect::StopGeneration>(), 0u);
  job.Advance(milliseconds(400));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 9);
}

TEST(ElasticGangTest, ACrashWithoutAWordIsNotWaitedFor) {
  ElasticPolicy policy = Gang(3, 3, 1);
  policy.moment = milliseconds(300);
  ElasticJob job(policy, {{"a", 3}});
  job.Fail("a", 1, {.signal = SIGKILL});
  job.Advance(milliseconds(100));
  EXPECT_EQ(job.generation(), 2u);
}

TEST(ElasticEndTest, WhoBeganItIsBlamedWhereNoMemberIsLeftElsewhere) {
  ElasticPolicy policy = Workers(2, 2);
  policy.moment = milliseconds(300);
  ElasticJob job(policy);
  job.Find({{"a", 2}}, /*is_final=*/true);
  job.Advance(seconds(1));
  job.Feed(event::ProcessErred{0, kFallen, milliseconds(10)});
  job.Fail("a", 0);
  job.Advance(milliseconds(100));
  EXPECT_EQ(job.Count<effect::StopWorkers>(), 0u);
  job.Fail("a", 1, {.exit_code = 17});
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 17);
  EXPECT_EQ(job.verdict().first_failure->rank, 1);
  EXPECT_TRUE(job.verdict().workers[0].is_victim);
}

TEST(ElasticGangTest, AFailureRestartsAllWorkersWithAFreshPort) {
  ElasticJob job(Gang(4, 4, 1), {{"a", 2}, {"b", 2}});
  job.Fail("b", 1);
  job.Advance(seconds(1));
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.size(), 4);
  const std::vector<effect::StartWorkers> starts = job.All<effect::StartWorkers>();
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[1].workers.size(), 4u);
  EXPECT_EQ(starts[1].restart_count, 1u);
  EXPECT_NE(starts[1].master_port, starts[0].master_port);
  EXPECT_EQ(job.Count<effect::ConnectHost>(), 2u) << "agents stay up";
  job.ExpectSaid({"restart 1 of 1", "rank 3", "host b", "code 1"});
  job.Fail("a", 0, {.exit_code = 9});
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 9);
}

TEST(ElasticGangTest, AChangeOfHostsRestartsItAndIsNoFailure) {
  ElasticJob job(Gang(2, 2, 0), {{"a", 2}});
  job.Find({{"a", 2}, {"b", 2}});
  job.Advance(seconds(1));
  EXPECT_EQ(job.size(), 4);
  EXPECT_EQ(job.All<effect::StartWorkers>().back().restart_count, 0u);
  job.CutOff("b");
  job.Advance(seconds(1));
  EXPECT_EQ(job.size(), 2);
  job.Succeed("a", 0);
  job.Succeed("a", 1);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(ElasticGangTest, ItIsRestartedForMoreSlotsOnlyOnceTheseAreListedForLong) {
  ElasticPolicy policy = Gang(2, 2, 0);
  policy.list_settle = seconds(2);
  ElasticJob job(policy, {{"a", 2}});
  for (int i = 0; i < 20; ++i) {  // a host that flaps
    job.Find({{"a", 2}, {"b", 1}});
    job.Advance(milliseconds(1900));
    job.Find({{"a", 2}});
    job.Advance(milliseconds(100));
  }
  EXPECT_EQ(job.generation(), 1u);
  job.Find({{"a", 2}, {"b", 1}});
  job.Advance(milliseconds(1900));
  job.Find({{"a", 2}, {"b", 2}});  // more slots, which are new, too
  job.Advance(milliseconds(1900));
  EXPECT_EQ(job.generation(), 1u);
  job.Advance(milliseconds(200));
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.size(), 4);
}

TEST(ElasticGangTest, AHostThatFlapsKeepsNoOtherOneOut) {
  ElasticPolicy policy = Gang(2, 2, 0);
  policy.list_settle = seconds(2);
  ElasticJob job(policy, {{"a", 2}});
  for (int i = 0; i < 3; ++i) {
    job.Find({{"a", 2}, {"b", 1}, {"c", 1}});
    job.Advance(milliseconds(500));
    job.Find({{"a", 2}, {"c", 1}});
    job.Advance(milliseconds(500));
  }
  EXPECT_EQ(job.generation(), 2u);
  EXPECT_EQ(job.size(), 3);
}

TEST(ElasticGangTest, ChangesOfHostsCountAgainstTheResetLimit) {
  ElasticPolicy policy = Gang(2, 2, 1);
  policy.reset_limit = 2;
  ElasticJob job(policy, {{"a", 2}});
  job.Find({{"a", 2}, {"b", 1}});
  job.Advance(seconds(1));
  job.Fail("a", 0);  // counts against --max-restarts
  job.Advance(seconds(1));
  job.Find({{"a", 2}});
  job.Advance(seconds(1));
  EXPECT_EQ(job.generation(), 4u);
  std::vector<bool> counted;
  for (const auto& change : job.All<effect::MembershipChanged>()) {
    counted.push_back(change.is_counted);
  }
  EXPECT_EQ(counted, (std::vector<bool>{false, true, false, true}));
  job.Find({{"a", 2}, {"b", 1}});
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 1);
  EXPECT_EQ(job.verdict().error.code(), ErrorCode::kResetLimit);
}

TEST(ElasticGangTest, WhatComesBackAfterALossDoesNotCount) {
  ElasticPolicy policy = Gang(2, 1, 0);
  policy.reset_limit = 1;
  policy.cooldown = CooldownRange{seconds(1), seconds(2)};
  ElasticJob job(policy, {{"a", 1}, {"b", 1}});
  job.CutOff("b");
  job.machine("b").is_up = true;
  job.Advance(seconds(5));
  EXPECT_FALSE(job.has_finished());
  EXPECT_EQ(job.size(), 2) << "it is back";
}

TEST(ElasticGangTest, WithTooFewSlotsItWaitsAndStartsWhenTheyCome) {
  ElasticJob job(Gang(2, 2, 0), {{"a", 1}, {"b", 1}});
  job.CutOff("b");
  job.Advance(seconds(1));
  EXPECT_EQ(job.state(), ElasticState::kShort);
  job.Find({{"a", 1}, {"c", 1}});
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.generation(), 2u);
}

TEST(ElasticGangTest, ACommandThatCannotRunIsNotTriedAgain) {
  ElasticJob job(Gang(1, 1, 5), {{"a", 1}});
  job.Fail("a", 0, {.stage = wire::ExecStage::kExec, .error = ENOENT});
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 127);
}

TEST(ElasticGangTest, AHostThatLeavesRestartsTheOthersAtOnce) {
  ElasticJob job(Gang(2, 1, 0), {{"a", 1}, {"b", 1}});
  job.Leave("b", seconds(30));
  job.Advance(seconds(1));
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.generation(), 2u);
}

TEST(ElasticGangTest, AHostThatDoesNotStopIsGivenUpAndTheOthersGoOn) {
  ElasticJob job(Gang(2, 1, 1), {{"a", 1}, {"b", 1}});
  job.machine("b").is_stuck_in_stop = true;
  job.Fail("a", 0);
  job.Advance(job.policy().grace + seconds(11));
  EXPECT_EQ(job.size(), 1);
  EXPECT_EQ(job.RankOf("a", 0), 0);
}

TEST(ElasticGangTest, ATimeoutAndAStuckHostInTheSameMomentEndIt) {
  ElasticPolicy policy = Gang(1, 1, 1);
  policy.timeout = seconds(15);
  ElasticJob job(policy, {{"a", 1}});
  job.machine("a").is_stuck_in_stop = true;
  job.Fail("a", 0);
  ASSERT_EQ(job.state(), ElasticState::kRestarting);
  job.Feed(event::Tick{});
  job.CutOff("a");
  job.Feed(event::UserSignal{SIGTERM});
  job.Settle();
  EXPECT_TRUE(job.has_finished());
}

}  // namespace
}  // namespace hvdray
