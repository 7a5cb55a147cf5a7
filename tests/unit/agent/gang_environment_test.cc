// SPDX-License-Identifier: Apache-2.0
#include "agent/gang_environment.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string_view>

namespace hvdray {
namespace {

wire::StartGeneration MakeStart() {
  wire::StartGeneration start;
  start.size = 8;
  start.local_size = 4;
  start.host_index = 1;
  start.host_count = 2;
  start.restart_count = 2;
  start.max_restarts = 5;
  start.host_name = "node-b";
  start.gloo_interface = "eth1";
  start.nccl_interfaces = "eth1,eth2";
  start.master_address = "10.0.0.1";
  start.master_port = 29400;
  return start;
}

/// All of one worker's environment; a name that comes twice fails the test.
std::map<std::string, std::string> Whole(const wire::StartGeneration& start) {
  const GangEnvironment environment(start, "job-1", 3);
  std::map<std::string, std::string> whole;
  std::vector<std::string> entries = environment.shared();
  for (auto& entry : environment.ForWorker({6, 2, 1, 2}, 4711)) entries.push_back(entry);
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    EXPECT_TRUE(whole.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second) << entry;
  }
  return whole;
}

TEST(GangEnvironmentTest, WorkerLearnsItsPlaceInAllDialects) {
  const std::map<std::string, std::string> expected = {
      {"HOROVOD_HOSTNAME", "node-b"},
      {"HOROVOD_RANK", "6"},
      {"HOROVOD_SIZE", "8"},
      {"HOROVOD_LOCAL_RANK", "2"},
      {"HOROVOD_LOCAL_SIZE", "4"},
      {"HOROVOD_CROSS_RANK", "1"},
      {"HOROVOD_CROSS_SIZE", "2"},
      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "4711"},
      {"HOROVOD_CONTROLLER", "gloo"},
      {"HOROVOD_CPU_OPERATIONS", "gloo"},
      {"HOROVOD_GLOO_IFACE", "eth1"},
      {"NCCL_SOCKET_IFNAME", "eth1,eth2"},
      {"GLOO_SOCKET_IFNAME", "eth1"},
      {"PYTHONUNBUFFERED", "1"},
      {"RANK", "6"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_RANK", "6"},
      {"ROLE_WORLD_SIZE", "8"},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "29400"},
      {"TORCHELASTIC_RUN_ID", "job-1"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "5"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"HVDRAY_RANK", "6"},
      {"HVDRAY_JOB_ID", "job-1"},
      {"HVDRAY_GENERATION", "3"},
      {"no_proxy", "127.0.0.1"},
      {"NO_PROXY", "127.0.0.1"},
  };
  EXPECT_EQ(Whole(MakeStart()), expected);
}

TEST(GangEnvironmentTest, SlotVariablesBeatWhateverTheJobGives) {
  wire::StartGeneration start = MakeStart();
  for (const auto& [name, value] : Whole(start)) {
    if (name != "no_proxy" && name != "NO_PROXY") start.environment.push_back(name + "=wrong");
  }
  EXPECT_EQ(Whole(start), Whole(MakeStart()));
}

TEST(GangEnvironmentTest, AChannelHasAVariableAndWithoutOneItIsNotEvenInherited) {
  wire::StartGeneration start = MakeStart();
  start.environment = {"HVDRAY_CHANNEL_FD=9"};
  EXPECT_EQ(Whole(start), Whole(MakeStart()));
  start.has_channel = true;
  auto expected = Whole(MakeStart());
  expected["HVDRAY_CHANNEL_FD"] = "4";
  EXPECT_EQ(Whole(start), expected);
}

TEST(GangEnvironmentTest, TheJobsOwnVariablesPassUnchanged) {
  wire::StartGeneration start = MakeStart();
  start.environment = {"PATH=/bin",
                       "EMPTY=",
                       "TWO=a=b",
                       "OMP_NUM_THREADS=3",
                       "HOROVOD_FUSION_THRESHOLD=1",
                       "HOROVOD_ELASTIC=1",
                       "BYTES=\xff\n"};
  auto whole = Whole(start);
  EXPECT_EQ(whole["PATH"], "/bin");
  EXPECT_EQ(whole["EMPTY"], "");
  EXPECT_EQ(whole["TWO"], "a=b");
  EXPECT_EQ(whole["OMP_NUM_THREADS"], "3");
  EXPECT_EQ(whole["HOROVOD_FUSION_THRESHOLD"], "1");
  EXPECT_EQ(whole["HOROVOD_ELASTIC"], "1");
  EXPECT_EQ(whole["BYTES"], "\xff\n");
}

TEST(GangEnvironmentTest, FirstOfTwoEntriesCountsAndNonsenseIsDropped) {
  wire::StartGeneration start = MakeStart();
  start.environment = {"A=1", "A=2", "no-equals", "=nameless", "", "B=3"};
  const auto whole = Whole(start);
  EXPECT_EQ(whole.at("A"), "1");
  EXPECT_EQ(whole.at("B"), "3");
  EXPECT_EQ(whole.size(), Whole(MakeStart()).size() + 2);
}

TEST(GangEnvironmentTest, WithoutTorchItsNamesAreNotEvenInherited) {
  wire::StartGeneration start = MakeStart();
  start.is_torch_environment = false;
  start.environment = {"RANK=9", "MASTER_ADDR=old", "TORCHELASTIC_RUN_ID=old", "MASTER_PORT=1"};
  const auto whole = Whole(start);
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK",
                           "TORCHELASTIC_RUN_ID", "GROUP_RANK"}) {
    EXPECT_FALSE(whole.contains(name)) << name;
  }
  EXPECT_EQ(whole.at("HOROVOD_RANK"), "6");
  start.keeps_rank_variables = true;
  EXPECT_EQ(Whole(start).at("RANK"), "9");
}

// Lightning believes RANK and its sisters inside a batch job only beside TORCHELASTIC_RUN_ID; else
// it takes Slurm's rank, which is the same for all workers. Source: lightning_fabric 2.6,
// plugins/environments/torchelastic.py, detect().
TEST(GangEnvironmentTest, TheRunIdTellsLightningThatTheRanksAreNotSlurms) {
  EXPECT_EQ(Whole(MakeStart()).at("TORCHELASTIC_RUN_ID"), "job-1");
}

TEST(GangEnvironmentTest, InterfaceOfTheUserStaysWhereNoneIsChosen) {
  wire::StartGeneration start = MakeStart();
  start.gloo_interface.clear();
  start.nccl_interfaces.clear();
  start.environment = {"HOROVOD_GLOO_IFACE=ib0", "NCCL_SOCKET_IFNAME=^lo"};
  const auto whole = Whole(start);
  EXPECT_EQ(whole.at("HOROVOD_GLOO_IFACE"), "ib0");
  EXPECT_EQ(whole.at("NCCL_SOCKET_IFNAME"), "^lo");
}

TEST(GangEnvironmentTest, WhatTheUserHasSetOnPurposeBeatsWhatIsChosen) {
  wire::StartGeneration start = MakeStart();
  start.environment = {"NCCL_SOCKET_IFNAME=ib0", "GLOO_SOCKET_IFNAME=ib1",
                       "PYTHONUNBUFFERED=", "HOROVOD_GLOO_IFACE=old", "RANK=9"};
  start.kept_variables = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "PYTHONUNBUFFERED"};
  const auto whole = Whole(start);
  EXPECT_EQ(whole.at("NCCL_SOCKET_IFNAME"), "ib0");
  EXPECT_EQ(whole.at("GLOO_SOCKET_IFNAME"), "ib1");
  EXPECT_EQ(whole.at("PYTHONUNBUFFERED"), "");
  EXPECT_EQ(whole.at("HOROVOD_GLOO_IFACE"), "eth1") << "inherited, maybe from an outer job";
  EXPECT_EQ(whole.at("RANK"), "6");
}

TEST(GangEnvironmentTest, AShareOfThreadsCountsWhereTheJobSaysNothing) {
  const auto threads = [](std::vector<std::string> entries) {
    wire::StartGeneration start = MakeStart();
    start.threads = 3;
    start.environment = std::move(entries);
    auto whole = Whole(start);
    return std::array{whole["OMP_NUM_THREADS"], whole["MKL_NUM_THREADS"],
                      whole["OPENBLAS_NUM_THREADS"]};
  };
  using Three = std::array<std::string, 3>;
  EXPECT_EQ(threads({}), (Three{"3", "3", "3"}));
  EXPECT_EQ(threads({"MKL_NUM_THREADS=7"}), (Three{"3", "7", "3"}));
  EXPECT_EQ(threads({"OMP_NUM_THREADS=7"}), (Three{"7", "", ""})) << "the others follow it";
}

TEST(GangEnvironmentTest, LoopbackIsNeverAskedThroughAProxy) {
  const auto no_proxy = [](std::vector<std::string> entries) {
    wire::StartGeneration start = MakeStart();
    start.environment = std::move(entries);
    auto whole = Whole(start);
    return std::pair{whole["no_proxy"], whole["NO_PROXY"]};
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(no_proxy({"no_proxy=a.example"}), (Pair{"a.example,127.0.0.1", "a.example,127.0.0.1"}));
  EXPECT_EQ(no_proxy({"NO_PROXY=b", "no_proxy=a"}), (Pair{"a,127.0.0.1", "b,127.0.0.1"}));
  EXPECT_EQ(no_proxy({"NO_PROXY=x, 127.0.0.1 ,y"}), (Pair{"x, 127.0.0.1 ,y", "x, 127.0.0.1 ,y"}));
  EXPECT_EQ(no_proxy({"no_proxy=*"}), (Pair{"*", "*"}));
  EXPECT_EQ(no_proxy({"no_proxy=127.0.0.10"}).first, "127.0.0.10,127.0.0.1");
}

}  // namespace
}  // namespace hvdray
