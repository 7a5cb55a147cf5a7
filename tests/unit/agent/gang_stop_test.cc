// SPDX-License-Identifier: Apache-2.0
// Endings of a gang: by grace, by force, with what its workers leave behind.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <random>

#include "agent/local_gang.h"
#include "agent/stop_schedule.h"
#include "tests/unit/agent/gang_harness.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::ExecStage;

// With a cgroup where one may be made, and by the subreaper alone.
enum class Net : uint8_t { kCgroup, kSubreaper };

class GangStopTest : public GangHarness, public ::testing::WithParamInterface<Net> {
 protected:
  void SetUp() override {
    GangHarness::SetUp();
    if (GetParam() == Net::kSubreaper) return;
    const auto own = OwnCgroupDirectory();
    directory_ = own ? AgentCgroupDirectory(*own, ::getpid()) : "";
    if (directory_.empty() || !Cgroup::Create(directory_ + "/probe").ok()) {
      GTEST_SKIP() << "no cgroup may be made here; the subreaper cases run";
    }
    options_.cgroup_directory = directory_ + "/gen-1";
  }
  void TearDown() override {
    GangHarness::TearDown();
    if (directory_.empty()) return;
    // The kernel takes the dead out of their group a little after they are gone for everyone else.
    EXPECT_TRUE(WaitFor([this] { return KillAndRemoveCgroup(directory_); }));
  }
  std::string directory_;
};

TEST(StopScheduleTest, EachSignalIsDueOnceInOrderAndNoCallMakesItLater) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    const auto below = [&dice](uint32_t n) { return milliseconds(dice() % n); };
    StopSchedule schedule;
    TimePoint now{seconds(1)};
    std::optional<TimePoint> term_by, kill_by;  // the latest moment that was promised
    bool was_interrupted = false, is_termed = false, is_killed = false;
    for (int step = 0; step < 60; ++step) {
      now += below(4);
      if (dice() % 8 == 0) {
        schedule.OnInterrupted();
        was_interrupted = was_interrupted || !kill_by;
      } else if (dice() % 8 == 0) {
        const Duration grace = below(20);
        const TimePoint limit = now + (was_interrupted && !kill_by ? 2 * grace : grace);
        if (!kill_by) term_by = was_interrupted ? now + grace : now;
        if (kill_by) term_by = std::min(*term_by, now);
        kill_by = std::min(kill_by.value_or(limit), limit);
        schedule.Stop(now, grace);
      }
      ASSERT_EQ(schedule.has_begun(), kill_by.has_value());
      const int signo = schedule.TakeDue(now);
      ASSERT_EQ(schedule.TakeDue(now), 0);
      ASSERT_TRUE(signo == 0 || (signo == SIGTERM && !is_termed) || signo == SIGKILL);
      ASSERT_TRUE(signo == 0 || !is_killed);
      is_termed = is_termed || signo == SIGTERM;
      is_killed = is_killed || signo == SIGKILL;
      if (!kill_by) continue;
      ASSERT_EQ(is_killed, now >= *kill_by);
      ASSERT_TRUE(is_termed || is_killed || now < *term_by);
      ASSERT_EQ(schedule.kill_at(), *kill_by);
      ASSERT_TRUE(is_killed || schedule.next() > now);
    }
  }
}

TEST_P(GangStopTest, ObedientWorkersEndBySigtermWithinTheGrace) {
  StartProbes(4, {"wait"});
  ASSERT_TRUE(WaitUntilReady(4));
  gang_->Stop(seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  ASSERT_EQ(exits_.size(), 4U);
  for (const auto& [rank, exited] : exits_) {
    EXPECT_EQ(exited.status.signal, SIGTERM);
    EXPECT_TRUE(exited.was_stopping);
    EXPECT_FALSE(exited.status.is_oom);
  }
  EXPECT_EQ(swept_, 0U);
}

TEST_P(GangStopTest, SigintHasTheGraceBeforeSigterm) {
  StartProbes(2, {"wait"});
  ASSERT_TRUE(WaitUntilReady(2));
  gang_->Signal(-1, SIGINT);
  gang_->Stop(seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  for (const auto& [rank, exited] : exits_) {
    EXPECT_EQ(exited.status.signal, SIGINT);
    EXPECT_TRUE(exited.was_stopping);
  }
}

TEST_P(GangStopTest, SigtermFollowsASigintThatWasIgnored) {
  StartProbes(2, {"ignore-int"});
  ASSERT_TRUE(WaitUntilReady(2));
  gang_->Signal(-1, SIGINT);
  gang_->Stop(seconds(1));
  ASSERT_TRUE(WaitUntilStopped());
  for (const auto& [rank, exited] : exits_) EXPECT_EQ(exited.status.signal, SIGTERM);
}

TEST_P(GangStopTest, SigkillFollowsBoth) {
  StartProbes(2, {"stubborn"});
  ASSERT_TRUE(WaitUntilReady(2));
  const TimePoint begun = loop_->Now();
  gang_->Signal(-1, SIGINT);
  gang_->Stop(milliseconds(30));
  ASSERT_TRUE(WaitUntilStopped());
  for (const auto& [rank, exited] : exits_) EXPECT_EQ(exited.status.signal, SIGKILL);
  EXPECT_GE(loop_->Now() - begun, milliseconds(60));
}

TEST_P(GangStopTest, ASecondStopEndsTheGraceOfSigint) {
  StartProbes(2, {"ignore-int"});
  ASSERT_TRUE(WaitUntilReady(2));
  gang_->Signal(-1, SIGINT);
  gang_->Stop(seconds(3600));
  gang_->Stop(seconds(3600));
  ASSERT_TRUE(WaitUntilStopped());
  for (const auto& [rank, exited] : exits_) EXPECT_EQ(exited.status.signal, SIGTERM);
}

TEST_P(GangStopTest, StubbornWorkersAndTheirChildrenAreKilledAfterTheGrace) {
  StartProbes(3, {"stubborn"});
  ASSERT_TRUE(WaitUntilReady(3));
  EXPECT_EQ(FindMarked(mark_).size(), 6U);
  gang_->Stop(milliseconds(30));
  ASSERT_TRUE(WaitUntilStopped());
  for (const auto& [rank, exited] : exits_) EXPECT_EQ(exited.status.signal, SIGKILL);
  EXPECT_TRUE(FindMarked(mark_).empty());
}

TEST_P(GangStopTest, NoGraceKillsAtOnce) {
  StartProbes(3, {"stubborn"});
  ASSERT_TRUE(WaitUntilReady(3));
  gang_->Stop(Duration::zero());
  ASSERT_TRUE(WaitUntilStopped());
  for (const auto& [rank, exited] : exits_) EXPECT_EQ(exited.status.signal, SIGKILL);
}

TEST_P(GangStopTest, SecondStopTakesTheGraceAway) {
  StartProbes(2, {"stubborn"});
  ASSERT_TRUE(WaitUntilReady(2));
  gang_->Stop(seconds(3600));
  gang_->Stop(seconds(7200));
  EXPECT_EQ(gang_->state(), LocalGang::State::kStopping);
  gang_->Stop(Duration::zero());
  ASSERT_TRUE(WaitUntilStopped());
}

TEST_P(GangStopTest, ChildThatOutlivesItsLeaderHasTheGraceToSave) {
  StartProbes(2, {"slow-child"});
  ASSERT_TRUE(WaitUntilReady(2));
  gang_->Stop(seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), "ready\nchild has saved\n");
  EXPECT_EQ(Stdout(1), "ready\nchild has saved\n");
  EXPECT_EQ(swept_, 0U);
}

TEST_P(GangStopTest, ChildOfWorkersThatAreStoppedOneByOneHasTheGraceToSaveToo) {
  options_.ends_one_by_one = true;
  options_.linger = milliseconds(1);
  StartProbes(2, {"slow-child"});
  ASSERT_TRUE(WaitUntilReady(2));
  const std::vector<int> both = {0, 1};
  gang_->StopWorkers(both, seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(Stdout(0), "ready\nchild has saved\n");
  EXPECT_EQ(Stdout(1), "ready\nchild has saved\n");
  EXPECT_EQ(swept_, 0U);
}

TEST_P(GangStopTest, DaemonsOfAllKindsAreSwept) {
  for (const char* kind : {"daemon", "double-fork"}) {
    SCOPED_TRACE(kind);
    StartProbes(2, {kind});
    ASSERT_TRUE(WaitUntilReady(2));
    EXPECT_EQ(FindMarked(mark_).size(), 4U);
    gang_->Stop(seconds(60));
    ASSERT_TRUE(WaitUntilStopped());
    EXPECT_EQ(swept_, 2U);
    EXPECT_TRUE(FindMarked(mark_).empty());
    output_.clear();
    ended_.clear();
    started_.clear();
    exits_.clear();
    swept_.reset();
  }
}

TEST_P(GangStopTest, StoppedWorkerIsContinuedSoThatItSeesSigterm) {
  StartProbes(1, {"wait"});
  ASSERT_TRUE(WaitUntilReady(1));
  gang_->Signal(0, SIGSTOP);
  gang_->Stop(seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[0].status.signal, SIGTERM);
}

TEST_P(GangStopTest, WorkerThatLeftItsGroupIsSignalledAllTheSame) {
  StartProbes(1, {"other-group"});
  ASSERT_TRUE(WaitUntilReady(1));
  gang_->Stop(seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[0].status.signal, SIGTERM);
  EXPECT_EQ(swept_, 1U);
}

TEST_P(GangStopTest, WorkerThatFailedBeforeTheStopIsNotTakenForItsVictim) {
  Start(MakeStart(2, {"sh", "-c", "[ $HOROVOD_RANK = 1 ] && exit 7; echo ready; sleep 1000"}));
  ASSERT_TRUE(WaitFor(*loop_, [&] { return started_.size() == 2; }));
  if (!exits_.contains(1)) {
    siginfo_t info{};
    ::waitid(P_PID, started_[1], &info, WEXITED | WNOWAIT);  // dead, and the loop has not looked
  }
  gang_->Stop(seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(exits_[1].status.exit_code, 7);
  EXPECT_FALSE(exits_[1].was_stopping);
  EXPECT_TRUE(exits_[0].was_stopping);
}

TEST_P(GangStopTest, StopInTheMiddleOfTheStartReportsThoseThatNeverBegan) {
  constexpr int kWorkers = 100;
  StartProbes(kWorkers, {"wait"});
  gang_->Stop(seconds(60));
  ASSERT_TRUE(WaitUntilStopped());
  ASSERT_EQ(exits_.size(), size_t{kWorkers});
  EXPECT_EQ(exits_[kWorkers - 1].status.stage, ExecStage::kFork);
  EXPECT_EQ(exits_[kWorkers - 1].status.error, ECANCELED);
  EXPECT_TRUE(exits_[kWorkers - 1].was_stopping);
  EXPECT_EQ(ended_.size(), 2U * kWorkers);
}

TEST_P(GangStopTest, StopWhileADaemonLingersEndsIt) {
  options_.linger = seconds(60);
  StartProbes(1, {"daemon", "and-exit"});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.size() == 1; }));
  ASSERT_TRUE(WaitFor(*loop_, [&] { return gang_->state() == LocalGang::State::kLingering; }));
  gang_->Stop(milliseconds(10));
  ASSERT_TRUE(WaitUntilStopped());
  EXPECT_EQ(swept_, 1U);
}

TEST_P(GangStopTest, LostLauncherDoesNotBlockWritersOnTheirWayOut) {
  link_.has_room = false;
  is_credit_returned_ = false;
  StartProbes(2, {"flood", "50000000"});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return started_.size() == 2; }));
  gang_->output().Discard();
  ASSERT_TRUE(WaitUntilStopped());  // they finish writing though nobody takes it
  EXPECT_TRUE(exits_[0].status.is_success());
  EXPECT_EQ(Stdout(0), "");
}

TEST_P(GangStopTest, DestroyedGangLeavesNothing) {
  StartProbes(3, {"daemon"});
  ASSERT_TRUE(WaitUntilReady(3));
  gang_.reset();
  if (GetParam() == Net::kCgroup) {
    EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
    return;
  }
  // Without a cgroup the daemons are the keeper's; here that is us.
  EXPECT_TRUE(WaitFor([&] {
    for (const pid_t pid : FindMarked(mark_)) ::kill(pid, SIGKILL);
    return FindMarked(mark_).empty();
  }));
  ReapOrphans([](pid_t) { return false; });
}

INSTANTIATE_TEST_SUITE_P(Nets, GangStopTest, ::testing::Values(Net::kCgroup, Net::kSubreaper),
                         [](const auto& suite) {
                           return suite.param == Net::kCgroup ? "Cgroup" : "Subreaper";
                         });

}  // namespace
}  // namespace hvdray
