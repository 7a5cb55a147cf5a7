// SPDX-License-Identifier: Apache-2.0
// --print-plan against golden files. HVDRAY_UPDATE_GOLDEN=1 rewrites them.
#include "launcher/job/plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/environ.h"
#include "base/json.h"

namespace hvdray {
namespace {

JobSpec SpecOf(std::vector<std::string> command) {
  JobSpec spec;
  spec.command.Set(std::move(command), "command line");
  return spec;
}

std::vector<RankInfo> Ranks(std::vector<HostSlots> hosts, int np) {
  return AssignRanks(hosts, np, np).value();
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = "tests/golden/plan/" + name;
  if (Environment::FromProcess().Get("HVDRAY_UPDATE_GOLDEN") == "1") {
    std::ofstream(path) << text;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << path;
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

TEST(PlanTest, ShowsOneWorker) {
  const JobSpec spec = SpecOf({"python", "train.py"});
  const auto ranks = Ranks({{"localhost", 1}}, 1);
  ExpectGolden("one_worker.txt", PlanToText(spec, ranks));
  ExpectGolden("one_worker.json", PlanToJson(spec, ranks));
}

TEST(PlanTest, ShowsUnevenHosts) {
  JobSpec spec = SpecOf({"python", "train.py", "--name", "it's a test", ""});
  spec.working_directory.Set("/data/run 1", "flag --cwd");
  spec.env.Set({"LR=0.1", "HF_TOKEN", "HOROVOD_RANK=99"}, "flag -x");
  spec.tunables["HOROVOD_FUSION_THRESHOLD"].Set("33554432", "flag --fusion-threshold-mb");
  spec.master_port.Set(29500, "flag --master-port");
  spec.max_restarts.Set(3, "flag --max-restarts");
  const auto ranks = Ranks({{"a", 3}, {"unused", 0}, {"worker-b", 1}, {"c", 2}}, 6);
  ExpectGolden("uneven_hosts.txt", PlanToText(spec, ranks));
  ExpectGolden("uneven_hosts.json", PlanToJson(spec, ranks));
}

TEST(PlanTest, ShowsThePlaceAndNotWhatTheUserSaysOfIt) {
  JobSpec spec = SpecOf({"x"});
  spec.env.Set({"HOROVOD_RANK=99", "A=1"}, "flag -x");
  const auto plan = ParseJson(PlanToJson(spec, Ranks({{"a", 2}}, 2)));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)["workers"][1]["environment"]["HOROVOD_RANK"], "1");
  EXPECT_EQ((*plan)["workers"][1]["environment"]["A"], "1");
}

TEST(PlanTest, NamesEveryVariableThatOnlyAStartCanDecide) {
  JobSpec spec = SpecOf({"x"});
  const auto local = ParseJson(PlanToJson(spec, Ranks({{"a", 2}}, 2)));
  ASSERT_TRUE(local.ok());
  EXPECT_EQ((*local)["decided_at_start"],
            (Json{"HVDRAY_JOB_ID", "HVDRAY_GENERATION", "TORCHELASTIC_ERROR_FILE",
                  "HOROVOD_GLOO_RENDEZVOUS_PORT", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "no_proxy",
                  "NO_PROXY"}));
  spec.network_interfaces.Set({"eth0"}, "flag --network-interfaces");
  const auto chosen = ParseJson(PlanToJson(spec, Ranks({{"a", 2}}, 2)));
  EXPECT_EQ((*chosen)["decided_at_start"].size(), 11u);
}

TEST(PlanTest, LeavesTorchOutOfElasticJobs) {
  JobSpec spec = SpecOf({"x"});
  spec.min_np.Set(1, "flag --min-np");
  const std::string text = PlanToText(spec, Ranks({{"a", 2}}, 2));
  EXPECT_EQ(text.find("WORLD_SIZE"), std::string::npos);
  EXPECT_EQ(text.find("MASTER_"), std::string::npos);
}

TEST(PlanTest, LeavesTorchOutWhenToldTo) {
  JobSpec spec = SpecOf({"x"});
  spec.is_torch_env.Set(false, "flag --no-torch-env");
  const std::string text = PlanToText(spec, Ranks({{"a", 2}}, 2));
  EXPECT_EQ(text.find("WORLD_SIZE"), std::string::npos);
  EXPECT_EQ(text.find("MASTER_"), std::string::npos);
}

TEST(PlanTest, KeepsBytesThatAreNoText) {
  const JobSpec spec = SpecOf({"\xff\xfe"});
  const auto ranks = Ranks({{"a", 1}}, 1);
  EXPECT_TRUE(ParseJson(PlanToJson(spec, ranks)).ok());
  EXPECT_NE(PlanToText(spec, ranks).find("'\xff\xfe'"), std::string::npos);
}

TEST(PlanTest, SaysThatThereIsNobody) {
  EXPECT_EQ(PlanToText(JobSpec(), {}), "no workers\n");
  EXPECT_TRUE(ParseJson(PlanToJson(JobSpec(), {})).ok());
}

}  // namespace
}  // namespace hvdray
