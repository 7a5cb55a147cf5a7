// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_report.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

constexpr const char* kUrl = "http://10.0.0.10:8265";

RayNode Node(std::string id, std::string ip, RayAmounts total, RayAmounts free) {
  RayNode node{.id = std::move(id), .ip = std::move(ip)};
  node.total = std::move(total);
  node.free = std::move(free);
  return node;
}

RayAddress At(const char* url) { return *ParseRayAddress(url); }

RaySnapshot Cluster() {
  RaySnapshot cluster;
  cluster.address = At(kUrl);
  cluster.version = {.ray = "2.60.0", .jobs_api = 4, .session = "s"};
  cluster.nodes = {
      Node("f547dcca0000ffff", "10.0.0.10",
           {{"CPU", 4}, {"memory", 2147483648.0}, {"node:10.0.0.10", 1}},
           {{"CPU", 3}, {"memory", 1073741824.0}, {"node:10.0.0.10", 1}}),
      Node("b6c5c53b0000ffff", "10.0.0.11", {{"CPU", 2}, {"GPU", 2}}, {{"CPU", 2}, {"GPU", 0}}),
  };
  cluster.nodes[0].is_head = true;
  return cluster;
}

TEST(RayReportTest, StatusSaysWhatIsInUseNodeByNode) {
  ExpectSays(RayStatusText(Cluster()),
             {"Ray 2.60.0", kUrl, "2 nodes", "1/6 CPU, 2/2 GPU, 1.0/2.0 GiB",
              "\n  10.0.0.10  head  f547dcca0000  1/4 CPU, 1.0/2.0 GiB",
              "\n  10.0.0.11        b6c5c53b0000  0/2 CPU, 2/2 GPU\n"});
}

TEST(RayReportTest, StatusSaysWhatWaitsAndWhatTheAutoscalerDoes) {
  RaySnapshot cluster = Cluster();
  cluster.status.pending = {
      {.bundles = {{{{"CPU", 1}}, 9}}, .strategy = "STRICT_SPREAD", .count = 1},
      {.bundles = {{{{"CPU", 2}, {"GPU", 1}}, 1}}, .strategy = "", .count = 7}};
  cluster.status.autoscaler = {.adds_nodes = true,
                               .pending = {{"10.0.0.12", "worker", "setting-up"}},
                               .launching = {{"worker", 2}},
                               .failed = {{"10.0.0.13", "worker", ""}}};
  const std::string text = RayStatusText(cluster);
  ExpectSays(text, {":\n  1 placement group STRICT_SPREAD of 9 x 1 CPU\n  7 x 2 CPU, 1 GPU\n",
                    "autoscaler", ":\n  2 of type worker",
                    "\n  10.0.0.12 (worker): setting-up\n  10.0.0.13 (worker): failed\n"});
  const auto json = ParseJson(RayStatusJson(cluster));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["schema"], "hvdray.ray_status/1");
  EXPECT_EQ((*json)["nodes"][0]["resources"]["CPU"]["free"], 3.0);
  EXPECT_EQ((*json)["waiting"][0]["bundles"][0]["count"], 9);
  EXPECT_TRUE((*json)["waiting"][1]["strategy"].is_null());
  EXPECT_EQ((*json)["autoscaler"]["launching"]["worker"], 2);
}

TEST(RayReportTest, SlotsCountWhatIsFreeAndNotWhatIsThere) {
  const RaySnapshot cluster = Cluster();
  RayAsk ask;
  ExpectSays(RaySlotsText(cluster, ask),
             {"5 slots of 1 CPU", "2 of 2 nodes", kUrl, "\n  10.0.0.10  3 slots  free: 3 CPU\n",
              "  10.0.0.11  2 slots  free: 2 CPU, 0 GPU\n"});
  ask.gpus_per_slot = 1;
  const auto json = ParseJson(RaySlotsJson(cluster, ask));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["slots"], 0);
  EXPECT_EQ((*json)["slot"]["GPU"], 1.0);
  EXPECT_EQ((*json)["hosts"][1]["slots"], 0);
  EXPECT_EQ((*json)["hosts"][1]["slots_when_idle"], 2);
  EXPECT_NE(RaySlotsText(cluster, ask).find("busy: 2 when idle"), std::string::npos);
}

TEST(RayReportTest, WhatAClusterCallsThingsCanNotWriteToTheTerminal) {
  RaySnapshot cluster = Cluster();
  cluster.nodes[0].ip = "\x1b[2J";
  cluster.nodes[0].total["\x1b[31m"] = 1;
  EXPECT_EQ(RayStatusText(cluster).find('\x1b'), std::string::npos);
  EXPECT_EQ(RaySlotsText(cluster, RayAsk{}).find('\x1b'), std::string::npos);
}

TEST(RayReportTest, AClusterWithoutNodesIsNoError) {
  RaySnapshot cluster;
  cluster.address = At("http://h");
  ExpectSays(RaySlotsText(cluster, RayAsk{}), {"0 slots of 1 CPU", "0 of 0 nodes", "http://h\n"});
  EXPECT_NE(RayStatusText(cluster).find("0 nodes"), std::string::npos);
}

TEST(RayReportTest, WhatIsFreeOnANodeAndNotKnownIsNotShownAsFree) {
  RaySnapshot cluster = Cluster();
  cluster.nodes[1].free = {};
  cluster.nodes[1].is_free_known = false;
  ExpectSays(RayStatusText(cluster), {"2 nodes", "?/6 CPU, ?/2 GPU, ?/2.0 GiB",
                                      "\n  10.0.0.10  head  f547dcca0000  1/4 CPU, 1.0/2.0 GiB",
                                      "\n  10.0.0.11        b6c5c53b0000  ?/2 CPU, ?/2 GPU\n"});
  ExpectSays(RaySlotsText(cluster, RayAsk()),
             {"3 slots of 1 CPU", "1 of 2 nodes", kUrl, "not known", "1 node",
              "\n  10.0.0.10  3 slots  free: 3 CPU\n", "  10.0.0.11  ? slots  free: ?", "not known",
              "2 when idle\n"});
  const auto slots = ParseJson(RaySlotsJson(cluster, RayAsk()));
  ASSERT_TRUE(slots.ok());
  EXPECT_EQ((*slots)["slots"], 3);
  EXPECT_TRUE((*slots)["hosts"][1]["slots"].is_null());
  EXPECT_EQ((*slots)["hosts"][1]["slots_when_idle"], 2);
  const auto status = ParseJson(RayStatusJson(cluster));
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE((*status)["nodes"][1]["resources"]["CPU"]["free"].is_null());
  EXPECT_EQ((*status)["nodes"][1]["resources"]["CPU"]["total"], 2);
}

TEST(RayReportTest, OfAllJobsOursAreListedTheNewestFirst) {
  const auto job = [](std::string id, std::string status, int64_t start_ms, int64_t end_ms) {
    RayJob made{.submission_id = std::move(id)};
    made.status_text = std::move(status);
    made.metadata = {{"hvdray_job_id", made.submission_id}, {"hvdray_build", "hvdray 1.0"}};
    made.start_ms = start_ms;
    made.end_ms = end_ms;
    return made;
  };
  std::vector<RayJob> all = {job("hvd-1", "FAILED", 1'000'000, 1'065'000),
                             job("hvd-2", "RUNNING", 8'000'000, 0)};
  all[0].driver_exit_code = 3;
  all.push_back({.submission_id = "raysubmit_x", .status_text = "RUNNING"});
  const std::vector<RayJob> ours = JobsOfOurs(all);
  ExpectSays(RayJobsText(At("http://h:1"), ours, 8'600'000),
             {"2 jobs", "http://h:1\n", "  hvd-2  RUNNING", "10 min ago\n", "  hvd-1  FAILED",
              "code 3", "2 h ago", "65 s\n"});
  EXPECT_EQ(RayJobsText(At("http://h:1"), {}, 0), "0 jobs at http://h:1\n");
  const auto json = ParseJson(RayJobsJson(At("http://h:1"), ours));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["schema"], "hvdray.ray_jobs/1");
  EXPECT_EQ((*json)["jobs"].size(), 2U);
  EXPECT_EQ((*json)["jobs"][0]["id"], "hvd-2");
  EXPECT_TRUE((*json)["jobs"][0]["exit_code"].is_null() &&
              (*json)["jobs"][0]["ended_ms"].is_null());
  EXPECT_EQ((*json)["jobs"][1]["exit_code"], 3);
  EXPECT_EQ((*json)["jobs"][1]["build"], "hvdray 1.0");
}

TEST(RayReportTest, ThroughATunnelProgramsGetAUrlAndPeopleAreToldOfWhichHost) {
  RaySnapshot cluster = Cluster();
  cluster.address = At("http://127.0.0.1:8265");
  for (const std::string& text : {RayStatusJson(cluster), RayJobsJson(cluster.address, {})}) {
    EXPECT_FALSE(ParseJson(text)->contains("through")) << "reached directly";
  }
  cluster.address.through = "head";
  const RayAsk ask;
  for (const std::string& text :
       {RayStatusJson(cluster), RaySlotsJson(cluster, ask), RayJobsJson(cluster.address, {}),
        RayJobJson(cluster.address, {}, {}), ClusterViewJson({.cluster = cluster}, 0)}) {
    const auto json = ParseJson(text);
    ASSERT_TRUE(json.ok());
    EXPECT_EQ((*json)["address"], "http://127.0.0.1:8265") << text;
    EXPECT_EQ((*json)["through"], "head") << text;
  }
  for (const std::string& text :
       {RayStatusText(cluster), RaySlotsText(cluster, ask), RayJobsText(cluster.address, {}, 0),
        RayJobText(cluster.address, {}, {}, 0)}) {
    ExpectSays(text, {"http://127.0.0.1:8265 of head"});
  }
}

TEST(RayReportTest, OneJobIsShownWithWhatRaySaysOfIt) {
  RayJob job = {.submission_id = "raysubmit_x",
                .status_text = "FAILED",
                .entrypoint = "python drv.py",
                .message = "exit code 3, last available logs:\nsecret of the log",
                .error_type = "JOB_ENTRYPOINT_COMMAND_ERROR",
                .driver_node_id = "f547dcca0000ffff",
                .driver_exit_code = 3,
                .start_ms = 1'000'000,
                .end_ms = 1'065'000};
  RayNode node;
  node.id = job.driver_node_id;
  node.ip = "10.0.0.10";
  const std::string text = RayJobText(At("http://h:1"), job, {node}, 8'600'000);
  ExpectSays(text, {"raysubmit_x at http://h:1: FAILED, exit code 3\n", "2 h ago, took 65 s\n",
                    "10.0.0.10 (f547dcca0000)\n", "python drv.py\n",
                    "JOB_ENTRYPOINT_COMMAND_ERROR\n", "exit code 3, last available logs:\n"});
  EXPECT_EQ(text.find("secret"), std::string::npos) << "the log is what hvdray logs shows";
  const auto json = ParseJson(RayJobJson(At("http://h:1"), job, {node}));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["schema"], "hvdray.ray_job/1");
  EXPECT_EQ((*json)["job"]["id"], "raysubmit_x");
  EXPECT_EQ((*json)["job"]["exit_code"], 3);
  EXPECT_EQ((*json)["job"]["message"], job.message);
  EXPECT_EQ((*json)["job"]["driver_address"], "10.0.0.10");

  job = {.submission_id = "p", .status_text = "PENDING", .message = "no room\nfor\nit"};
  job.driver_node_id = "gone";
  ExpectSays(RayJobText(At("http://h:1"), job, {}, 0),
             {"PENDING\n", "gone, which is not", "no room ... it"});
  const auto pending = ParseJson(RayJobJson(At("http://h:1"), job, {}));
  ASSERT_TRUE(pending.ok());
  EXPECT_TRUE((*pending)["job"]["exit_code"].is_null());
  EXPECT_TRUE((*pending)["job"]["driver_address"].is_null());
}

}  // namespace
}  // namespace hvdray
