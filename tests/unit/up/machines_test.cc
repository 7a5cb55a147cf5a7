// SPDX-License-Identifier: Apache-2.0
// Machines against a cloud in memory: what is made, kept, replaced and removed, and that any call
// may fail, or be cut off, without a machine made twice. What AWS makes of it: provider_test.py.
#include "cluster/up/machines.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "cluster/up/lease.h"
#include "tests/fakes/fake_provider.h"

namespace hvdray {
namespace {

constexpr std::string_view kFile = R"(cluster_name: c
provider: {type: aws, region: r}
max_workers: 3
head_node_type: h
available_node_types:
  h: {node_config: {}, resources: {}}
  w: {node_config: {}, resources: {}, min_workers: 2, max_workers: 3}
head_start_ray_commands: [ray start --head]
)";

ClusterSpec SpecOf(std::string_view text) {
  Result<ClusterSpec> spec = ParseClusterSpec(text, "c.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  return *std::move(spec);
}

std::vector<PreparedNode> Prepared(const std::string& hash = "1") {
  return {{.node_type = "h", .kind = ClusterNodeKind::kHead, .launch_hash = "h" + hash},
          {.node_type = "h", .kind = ClusterNodeKind::kWorker, .launch_hash = "x" + hash},
          {.node_type = "w", .kind = ClusterNodeKind::kWorker, .launch_hash = "w" + hash}};
}

CloudNode NodeOf(const std::string& id, ClusterNodeKind kind, const std::string& type,
                 const std::string& hash, CloudState state = CloudState::kRunning) {
  CloudNode node;
  node.id = id;
  node.kind = kind;
  node.node_type = type;
  node.launch_hash = hash;
  node.state = state;
  return node;
}

/// A cloud, and the time that sleep() lets pass.
struct World {
  explicit World(std::string_view file = kFile, const std::string& hash = "1")
      : spec(SpecOf(file)), cloud("c", Prepared(hash)) {
    // Key pairs and the like exist, so that plans know launch hashes.
    EXPECT_TRUE(cloud.Prepare(nullptr).ok());
  }
  Machines Open() {
    MachineEdge edge;
    edge.say = [this](std::string_view line) { said.emplace_back(line); };
    edge.sleep = [this](Duration duration) {
      now += duration;
      return --sleeps_left > 0;
    };
    edge.now = [this] { return now; };
    return {cloud, spec, std::move(edge)};
  }
  int Live() {
    int count = 0;
    const std::vector<CloudNode> nodes = *cloud.List();
    for (const CloudNode& node : nodes) count += node.is_live() ? 1 : 0;
    return count;
  }

  ClusterSpec spec;
  FakeProvider cloud;
  TimePoint now{std::chrono::hours(1)};
  int sleeps_left = 1000;
  std::vector<std::string> said;
};

TEST(PlanMachinesTest, AnEmptyCloudNeedsTheHeadAndTheLeastOfEachType) {
  const MachinePlan plan = *PlanMachines(SpecOf(kFile), {}, {});
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].kind, ClusterNodeKind::kHead);
  EXPECT_EQ(plan.groups[0].missing(), 1);
  EXPECT_EQ(plan.groups[1].node_type, "w");
  EXPECT_EQ(plan.groups[1].missing(), 2);
  EXPECT_TRUE(plan.has_changes());
}

TEST(PlanMachinesTest, WhatRunsIsKeptUpToTheMostAndTheRestIsSurplus) {
  std::vector<CloudNode> nodes = {NodeOf("i-h", ClusterNodeKind::kHead, "h", "h1")};
  for (const char* id : {"i-1", "i-2", "i-3", "i-4"}) {
    nodes.push_back(NodeOf(id, ClusterNodeKind::kWorker, "w", "w1"));
  }
  const MachinePlan plan = *PlanMachines(SpecOf(kFile), nodes, Prepared());
  EXPECT_EQ(plan.groups[1].kept.size(), 3U);
  ASSERT_EQ(plan.groups[1].surplus.size(), 1U);
  EXPECT_EQ(plan.groups[1].surplus[0].id, "i-4");
}

TEST(PlanMachinesTest, AMachineOfAnotherConfigurationIsReplaced) {
  const MachinePlan plan =
      *PlanMachines(SpecOf(kFile),
                    {NodeOf("i-h", ClusterNodeKind::kHead, "h", "old"),
                     NodeOf("i-1", ClusterNodeKind::kWorker, "w", "w1"),
                     NodeOf("i-2", ClusterNodeKind::kWorker, "gone", "w1"),
                     NodeOf("i-3", ClusterNodeKind::kWorker, "w", "w1", CloudState::kEnding)},
                    Prepared());
  ASSERT_EQ(plan.groups[0].outdated.size(), 1U);
  EXPECT_EQ(plan.groups[0].missing(), 1);
  EXPECT_EQ(plan.groups[1].kept.size(), 1U);
  ASSERT_EQ(plan.groups[1].surplus.size(), 1U) << "of a type that the file no longer has";
  EXPECT_EQ(plan.groups[1].surplus[0].id, "i-2");
}

TEST(PlanMachinesTest, TwoHeadsAreRefused) {
  const auto plan = PlanMachines(SpecOf(kFile),
                                 {NodeOf("i-1", ClusterNodeKind::kHead, "h", "h1"),
                                  NodeOf("i-2", ClusterNodeKind::kHead, "h", "h1")},
                                 {});
  EXPECT_EQ(plan.status().code(), ErrorCode::kSpecInvalid);
  EXPECT_NE(plan.status().message().find("i-2"), std::string::npos);
}

TEST(PlanMachinesTest, WorkersOfTheHeadsAutoscalerAreLeftAlone) {
  std::string file(kFile);
  file.replace(file.find("--head"), 6, "--head --autoscaling-config=~/c");
  const ClusterSpec spec = SpecOf(file);
  EXPECT_TRUE(IsAutoscaled(spec));
  EXPECT_FALSE(IsAutoscaled(SpecOf(kFile)));
  const MachinePlan plan =
      *PlanMachines(spec, {NodeOf("i-1", ClusterNodeKind::kWorker, "w", "old")}, Prepared());
  EXPECT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.autoscaled.size(), 1U);
}

TEST(MachinesTest, MakesWhatIsMissingAndTheNextRunKeepsIt) {
  World world;
  {
    Machines machines = world.Open();
    const std::vector<Machine> made = *machines.Make();
    ASSERT_EQ(made.size(), 3U);
    EXPECT_EQ(made[0].node.kind, ClusterNodeKind::kHead);
    for (const Machine& machine : made) {
      EXPECT_TRUE(machine.why.ok());
      EXPECT_EQ(machine.node.state, CloudState::kRunning);
      EXPECT_GT(machine.boot, Duration::zero());
    }
  }
  Machines machines = world.Open();
  EXPECT_FALSE(machines.Plan()->has_changes());
  EXPECT_EQ(machines.Make()->at(0).boot, Duration::zero()) << "it ran already";
  EXPECT_EQ(world.cloud.created(), 3);
}

TEST(MachinesTest, AnyCallMayFailAndTheNextRunMakesNothingTwice) {
  for (const char* call : {"Prepare", "List", "Create", "Remove"}) {
    for (size_t nth = 0; nth < 4; ++nth) {
      World world;
      std::deque<Status> faults(nth);
      faults.emplace_back(ErrorCode::kCloudFailed, "no");
      world.cloud.FailNext(call, faults);
      (void)world.Open().Make().ok();
      world.cloud.FailNext(call, {});
      const auto made = world.Open().Make();
      ASSERT_TRUE(made.ok()) << call << nth;
      EXPECT_EQ(made->size(), 3U);
      EXPECT_EQ(world.cloud.created(), 3) << call << nth;
    }
  }
}

TEST(MachinesTest, AWorkerThatCannotBeHadIsInTheAnswerWithTheReason) {
  World world;
  world.cloud.SetCapacity("w", 1);
  const std::vector<Machine> made = *world.Open().Make();
  ASSERT_EQ(made.size(), 3U);
  EXPECT_TRUE(made[1].why.ok());
  EXPECT_EQ(made[2].why.code(), ErrorCode::kNoCapacity);
  EXPECT_EQ(made[2].node.node_type, "w");
}

TEST(MachinesTest, WithoutAHeadThereIsNoCluster) {
  World world;
  world.cloud.SetCapacity("h", 0);
  EXPECT_EQ(world.Open().Make().status().code(), ErrorCode::kNoCapacity);
}

TEST(MachinesTest, AMachineThatTheCloudTakesBackIsNamed) {
  World world;
  ASSERT_TRUE(world.Open().Make().ok());
  // It is in the plan's list, and gone in the next one.
  MachineEdge edge;
  edge.say = [](std::string_view) {};
  edge.sleep = [](Duration) { return true; };
  edge.now = [&world] { return world.now; };
  const std::vector<CloudNode> nodes = *world.cloud.List();
  ASSERT_TRUE(world.cloud.Remove({nodes[2].id}, RemoveMode::kTerminate).ok());
  Machines machines(world.cloud, world.spec, std::move(edge));
  const std::vector<Machine> made = *machines.Make();
  EXPECT_EQ(made.size(), 3U);
  EXPECT_EQ(world.cloud.created(), 4) << "the one that ends is replaced";
}

TEST(MachinesTest, ReplacesWhatIsOutdated) {
  World world;
  ASSERT_TRUE(world.Open().Make().ok());
  FakeProvider& cloud = world.cloud;
  const std::vector<CloudNode> before = *cloud.List();
  World other(kFile, "2");
  for (const CloudNode& node : before) {
    CreateRequest request;
    request.node = {
        .node_type = node.node_type, .kind = node.kind, .launch_hash = node.launch_hash};
    request.request_id = node.id;
    ASSERT_TRUE(other.cloud.Create(request).ok());
  }
  Machines machines = other.Open();
  EXPECT_EQ(machines.Plan()->groups[1].outdated.size(), 2U);
  ASSERT_TRUE(machines.Make().ok());
  EXPECT_EQ(other.cloud.created(), 6);
  EXPECT_EQ(other.Live(), 3);
}

TEST(MachinesTest, StoppedMachinesAreStartedBeforeNewOnesAreMade) {
  World world;
  world.cloud.KeepStopped();
  ASSERT_TRUE(world.Open().Make().ok());
  ASSERT_TRUE(world.Open().Remove({}).ok());
  EXPECT_EQ(world.Live(), 0);
  const std::vector<Machine> made = *world.Open().Make();
  EXPECT_EQ(made.size(), 3U);
  EXPECT_EQ(world.cloud.created(), 3);
}

TEST(MachinesTest, StartedMachinesDoNotCountAsCreatedOnes) {
  World world;
  world.cloud.KeepStopped();
  ASSERT_TRUE(world.Open().Make().ok());
  ASSERT_TRUE(world.Open().Remove({}).ok());
  world.spec.node_types[1].min_workers = 3;
  const std::vector<Machine> made = *world.Open().Make();
  std::set<std::string> ids;
  for (const Machine& machine : made) ids.insert(machine.node.id);
  EXPECT_EQ(made.size(), 4U);
  EXPECT_EQ(ids.size(), 4U);
  EXPECT_EQ(world.cloud.created(), 4);
}

TEST(MachinesTest, AStartedMachineHasNotTheLeaseThatEnded) {
  const std::string tag(kTagLease);
  World world;
  world.cloud.KeepStopped();
  ASSERT_TRUE(world.Open().Make({{tag, "5"}}).ok());
  ASSERT_TRUE(world.Open().Remove({}).ok());
  ASSERT_TRUE(world.Open().Make().ok());
  for (const CloudNode& node : *world.cloud.List()) EXPECT_EQ(node.tags.at(tag), "0");
  ASSERT_TRUE(world.Open().Remove({}).ok());
  ASSERT_TRUE(world.Open().Make({{tag, "7"}}).ok());
  for (const CloudNode& node : *world.cloud.List()) EXPECT_EQ(node.tags.at(tag), "7");
}

TEST(MachinesTest, AStartedMachineMayBeShownAsStoppedForAWhile) {
  World world;
  world.cloud.KeepStopped();
  ASSERT_TRUE(world.Open().Make().ok());
  ASSERT_TRUE(world.Open().Remove({}).ok());
  world.cloud.LagLists(10);
  const std::vector<Machine> made = *world.Open().Make();
  for (const Machine& machine : made) EXPECT_TRUE(machine.why.ok()) << machine.why.ToString();
  // But not for ever.
  ASSERT_TRUE(world.Open().Remove({}).ok());
  world.cloud.LagLists(1000);
  EXPECT_EQ(world.Open().Make().status().code(), ErrorCode::kCloudFailed);
}

TEST(MachinesTest, FewerThanAskedForIsAFailureAlsoWithoutAReason) {
  World world;
  world.cloud.FallShortBy(1);
  EXPECT_EQ(world.Open().Make().status().code(), ErrorCode::kCloudFailed) << "no head";
  world.cloud.FallShortBy(0);
  ASSERT_TRUE(world.Open().Make().ok());
  world.spec.node_types[1].min_workers = 3;
  world.cloud.FallShortBy(1);
  const std::vector<Machine> made = *world.Open().Make();
  ASSERT_EQ(made.size(), 4U);
  EXPECT_EQ(made[3].why.code(), ErrorCode::kCloudFailed);
}

TEST(MachinesTest, WithoutCachingStoppedMachinesAreTerminated) {
  World world;
  world.cloud.KeepStopped();
  ASSERT_TRUE(world.Open().Make().ok());
  ASSERT_TRUE(world.Open().Remove({}).ok()) << "as the end of a lease leaves them";
  World other(std::string(kFile).replace(std::string(kFile).find("region: r"), 9,
                                         "region: r, cache_stopped_nodes: false"));
  ASSERT_FALSE(other.spec.provider.cache_stopped_nodes);
  MachineEdge edge;
  edge.say = [](std::string_view) {};
  edge.sleep = [](Duration) { return true; };
  edge.now = [] { return TimePoint{}; };
  Machines machines(world.cloud, other.spec, std::move(edge));
  EXPECT_EQ(machines.ListRemovable({})->size(), 3U);
  world.cloud.KeepStopped(false);
  ASSERT_TRUE(machines.Remove({}).ok());
  EXPECT_TRUE(world.cloud.List()->empty());
}

TEST(MachinesTest, RemoveListsAgainUntilNothingIsLeft) {
  World world;
  ASSERT_TRUE(world.Open().Make().ok());
  world.cloud.FailNext("Remove", {Status(ErrorCode::kCloudFailed, "no")});
  EXPECT_EQ(world.Open().Remove({}).code(), ErrorCode::kCloudFailed);
  ASSERT_TRUE(world.Open().Remove({}).ok());
  EXPECT_TRUE(world.cloud.List()->empty());
  EXPECT_TRUE(world.Open().Remove({}).ok()) << "twice is fine";
}

TEST(MachinesTest, RemoveKeepsWhatItIsToldTo) {
  World world;
  ASSERT_TRUE(world.Open().Make().ok());
  ASSERT_TRUE(world.Open().Remove({.keeps_head = true, .keeps_min_workers = true}).ok());
  EXPECT_EQ(world.Live(), 3);
  ASSERT_TRUE(world.Open().Remove({.keeps_head = true}).ok());
  EXPECT_EQ(world.Live(), 1);
}

TEST(MachinesTest, PurgeTerminatesStoppedMachinesToo) {
  World world;
  world.cloud.KeepStopped();
  ASSERT_TRUE(world.Open().Make().ok());
  ASSERT_TRUE(world.Open().Remove({}).ok());
  EXPECT_EQ(world.cloud.List()->size(), 3U);
  ASSERT_TRUE(world.Open().Remove({.is_purged = true}).ok());
  EXPECT_TRUE(world.cloud.List()->empty());
  ASSERT_TRUE(world.Open().Purge().ok());
  EXPECT_FALSE(world.cloud.has_resources());
}

TEST(MachinesTest, AKeyThatIsElsewhereIsToldInsteadOfReplacingTheCluster) {
  World world;
  ASSERT_TRUE(world.Open().Make().ok());
  FakeProvider bare("c", Prepared());
  CreateRequest request;
  request.node = {.node_type = "h", .kind = ClusterNodeKind::kHead, .launch_hash = "h1"};
  ASSERT_TRUE(bare.Create(request).ok());
  MachineEdge edge;
  edge.now = [] { return TimePoint{}; };
  EXPECT_EQ(Machines(bare, world.spec, edge).Plan().status().code(), ErrorCode::kFileUnreadable);
}

TEST(MachinesTest, WaitingEndsWhenItIsCancelled) {
  World world;
  world.sleeps_left = 1;
  EXPECT_EQ(world.Open().Make().status().code(), ErrorCode::kCancelled);
}

TEST(MachinesTest, FallsBackToOnDemandOnlyWhereTheFileSaysSo) {
  World world(std::string(kFile) + "hvdray: {on_demand_fallback: true}\n");
  world.cloud.SetCapacity("w", 0);
  const std::vector<Machine> made = *world.Open().Make();
  EXPECT_TRUE(std::ranges::all_of(made, [](const Machine& machine) { return machine.why.ok(); }));
  EXPECT_EQ(world.cloud.created(), 3);
}

TEST(MachinesTest, TagsWhatItMakesAndWhatItKeeps) {
  World world;
  ASSERT_TRUE(world.Open().Make({{"end", "1"}}).ok());
  const auto tags = [&world] {
    std::vector<std::string> values;
    for (const CloudNode& node : *world.cloud.List()) values.push_back(node.tags.at("end"));
    return values;
  };
  EXPECT_EQ(tags(), std::vector<std::string>(3, "1"));
  ASSERT_TRUE(world.Open().Make().ok());
  EXPECT_EQ(tags(), std::vector<std::string>(3, "1")) << "not renewed";
  ASSERT_TRUE(world.Open().Make({{"end", "2"}}).ok());
  EXPECT_EQ(tags(), std::vector<std::string>(3, "2"));
}

}  // namespace
}  // namespace hvdray
