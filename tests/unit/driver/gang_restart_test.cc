// SPDX-License-Identifier: Apache-2.0
// --max-restarts: restarts the whole gang, only after it has ended, and only for failures that may
// not repeat.
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/sim.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void ExpectRight(Sim& sim) {
  for (const std::string& rule : sim.violations()) ADD_FAILURE() << rule;
}

/// Rank 1 (host b) fails with 7 in generation 1, after 100 ms.
struct FailingOnceSim : Sim {
  explicit FailingOnceSim(GangPolicy policy) : Sim(policy, {{"a", 1}, {"b", 1}}) {
    worker(1).status.exit_code = 7;
    worker(1).only_generation = 1;
    worker(0).ends_after = seconds(3);
  }
};

TEST(GangRestartTest, StartsTheGangAgainOnceAllOfItIsGone) {
  FailingOnceSim sim({.max_restarts = 2});
  sim.worker(0).ignores_sigterm = true;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 0);
  EXPECT_TRUE(sim.verdict().error.ok());
  EXPECT_FALSE(sim.verdict().first_failure.has_value()) << "of the last generation";
  EXPECT_EQ(sim.verdict().restarts, 1u);
  ASSERT_EQ(sim.starts().size(), 2u);
  EXPECT_EQ(sim.starts()[1].generation, 2u);
  EXPECT_EQ(sim.starts()[1].restart_count, 1u);
  EXPECT_EQ(sim.starts()[1].master_port, 20100) << "the fresh one of rank 0's host";
  EXPECT_EQ(sim.starts()[1].ranks, sim.starts()[0].ranks);
  EXPECT_GT(sim.elapsed(), seconds(3)) << "rank 0 of generation 1 took its time to die";
  ASSERT_EQ(sim.said().size(), 1u);
  ExpectSays(sim.said()[0], {"restart 1 of 2", "rank 1", "host b", "code 7"});
  ASSERT_TRUE(sim.driver().earlier_failure().has_value());
  EXPECT_EQ(sim.driver().earlier_failure()->rank, 1);
  EXPECT_EQ(sim.driver().earlier_failure()->generation, 1u);
  EXPECT_EQ(sim.driver().earlier_failure()->status->exit_code, 7);
  for (const WorkerRecord& worker : sim.verdict().workers) {
    EXPECT_EQ(worker.generation, 2u);
    EXPECT_FALSE(worker.is_victim);
  }
  ExpectRight(sim);
}

TEST(GangRestartTest, KeepsTheMasterPortOfThePolicy) {
  FailingOnceSim sim({.max_restarts = 1, .master_port = 29500});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts()[1].master_port, 29500);
}

TEST(GangRestartTest, EndsWithTheLastFailureWhenNoRestartIsLeft) {
  Sim sim({.max_restarts = 3}, {{"a", 2}});
  sim.worker(1).status = {.signal = SIGSEGV};
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts().size(), 4u);
  EXPECT_EQ(sim.verdict().restarts, 3u);
  EXPECT_EQ(sim.verdict().exit_code, 139);
  EXPECT_EQ(sim.verdict().first_failure->generation, 4u);
  ExpectError(sim.verdict().error, ErrorCode::kWorkerFailed,
              {"rank 1", "host a", "SIGSEGV", "signal 11", "3 restarts"});
  ExpectRight(sim);
}

TEST(GangRestartTest, DoesNotTryACommandAgainThatCannotBeExecuted) {
  for (const int error : {ENOENT, EACCES}) {
    Sim sim({.max_restarts = 5}, {{"a", 2}});
    sim.worker(0).status = {.stage = wire::ExecStage::kExec, .error = error};
    ASSERT_TRUE(sim.Run());
    EXPECT_EQ(sim.starts().size(), 1u);
    EXPECT_EQ(sim.verdict().exit_code, error == ENOENT ? 127 : 126);
  }
}

TEST(GangRestartTest, DoesNotFollowASignal) {
  Sim sim({.max_restarts = 5}, {{"a", 1}});
  sim.worker(0).ends_after.reset();
  sim.worker(0).exit_code_on_sigterm = 1;
  sim.At(seconds(1), event::UserSignal{SIGTERM});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts().size(), 1u);
  EXPECT_EQ(sim.verdict().exit_code, 143);
}

TEST(GangRestartTest, DoesNotFollowALostHost) {
  Sim sim({.max_restarts = 5}, {{"a", 1}, {"b", 1}});
  sim.worker(0).ends_after = seconds(9);
  sim.worker(1).ends_after = seconds(9);
  sim.host(1).lost_after = seconds(1);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts().size(), 1u);
  EXPECT_EQ(sim.verdict().exit_code, 125);
}

TEST(GangRestartTest, DoesNotFollowTheTimeout) {
  Sim sim({.timeout = seconds(1), .max_restarts = 1000000}, {{"a", 1}});
  sim.worker(0).status.exit_code = 1;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 124) << "the time is that of the job, not of a generation";
  EXPECT_GT(sim.verdict().restarts, 5u);
  EXPECT_LT(sim.elapsed(), milliseconds(1200));
}

TEST(GangRestartTest, IsCalledOffByASignalWhileTheOldGangIsStopped) {
  FailingOnceSim sim({.grace = seconds(5), .max_restarts = 1});
  sim.worker(0).ignores_sigterm = true;
  sim.At(seconds(2), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts().size(), 1u);
  EXPECT_EQ(sim.verdict().exit_code, 130) << "the failure would not have ended the job";
  ASSERT_TRUE(sim.verdict().first_failure.has_value());
  EXPECT_EQ(sim.verdict().first_failure->rank, 1);
}

TEST(GangRestartTest, IsCalledOffByAHostThatIsLostWhileTheOldGangIsStopped) {
  FailingOnceSim sim({.max_restarts = 1});
  sim.worker(0).ignores_sigterm = true;
  sim.host(0).lost_after = seconds(1);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts().size(), 1u);
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kAgentLost);
}

TEST(GangRestartTest, IsCalledOffByAHostThatDoesNotReportTheEnd) {
  FailingOnceSim sim({.max_restarts = 1});
  sim.host(0).is_stuck_in_stop = true;
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts().size(), 1u);
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(sim.verdict().first_failure->rank, 1);
}

TEST(GangRestartTest, IsCalledOffByAReaderThatLeaves) {
  FailingOnceSim sim({.max_restarts = 1});
  sim.worker(0).ignores_sigterm = true;
  sim.At(seconds(2), event::ReaderGone{});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 141);
}

TEST(GangRestartTest, AcceptsNothingFromWorkersOfTheOldGeneration) {
  FailingOnceSim sim({.max_restarts = 1});
  // The second generation begins within 200 ms; rank 1 of it ends after 10 ms, rank 0 after 3 s.
  sim.At(seconds(2), event::WorkerExited{1, 0, {.exit_code = 99}, false});
  sim.At(seconds(2), event::WorkerStarted{1, 0, 4711});
  sim.At(seconds(2), event::GenerationStopped{1, 0, 50, 7});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 0);
  EXPECT_EQ(sim.verdict().workers[0].pid, 2000u);
  EXPECT_EQ(sim.verdict().swept, 0u);
  EXPECT_EQ(sim.driver().stale_events(), 3u);
}

TEST(GangRestartTest, GoesThroughTheNamedStates) {
  FailingOnceSim sim({.max_restarts = 1});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.gang_changes(),
            (std::vector<std::string>{"connecting -> starting", "starting -> running",
                                      "running -> failing", "failing -> stopping",
                                      "stopping -> starting", "starting -> running",
                                      "running -> stopping", "stopping -> finished"}));
}

}  // namespace
}  // namespace hvdray
