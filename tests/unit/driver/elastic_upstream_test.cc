// SPDX-License-Identifier: Apache-2.0
// The scenarios of Horovod's own tests of its elastic driver: same inputs, same outcomes. Source:
// Horovod 0.28.1, test/single/test_elastic_driver.py. Comments name the differences.
#include "tests/unit/driver/elastic_job.h"

namespace hvdray {
namespace {

TEST(ElasticUpstreamTest, TwoHostsOfTwoKeepTheirRanksWhenAllMeetAndSucceed) {
  ElasticJob job(Workers(2, 2, 4), {{"host-1", 2}, {"host-2", 2}});
  EXPECT_EQ(job.size(), 4);
  job.AllMeet();
  EXPECT_EQ(job.AnswerOf("host-1", 0), "0,4,0,2,0,2");
  EXPECT_EQ(job.AnswerOf("host-1", 1), "1,4,1,2,0,2");
  EXPECT_EQ(job.AnswerOf("host-2", 0), "2,4,0,2,1,2");
  EXPECT_EQ(job.AnswerOf("host-2", 1), "3,4,1,2,1,2");
  for (const char* host : {"host-1", "host-2"}) {
    for (const int local_rank : {0, 1}) job.Succeed(host, local_rank);
  }
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(ElasticUpstreamTest, AHostThatFailsBeforeTheOthersMeetIsLeftOut) {
  ElasticJob job(Workers(2, 2, 4), {{"host-1", 2}, {"host-2", 2}});
  job.Fail("host-2", 0);
  job.Fail("host-2", 1);
  job.AllMeet();
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.AnswerOf("host-1", 0), "0,2,0,2,0,1");
  EXPECT_EQ(job.AnswerOf("host-1", 1), "1,2,1,2,0,1");
  job.Succeed("host-1", 0);
  job.Succeed("host-1", 1);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(ElasticUpstreamTest, AHostThatIsAddedWhileTheGangTrainsJoins) {
  ElasticJob job(Workers(2, 2, 4), {{"host-1", 2}});
  job.Find({{"host-1", 2}, {"host-2", 2}});
  EXPECT_EQ(job.size(), 2);
  job.AllMeet();
  EXPECT_EQ(job.size(), 4);
  EXPECT_EQ(job.AnswerOf("host-1", 0), "0,4,0,2,0,2");
  EXPECT_EQ(job.AnswerOf("host-1", 1), "1,4,1,2,0,2");
  EXPECT_EQ(job.RankOf("host-2", 1), 3);
}

TEST(ElasticUpstreamTest, TheJobWaitsForEnoughSlots) {
  ElasticJob job(Workers(16, 8, 20), {{"host-1", 4}});
  EXPECT_EQ(job.state(), ElasticState::kGathering);
  job.Find({{"host-1", 4}, {"host-2", 8}});
  EXPECT_EQ(job.state(), ElasticState::kGathering);
  job.Find({{"host-1", 4}, {"host-2", 8}, {"host-3", 4}});
  EXPECT_EQ(job.size(), 16);
}

// Horovod needs two hosts for its search of interfaces; ours does not.
TEST(ElasticUpstreamTest, OneHostIsEnough) {
  const ElasticJob job(Workers(2, 2, 12), {{"host-1", 4}});
  EXPECT_EQ(job.size(), 4);
}

TEST(ElasticUpstreamTest, AJobWhoseWorkersAllFailFails) {
  ElasticJob job(Workers(2, 2, 4), {{"host-1", 2}, {"host-2", 2}});
  // All at once: no worker has been told to end when the last one fails.
  for (const char* host : {"host-1", "host-2"}) {
    for (const int local_rank : {0, 1}) job.Exit(host, local_rank, {.exit_code = 1});
  }
  job.Settle();
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 1);
  EXPECT_EQ(job.verdict().origin, ExitOrigin::kWorker);
  ASSERT_EQ(job.verdict().workers.size(), 4u);
  for (const WorkerRecord& worker : job.verdict().workers) EXPECT_EQ(worker.status->exit_code, 1);
}

TEST(ElasticUpstreamTest, OneSuccessEndsTheJobWhenAllOthersHaveMet) {
  ElasticJob job(Workers(2, 2, 4), {{"host-1", 2}, {"host-2", 2}});
  job.Succeed("host-1", 0);
  EXPECT_FALSE(job.has_finished());
  job.AllMeet();
  job.Advance(seconds(1));
  ASSERT_TRUE(job.has_finished());
  EXPECT_EQ(job.verdict().exit_code, 1);
  EXPECT_EQ(job.verdict().error.code(), ErrorCode::kPartialSuccess);
  int succeeded = 0;
  for (const WorkerRecord& worker : job.verdict().workers) {
    succeeded += worker.status->is_success() ? 1 : 0;
  }
  EXPECT_EQ(succeeded, 1);
}

TEST(ElasticUpstreamTest, AWorkerThatFailsTakesItsHostWithIt) {
  ElasticJob job(Workers(2, 2, 4), {{"host-1", 2}, {"host-2", 2}});
  job.Park("host-1", 1);
  job.Fail("host-1", 0);
  job.Advance(seconds(1));
  EXPECT_FALSE(job.IsAlive("host-1", 1));
  job.AllMeet();
  EXPECT_EQ(job.size(), 2);
  EXPECT_EQ(job.AnswerOf("host-2", 0), "0,2,0,2,0,1");
  job.Succeed("host-2", 0);
  job.Succeed("host-2", 1);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

// Horovod sends code 2, then 1; ours always sends 3, and only once the newcomers have arrived.
TEST(ElasticUpstreamTest, Rank0AloneIsToldOfHostsThatComeAndGo) {
  ElasticJob job(Workers(2, 2, 4), {{"host-1", 2}});
  job.Register("host-1", 0);
  job.Register("host-1", 1);
  job.Find({{"host-1", 2}, {"host-2", 2}});
  ASSERT_EQ(job.Count<effect::Notify>(), 1u);
  job.Find({{"host-2", 2}});
  job.Advance(seconds(2));
  const std::vector<effect::Notify> notices = job.All<effect::Notify>();
  EXPECT_GE(notices.size(), 2u);
  for (const effect::Notify& notice : notices) EXPECT_EQ(notice.worker, 0u);
}

TEST(ElasticUpstreamTest, NoticesGoOutEvenIfTooFewSlotsAreLeft) {
  ElasticJob job(Workers(12, 8, 12), {{"host-1", 8}, {"host-2", 4}});
  job.Register("host-1", 0);
  job.Settle();
  EXPECT_EQ(job.Count<effect::Notify>(), 0u);
  job.Find({{"host-2", 4}});
  EXPECT_EQ(job.Count<effect::Notify>(), 1u);
  EXPECT_EQ(job.state(), ElasticState::kCalling);
  job.AllMeet();
  EXPECT_EQ(job.state(), ElasticState::kShort);
  job.Find({{"host-2", 4}, {"host-3", 12}});
  EXPECT_EQ(job.size(), 12);
  EXPECT_EQ(job.RankOf("host-2", 0), 0);
}

TEST(ElasticUpstreamTest, ADiscoveryThatFailsFirstEndsTheJob) {
  ElasticJob job(Workers(2, 2, 4));
  job.Feed(event::DiscoveryFailed{
      {ErrorCode::kNoCapacity, "Job has been shutdown, see above error messages for details."}});
  ASSERT_TRUE(job.has_finished());
  EXPECT_NE(job.verdict().exit_code, 0);
  EXPECT_EQ(job.Count<effect::StartWorkers>(), 0u);
}

TEST(ElasticUpstreamTest, AnAnswerThatIsWrongAtFirstIsTheSpecsFault) {
  for (const auto& [code, exit_code] :
       {std::pair{ErrorCode::kSpecInvalid, 2}, {ErrorCode::kDeadlineExceeded, 125}}) {
    ElasticJob job(Workers(2, 2, 4));
    job.Feed(event::DiscoveryFailed{{code, "the script's"}});
    ASSERT_TRUE(job.has_finished());
    EXPECT_EQ(job.verdict().exit_code, exit_code);
  }
}

TEST(ElasticUpstreamTest, ADiscoveryThatFailsLaterIsToldOnceAndChangesNothing) {
  ElasticJob job(Workers(1, 1), {{"a", 1}});
  for (int i = 0; i < 3; ++i) {
    job.Feed(event::DiscoveryFailed{{ErrorCode::kNoCapacity, "the script exited with 3"}});
  }
  EXPECT_EQ(job.said().size(), 1u);
  EXPECT_EQ(job.state(), ElasticState::kRunning);
}

TEST(ElasticUpstreamTest, EachReasonOfARunOfFailuresIsToldOnce) {
  ElasticJob job(Workers(1, 1), {{"a", 1}});
  const auto fail = [&job](std::string why) {
    job.Feed(event::DiscoveryFailed{{ErrorCode::kSpecInvalid, std::move(why)}});
  };
  for (int i = 0; i < 3; ++i) {
    fail("the script exited with 3");
    fail("the script was killed by SIGSEGV");
  }
  EXPECT_EQ(job.said().size(), 2u);
  job.ExpectSaid({"exited with 3"});
  job.ExpectSaid({"SIGSEGV"});
  job.Find({{"a", 1}});
  fail("the script exited with 3");
  EXPECT_EQ(job.said().size(), 3u) << "another run of failures";
  for (int i = 0; i < 100; ++i) fail("error at second " + std::to_string(i));
  EXPECT_EQ(job.said().size(), 12u) << "one that is always another does not fill the screen";
  job.ExpectSaid({"error at second 8", "--events"});
}

}  // namespace
}  // namespace hvdray
