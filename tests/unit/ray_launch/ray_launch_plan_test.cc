// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cluster/ray/ray_launch.h"
#include "cluster/ray/ray_slots.h"

namespace hvdray {
namespace {

RayJobFile Job() {
  RayJobFile job;
  job.job_id = "hvd-1";
  job.build = "hvdray of the client";
  job.spec.np.Set(3, "flag");
  job.spec.command.Set({"train"}, "flag");
  job.environment.Set("NCCL_DEBUG", "INFO");
  return job;
}

RayPlacement TwoHosts(const std::string& second_ip) {
  return {.hosts = {{"10.0.0.1", 2}, {second_ip + "-b", 1}},
          .node_ids = {"aaaa", "bbbb"},
          .ips = {"10.0.0.1", second_ip},
          .places = {{"g", {0, 1}}, {"g", {2}}}};
}

TEST(RayLaunchSpecTest, WhatTheClientWantsWrittenIsWrittenBesideTheStream) {
  RayJobFile job = Job();
  job.spec.report_file.Set("/home/me/report.json", "flag --report");
  job.spec.output_filename.Set("out", "flag");
  const JobSpec spec = SpecOnRay(job, "/logs");
  EXPECT_EQ(*spec.report_file, "/logs/hvdray_hvd-1.report.json");
  EXPECT_EQ(spec.report_file.origin(), "flag --report");
  EXPECT_EQ(*spec.output_filename, "") << "the client makes them of the stream";
  EXPECT_TRUE(spec.events_file->empty()) << "nobody asked for it";
  EXPECT_EQ(RayLaunchFile("/logs", "hvd-1", "stream"), "/logs/hvdray_hvd-1.stream");
}

TEST(RayLaunchSpecTest, WorkersStartInTheUsersDirectory) {
  RayJobFile job = Job();
  EXPECT_EQ(*SpecOnRay(job, "/logs").working_directory, "") << "the agent's own";
  job.spec.ray.working_dir.Set(".", "flag");
  EXPECT_EQ(*SpecOnRay(job, "/logs").working_directory, "files");
  job.spec.working_directory.Set("sub", "flag");
  EXPECT_EQ(*SpecOnRay(job, "/logs").working_directory, "files/sub");
  job.spec.working_directory.Set("/data", "flag");
  EXPECT_EQ(*SpecOnRay(job, "/logs").working_directory, "/data");
}

TEST(RayLaunchSpecTest, ThePipeIsNobodysStdin) {
  RayJobFile job = Job();
  job.spec.stdin_rank.Set(0, "flag");
  EXPECT_FALSE(SpecOnRay(job, "/logs").stdin_rank->has_value());
}

TEST(RayLaunchSpecTest, ADirectoryThatRayFetchesIsWhereWorkersStart) {
  RayJobFile job = Job();
  job.spec.ray.working_dir.Set("s3://bucket/work.zip", "flag");
  EXPECT_EQ(*SpecOnRay(job, "/logs").working_directory, "");
}

TEST(RayLaunchSpecTest, WhatRayNeedsForARuntimeEnvironmentIsNotTheAgents) {
  RayJobFile job = Job();
  const Duration usual = *job.spec.start_timeout;
  EXPECT_EQ(*SpecOnRay(job, "/logs").start_timeout, usual);
  job.spec.ray.runtime_env.Set(R"({"uv":["x"]})", "flag");
  EXPECT_EQ(*SpecOnRay(job, "/logs").start_timeout, usual + std::chrono::seconds(600));
  job.spec.ray.runtime_env.Set(R"({"config":{"setup_timeout_seconds":7}})", "flag");
  EXPECT_EQ(*SpecOnRay(job, "/logs").start_timeout, usual + std::chrono::seconds(7));
}

TEST(RayLaunchSpecTest, AHostIsGivenUpWhenTheClientSaysSo) {
  RayJobFile job = Job();
  EXPECT_EQ(*SpecOnRay(job, "/logs").heartbeat_timeout, std::chrono::seconds(15));
  job.spec.heartbeat_timeout.Set(std::chrono::seconds(5), "default");
  EXPECT_EQ(*SpecOnRay(job, "/logs").heartbeat_timeout, std::chrono::seconds(5));
}

TEST(RayLaunchPlanTest, WorkersHaveTheirNodesEnvironmentAndItsIdForAName) {
  const RayJobFile job = Job();
  LaunchPlan plan = PlanOnRay(job, SpecOnRay(job, "/logs"));
  ASSERT_TRUE(PlaceStatic(TwoHosts("10.0.0.2"), &plan).ok());
  EXPECT_TRUE(plan.place.is_on_own_environment);
  EXPECT_EQ(plan.place.gpu_visibility, wire::GpuVisibility::kInherited);
  EXPECT_EQ(plan.place.worker_host_names, (std::vector<std::string>{"aaaa", "bbbb"}));
  EXPECT_EQ(plan.is_remote, (std::vector<bool>{true, true}));
  EXPECT_EQ(plan.spread, HostSpread::kManyMachines);
  EXPECT_EQ(plan.job_id, "hvd-1");
  EXPECT_EQ(plan.build, "hvdray of the client");
  ASSERT_EQ(plan.ranks.size(), 3U);
  EXPECT_EQ(plan.ranks[2].host, "10.0.0.2-b") << "people are told addresses";
}

TEST(RayLaunchPlanTest, NodesOfOneMachineTalkOverLoopback) {
  const RayJobFile job = Job();
  LaunchPlan plan = PlanOnRay(job, SpecOnRay(job, "/logs"));
  ASSERT_TRUE(PlaceStatic(TwoHosts("10.0.0.1"), &plan).ok());
  EXPECT_EQ(plan.spread, HostSpread::kOneMachine);
}

TEST(RayLaunchPlanTest, GpusAreShownByHorovodsRuleOrOneByOne) {
  RayJobFile job = Job();
  const auto visibility = [&job] {
    return PlanOnRay(job, SpecOnRay(job, "/logs")).place.gpu_visibility;
  };
  job.spec.ray.uses_gpu.Set(true, "flag");
  EXPECT_EQ(visibility(), wire::GpuVisibility::kHost);
  job.spec.ray.gpu_choice.Set(GpuChoice::kRank, "flag");
  EXPECT_EQ(visibility(), wire::GpuVisibility::kRank);
  job.spec.ray.gpus_per_slot.Set(0.0, "flag");
  EXPECT_EQ(visibility(), wire::GpuVisibility::kInherited);
}

TEST(RayLaunchPlanTest, TooFewSlotsAreAnError) {
  RayJobFile job = Job();
  job.spec.np.Set(4, "flag");
  LaunchPlan plan = PlanOnRay(job, SpecOnRay(job, "/logs"));
  EXPECT_EQ(PlaceStatic(TwoHosts("10.0.0.2"), &plan).code(), ErrorCode::kNotEnoughSlots);
}

}  // namespace
}  // namespace hvdray
