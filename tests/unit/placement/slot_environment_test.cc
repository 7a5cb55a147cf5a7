// SPDX-License-Identifier: Apache-2.0
// What a worker is told about its place, against Horovod spec 1.4 and torchrun's names.
#include "wire/slot_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "launcher/job/placement.h"

namespace hvdray {
namespace {

std::vector<RankInfo> Ranks(std::vector<HostSlots> hosts) {
  return AssignRanks(hosts, 1, {}).value();
}

std::map<std::string, std::string> ToMap(const std::vector<EnvironmentEntry>& entries) {
  return {entries.begin(), entries.end()};
}

TEST(StartOfHostTest, CountsOnlyHostsThatHaveWorkers) {
  const auto ranks = Ranks({{"a", 1}, {"empty", 0}, {"c", 2}, {"d", 1}});
  const wire::StartGeneration start = StartOfHost(ranks, 2);
  EXPECT_EQ(start.host_name, "c");
  EXPECT_EQ(start.host_index, 1);
  EXPECT_EQ(start.host_count, 3);
  EXPECT_EQ(start.size, 4);
  EXPECT_EQ(start.local_size, 2);
  EXPECT_EQ(start.workers, (std::vector<wire::WorkerSlot>{
                               {.rank = 1, .local_rank = 0, .cross_rank = 1, .cross_size = 3},
                               {.rank = 2, .local_rank = 1, .cross_rank = 0, .cross_size = 1}}));
}

TEST(StartOfHostTest, HasNoWorkersForAHostWithoutAny) {
  EXPECT_TRUE(StartOfHost(Ranks({{"a", 1}, {"empty", 0}}), 1).workers.empty());
}

TEST(SlotEnvironmentTest, TellsHorovodAndTorchTheSamePlace) {
  wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}, {"c", 2}}), 1);
  start.gloo_interface = "eth0";
  start.nccl_interfaces = "eth0,ib0";
  start.master_address = "10.0.0.5";
  start.master_port = 29400;
  start.restart_count = 2;
  start.max_restarts = 3;
  EXPECT_EQ(ToMap(SlotEnvironment(start, start.workers[1], "job-1", 40001)),
            (std::map<std::string, std::string>{{"HOROVOD_HOSTNAME", "c"},
                                                {"HOROVOD_RANK", "2"},
                                                {"HOROVOD_SIZE", "3"},
                                                {"HOROVOD_LOCAL_RANK", "1"},
                                                {"HOROVOD_LOCAL_SIZE", "2"},
                                                {"HOROVOD_CROSS_RANK", "0"},
                                                {"HOROVOD_CROSS_SIZE", "1"},
                                                {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
                                                {"HOROVOD_GLOO_RENDEZVOUS_PORT", "40001"},
                                                {"HOROVOD_CONTROLLER", "gloo"},
                                                {"HOROVOD_CPU_OPERATIONS", "gloo"},
                                                {"HOROVOD_GLOO_IFACE", "eth0"},
                                                {"NCCL_SOCKET_IFNAME", "eth0,ib0"},
                                                {"GLOO_SOCKET_IFNAME", "eth0"},
                                                {"PYTHONUNBUFFERED", "1"},
                                                {"RANK", "2"},
                                                {"WORLD_SIZE", "3"},
                                                {"LOCAL_RANK", "1"},
                                                {"LOCAL_WORLD_SIZE", "2"},
                                                {"GROUP_RANK", "1"},
                                                {"GROUP_WORLD_SIZE", "2"},
                                                {"ROLE_NAME", "default"},
                                                {"ROLE_RANK", "2"},
                                                {"ROLE_WORLD_SIZE", "3"},
                                                {"MASTER_ADDR", "10.0.0.5"},
                                                {"MASTER_PORT", "29400"},
                                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                {"TORCHELASTIC_RUN_ID", "job-1"},
                                                {"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
}

TEST(SlotEnvironmentTest, LeavesOutWhatIsNotKnownYet) {
  const wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}}), 0);
  const auto map = ToMap(SlotEnvironment(start, start.workers[0], "", 0));
  for (const char* name :
       {"HOROVOD_GLOO_RENDEZVOUS_PORT", "HOROVOD_GLOO_IFACE", "MASTER_ADDR", "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_FALSE(map.contains(name)) << name;
  }
  EXPECT_EQ(map.at("HOROVOD_RANK"), "0");
}

TEST(SlotEnvironmentTest, TellsTorchNothingInElasticJobs) {
  wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}}), 0);
  start.is_torch_environment = false;
  const auto map = ToMap(SlotEnvironment(start, start.workers[0], "job-1", 1));
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_FALSE(map.contains(name)) << name;
  }
  EXPECT_TRUE(map.contains("HOROVOD_RANK"));
}

TEST(SlotEnvironmentTest, NamesNoVariableTwice) {
  wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}}), 0);
  start.gloo_interface = start.nccl_interfaces = start.master_address = "x";
  start.master_port = 1;
  std::set<std::string> names;
  for (const auto& [name, value] : SlotEnvironment(start, start.workers[0], "j", 1)) {
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

}  // namespace
}  // namespace hvdray
