// SPDX-License-Identifier: Apache-2.0
// What a client of a job on Ray does, fact by fact.
#include "cluster/ray/ray_follow_plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <random>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/ray_follow.txt");

using Kind = FollowPlan::Step::Kind;
using OnSignal = FollowPlan::OnSignal;
using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kBegin{};

FollowPlan PlanOf(OnSignal on_signal = OnSignal::kStopsJob) {
  return FollowPlan({.id = "hvd-1",
                     .how_to_follow = "hvdray follow hvd-1",
                     .how_to_read = "hvdray logs hvd-1",
                     .on_signal = on_signal},
                    kBegin);
}

RayJob Job(RayJobStatus status, const std::string& node = "n1") {
  RayJob job;
  job.submission_id = "hvd-1";
  job.status = status;
  job.driver_node_id = status == RayJobStatus::kPending ? "" : node;
  return job;
}

/// "say follow:n1 stop": kinds, and what is not for people.
std::string Text(const FollowPlan::Steps& steps) {
  std::string text;
  for (const FollowPlan::Step& step : steps) {
    if (!text.empty()) text += ' ';
    switch (step.kind) {
      case Kind::kSay:
        text += "say";
        break;
      case Kind::kFollow:
        text += "follow:" + step.text;
        break;
      case Kind::kReadRest:
        text += "rest";
        break;
      case Kind::kStop:
        text += "stop";
        break;
      case Kind::kForceStop:
        text += "force stop";
        break;
      case Kind::kFinish:
        text += "finish";
        break;
      case Kind::kLeave:
        text += "leave";
        break;
    }
  }
  return text;
}

TEST(FollowPlanTest, AJobThatEndsWellIsFollowedWhereItsDriverIs) {
  FollowPlan plan = PlanOf();
  EXPECT_EQ(Text(plan.Begin("head")), "follow:head");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kPending), kBegin)), "");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning, "other"), kBegin)), "follow:other");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning, "other"), kBegin)), "");
  EXPECT_EQ(Text(plan.OnEnd({.exit_code = 7}, kBegin)), "") << "until Ray says so, too";
  EXPECT_EQ(plan.AskPause(), milliseconds(100));
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kFailed, "other"), kBegin)), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 7);
  EXPECT_TRUE(plan.outcome().error.ok()) << "the driver has said what there is to say";
}

TEST(FollowPlanTest, TheEndMayComeBehindRaysOwnWord) {
  FollowPlan plan = PlanOf();
  (void)plan.Begin("n1");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kSucceeded), kBegin)), "rest");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kSucceeded), kBegin)), "") << "once";
  EXPECT_EQ(Text(plan.OnEnd({.exit_code = 0}, kBegin)), "finish");
  EXPECT_EQ(Text(plan.OnRest("")), "");
  EXPECT_EQ(plan.outcome().exit_code, 0);
}

TEST(FollowPlanTest, AJobThatRayDoesNotSeeEndIsWaitedForSomeTimeOnly) {
  FollowPlan plan = PlanOf();
  (void)plan.Begin("n1");
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  (void)plan.OnEnd({.exit_code = 0}, kBegin + seconds(100));
  EXPECT_EQ(Text(plan.OnTick(kBegin + seconds(114))), "");
  EXPECT_EQ(Text(plan.OnTick(kBegin + seconds(115))), "finish");
}

TEST(FollowPlanTest, ADriverWithoutALastWordIsAFailure) {
  FollowPlan plan = PlanOf();
  (void)plan.Begin("n1");
  RayJob job = Job(RayJobStatus::kFailed);
  job.error_type = "JOB_ENTRYPOINT_COMMAND_ERROR";
  job.driver_exit_code = 3;
  EXPECT_EQ(Text(plan.OnJob(job, kBegin)), "rest");
  EXPECT_EQ(Text(plan.OnRest("python3: not found")), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 125);
  ExpectError(plan.outcome().error, ErrorCode::kRayFailed,
              {"job hvd-1", "driver", "code 3", "python3: not found"});
}

TEST(FollowPlanTest, WhatRaySaysOfAJobThatNeverRanIsOneLine) {
  FollowPlan plan = PlanOf();
  RayJob job = Job(RayJobStatus::kFailed);
  job.error_type = "RUNTIME_ENV_SETUP_FAILURE";
  job.message = "Traceback (most recent call last):\n  File x\nIOError: no package\n\n";
  (void)plan.OnJob(job, kBegin);
  (void)plan.OnRest("");
  const std::string& message = plan.outcome().error.message();
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  ExpectSays(message, {"job hvd-1", "RUNTIME_ENV_SETUP_FAILURE", "IOError: no package"});
  EXPECT_EQ(plan.outcome().exit_code, 125);
}

TEST(FollowPlanTest, OneSignalStopsAnotherHurriesAThirdLeaves) {
  FollowPlan plan = PlanOf();
  (void)plan.Begin("n1");
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "say stop");
  EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "force stop");
  (void)plan.OnEnd({.exit_code = 143}, kBegin);
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kStopped), kBegin)), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 130) << "we got SIGINT, whatever the driver was told by";
  FollowPlan left = PlanOf();
  (void)left.OnJob(Job(RayJobStatus::kRunning), kBegin);
  for (const char* steps : {"say stop", "force stop", "say leave"}) {
    EXPECT_EQ(Text(left.OnSignalTo(SIGTERM)), steps);
  }
  EXPECT_EQ(left.outcome().exit_code, 143);
}

TEST(FollowPlanTest, AJobThatFailsOnItsOwnWhileItIsStoppedKeepsItsCode) {
  FollowPlan plan = PlanOf();
  (void)plan.OnSignalTo(SIGINT);
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  (void)plan.OnEnd({.exit_code = 3}, kBegin);
  (void)plan.OnJob(Job(RayJobStatus::kFailed), kBegin);
  EXPECT_EQ(plan.outcome().exit_code, 3);
}

TEST(FollowPlanTest, ARunningJobIsToldToStopOnce) {
  FollowPlan plan = PlanOf();
  EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "say") << "nothing is known of it yet";
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin)), "follow:n1 stop");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin)), "");
}

TEST(FollowPlanTest, APendingJobIsToldToStopUntilItListens) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kPending), kBegin);
  EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "say stop");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kPending), kBegin)), "stop");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kPending), kBegin)), "stop");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin)), "follow:n1 stop");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin)), "");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kStopped), kBegin)), "rest");
  EXPECT_EQ(Text(plan.OnRest("")), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 130);
  EXPECT_EQ(plan.outcome().error.code(), ErrorCode::kInterrupted);
}

TEST(FollowPlanTest, AStopThatDidNotReachRayIsAskedForAgain) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "say stop");
  const Status why(ErrorCode::kRayUnreachable, "nobody there");
  EXPECT_EQ(Text(plan.OnStopFailed(why)), "say");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin)), "stop");
  EXPECT_EQ(Text(plan.OnStopFailed(why)), "") << "said once";
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin)), "stop");
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin)), "");
  (void)plan.OnStopFailed(why);
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kStopped), kBegin)), "rest") << "it is over";
}

TEST(FollowPlanTest, AJobThatSomebodyElseStopsIsNoSuccess) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kStopped), kBegin);
  (void)plan.OnRest("");
  EXPECT_EQ(plan.outcome().exit_code, 143);
  ExpectSays(plan.outcome().error.message(), {"someone else", "job hvd-1"});
}

TEST(FollowPlanTest, AReasonThatIsCutOffIsShownWholeByTheCommandOfTheHint) {
  FollowPlan plan = PlanOf();
  RayJob job = Job(RayJobStatus::kFailed);
  job.error_type = "RUNTIME_ENV_SETUP_FAILED";
  job.message = "first\nlast";
  (void)plan.OnJob(job, kBegin);
  (void)plan.OnRest("");
  EXPECT_EQ(plan.outcome().exit_code, 125);
  EXPECT_TRUE(plan.outcome().error.hint().starts_with("hvdray logs hvd-1 "));
}

TEST(FollowPlanTest, ARunningJobThatSomebodyElseStopsKeepsItsCodeAndIsToldAsOne) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  (void)plan.OnEnd({.exit_code = 143}, kBegin);
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kStopped), kBegin)), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 143);
  ExpectSays(plan.outcome().error.message(), {"someone else", "job hvd-1"});
}

TEST(FollowPlanTest, ADriverThatFoundNoRayNamesTheOptionThatDoes) {
  for (const auto& [code, line] : {std::pair(127, "sh: 1: exec: python3: not found"),
                                   {1, "ModuleNotFoundError: No module named 'ray'"}}) {
    FollowPlan plan = PlanOf();
    RayJob job = Job(RayJobStatus::kFailed);
    job.error_type = "JOB_ENTRYPOINT_COMMAND_ERROR";
    job.driver_exit_code = code;
    (void)plan.OnJob(job, kBegin);
    (void)plan.OnRest(line);
    EXPECT_NE(plan.outcome().error.hint().find("--ray-python"), std::string::npos) << line;
  }
}

TEST(FollowPlanTest, WhoOnlyFollowsLeavesTheJobAlone) {
  FollowPlan plan = PlanOf(OnSignal::kLeavesJob);
  EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "say leave");
  EXPECT_EQ(plan.outcome().exit_code, 130);
  FollowPlan reader = PlanOf(OnSignal::kLeavesJob);
  EXPECT_EQ(Text(reader.OnReaderGone()), "leave");
  EXPECT_EQ(reader.outcome().exit_code, 141);
  FollowPlan stopper = PlanOf(OnSignal::kLeavesJob);
  (void)stopper.OnJob(Job(RayJobStatus::kRunning), kBegin);
  EXPECT_EQ(Text(stopper.StopNow()), "stop");
  EXPECT_EQ(Text(stopper.OnSignalTo(SIGINT)), "force stop");
  EXPECT_EQ(Text(stopper.OnSignalTo(SIGINT)), "say leave");
}

TEST(FollowPlanTest, AStopThatWasAskedForKeepsTheDriversCode) {
  FollowPlan plan = PlanOf(OnSignal::kLeavesJob);
  (void)plan.StopNow();
  (void)plan.OnEnd({.exit_code = 143}, kBegin);
  (void)plan.OnJob(Job(RayJobStatus::kStopped), kBegin);
  EXPECT_EQ(plan.outcome().exit_code, 143);
}

TEST(FollowPlanTest, AJobThatIsStoppedBeforeItsDriverSpeaksIsNobodyElsesDoing) {
  FollowPlan plan = PlanOf(OnSignal::kLeavesJob);
  (void)plan.StopNow();
  (void)plan.OnJob(Job(RayJobStatus::kStopped), kBegin);
  EXPECT_EQ(Text(plan.OnRest("")), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 143);
  ExpectSays(plan.outcome().error.message(), {"job hvd-1", "before it started"});
}

TEST(FollowPlanTest, AReaderThatIsGoneStopsTheJob) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  EXPECT_EQ(Text(plan.OnReaderGone()), "stop");
  EXPECT_EQ(Text(plan.OnReaderGone()), "");
  (void)plan.OnEnd({.exit_code = 143}, kBegin);
  (void)plan.OnJob(Job(RayJobStatus::kStopped), kBegin);
  EXPECT_EQ(plan.outcome().exit_code, 141);
}

TEST(FollowPlanTest, OutputThatWasLostMakesAGoodJobABadOne) {
  FollowPlan plan = PlanOf();
  plan.OnOutputLost({ErrorCode::kOutputLost, "write to stdout: full"});
  plan.OnOutputLost({ErrorCode::kOutputLost, "again"});
  (void)plan.OnEnd({.exit_code = 0}, kBegin);
  (void)plan.OnJob(Job(RayJobStatus::kSucceeded), kBegin);
  EXPECT_EQ(plan.outcome().exit_code, 125);
  EXPECT_EQ(plan.outcome().error.message(), "write to stdout: full");
  FollowPlan bad = PlanOf();
  bad.OnOutputLost({ErrorCode::kOutputLost, "full"});
  (void)bad.OnEnd({.exit_code = 3}, kBegin);
  (void)bad.OnJob(Job(RayJobStatus::kFailed), kBegin);
  EXPECT_EQ(bad.outcome().exit_code, 3);
}

TEST(FollowPlanTest, OutputThatIsLostBehindTheEndCountsAsWell) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kSucceeded), kBegin);
  EXPECT_EQ(Text(plan.OnEnd({.exit_code = 0}, kBegin)), "finish");
  plan.OnOutputLost({ErrorCode::kOutputLost, "write to stdout: full"});
  EXPECT_EQ(plan.outcome().exit_code, 125);
  EXPECT_EQ(plan.outcome().error.message(), "write to stdout: full");
  FollowPlan bad = PlanOf();
  (void)bad.OnJob(Job(RayJobStatus::kFailed), kBegin);
  (void)bad.OnEnd({.exit_code = 3}, kBegin);
  bad.OnOutputLost({ErrorCode::kOutputLost, "full"});
  EXPECT_EQ(bad.outcome().exit_code, 3);
}

TEST(FollowPlanTest, ASilentDashboardIsWaitedForAndNamed) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  const Status why(ErrorCode::kRayUnreachable, "http://h:1: refused");
  EXPECT_EQ(Text(plan.OnNoAnswer(why, kBegin + seconds(10))), "");
  EXPECT_EQ(Text(plan.OnNoAnswer(why, kBegin + seconds(13))), "say");
  EXPECT_EQ(Text(plan.OnNoAnswer(why, kBegin + seconds(14))), "") << "said once";
  EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning), kBegin + seconds(20))), "say");
  EXPECT_EQ(Text(plan.OnNoAnswer(why, kBegin + seconds(30))), "");
  EXPECT_EQ(Text(plan.OnNoAnswer(why, kBegin + seconds(105))), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 125);
  ExpectError(plan.outcome().error, ErrorCode::kRayUnreachable,
              {why.message(), "75 s", "hint: ", "job hvd-1", "hvdray follow hvd-1"});
}

TEST(FollowPlanTest, ADashboardThatRefusesIsGivenUpSoonerThanOneThatIsSilent) {
  FollowPlan plan = PlanOf();
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  const Status why(ErrorCode::kRayUnreachable, "refused", "the dashboard listens on port 8265");
  for (int i = 0; i < 60; ++i) {
    EXPECT_NE(Text(plan.OnNoAnswer(why, kBegin + i * milliseconds(500))), "finish") << i;
  }
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin + seconds(30));
  for (int i = 0; i < 60; ++i) {
    EXPECT_NE(Text(plan.OnNoAnswer(why, kBegin + seconds(31) + i * milliseconds(500))), "finish");
  }
  EXPECT_EQ(Text(plan.OnNoAnswer(why, kBegin + seconds(61))), "finish");
  EXPECT_EQ(plan.outcome().exit_code, 125);
  ExpectError(plan.outcome().error, ErrorCode::kRayUnreachable,
              {"refused", "30 s", "hint: ", "hvd-1"});
  EXPECT_EQ(plan.outcome().error.hint().find("8265"), std::string::npos);
}

TEST(FollowPlanTest, AHeadThatForgotTheJobIsSaid) {
  FollowPlan plan = PlanOf();
  EXPECT_EQ(Text(plan.OnJobUnknown()), "finish");
  ExpectSays(plan.outcome().error.message(), {"Ray", "job hvd-1"});
}

TEST(FollowPlanTest, AJobThatIsPendingForLongIsSpokenOfEveryTenSeconds) {
  FollowPlan plan = PlanOf();
  RayJob job = Job(RayJobStatus::kPending);
  job.message = "Job has not started yet.\n";
  EXPECT_EQ(Text(plan.OnJob(job, kBegin + seconds(9))), "");
  const FollowPlan::Steps steps = plan.OnJob(job, kBegin + seconds(10));
  ASSERT_EQ(Text(steps), "say");
  ExpectSays(steps[0].text, {"job hvd-1", "pending", "10 s", "Job has not started yet."});
  EXPECT_EQ(Text(plan.OnJob(job, kBegin + seconds(19))), "");
  EXPECT_EQ(Text(plan.OnJob(job, kBegin + seconds(20))), "say");
}

TEST(FollowPlanTest, QuietSaysNothing) {
  FollowPlan plan({.id = "x", .how_to_follow = "", .is_quiet = true}, kBegin);
  (void)plan.OnJob(Job(RayJobStatus::kRunning), kBegin);
  EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "stop");
}

TEST(FollowPlanPropertyTest, AnyOrderOfFactsEndsOnceTheJobHasEnded) {
  constexpr uint32_t kSeed = 20261122;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    FollowPlan plan = PlanOf(random() % 3 == 0 ? OnSignal::kLeavesJob : OnSignal::kStopsJob);
    TimePoint now = kBegin;
    bool is_resting = false;
    const auto hear = [&](const FollowPlan::Steps& steps) {
      for (const FollowPlan::Step& step : steps)
        is_resting = is_resting || step.kind == Kind::kReadRest;
    };
    hear(plan.Begin(random() % 2 == 0 ? "n1" : ""));
    for (int i = 0; i < 12; ++i) {
      now += milliseconds(random() % 3000);
      switch (random() % 7) {
        case 0:
          hear(plan.OnJob(Job(RayJobStatus::kPending), now));
          break;
        case 1:
          hear(plan.OnJob(Job(RayJobStatus::kRunning), now));
          break;
        case 2:
          hear(plan.OnNoAnswer({ErrorCode::kRayUnreachable, "x"}, now));
          break;
        case 3:
          hear(plan.OnSignalTo(SIGINT));
          break;
        case 4:
          hear(plan.OnReaderGone());
          break;
        case 5:
          hear(plan.OnTick(now));
          break;
        default:
          if (random() % 4 == 0) hear(plan.OnEnd({.exit_code = 0}, now));
          break;
      }
    }
    hear(plan.OnJob(Job(RayJobStatus::kSucceeded), now));
    if (is_resting) hear(plan.OnRest(""));
    EXPECT_TRUE(plan.is_done()) << kSeed << " round " << round;
    EXPECT_EQ(Text(plan.OnSignalTo(SIGINT)), "") << "nothing behind the end";
    EXPECT_EQ(Text(plan.OnJob(Job(RayJobStatus::kRunning, "n9"), now)), "");
  }
}

}  // namespace
}  // namespace hvdray
