// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_stop_plan.h"

#include <gtest/gtest.h>

#include <chrono>

namespace hvdray {
namespace {

using std::chrono::seconds;
using Words = std::vector<std::string>;

const TimePoint kBegin{};

RayJob Job(const std::string& id, RayJobStatus status) {
  RayJob job;
  job.submission_id = id;
  job.status = status;
  return job;
}

TEST(StopPlanTest, ANamedJobIsStoppedOnceAndWaitedFor) {
  StopPlan plan({"a"}, seconds(60));
  const std::vector<RayJob> running = {Job("a", RayJobStatus::kRunning),
                                       Job("b", RayJobStatus::kRunning)};
  const auto first = plan.OnLook(running, kBegin);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->to_stop, Words{"a"});
  EXPECT_FALSE(first->is_done);
  EXPECT_EQ(plan.WaitsFor(), "job a (running)");
  const auto second = plan.OnLook(running, kBegin + seconds(1));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->to_stop, Words()) << "one request is enough";
  const auto last = plan.OnLook({Job("a", RayJobStatus::kStopped)}, kBegin + seconds(2));
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(last->is_done);
  EXPECT_EQ(last->lines, Words{"job a: stopped"});
}

TEST(StopPlanTest, WithoutNamesAllThatRunAreStoppedAndNoLaterOne) {
  StopPlan plan({}, seconds(60));
  std::vector<RayJob> jobs = {Job("a", RayJobStatus::kRunning), Job("b", RayJobStatus::kSucceeded),
                              Job("c", RayJobStatus::kPending), Job("", RayJobStatus::kRunning)};
  jobs.back().job_id = "08000000";
  const auto first = plan.OnLook(jobs, kBegin);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->to_stop, (Words{"a", "c"}));
  ASSERT_FALSE(first->lines.empty());
  EXPECT_NE(first->lines.front().find("08000000"), std::string::npos) << "a driver of somebody's";
  jobs[0].status = jobs[2].status = RayJobStatus::kStopped;
  jobs.push_back(Job("d", RayJobStatus::kRunning));
  const auto second = plan.OnLook(jobs, kBegin + seconds(1));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->is_done);
  EXPECT_EQ(second->to_stop, Words());
}

TEST(StopPlanTest, APendingJobIsAskedAgainOnceItRuns) {
  StopPlan plan({"a"}, seconds(60));
  EXPECT_EQ(plan.OnLook({Job("a", RayJobStatus::kPending)}, kBegin)->to_stop, Words{"a"});
  EXPECT_EQ(plan.OnLook({Job("a", RayJobStatus::kPending)}, kBegin + seconds(1))->to_stop, Words());
  EXPECT_EQ(plan.OnLook({Job("a", RayJobStatus::kRunning)}, kBegin + seconds(2))->to_stop,
            Words{"a"});
}

TEST(StopPlanTest, WhatHasEndedIsDoneAndWhatIsUnknownStopsNothing) {
  StopPlan over({"a"}, seconds(60));
  const auto done = over.OnLook({Job("a", RayJobStatus::kFailed)}, kBegin);
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(done->is_done);
  EXPECT_EQ(done->to_stop, Words());
  StopPlan unknown({"a", "nobody"}, seconds(60));
  const auto refused = unknown.OnLook({Job("a", RayJobStatus::kRunning)}, kBegin);
  EXPECT_EQ(refused.status().code(), ErrorCode::kUsage);
  EXPECT_NE(refused.status().message().find("nobody"), std::string::npos);
  StopPlan none({}, seconds(60));
  EXPECT_TRUE(none.OnLook({}, kBegin)->is_done);
}

TEST(StopPlanTest, AJobThatRayForgotIsOver) {
  StopPlan plan({"a"}, seconds(60));
  ASSERT_TRUE(plan.OnLook({Job("a", RayJobStatus::kRunning)}, kBegin).ok());
  EXPECT_TRUE(plan.OnLook({}, kBegin + seconds(1))->is_done);
}

TEST(StopPlanTest, AtTheLimitTheErrorNamesWhatStillRuns) {
  StopPlan plan({"a"}, seconds(5));
  ASSERT_TRUE(plan.OnLook({Job("a", RayJobStatus::kRunning)}, kBegin).ok());
  ASSERT_TRUE(plan.OnLook({Job("a", RayJobStatus::kRunning)}, kBegin + seconds(4)).ok());
  const auto late = plan.OnLook({Job("a", RayJobStatus::kRunning)}, kBegin + seconds(5));
  EXPECT_EQ(late.status().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(late.status().message().find("job a (running)"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
