// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_answers.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "cluster/ray/ray_facts.h"

namespace hvdray {
namespace {

// As Ray 2.60.0 answers, shortened.
constexpr const char* kNodes = R"({"result": true, "msg": "", "data": {"result": {"total": 3,
 "num_after_truncation": 3, "num_filtered": 3, "result": [
 {"node_id": "b6", "node_ip": "10.0.0.11", "is_head_node": false, "state": "ALIVE",
  "state_message": null, "node_name": "10.0.0.11",
  "resources_total": {"CPU": 2.0, "GPU": 4.0, "memory": 16312980276.0, "my_res": 3.0,
                      "node:10.0.0.11": 1.0}, "labels": {"ray.io/node-id": "b6", "zone": "a"}},
 {"node_id": "dd", "node_ip": "10.0.0.9", "is_head_node": false, "state": "DEAD",
  "state_message": "Expected termination: received SIGTERM", "resources_total": {}},
 {"node_id": "f5", "node_ip": "10.0.0.10", "is_head_node": true, "state": "ALIVE",
  "resources_total": {"CPU": 4.0, "object_store_memory": 5.0, "node:__internal_head__": 1.0},
  "labels": null}],
 "partial_failure_warning": "", "warnings": null}}})";

constexpr const char* kStatus = R"({"result": true, "msg": "Got cluster status.", "data": {
 "autoscalingStatus": "…", "autoscalingError": null, "clusterStatus": {
 "loadMetricsReport": {
  "usage": {"CPU": [1.0, 6.0], "myRes": [0.0, 3.0]},
  "resourceDemand": [[{"CPU": 1.0, "myRes": 2.0}, 7]],
  "pgDemand": [[{"bundles": [[{"CPU": 1.0}, 9]], "strategy": "STRICT_SPREAD"}, 1]],
  "usageByNode": {
   "b6": {"CPU": [1.0, 2.0], "GPU": [3.0, 4.0], "myRes": [0.5, 3.0], "node:10.0.0.11": [0.0, 1.0],
          "CPUGroup05887B": [0.0, 1.0]},
   "f5": {"CPU": [0.0, 4.0], "objectStoreMemory": [2.0, 5.0], "node:InternalHead": [0.0, 1.0]}}},
 "autoscalerReport": {"activeNodes": {"worker": 1}, "idleNodes": null,
  "pendingNodes": [["10.0.0.12", "worker", "setting-up"]], "pendingLaunches": {"worker": 2},
  "failedNodes": [["10.0.0.13", "worker"]],
  "nodeTypeMapping": {"b6": "worker", "f5": "node_f5"}}}}})";

TEST(RayAnswersTest, VersionAndLevelOfTheJobsApiAreRead) {
  const auto version = ParseRayVersion(
      R"({"version": "4", "ray_version": "2.60.0", "ray_commit": "b7", "session_name": "s"})");
  ASSERT_TRUE(version.ok());
  EXPECT_EQ(version->ray, "2.60.0");
  EXPECT_EQ(version->jobs_api, 4);
  EXPECT_EQ(version->session, "s");
  EXPECT_FALSE(ParseRayVersion(R"({"version": "4"})").ok());
}

TEST(RayAnswersTest, NodesThatLiveAreListedHeadFirst) {
  const auto nodes = ParseRayNodes(kNodes);
  ASSERT_TRUE(nodes.ok()) << nodes.status().ToString();
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_EQ((*nodes)[0].id, "f5");
  EXPECT_TRUE((*nodes)[0].is_head);
  EXPECT_EQ((*nodes)[1].ip, "10.0.0.11");
  EXPECT_EQ((*nodes)[1].total.at("GPU"), 4);
  EXPECT_EQ((*nodes)[1].labels.at("zone"), "a");
}

TEST(RayAnswersTest, UseAndWhatWaitsIsReadWithTheAutoscaler) {
  const auto status = ParseRayClusterStatus(kStatus);
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_EQ(status->usage_by_node.at("b6").at("GPU").used, 3);
  EXPECT_EQ(status->usage_by_node.at("b6").at("GPU").total, 4);
  ASSERT_EQ(status->pending.size(), 2U);
  EXPECT_EQ(status->pending[0].strategy, "STRICT_SPREAD");
  ASSERT_EQ(status->pending[0].bundles.size(), 1U);
  EXPECT_EQ(status->pending[0].bundles[0].second, 9);
  EXPECT_EQ(status->pending[1].count, 7);
  ASSERT_TRUE(status->autoscaler.has_value());
  EXPECT_TRUE(status->autoscaler->adds_nodes);
  EXPECT_EQ(status->autoscaler->launching.at("worker"), 2);
  EXPECT_EQ(status->autoscaler->pending.at(0).status, "setting-up");
  EXPECT_EQ(status->autoscaler->failed.at(0).ip, "10.0.0.13");
}

TEST(RayAnswersTest, WhereNodesJoinByThemselvesTheAutoscalerAddsNone) {
  const auto by_mapping = ParseRayClusterStatus(
      R"({"data": {"clusterStatus": {"autoscalerReport": {"activeNodes": {},
          "nodeTypeMapping": {"b6": "node_b6", "f5": "node_f5"}}}}})");
  ASSERT_TRUE(by_mapping.ok());
  EXPECT_FALSE(by_mapping->autoscaler->adds_nodes);
  const auto by_name = ParseRayClusterStatus(
      R"({"data": {"clusterStatus": {"autoscalerReport": {"activeNodes":
          {"nodeBdcef438702A20316Ba30054E5A5131Db8159Ed024387E383943951C": 1}}}}})");
  ASSERT_TRUE(by_name.ok());
  EXPECT_FALSE(by_name->autoscaler->adds_nodes);
}

TEST(RayAnswersTest, AClusterThatHasNotReportedYetHasNoUse) {
  const auto status = ParseRayClusterStatus(R"({"result": true, "data": {"clusterStatus": null}})");
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->usage_by_node.empty());
  EXPECT_FALSE(status->autoscaler.has_value());
}

TEST(RayAnswersTest, WhatIsFreeHasTheNamesOfTheNode) {
  auto nodes = ParseRayNodes(kNodes);
  auto status = ParseRayClusterStatus(kStatus);
  ASSERT_TRUE(nodes.ok() && status.ok());
  UndoCamelCase(*nodes, *status);
  FillFree(*status, *nodes);
  EXPECT_EQ((*nodes)[1].free, (RayAmounts{{"CPU", 1},
                                          {"GPU", 1},
                                          {"memory", 16312980276.0},
                                          {"my_res", 2.5},
                                          {"node:10.0.0.11", 1}}));
  EXPECT_EQ((*nodes)[0].free.at("object_store_memory"), 3);
  EXPECT_EQ(status->usage.count("my_res"), 1U);
  EXPECT_EQ(status->pending[1].bundles[0].first, (RayAmounts{{"CPU", 1}, {"my_res", 2}}));
}

TEST(RayAnswersTest, OfANodeThatHasNotReportedYetNothingCountsAsFree) {
  auto nodes = ParseRayNodes(kNodes);
  ASSERT_TRUE(nodes.ok());
  FillFree({}, *nodes);
  EXPECT_FALSE((*nodes)[1].is_free_known);
  EXPECT_TRUE((*nodes)[1].free.empty());
}

// Of Ray 2.60 with autoscaler v2, whose cluster_status is null.
constexpr const char* kSummary =
    R"({"result": true, "data": {
  "summary": [{"ip": "10.0.0.11", "raylet": {"nodeId": "b6", "nodeTypeName": ""}}],
  "nodeLogicalResources": {"b6": "2.0/4.0 CPU (1.0 used of 2.5 reserved in placement groups)\n)"
    R"(1.50GiB/14.06GiB memory (0B used of 1.00GiB reserved in placement groups)\n)"
    R"(0.0/2.0 my_res (0.0 used of 0.5 reserved in placement groups)\n1e-05/1.0 a b (c)\n)"
    R"(0B/6.03GiB object_store_memory\nnan/1 x\n1/y z\nonly\n"}}})";

TEST(RayAnswersTest, WhatNodesSayIsInUseHasWhatPlacementGroupsReserve) {
  const auto summary = ParseRayNodeSummary(kSummary);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_FALSE(summary->has_node_types);
  const RayUsage& usage = summary->usage_by_node.at("b6");
  EXPECT_EQ(usage.size(), 5U);
  EXPECT_EQ(usage.at("CPU").used, 3.5);
  EXPECT_EQ(usage.at("CPU").total, 4);
  EXPECT_EQ(usage.at("my_res").used, 0.5);
  EXPECT_EQ(usage.at("a b (c)").used, 1e-05);
  EXPECT_EQ(usage.at("object_store_memory").used, 0);
  const double gib = 1024.0 * 1024 * 1024;
  EXPECT_NEAR(usage.at("memory").used, 2.5 * gib, 0.02 * gib);
  EXPECT_GE(usage.at("memory").used, 2.5 * gib) << "what is rounded is not taken for free";
}

TEST(RayAnswersTest, ClustersOfAutoscalerV2TellWhatIsFreeAndWhatWaits) {
  const auto summary = ParseRayNodeSummary(kSummary);
  ASSERT_TRUE(summary.ok());
  const RayPlacementGroup there{.state = "CREATED", .bundles = {{{{"CPU", 1}}, "b6"}}};
  const RayPlacementGroup waits{.state = "PENDING", .bundles = {{{{"CPU", 9}}, ""}}};
  const RayClusterStatus status = StatusOfNodes(*summary, {there, waits, waits});
  ASSERT_EQ(status.pending.size(), 1U);
  EXPECT_EQ(status.pending[0].count, 2);
  EXPECT_EQ(status.pending[0].bundles[0].first, (RayAmounts{{"CPU", 9}}));
  ASSERT_TRUE(status.autoscaler.has_value());
  EXPECT_FALSE(status.autoscaler->adds_nodes) << "no node has a type: people added them";
  std::vector<RayNode> nodes = {{.id = "b6", .ip = "10.0.0.11"}, {.id = "new", .ip = "10.0.0.12"}};
  nodes[0].total = {{"CPU", 4}, {"my_res", 2}, {"node:10.0.0.11", 1}};
  nodes[1].total = {{"CPU", 4}};
  FillFree(status, nodes);
  EXPECT_EQ(nodes[0].free, (RayAmounts{{"CPU", 0.5}, {"my_res", 1.5}, {"node:10.0.0.11", 1}}));
  EXPECT_FALSE(nodes[1].is_free_known);
}

TEST(RayAnswersTest, ANodeWithATypeIsOneThatAnAutoscalerAdds) {
  const auto summary = ParseRayNodeSummary(R"({"data": {
      "summary": [{"raylet": {"nodeTypeName": ""}}, {"raylet": {"nodeTypeName": "worker"}}],
      "nodeLogicalResources": {"a": "0.0/1.0 CPU"}}})");
  ASSERT_TRUE(summary.ok());
  EXPECT_TRUE(StatusOfNodes(*summary, {}).autoscaler->adds_nodes);
  const auto early =
      ParseRayNodeSummary(R"({"data": {"summary": [], "nodeLogicalResources": {}}})");
  ASSERT_TRUE(early.ok());
  EXPECT_FALSE(StatusOfNodes(*early, {}).autoscaler.has_value()) << "it is not known yet";
  EXPECT_FALSE(ParseRayNodeSummary(R"({"data": 3})").ok());
}

TEST(RayAnswersTest, NamesAreWrittenAsTheDashboardWritesThem) {
  EXPECT_EQ(RayCamelCase("CPU"), "CPU");
  EXPECT_EQ(RayCamelCase("object_store_memory"), "objectStoreMemory");
  EXPECT_EQ(RayCamelCase("my_res"), "myRes");
  EXPECT_EQ(RayCamelCase("node:__internal_head__"), "node:InternalHead");
  EXPECT_EQ(RayCamelCase("node:10.0.0.11"), "node:10.0.0.11");
  EXPECT_EQ(RayCamelCase("CPU_group_05887b12"), "CPUGroup05887B12");
  EXPECT_EQ(RayCamelCase("accelerator_type:A100"), "acceleratorType:A100");
  EXPECT_EQ(RayCamelCase("x_aBC-dEf 2gH"), "xAbc-Def 2Gh");
}

TEST(RayAnswersTest, AJobIsReadWithNullsAsNothing) {
  const auto job = ParseRayJob(
      R"({"type": "SUBMISSION", "job_id": null, "submission_id": "raysubmit_k", "status": "PENDING",
          "entrypoint": "x", "message": "m", "error_type": null, "start_time": 1795232170979,
          "end_time": null, "metadata": {"a": "b"}, "driver_node_id": null,
          "driver_exit_code": null})");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->status, RayJobStatus::kPending);
  EXPECT_FALSE(IsTerminal(job->status));
  EXPECT_EQ(job->start_ms, 1795232170979);
  EXPECT_EQ(job->end_ms, 0);
  EXPECT_FALSE(job->driver_exit_code.has_value());
  EXPECT_EQ(job->metadata.at("a"), "b");
  const auto ended = ParseRayJob(R"({"status": "FAILED", "driver_exit_code": -9})");
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->driver_exit_code, -9);
  EXPECT_TRUE(IsTerminal(ended->status));
  const auto newer = ParseRayJob(R"({"status": "HIBERNATING"})");
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(newer->status, RayJobStatus::kUnknown);
  EXPECT_EQ(newer->status_text, "HIBERNATING");
}

TEST(RayAnswersTest, APlacementGroupIsReadWithItsBundles) {
  const auto groups = ParseRayPlacementGroups(
      R"({"data": {"result": {"result": [{"placement_group_id": "61", "name": "hvdray-1",
          "state": "PENDING", "bundles": [{"unit_resources": {"CPU": 1.0}, "node_id": ""}],
          "stats": {"scheduling_state": "INFEASIBLE"}}]}}})");
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_EQ(groups->at(0).scheduling_state, "INFEASIBLE");
  EXPECT_EQ(groups->at(0).bundles.at(0).resources.at("CPU"), 1);
}

TEST(RayAnswersTest, WhatIsNotRaysIsAnErrorAndNothingElse) {
  for (const std::string body :
       {"", "null", "[]", "1", "{", "<html>", R"({"data": 1})", R"({"data": {"result": 7}})",
        R"({"data": {"result": {"result": [1]}}})", R"({"data": {"result": {"result": [{}]}}})"}) {
    EXPECT_EQ(ParseRayVersion(body).status().code(), ErrorCode::kProtocolError) << body;
    EXPECT_EQ(ParseRayPlacementGroups(body).status().code(), ErrorCode::kProtocolError) << body;
    EXPECT_EQ(ParseRayJob(body).status().code(), ErrorCode::kProtocolError) << body;
    EXPECT_EQ(ParseSubmission(body).status().code(), ErrorCode::kProtocolError) << body;
    EXPECT_EQ(ParseRayFlag(body, "stopped").status().code(), ErrorCode::kProtocolError) << body;
  }
  EXPECT_FALSE(ParseRayNodes(R"({"result": false, "msg": "bad filter", "data": {}})").ok());
  EXPECT_FALSE(ParseRayJobs(R"([{"status": "PENDING"}, 3])").ok());
  EXPECT_FALSE(ParseRayClusterStatus(R"({"data": {"clusterStatus": "x"}})").ok());
}

TEST(RayAnswersTest, WildNumbersAreKeptWithinBounds) {
  const auto status = ParseRayClusterStatus(
      R"({"data": {"clusterStatus": {"loadMetricsReport": {
          "usageByNode": {"a": {"CPU": [1e308, -1], "GPU": [1], "x": "y"}},
          "resourceDemand": [[{"CPU": 1}, 1e300], [{"CPU": 1}, -5], [3], 4]}}}})");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->usage_by_node.at("a").size(), 1U);
  std::vector<RayNode> nodes = {{.id = "a", .total = {{"CPU", 2}}}};
  FillFree(*status, nodes);
  EXPECT_EQ(nodes[0].free.at("CPU"), 0);
  ASSERT_EQ(status->pending.size(), 2U);
  EXPECT_EQ(status->pending[0].count, INT32_MAX);
  EXPECT_EQ(status->pending[1].count, 0);
}

TEST(RayAnswersTest, ASubmissionSaysOnlyWhatIsSet) {
  EXPECT_EQ(SubmissionBody({.entrypoint = "true"}), R"({"entrypoint":"true"})");
  const std::string body = SubmissionBody({.entrypoint = "sh",
                                           .submission_id = "hvdray_1",
                                           .working_dir = "gcs://a.zip",
                                           .py_modules = {"gcs://b.zip"},
                                           .env_vars = {{"A", "1"}},
                                           .metadata = {{"b", "2"}},
                                           .num_cpus = 1,
                                           .memory_bytes = 4'000'000'000,
                                           .resources = {{"node:10.0.0.1", 0.001}},
                                           .label_selector = {{"ray.io/node-id", "f5"}}});
  EXPECT_EQ(body,
            R"({"entrypoint":"sh","submission_id":"hvdray_1","runtime_env":{"working_dir":)"
            R"("gcs://a.zip","py_modules":["gcs://b.zip"],"env_vars":{"A":"1"}},)"
            R"("metadata":{"b":"2"},"entrypoint_num_cpus":1.0,"entrypoint_memory":4000000000,)"
            R"("entrypoint_resources":{"node:10.0.0.1":0.001},)"
            R"("entrypoint_label_selector":{"ray.io/node-id":"f5"}})");
  EXPECT_EQ(*ParseSubmission(R"({"job_id": "X", "submission_id": "X"})"), "X");
  EXPECT_TRUE(*ParseRayFlag(R"({"stopped": true})", "stopped"));
}

}  // namespace
}  // namespace hvdray
