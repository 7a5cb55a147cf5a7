// SPDX-License-Identifier: Apache-2.0
// The init barrier: a worker that dies in hvd.init() before all have reached the barrier is
// restarted in its place; if that is impossible, no worker is left waiting.
#include "tests/unit/driver/elastic_job.h"

namespace hvdray {
namespace {

constexpr wire::ExitStatus kKilled = {.signal = SIGKILL};
constexpr wire::ExitStatus kAborted = {.signal = SIGABRT};

ElasticPolicy Repairing(int np, int min_np) {
  ElasticPolicy policy = Workers(np, min_np);
  policy.repairs_barriers = true;
  return policy;
}

/// Three hosts of one worker each, which import for 1 s.
class ElasticBarrierTest : public testing::Test {
 protected:
  ElasticBarrierTest()
      : job_(Repairing(3, 1), {{"a", 1}, {"b", 1}, {"c", 1}}, {.import_time = seconds(1)}) {}

  /// All but `late` are in hvd.init() of generation 1.
  void MeetWithout(const std::string& late) {
    job_.Hang(late, 0);
    job_.Advance(seconds(1));
  }
  /// c is gone, and all but `late` are in hvd.init() of generation 2.
  void MeetAgainWithout(const std::string& late) {
    job_.Advance(seconds(2));
    job_.Fail("c", 0);
    job_.Hang(late, 0);
    job_.AllMeet();
    ASSERT_EQ(job_.generation(), 2u);
  }
  std::vector<effect::StartWorkers> LateStarts() const {
    auto starts = job_.All<effect::StartWorkers>();
    starts.erase(starts.begin());
    return starts;
  }

  ElasticJob job_;
};

TEST_F(ElasticBarrierTest, ItOpensOnceWhenAllAreThere) {
  MeetWithout("b");
  EXPECT_EQ(job_.Count<effect::OpenBarrier>(), 0u);
  job_.Fail("b", 0, kKilled);
  job_.Advance(seconds(1));
  ASSERT_EQ(job_.Count<effect::OpenBarrier>(), 1u);
  EXPECT_EQ(job_.All<effect::OpenBarrier>()[0].generation, 1u);
}

TEST_F(ElasticBarrierTest, WhoDiesWhileOthersWaitIsStartedAgainInItsPlace) {
  MeetWithout("b");
  job_.Fail("b", 0, kKilled);
  ASSERT_EQ(LateStarts().size(), 1u);
  const effect::StartWorkers start = LateStarts()[0];
  EXPECT_EQ(start.generation, 1u);
  ASSERT_EQ(start.workers.size(), 1u);
  EXPECT_EQ(start.workers[0].place, job_.All<effect::PublishGeneration>()[0].ranks[1]);
  EXPECT_EQ(job_.state(), ElasticState::kRunning);
  job_.ExpectSaid({"rank 1", "host b", "restarting"});
  job_.Advance(seconds(1));
  EXPECT_EQ(job_.Count<effect::PublishGeneration>(), 1u) << "nobody's rank has changed";
  EXPECT_EQ(job_.Count<effect::StopWorkers>(), 0u) << "the host is not blamed";
}

TEST_F(ElasticBarrierTest, WhoHasMetAndDiesIsWaitedForAnew) {
  MeetWithout("b");
  job_.Fail("a", 0, kKilled);
  EXPECT_EQ(LateStarts().size(), 1u) << "nobody has a state that rank 0 could lose";
  job_.Fail("b", 0, kKilled);
  EXPECT_EQ(LateStarts().size(), 2u);
  job_.Advance(seconds(1));
  EXPECT_EQ(job_.Count<effect::OpenBarrier>(), 1u);
}

TEST_F(ElasticBarrierTest, TheFirstThatWaitsIsStartedAgainToo) {
  job_.Hang("b", 0);
  MeetWithout("c");
  job_.Fail("a", 0, kKilled);
  EXPECT_EQ(LateStarts().size(), 1u) << "nobody else is there, but the program gets that far";
}

TEST_F(ElasticBarrierTest, AProgramThatFailsBeforeAnybodyWaitsIsNotStartedAgain) {
  job_.Fail("b", 0, {.exit_code = 3});
  EXPECT_TRUE(LateStarts().empty());
  job_.Advance(seconds(1));
  EXPECT_EQ(job_.state(), ElasticState::kStopping) << "the others can never meet";
  job_.Run();
  EXPECT_EQ(job_.verdict().exit_code, 3);
}

TEST_F(ElasticBarrierTest, ASecondDeathEndsTheJobAtOnce) {
  MeetWithout("b");
  job_.Fail("b", 0, kKilled);
  job_.Fail("b", 0, {.exit_code = 4});
  EXPECT_EQ(job_.state(), ElasticState::kStopping);
  job_.Run();
  EXPECT_EQ(job_.verdict().exit_code, 4);
}

TEST_F(ElasticBarrierTest, WithoutAHostThatIsLostTheFirstGenerationBeginsAgain) {
  MeetWithout("b");
  job_.CutOff("c");
  job_.Settle();
  EXPECT_EQ(job_.Count<effect::BreakConnections>(), 0u) << "there are none yet";
  job_.ExpectSaid({"c", "agent", "no state"});
  EXPECT_EQ(job_.generation(), 2u);
  EXPECT_EQ(job_.size(), 2);
  job_.CutOff("b");
  job_.Run();
  EXPECT_EQ(job_.Count<effect::PublishGeneration>(), 2u) << "once in a job";
  EXPECT_EQ(job_.verdict().error.code(), ErrorCode::kStateLost);
}

TEST_F(ElasticBarrierTest, ADeathWhileTheFirstGangConnectsBeginsItAgain) {
  job_.Advance(seconds(1));
  ASSERT_EQ(job_.Count<effect::OpenBarrier>(), 1u);
  job_.Fail("b", 0, kKilled);
  EXPECT_EQ(job_.Count<effect::BreakConnections>(), 1u);
  EXPECT_EQ(job_.generation(), 1u) << "the others may get through";
  job_.Fail("c", 0, kAborted);
  job_.Fail("a", 0, kAborted);
  ASSERT_EQ(job_.generation(), 2u);
  EXPECT_EQ(job_.size(), 3) << "no host is to blame";
  EXPECT_EQ(job_.All<effect::StartWorkers>().back().workers.size(), 3u);
  job_.ExpectSaid({"b", "rank 1", "host b", "SIGKILL", "signal 9", "connecting", "no state"});
  EXPECT_EQ(job_.All<effect::MembershipChanged>().back().is_counted, false);
  job_.Advance(seconds(2));
  EXPECT_EQ(job_.Count<effect::OpenBarrier>(), 2u);
  EXPECT_EQ(job_.state(), ElasticState::kRunning);
}

TEST_F(ElasticBarrierTest, TheSecondTimeTheJobEndsAndTheFirstCauseIsBlamed) {
  job_.Advance(seconds(1));
  for (const char* victim : {"b", "c"}) {
    for (const char* host : {victim, "a", victim[0] == 'b' ? "c" : "b"}) {
      job_.Fail(host, 0, host == victim ? kKilled : kAborted);
    }
    job_.Advance(seconds(1));
  }
  job_.Run();
  const Verdict& verdict = job_.verdict();
  EXPECT_EQ(verdict.exit_code, 137);
  EXPECT_EQ(verdict.first_failure->host, "c");
  ExpectError(verdict.error, ErrorCode::kWorkerFailed,
              {"host c", "SIGKILL", "connecting", "hint: ", "Horovod"});
}

TEST_F(ElasticBarrierTest, OnceAGangHasConnectedTheStateIsNotThrownAway) {
  MeetAgainWithout("b");
  job_.Fail("b", 0, kKilled);  // restarted in its place
  job_.Advance(seconds(1));
  ASSERT_EQ(job_.Count<effect::OpenBarrier>(), 2u);
  job_.Fail("b", 0, kKilled);
  job_.Fail("a", 0, kAborted);
  job_.Run();
  EXPECT_EQ(job_.Count<effect::PublishGeneration>(), 2u);
  EXPECT_EQ(job_.verdict().exit_code, 137);
  ExpectError(job_.verdict().error, ErrorCode::kWorkerFailed, {"host b", "SIGKILL", "connecting"});
}

TEST_F(ElasticBarrierTest, WhoAbortsBeforeTheCauseIsKnownIsNotBlamed) {
  MeetAgainWithout("b");
  job_.Fail("b", 0, kKilled);
  job_.Advance(seconds(1));
  job_.Fail("a", 0, kAborted);
  job_.Fail("b", 0, kKilled);
  job_.Run();
  EXPECT_EQ(job_.verdict().exit_code, 137);
  EXPECT_EQ(job_.verdict().first_failure->host, "b");
}

TEST_F(ElasticBarrierTest, WhoAbortsAloneWhileItConnectsIsTheCause) {
  MeetAgainWithout("b");
  job_.Fail("b", 0, kKilled);
  job_.Advance(seconds(1));
  job_.Fail("a", 0, kAborted);
  job_.Fail("b", 0, kAborted);
  job_.Run();
  EXPECT_EQ(job_.verdict().exit_code, 134);
  EXPECT_EQ(job_.verdict().first_failure->host, "a");
}

TEST_F(ElasticBarrierTest, ALossInWhatIsLeftOfInitBeginsItAgainToo) {
  job_.Advance(milliseconds(1100));
  for (const char* host : {"b", "a", "c"}) job_.Fail(host, 0, host[0] == 'b' ? kKilled : kAborted);
  EXPECT_EQ(job_.generation(), 2u);
  job_.ExpectSaid({"b", "no state"});
}

TEST_F(ElasticBarrierTest, AFailureInWhatIsLeftOfInitOnTheOnlyHostEndsTheJobWithItsCode) {
  for (const bool is_final : {true, false}) {
    ElasticJob job(Repairing(2, 2), {}, {.import_time = seconds(1)});
    job.Find({{"a", 2}}, is_final);
    job.Advance(milliseconds(1100));
    job.Fail("a", 1, {.exit_code = 17});
    job.Run();
    EXPECT_EQ(job.verdict().exit_code, 17) << is_final;
    EXPECT_EQ(job.verdict().first_failure->rank, 1) << is_final;
  }
}

TEST_F(ElasticBarrierTest, WhoTakesNoticesIsThroughWithInit) {
  job_.Advance(milliseconds(1100));
  job_.Register("a", 0);
  job_.Settle();
  for (const char* host : {"b", "a", "c"}) job_.Fail(host, 0, host[0] == 'b' ? kKilled : kAborted);
  job_.Run();
  EXPECT_EQ(job_.Count<effect::PublishGeneration>(), 1u);
  EXPECT_EQ(job_.verdict().exit_code, 137);
  EXPECT_EQ(job_.verdict().error.message().find("connected"), std::string::npos);
}

TEST_F(ElasticBarrierTest, WhoTakesNoticesWithoutHavingMetNeedsNoBarrier) {
  // hvdray.torch: its hvd.init() meets elsewhere.
  for (const char* host : {"a", "b", "c"}) job_.Hang(host, 0);
  job_.Advance(seconds(1));
  for (const char* host : {"a", "b", "c"}) job_.Register(host, 0);
  job_.Settle();
  job_.CutOff("c");
  job_.Settle();
  EXPECT_EQ(job_.state(), ElasticState::kMeeting) << "the state is not thrown away";
  job_.AllMeet();
  ASSERT_EQ(job_.generation(), 2u);
  job_.Fail("b", 0, kKilled);
  EXPECT_TRUE(LateStarts().empty());
  EXPECT_EQ(job_.Count<effect::BreakConnections>(), 2u);
  job_.Feed(event::RankAsked{0});
  job_.Settle();
  EXPECT_EQ(job_.generation(), 3u);
  EXPECT_EQ(job_.size(), 1);
}

TEST_F(ElasticBarrierTest, WhoCameThroughGoesOnWithoutTheOneThatDied) {
  job_.Advance(seconds(1));
  job_.Fail("b", 0, kKilled);
  job_.Park("a", 0);
  job_.Park("c", 0);
  job_.Settle();
  EXPECT_EQ(job_.generation(), 2u);
  EXPECT_EQ(job_.RankOf("a", 0), 0);
  EXPECT_EQ(job_.RankOf("c", 0), 1) << "nobody is started anew";
}

TEST_F(ElasticBarrierTest, ACommandThatCannotBeExecutedIsNotTriedAgain) {
  MeetWithout("b");
  job_.Fail("b", 0, {.exit_code = 127, .stage = wire::ExecStage::kExec, .error = 2});
  EXPECT_TRUE(LateStarts().empty());
  EXPECT_EQ(job_.state(), ElasticState::kStopping);
}

TEST_F(ElasticBarrierTest, WhoEndsWithSuccessBeforeItHasMetLeavesTheOthersAlone) {
  MeetWithout("b");
  job_.Succeed("b", 0);
  EXPECT_TRUE(LateStarts().empty());
  job_.Run();
  EXPECT_EQ(job_.verdict().error.code(), ErrorCode::kPartialSuccess);
}

TEST_F(ElasticBarrierTest, ASurvivorThatDiesInTheNextBarrierIsStartedAgain) {
  MeetAgainWithout("b");
  job_.Fail("b", 0, kKilled);
  ASSERT_EQ(LateStarts().size(), 1u);
  EXPECT_EQ(LateStarts()[0].generation, 2u);
  EXPECT_EQ(job_.RankOf("b", 0), 1);
  job_.Advance(seconds(1));
  EXPECT_EQ(job_.Count<effect::OpenBarrier>(), 2u);
  EXPECT_EQ(job_.generation(), 2u);
}

TEST_F(ElasticBarrierTest, WhoBroadcastsTheStateIsNotReplaced) {
  MeetAgainWithout("a");
  ASSERT_EQ(job_.RankOf("a", 0), 0);
  job_.Fail("a", 0, kKilled);
  EXPECT_TRUE(LateStarts().empty());
  EXPECT_EQ(job_.state(), ElasticState::kStopping);
  job_.Run();
  EXPECT_EQ(job_.verdict().exit_code, 137);
}

TEST_F(ElasticBarrierTest, WhoDoesNotComeIsStoppedAndStartedAgain) {
  MeetAgainWithout("b");
  job_.Advance(job_.policy().elastic_timeout);
  job_.ExpectSaid({"rank 1", "host b", "hvd.init()", "600 s"});
  ASSERT_EQ(LateStarts().size(), 1u);
  job_.Advance(seconds(2));
  EXPECT_EQ(job_.Count<effect::OpenBarrier>(), 2u);
  EXPECT_EQ(job_.state(), ElasticState::kRunning);
}

TEST_F(ElasticBarrierTest, ALossAfterItHasOpenedIsALossAsAlways) {
  job_.Advance(seconds(2));
  ASSERT_EQ(job_.Count<effect::OpenBarrier>(), 1u);
  job_.Fail("b", 0, kKilled);
  EXPECT_TRUE(LateStarts().empty());
  EXPECT_EQ(job_.state(), ElasticState::kMeeting);
  job_.AllMeet();
  EXPECT_EQ(job_.generation(), 2u);
  EXPECT_EQ(job_.size(), 2);
}

TEST(ElasticBarrierOffTest, RecordingsFromBeforeItMeanWhatTheyMeant) {
  ElasticJob job(Workers(2, 1), {{"a", 1}, {"b", 1}});
  job.Advance(seconds(1));
  job.Feed(event::WorkerMet{0});
  job.Feed(event::WorkerMet{1});
  EXPECT_EQ(job.Count<effect::OpenBarrier>(), 0u);
  job.Fail("b", 0);
  EXPECT_EQ(job.Count<effect::StartWorkers>(), 1u);
  EXPECT_EQ(job.state(), ElasticState::kMeeting);
}

}  // namespace
}  // namespace hvdray
