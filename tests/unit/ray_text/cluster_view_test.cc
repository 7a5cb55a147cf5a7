// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "cluster/ray/ray_answers.h"
#include "cluster/ray/ray_report.h"

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

RayNode Node(std::string id, std::string ip, double cpus, double free) {
  RayNode node{.id = std::move(id), .ip = std::move(ip)};
  node.total = {{"CPU", cpus}};
  node.free = {{"CPU", free}};
  return node;
}

RayPlacementGroup Group(std::string name, std::string state, std::string scheduling) {
  RayPlacementGroup group{.id = name + "-id", .name = name};
  group.state = std::move(state);
  group.scheduling_state = std::move(scheduling);
  group.bundles = {{.resources = {{"CPU", 4}}}, {.resources = {{"CPU", 4}}}};
  return group;
}

RayJob Job(std::string id, RayJobStatus status, std::string text, int64_t start_ms) {
  RayJob job{.submission_id = std::move(id)};
  job.status = status;
  job.status_text = std::move(text);
  job.entrypoint = "python train.py";
  job.start_ms = start_ms;
  return job;
}

/// Four machines of the file: two alive, one dead, one that never came.
ClusterView View() {
  ClusterView view;
  view.name = "t";
  view.file = "t.yaml";
  view.machines = {"10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"};
  view.now_ms = 1'000'000;
  view.cluster.address = *ParseRayAddress("http://127.0.0.1:9");
  view.cluster.version.ray = "2.60.0";
  view.cluster.nodes = {Node("a", "10.0.0.10", 4, 3), Node("b", "10.0.0.11", 2, 2)};
  view.cluster.nodes[0].is_head = true;
  view.lost = {{.id = "c", .ip = "10.0.0.12", .why = "health check failed", .end_ms = 100'000},
               {.id = "d", .ip = "10.0.0.12", .why = "received SIGTERM", .end_ms = 988'000},
               {.id = "e", .ip = "10.0.0.11", .why = "an earlier one", .end_ms = 900'000}};
  return view;
}

TEST(ClusterViewTest, EachMachineOfTheFileHasAStateAndAReason) {
  EXPECT_EQ(ClusterViewLines(View()),
            (Lines{"t (t.yaml): Ray 2.60.0, 2 of 4 nodes alive, in use 1/6 CPU",
                   "  10.0.0.10  head    alive   1/4 CPU", "  10.0.0.11  worker  alive   0/2 CPU",
                   "  10.0.0.12  worker  dead    received SIGTERM, 12 s ago",
                   "  10.0.0.13  worker  absent  has not joined Ray"}));
}

TEST(ClusterViewTest, WithoutMachinesInTheFileRaysNodesAreShownAndTheRecentlyDead) {
  ClusterView view = View();
  view.machines.clear();
  view.lost.push_back({.id = "f", .ip = "10.0.0.9", .why = "long ago", .end_ms = 1});
  Lines states;
  for (const ClusterMachine& machine : MachinesOf(view)) {
    states.push_back(machine.address + " " + machine.state);
  }
  EXPECT_EQ(states, (Lines{"10.0.0.10 alive", "10.0.0.11 alive", "10.0.0.12 dead"}));
}

TEST(ClusterViewTest, WhatWaitsSaysWhyAndJobsAndTheAutoscalerFollow) {
  ClusterView view = View();
  view.machines.resize(2);
  view.lost.clear();
  view.groups = {Group("big", "PENDING", "INFEASIBLE"), Group("later", "PENDING", "NO_RESOURCES"),
                 Group("hurt", "RESCHEDULING", "QUEUED"), Group("fine", "CREATED", "FINISHED"),
                 Group("gone", "REMOVED", "REMOVED")};
  view.cluster.status.has_report = true;
  view.cluster.status.pending = {{.bundles = {{{{"CPU", 4}}, 2}}, .strategy = "PACK", .count = 1},
                                 {.bundles = {{{{"GPU", 1}}, 1}}, .strategy = "", .count = 3}};
  view.cluster.status.autoscaler = {.adds_nodes = true, .launching = {{"worker", 2}}};
  view.autoscaler_words = {"Adding 2 nodes\x1b[31m"};
  view.jobs = {Job("one", RayJobStatus::kSucceeded, "SUCCEEDED", 0),
               Job("two", RayJobStatus::kRunning, "RUNNING", 940'000),
               Job("three", RayJobStatus::kPending, "PENDING", 999'000),
               Job("four", RayJobStatus::kSucceeded, "SUCCEEDED", 0)};
  const Lines lines = ClusterViewLines(view);
  EXPECT_EQ(Lines(lines.begin() + 3, lines.end()),
            (Lines{"", "Waiting for room:",
                   "  placement group big: 2 x 4 CPU: no live node could ever hold it",
                   "  placement group later: 2 x 4 CPU: it fits once others end",
                   "  placement group hurt: 2 x 4 CPU: a node of it is gone", "  3 x 1 GPU", "",
                   "Jobs:", "  three PENDING for 1 s: python train.py",
                   "  two RUNNING for 60 s: python train.py", "  ended: 2 succeeded", "",
                   "The autoscaler is adding nodes:", "  2 of type worker requested", "",
                   "The autoscaler said:", "  Adding 2 nodes"}));
}

/// Of a cloud: a head and a worker that Ray has, one that is being set up, one that stops, one that
/// has no address yet.
ClusterView CloudView() {
  ClusterView view = View();
  view.machines.clear();
  view.lost.clear();
  const auto add = [&view](std::string id, std::string address, std::string state) {
    CloudMachine& made = view.cloud.emplace_back();
    made.id = std::move(id);
    made.address = std::move(address);
    made.type = "m5.large";
    made.is_running = state == "running";
    made.state = std::move(state);
    return &made;
  };
  CloudMachine* head = add("i-0", "10.0.0.10", "running");
  head->is_head = true;
  head->status = "up-to-date";
  head->external_address = "203.0.113.1";
  CloudMachine* spot = add("i-1", "10.0.0.11", "stopping");
  spot->is_spot = true;
  spot->reason = "Server.SpotInstanceTermination";
  add("i-2", "10.0.0.12", "running")->status = "setting-up";
  add("i-3", "10.0.0.13", "stopped")->reason = "Client.UserInitiatedShutdown";
  add("i-4", "", "pending");
  return view;
}

TEST(ClusterViewTest, ACloudsMachinesAreShownBeforeTheyJoinAndWhenTheyStop) {
  EXPECT_EQ(
      ClusterViewLines(CloudView()),
      (Lines{"t (t.yaml): Ray 2.60.0, 2 of 5 nodes alive, in use 1/6 CPU",
             "  10.0.0.10  head    alive    i-0 m5.large, running, up-to-date; 1/4 CPU",
             "  10.0.0.11  worker  alive    i-1 m5.large spot, stopping; 0/2 CPU",
             "  10.0.0.12  worker  absent   i-2 m5.large, running, setting-up; has not joined Ray",
             "  10.0.0.13  worker  stopped  i-3 m5.large, stopped; Client.UserInitiatedShutdown",
             "  i-4        worker  pending  i-4 m5.large, pending"}));
  const auto json = ParseJson(ClusterViewJson(CloudView(), /*indent=*/-1));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["machines"][0]["cloud"]["external_address"], "203.0.113.1");
  EXPECT_EQ((*json)["machines"][1]["cloud"]["reason"], "Server.SpotInstanceTermination");
  EXPECT_EQ((*json)["machines"][4]["state"], "pending");
  EXPECT_FALSE(json->contains("error"));
}

TEST(ClusterViewTest, ACloudsMachinesAreShownWhileRayDoesNotAnswer) {
  ClusterView view = CloudView();
  view.cluster = {};
  view.ray_status = Status(ErrorCode::kHostUnreachable, "no Ray answers on 203.0.113.1");
  std::vector<std::string> states;
  for (const ClusterMachine& machine : MachinesOf(view)) states.push_back(machine.state);
  EXPECT_EQ(states, (Lines{"unknown", "stopping", "unknown", "stopped", "pending"}));
  EXPECT_EQ(ClusterViewLines(view).back(), "  no Ray answers on 203.0.113.1");
  const auto json = ParseJson(ClusterViewJson(view, /*indent=*/-1));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["error"]["code"], "HVD-E0201");
  const Lines changes = ClusterChanges(&view, CloudView());
  EXPECT_NE(std::ranges::find(changes, "head: answers again"), changes.end());
}

TEST(ClusterViewTest, OfTwoLooksOnlyTheDifferenceIsTold) {
  const ClusterView before = View();
  EXPECT_EQ(ClusterChanges(nullptr, before).size(), 4U);
  ClusterView after = before;
  after.now_ms += 5'000;
  EXPECT_EQ(ClusterChanges(&before, after), Lines()) << "a reason does not change by its age";
  after.cluster.nodes.pop_back();
  after.lost.push_back(
      {.id = "b", .ip = "10.0.0.11", .why = "health check failed", .end_ms = 1'004'000});
  after.jobs = {Job("two", RayJobStatus::kRunning, "RUNNING", 940'000)};
  after.groups = {Group("big", "PENDING", "INFEASIBLE")};
  EXPECT_EQ(ClusterChanges(&before, after),
            (Lines{"job two: running", "node 10.0.0.11: dead: health check failed",
                   "placement group big: waiting: 2 x 4 CPU: no live node could ever hold it"}));
  ClusterView later = after;
  later.groups.clear();
  EXPECT_EQ(ClusterChanges(&after, later), Lines{"placement group big: gone"});
}

TEST(ClusterViewTest, JsonHasMachinesGroupsAndJobs) {
  ClusterView view = View();
  view.groups = {Group("big", "PENDING", "INFEASIBLE"), Group("gone", "REMOVED", "REMOVED")};
  view.jobs = {Job("two", RayJobStatus::kRunning, "RUNNING", 940'000)};
  const std::string text = ClusterViewJson(view, /*indent=*/-1);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = ParseJson(text);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["schema"], "hvdray.cluster/1");
  EXPECT_EQ((*json)["machines"][2]["why"], "received SIGTERM");
  EXPECT_TRUE((*json)["machines"][3]["node_id"].is_null());
  EXPECT_EQ((*json)["placement_groups"].size(), 1U);
  EXPECT_EQ((*json)["placement_groups"][0]["why"], "no live node could ever hold it");
  EXPECT_EQ((*json)["jobs"][0]["status"], "RUNNING");
  const auto failed =
      ParseJson(ClusterErrorJson("t.yaml", {ErrorCode::kHostUnreachable, "no Ray"}, 7));
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ((*failed)["error"]["message"], "no Ray");
}

TEST(ClusterAnswersTest, LostNodesComeInTheOrderOfTheirDeaths) {
  const auto lost = ParseRayLostNodes(R"({"result": true, "data": {"result": {"result": [
      {"node_id": "b", "node_ip": "2", "state": "DEAD", "state_message": "x", "end_time_ms": 9},
      {"node_id": "c", "node_ip": "3", "state": "ALIVE"},
      {"node_id": "a", "node_ip": "1", "state": "DEAD", "state_message": null, "end_time_ms": 5}]}}})");
  ASSERT_TRUE(lost.ok());
  ASSERT_EQ(lost->size(), 2U);
  EXPECT_EQ((*lost)[0].ip, "1");
  EXPECT_EQ((*lost)[0].why, "");
  EXPECT_EQ((*lost)[1].why, "x");
  EXPECT_FALSE(ParseRayLostNodes("[]").ok());
}

TEST(ClusterAnswersTest, LogNamesOfAllKindsAreOneSortedList) {
  const auto names = ParseRayLogNames(
      R"({"result": true, "data": {"result": {"raylet": ["raylet.out", "raylet.err"],
          "gcs_server": ["gcs.out", 5], "agent": ["raylet.out"], "odd": {}}}})");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (Lines{"gcs.out", "raylet.err", "raylet.out"}));
  const auto refused = ParseRayLogNames(R"({"result": false, "msg": "no such node"})");
  EXPECT_EQ(refused.status().message(), "no such node");
}

}  // namespace
}  // namespace hvdray
