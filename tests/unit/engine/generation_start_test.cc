// SPDX-License-Identifier: Apache-2.0
// What agents are told to start.
#include "launcher/engine/generation_start.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/engine/driver_policies.h"
#include "tests/unit/engine/elastic_facts.h"

namespace hvdray {
namespace {

class GenerationStartTest : public testing::Test {
 protected:
  GenerationStartTest() {
    plan_.spec.command.Set({"train"}, "test");
    plan_.spec.min_np.Set(std::optional<int>(1), "test");
    plan_.spec.stdin_rank.Set(std::optional<int>(0), "test");
    plan_.spec.max_restarts.Set(3, "test");
    plan_.current_directory = "/home/me";
    plan_.job_id = "job";
    for (int host = 0; host < 2; ++host) {
      hosts_.Connect(host, {host == 0 ? "a" : "b", 2}, 10 + host);
      const std::string address = host == 0 ? "10.0.0.1" : "10.0.0.2";
      hosts_.At(host).nic = NicChoice{"eth0", "=eth0", address};
    }
    hosts_.At(1).is_remote = true;
    ranks_ = *AssignRanks(std::vector<HostSlots>{{"a", 2}, {"b", 1}}, 3, 3);
  }

  /// All of `ranks_`, as workers 70000 and up.
  effect::StartWorkers Start(Generation generation) const {
    effect::StartWorkers start{generation, {}, 2, 4711};
    for (const RankInfo& place : ranks_) {
      start.workers.push_back({static_cast<WorkerId>(70'000 + place.rank), place});
    }
    return start;
  }
  std::map<int, wire::StartGeneration> Messages(const effect::StartWorkers& start,
                                                std::span<const RankInfo> ranks) {
    return StartMessages(plan_, start, ranks, hosts_);
  }
  void BecomeGang() { plan_.spec.elastic_mode.Set(ElasticMode::kGang, "test"); }
  static bool IsElastic(const wire::StartGeneration& start) {
    const auto& all = start.environment;
    return std::find(all.begin(), all.end(), "HOROVOD_ELASTIC=1") != all.end();
  }

  LaunchPlan plan_;
  HostTable hosts_;
  std::vector<RankInfo> ranks_;
};

TEST_F(GenerationStartTest, EachHostGetsItsWorkersWithTheirNumbersAndPlaces) {
  auto messages = Messages(Start(1), ranks_);
  ASSERT_EQ(messages.size(), 2u);
  const std::vector<wire::WorkerSlot> on_a = {{0, 0, 0, 2, 70'000}, {1, 1, 0, 1, 70'001}};
  EXPECT_EQ(messages[0].workers, on_a);
  EXPECT_EQ(messages[1].workers, (std::vector<wire::WorkerSlot>{{2, 0, 1, 2, 70'002}}));
  EXPECT_EQ(messages[0].size, 3);
  EXPECT_EQ(messages[0].local_size, 2);
  EXPECT_EQ(messages[1].local_size, 1);
  EXPECT_EQ(messages[1].host_name, "b");
  EXPECT_EQ(messages[1].gloo_interface, "eth0");
  EXPECT_EQ(messages[0].command, std::vector<std::string>{"train"});
}

TEST_F(GenerationStartTest, AnOrderToWarmIsTheStartWithoutItsWorkers) {
  plan_.spec.preload.Set({"json"}, "test");
  plan_.spec.has_channel.Set(true, "test");
  auto messages = Messages(Start(1), ranks_);
  for (const int host : {0, 1}) {
    hosts_.At(host).nic.reset();  // chosen at the first start only
    const wire::StartGeneration order = WarmOrder(plan_, hosts_.At(host)).start;
    const wire::StartGeneration& start = messages[host];
    EXPECT_TRUE(order.workers.empty());
    EXPECT_EQ(order.preload, start.preload);
    EXPECT_EQ(order.command, start.command);
    EXPECT_EQ(order.environment, start.environment);
    EXPECT_EQ(order.working_directory, start.working_directory);
    EXPECT_EQ(order.directory_trust, start.directory_trust);
    EXPECT_EQ(order.has_channel, start.has_channel);
    EXPECT_EQ(order.gpu_visibility, start.gpu_visibility);
  }
}

TEST_F(GenerationStartTest, CpusAreSharedByTheWorkersOfAHost) {
  BecomeGang();
  hosts_.At(0).facts.cpu_count = 7;
  hosts_.At(1).facts.cpu_count = 1;
  auto messages = Messages(Start(1), ranks_);
  EXPECT_EQ(messages[0].threads, 3U);
  EXPECT_EQ(messages[1].threads, 1U);
  EXPECT_NE(ThreadsNotice(messages).find("OMP_NUM_THREADS=1 to 3 "), std::string::npos);
  messages.erase(0);
  EXPECT_EQ(ThreadsNotice(messages), "") << "no CPU is shared";
  plan_.spec.omp_threads.Set(std::optional<int>(), "test");
  EXPECT_EQ(Messages(Start(1), ranks_)[0].threads, 0U);
  plan_.spec.omp_threads = Setting<std::optional<int>>(0);
  plan_.environment.Set("OMP_NUM_THREADS", "5");
  EXPECT_EQ(Messages(Start(1), ranks_)[0].threads, 0U) << "the user has decided";
}

TEST_F(GenerationStartTest, WorkersThatOutliveChangesLeaveCpusToThoseThatMayCome) {
  hosts_.At(1).facts.cpu_count = 8;
  EXPECT_EQ(Messages(Start(1), ranks_)[1].threads, 4U) << "one worker, two slots";
  plan_.spec.max_np.Set(std::optional<int>(1), "test");
  EXPECT_EQ(Messages(Start(1), ranks_)[1].threads, 8U);
}

TEST_F(GenerationStartTest, OnlyWhatTheUserHasSetOnPurposeIsKept) {
  plan_.spec.env.Set({"NCCL_SOCKET_IFNAME=ib0", "A=1"}, "test");
  plan_.environment.Set("GLOO_SOCKET_IFNAME", "of an outer job");
  EXPECT_EQ(Messages(Start(1), ranks_)[0].kept_variables,
            std::vector<std::string>{"NCCL_SOCKET_IFNAME"});
}

TEST_F(GenerationStartTest, ANewcomerHasItsPlaceInTheWholeGeneration) {
  effect::StartWorkers start = Start(2);
  start.workers.erase(start.workers.begin(), start.workers.begin() + 1);
  start.workers.pop_back();
  auto messages = Messages(start, {});
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].workers, (std::vector<wire::WorkerSlot>{{1, 1, 0, 1, 70'001}}));
  EXPECT_EQ(messages[0].size, 3);
  EXPECT_EQ(messages[0].local_size, 2);
  EXPECT_EQ(messages[0].host_name, "a");
}

// Warm newcomers start before their generation is published, while the known ranks are the old
// ones.
TEST_F(GenerationStartTest, AsManyNewcomersAsThereAreWorkersAreNotTakenForThem) {
  const auto larger = *AssignRanks(std::vector<HostSlots>{{"a", 1}, {"b", 1}}, 2, 2);
  const auto old = *AssignRanks(std::vector<HostSlots>{{"a", 1}}, 1, 1);
  auto messages = Messages({2, {{70'009, larger[1]}}, 0, 0}, old);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[1].size, 2);
  EXPECT_EQ(messages[1].local_size, 1);
  EXPECT_EQ(messages[1].host_name, "b");
}

TEST_F(GenerationStartTest, HorovodIsToldThatItIsElasticAndNobodyOfTorchsRanks) {
  auto messages = Messages(Start(1), ranks_);
  EXPECT_TRUE(IsElastic(messages[0]));
  EXPECT_TRUE(IsElastic(messages[1]));
  EXPECT_FALSE(messages[0].is_torch_environment) << "they would go stale";
}

TEST_F(GenerationStartTest, AGangGetsTorchsVariablesAndItsMaster) {
  BecomeGang();
  auto messages = Messages(Start(2), ranks_);
  for (auto& [host, message] : messages) {
    EXPECT_FALSE(IsElastic(message));
    EXPECT_TRUE(message.is_torch_environment);
    EXPECT_EQ(message.master_address, "10.0.0.1");
    EXPECT_EQ(message.master_port, 4711);
    EXPECT_EQ(message.restart_count, 2u);
    EXPECT_EQ(message.max_restarts, 3u);
    EXPECT_EQ(message.host_count, 2);
    EXPECT_EQ(message.host_index, host);
  }
}

TEST_F(GenerationStartTest, AGangWithoutTorchsVariablesIsStillNoElasticHorovodJob) {
  BecomeGang();
  plan_.spec.is_torch_env.Set(false, "test");
  auto messages = Messages(Start(1), ranks_);
  EXPECT_FALSE(messages[0].is_torch_environment);
  EXPECT_FALSE(IsElastic(messages[0]));
}

TEST_F(GenerationStartTest, WorkersHaveChannelsWhereTheJobAsksForThem) {
  EXPECT_FALSE(Messages(Start(1), ranks_)[0].has_channel);
  plan_.spec.has_channel.Set(true, "test");
  for (const auto& [host, message] : Messages(Start(2), ranks_)) {
    EXPECT_TRUE(message.has_channel) << host;
  }
}

TEST_F(GenerationStartTest, ModulesToPreloadGoWithEveryGenerationAndLengthenItsStart) {
  EXPECT_TRUE(Messages(Start(1), ranks_)[0].preload.empty());
  EXPECT_EQ(ToGangPolicy(plan_.spec).preload_limit, Duration::zero());
  plan_.spec.preload.Set({"torch"}, "test");
  plan_.spec.start_timeout.Set(std::chrono::seconds(70), "test");
  for (const auto& [host, message] : Messages(Start(2), ranks_)) {
    EXPECT_EQ(message.preload, std::vector<std::string>{"torch"}) << host;
    EXPECT_EQ(message.preload_limit_ms, 70000U) << host;
  }
  EXPECT_EQ(ToGangPolicy(plan_.spec).preload_limit, std::chrono::seconds(70));
}

TEST_F(GenerationStartTest, StdinIsForTheFirstGenerationOnly) {
  EXPECT_EQ(Messages(Start(1), ranks_)[0].stdin_rank, 0);
  EXPECT_EQ(Messages(Start(2), ranks_)[0].stdin_rank, -1);
}

TEST_F(GenerationStartTest, OtherMachinesNeedTheDirectoryOfTheLauncherAsTheirOwn) {
  plan_.directory_trustees = {{500}, {600, 601}};
  auto messages = Messages(Start(1), ranks_);
  EXPECT_EQ(messages[0].working_directory, "");
  EXPECT_EQ(messages[1].working_directory, "/home/me");
  EXPECT_FALSE(messages[1].is_directory_optional);
  EXPECT_FALSE(messages[0].directory_trust.is_checked) << "hvdray is there already";
  EXPECT_EQ(messages[1].directory_trust, (wire::DirectoryTrust{true, {{500}, {600, 601}}}));
  plan_.place.is_on_own_environment = true;  // on Ray
  messages = Messages(Start(2), ranks_);
  EXPECT_TRUE(messages[1].is_directory_optional);
  EXPECT_FALSE(messages[1].directory_trust.is_checked);
}

TEST_F(GenerationStartTest, AHostWithoutAgentOrInterfaceIsToldNothing) {
  hosts_.At(0).nic.reset();
  EXPECT_FALSE(Messages(Start(1), ranks_).contains(0));
  hosts_.Disconnect(1);
  EXPECT_TRUE(Messages(Start(1), ranks_).empty());
}

}  // namespace
}  // namespace hvdray
