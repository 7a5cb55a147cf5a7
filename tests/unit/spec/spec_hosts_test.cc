// SPDX-License-Identifier: Apache-2.0
// Where hosts come from when several could name them, and what is shown of them.
#include <gtest/gtest.h>

#include "launcher/job/plan.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

using HostList = std::vector<HostSlots>;

SpecWorld SlurmJob() {
  SpecWorld world;
  world.environment =
      Env({{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2,1"}, {"HOME", "/u"}});
  return world;
}

TEST(SpecHostsTest, AnAllocationStandsInForHostsThatNobodyNames) {
  const Result<RunRequest> request = SlurmJob().Resolve("./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.hosts, (HostList{{"n1", 2}, {"n2", 1}}));
  EXPECT_EQ(request->spec.hosts.origin(), "env SLURM_JOB_NODELIST");
  EXPECT_EQ(*request->spec.np, 3);
  EXPECT_EQ(request->spec.np.origin(), "all slots of env SLURM_JOB_NODELIST");
  EXPECT_EQ(*SlurmJob().Resolve("-np 2 ./t")->spec.np, 2);
}

TEST(SpecHostsTest, WhateverNamesHostsBeatsTheAllocation) {
  const HostList a = {{"a", 4}};
  EXPECT_EQ(*SlurmJob().Resolve("-H a:4 ./t")->spec.hosts, a);
  SpecWorld variable = SlurmJob();
  variable.environment.Set("HVDRAY_HOSTS", "a:4");
  EXPECT_EQ(*variable.Resolve("./t")->spec.hosts, a);
  for (const char* name : {"job.yaml", "/u/.config/hvdray/config.yaml"}) {
    SpecWorld world = SlurmJob();
    world.files["job.yaml"] = "num_proc: 4\n";
    world.files[name] = "hosts: a:4\n";
    EXPECT_EQ(*world.Resolve("-f job.yaml ./t")->spec.hosts, a) << name;
  }
  SpecWorld cluster = SlurmJob();
  cluster.clusters["c.yaml"] = ClusterHosts{a, std::nullopt};
  EXPECT_EQ(*cluster.Resolve("--cluster c.yaml ./t")->spec.hosts, a);
  SpecWorld file = SlurmJob();
  file.files["h"] = "a slots=4\n";
  EXPECT_EQ(*file.Resolve("--hostfile h ./t")->spec.hosts, a);
}

TEST(SpecHostsTest, ADiscoveryScriptLeavesTheAllocationUnread) {
  SpecWorld world = SlurmJob();
  world.environment.Set("SLURM_TASKS_PER_NODE", "nonsense");
  EXPECT_TRUE(world.Resolve("-np 2 --host-discovery-script ./d.sh ./t")->spec.hosts->empty());
  EXPECT_TRUE(world.Resolve("-H a:4 ./t").ok());
  EXPECT_EQ(world.StatusOf("./t").message().substr(0, 27), "env SLURM_TASKS_PER_NODE:1:");
  EXPECT_EQ(world.StatusOf("./t").code(), ErrorCode::kSpecInvalid);
}

TEST(SpecHostsTest, AnAllocationThatIsTooSmallNamesTheWayBackToThisMachine) {
  const Status status = SlurmJob().StatusOf("-np 4 ./t");
  EXPECT_EQ(status.code(), ErrorCode::kNotEnoughSlots);
  EXPECT_EQ(status.message(),
            "flag -np: Requested more processes (4) than there are available slots (3)");
  EXPECT_EQ(
      status.hint(),
      "the slots are those of env SLURM_JOB_NODELIST: name more, as in -H localhost:4, or ask "
      "for fewer workers");
}

TEST(SpecHostsTest, APbsFileIsReadThroughTheResolversFiles) {
  SpecWorld world;
  world.environment = Env({{"PBS_NODEFILE", "/pbs"}});
  EXPECT_EQ(world.StatusOf("./t").message(), "env PBS_NODEFILE: no file '/pbs'");
  world.files["/pbs"] = "a\nb\na\n";
  EXPECT_EQ(*world.Resolve("./t")->spec.hosts, (HostList{{"a", 2}, {"b", 1}}));
}

TEST(SpecHostsTest, RangesUsersAndPortsArriveFromEveryLevel) {
  const HostList wanted = {
      {"n1", 2, {"", "u", 0}}, {"n2", 2, {"", "u", 0}}, {"b", 1, {"", "", 22}}};
  EXPECT_EQ(*SpecWorld().Resolve("-H u@n[1,2]:2,ssh://b:22:1 ./t")->spec.hosts, wanted);
  SpecWorld world;
  world.files["job.yaml"] = "hosts: ['u@n[1,2]:2', ssh://b:22:1]\n";
  EXPECT_EQ(*world.Resolve("-f job.yaml ./t")->spec.hosts, wanted);
  world.environment.Set("HVDRAY_HOSTS", "u@n[1,2]:2,ssh://b:22:1");
  EXPECT_EQ(*world.Resolve("./t")->spec.hosts, wanted);
}

TEST(SpecHostsTest, PrintConfigShowsHostsSoThatTheyReadBack) {
  const Result<RunRequest> request = SpecWorld().Resolve("-H ssh://u@a:22:1,[::1]:2,n[1-2]:1 ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const std::string text = PrintConfig(request->spec, PlanFormat::kText);
  EXPECT_NE(text.find("ssh://u@a:22:1 [::1]:2 n1:1 n2:1"), std::string::npos) << text;
  const Result<RunRequest> slurm = SlurmJob().Resolve("./t");
  EXPECT_NE(PrintConfig(slurm->spec, PlanFormat::kText).find("env SLURM_JOB_NODELIST"),
            std::string::npos);
}

}  // namespace
}  // namespace hvdray
