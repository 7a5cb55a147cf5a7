// SPDX-License-Identifier: Apache-2.0
// The time that the others get after a worker has failed, and which worker is blamed.
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/driver/gang_driver.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/sim.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const LastError kOwn = {"ValueError: the batch is empty", ""};
const LastError kVictim = {"HorovodInternalError: Horovod has been shut down",
                           "Horovod has been shut down"};

/// Three workers that never end by themselves, on two hosts.
struct HungSim : Sim {
  explicit HungSim(GangPolicy policy = {}) : Sim(policy, {{"a", 2}, {"b", 1}}) {
    for (int rank = 0; rank < 3; ++rank) worker(rank).ends_after.reset();
  }
  void Ends(int rank, Duration after, int code, LastError error, Duration erred_before) {
    worker(rank) = {.ends_after = after,
                    .status = {.exit_code = code},
                    .error = std::move(error),
                    .erred_before = erred_before};
  }
};

void ExpectRight(Sim& sim) {
  for (const std::string& rule : sim.violations()) ADD_FAILURE() << rule;
}

TEST(GangCulpritTest, IsTheOneThatRaisedThoughItsVictimsEndBefore) {
  HungSim sim;
  sim.Ends(0, milliseconds(1200), 1, kVictim, milliseconds(1180));
  sim.Ends(1, milliseconds(1500), 1, kOwn, milliseconds(1500));
  sim.Ends(2, milliseconds(1900), 1, kVictim, milliseconds(1890));
  ASSERT_TRUE(sim.Run());
  const Verdict& verdict = sim.verdict();
  EXPECT_EQ(verdict.first_failure->rank, 1);
  EXPECT_TRUE(verdict.is_first_certain);
  EXPECT_FALSE(verdict.first_failure->is_victim);
  EXPECT_TRUE(verdict.workers[0].is_victim);
  EXPECT_TRUE(verdict.workers[2].is_victim);
  ExpectError(verdict.error, ErrorCode::kWorkerFailed, {"rank 1", "host a", "code 1"});
  ExpectRight(sim);
}

TEST(GangCulpritTest, GivesItsOwnCodeToTheJob) {
  HungSim sim;
  sim.Ends(0, milliseconds(1200), 1, kVictim, milliseconds(1180));
  sim.Ends(2, milliseconds(2100), 17, {}, {});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 17);
  EXPECT_EQ(sim.verdict().first_failure->rank, 2);
  EXPECT_EQ(sim.gang_changes(),
            (std::vector<std::string>{"connecting -> starting", "starting -> running",
                                      "running -> failing", "failing -> stopping",
                                      "stopping -> finished"}));
}

TEST(GangCulpritTest, TheOthersGetAMomentAndNoMore) {
  HungSim sim;
  sim.Ends(1, seconds(1), 7, {}, {});
  ASSERT_TRUE(sim.Run());
  ASSERT_EQ(sim.stops().size(), 1u);
  EXPECT_GE(sim.elapsed(), seconds(1) + milliseconds(300));
  EXPECT_LT(sim.elapsed(), seconds(1) + milliseconds(400));
}

TEST(GangCulpritTest, TheMomentIsLongerWhileAllBlameAPeerButNotEndless) {
  HungSim sim;
  sim.Ends(1, seconds(1), 1, kVictim, milliseconds(20));
  ASSERT_TRUE(sim.Run());
  EXPECT_GE(sim.elapsed(), seconds(4));
  EXPECT_LT(sim.elapsed(), milliseconds(4200));
  EXPECT_EQ(sim.verdict().first_failure->rank, 1) << "nobody else has failed";
  EXPECT_FALSE(sim.verdict().is_first_certain);
}

TEST(GangCulpritTest, TheMomentIsLongerWhileOneWithAnErrorOfItsOwnStillRuns) {
  HungSim sim;
  sim.Ends(0, seconds(1), 5, {}, {});
  sim.At(milliseconds(1010), event::WorkerErred{1, 2, kOwn, std::nullopt});
  sim.worker(2) = {.ends_after = milliseconds(2500),
                   .status = {.exit_code = 9},
                   .error = kOwn,
                   .erred_before = milliseconds(2000)};
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 9);
  EXPECT_FALSE(sim.verdict().is_first_certain);
}

TEST(GangCulpritTest, TheMomentEndsWithTheLastWorker) {
  HungSim sim;
  for (int rank = 0; rank < 3; ++rank) sim.Ends(rank, milliseconds(1000 + rank), 3, kOwn, {});
  ASSERT_TRUE(sim.Run());
  EXPECT_LT(sim.elapsed(), milliseconds(1100));
}

TEST(GangCulpritTest, ASignalEndsTheMoment) {
  HungSim sim;
  sim.Ends(1, seconds(1), 1, kVictim, {});
  sim.At(milliseconds(1050), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_LT(sim.elapsed(), milliseconds(1200));
  EXPECT_EQ(sim.verdict().exit_code, 1);
}

TEST(GangCulpritTest, WhatArrivesAfterTheStopStillCounts) {
  HungSim sim;
  sim.Ends(0, seconds(1), 1, {}, {});
  sim.Ends(1, milliseconds(1200), 17, {}, {});
  sim.host(0).output_drain = milliseconds(500);
  sim.At(milliseconds(1600), event::WorkerErred{1, 0, kVictim, std::nullopt});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 17);
  EXPECT_EQ(sim.verdict().first_failure->rank, 1);
}

TEST(GangCulpritTest, ALostHostExplainsThoseThatBlameAPeer) {
  HungSim sim;
  sim.Ends(0, seconds(1), 1, kVictim, {});
  sim.host(1).lost_after = milliseconds(900);
  sim.host(1).loss_noticed_after = milliseconds(700);
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().error.code(), ErrorCode::kAgentLost);
  EXPECT_FALSE(sim.verdict().first_failure.has_value());
  EXPECT_TRUE(sim.verdict().workers[0].is_victim);
  ExpectRight(sim);
}

TEST(GangCulpritTest, ACrashWithoutAWordNeedsNoMoment) {
  HungSim sim;
  sim.worker(1) = {.ends_after = seconds(1), .status = {.signal = SIGKILL}};
  ASSERT_TRUE(sim.Run());
  EXPECT_LT(sim.elapsed(), milliseconds(1100));
  EXPECT_EQ(sim.verdict().exit_code, 137);
  // An error that a victim prints during its own end does.
  HungSim fallen;
  fallen.worker(1) = {.ends_after = seconds(1), .status = {.signal = SIGSEGV}, .error = kVictim};
  fallen.Ends(2, milliseconds(1200), 17, {}, {});
  ASSERT_TRUE(fallen.Run());
  EXPECT_EQ(fallen.verdict().exit_code, 17);
}

TEST(GangCulpritTest, ACommandThatIsNotThereNeedsNoMoment) {
  HungSim sim;
  sim.worker(1).status = {.stage = wire::ExecStage::kExec, .error = ENOENT};
  ASSERT_TRUE(sim.Run());
  EXPECT_LT(sim.elapsed(), milliseconds(200));
  EXPECT_EQ(sim.verdict().exit_code, 127);
}

TEST(GangCulpritTest, EachAttemptIsWeighedByItself) {
  HungSim sim({.max_restarts = 1});
  sim.Ends(0, milliseconds(500), 1, kVictim, milliseconds(10));
  sim.Ends(1, milliseconds(600), 4, {}, {});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.starts().size(), 2u);
  EXPECT_EQ(sim.verdict().exit_code, 4);
  ExpectSays(sim.said()[0], {"restart 1 of 1", "rank 1", "host a", "code 4"});
  ExpectRight(sim);
}

}  // namespace
}  // namespace hvdray
