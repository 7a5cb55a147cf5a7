// SPDX-License-Identifier: Apache-2.0
// What --print-plan and --print-config print, the plan against golden files. Not here: whether a
// job then runs as planned (tests/integration).
#include "launcher/job/plan_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/json.h"
#include "launcher/job/option_table.h"
#include "tests/fakes/golden.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

JobSpec SpecWith(std::vector<std::string> command) {
  JobSpec spec;
  spec.command.Set(std::move(command), "command line");
  return spec;
}

std::vector<RankInfo> Ranks(std::vector<HostSlots> hosts, int np) {
  return AssignRanks(hosts, np, np).value();
}

TEST(PlanTest, ShowsOneWorker) {
  const JobSpec spec = SpecWith({"python", "train.py"});
  const auto ranks = Ranks({{"localhost", 1}}, 1);
  ExpectGolden("tests/golden/plan/one_worker.txt", PlanToText(spec, ranks));
  ExpectGolden("tests/golden/plan/one_worker.json", PlanToJson(spec, ranks));
}

TEST(PlanTest, ShowsUnevenHosts) {
  JobSpec spec = SpecWith({"python", "train.py", "--name", "it's a test", ""});
  spec.working_directory.Set("/data/run 1", "flag --cwd");
  spec.env.Set({"LR=0.1", "HF_TOKEN", "HOROVOD_RANK=99"}, "flag -x");
  spec.tunables["HOROVOD_FUSION_THRESHOLD"].Set("33554432", "flag --fusion-threshold-mb");
  spec.master_port.Set(29500, "flag --master-port");
  spec.max_restarts.Set(3, "flag --max-restarts");
  const auto ranks = Ranks({{"a", 3}, {"unused", 0}, {"worker-b", 1}, {"c", 2}}, 6);
  ExpectGolden("tests/golden/plan/uneven_hosts.txt", PlanToText(spec, ranks));
  ExpectGolden("tests/golden/plan/uneven_hosts.json", PlanToJson(spec, ranks));
}

TEST(PlanTest, ShowsThePlaceAndNotWhatTheUserSaysOfIt) {
  JobSpec spec = SpecWith({"x"});
  spec.env.Set({"HOROVOD_RANK=99", "A=1"}, "flag -x");
  const auto plan = ParseJson(PlanToJson(spec, Ranks({{"a", 2}}, 2)));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)["workers"][1]["environment"]["HOROVOD_RANK"], "1");
  EXPECT_EQ((*plan)["workers"][1]["environment"]["A"], "1");
}

TEST(PlanTest, NamesEveryVariableThatOnlyAStartCanDecide) {
  JobSpec spec = SpecWith({"x"});
  const auto local = ParseJson(PlanToJson(spec, Ranks({{"a", 2}}, 2)));
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(
      (*local)["decided_at_start"],
      (Json{"HVDRAY_JOB_ID", "HVDRAY_GENERATION", "TORCHELASTIC_ERROR_FILE",
            "HOROVOD_GLOO_RENDEZVOUS_PORT", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
            "OPENBLAS_NUM_THREADS", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "no_proxy", "NO_PROXY"}));
  spec.network_interfaces.Set({"eth0"}, "flag --network-interfaces");
  const auto chosen = ParseJson(PlanToJson(spec, Ranks({{"a", 2}}, 2)));
  EXPECT_EQ((*chosen)["decided_at_start"].size(), 14u);
}

TEST(PlanTest, NamesTheVariableOfAChannelWhereThereIsOne) {
  JobSpec spec = SpecWith({"x"});
  EXPECT_EQ(PlanToText(spec, Ranks({{"a", 2}}, 2)).find("HVDRAY_CHANNEL_FD"), std::string::npos);
  spec.has_channel.Set(true, "flag --channel");
  EXPECT_NE(PlanToText(spec, Ranks({{"a", 2}}, 2)).find("HVDRAY_CHANNEL_FD"), std::string::npos);
}

TEST(PlanTest, LeavesTorchOutOfElasticJobs) {
  JobSpec spec = SpecWith({"x"});
  spec.min_np.Set(1, "flag --min-np");
  const std::string text = PlanToText(spec, Ranks({{"a", 2}}, 2));
  EXPECT_EQ(text.find("WORLD_SIZE"), std::string::npos);
  EXPECT_EQ(text.find("MASTER_"), std::string::npos);
}

TEST(PlanTest, LeavesTorchOutWhenToldTo) {
  JobSpec spec = SpecWith({"x"});
  spec.is_torch_env.Set(false, "flag --no-torch-env");
  const std::string text = PlanToText(spec, Ranks({{"a", 2}}, 2));
  EXPECT_EQ(text.find("WORLD_SIZE"), std::string::npos);
  EXPECT_EQ(text.find("MASTER_"), std::string::npos);
}

TEST(PlanTest, ShowsBytesThatAreNoTextAndNothingThatMovesTheCursor) {
  const JobSpec spec = SpecWith({"\xff\xfe", "\x1b[2Jgone\u202e"});
  const auto ranks = Ranks({{"a", 1}}, 1);
  EXPECT_TRUE(ParseJson(PlanToJson(spec, ranks)).ok());
  const std::string text = PlanToText(spec, ranks);
  EXPECT_NE(text.find(R"(command: '\xff\xfe')"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
}

TEST(PlanTest, SaysThatThereIsNobody) {
  EXPECT_EQ(PlanToText(JobSpec(), {}), "no workers\n");
  EXPECT_TRUE(ParseJson(PlanToJson(JobSpec(), {})).ok());
}

std::string LineOf(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " ")) return line;
  }
  return "no line " + name;
}

/// Words of a line, single blanks between them.
std::string Squeezed(const std::string& line) {
  std::string text;
  for (const std::string& word : Words(line)) text += (text.empty() ? "" : " ") + word;
  return text;
}

JobSpec SpecOf(const std::string& line) {
  SpecWorld world;
  world.environment.Set("HVDRAY_GRACE", "200ms");
  world.environment.Set("PLAIN", "x");
  world.files["job.yaml"] = "max_restarts: 3\nenv:\n  FROM_FILE: 1\n";
  Result<RunRequest> request = world.Resolve(line);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? request->spec : JobSpec();
}

TEST(PrintConfigTest, ShowsEachValueWithItsOrigin) {
  const std::string text =
      PrintConfig(SpecOf("-np 4 -H a:2,b:2 -f job.yaml -x PLAIN -x A=1 --cache-capacity 7 "
                         "--print-config --tag-output host ./train --lr 1"),
                  PlanFormat::kText);
  const auto line = [&text](const char* name) { return Squeezed(LineOf(text, name)); };
  EXPECT_EQ(line("num-proc"), "num-proc 4 flag -np");
  EXPECT_EQ(line("hosts"), "hosts a:2 b:2 flag -H");
  EXPECT_EQ(line("grace"), "grace 0.2 env HVDRAY_GRACE");
  EXPECT_EQ(line("max-restarts"), "max-restarts 3 job.yaml:1:15");
  EXPECT_EQ(line("command"), "command ./train --lr 1 command line");
  EXPECT_EQ(line("env"), "env FROM_FILE=1 PLAIN A=1 flag -x, job.yaml:3:3");
  EXPECT_EQ(line("tag-output"), "tag-output host flag --tag-output");
  EXPECT_EQ(line("timeout"), "timeout - default");
  EXPECT_EQ(line("HOROVOD_CACHE_CAPACITY"), "HOROVOD_CACHE_CAPACITY 7 flag --cache-capacity");
}

TEST(PrintConfigTest, AlignsItsColumns) {
  const std::string text = PrintConfig(SpecOf("-np 4 ./t"), PlanFormat::kText);
  std::istringstream lines(text);
  size_t column = std::string::npos;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find(' ');
    const size_t value = line.find_first_not_of(' ', end);
    if (column == std::string::npos) column = value;
    EXPECT_EQ(value, column) << line;
  }
}

TEST(PrintConfigTest, SaysTheSameInJson) {
  const std::string text =
      PrintConfig(SpecOf("-np 4 --print-plan=json --cycle-time-ms 2 ./t 'x"), PlanFormat::kJson);
  const Result<Json> json = ParseJson(text);
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  EXPECT_EQ((*json)["schema"], "hvdray.config/1");
  const Json& settings = (*json)["settings"];
  EXPECT_EQ(settings["num-proc"]["value"], 4);
  EXPECT_EQ(settings["num-proc"]["origin"], "flag -np");
  EXPECT_EQ(settings["grace"]["value"], 0.2);
  EXPECT_EQ(settings["print-plan"]["value"], "json");
  EXPECT_TRUE(settings["master-port"]["value"].is_null());
  EXPECT_EQ(settings["command"]["value"], Json::array({"./t", "'x"}));
  EXPECT_EQ((*json)["environment"]["HOROVOD_CYCLE_TIME"]["value"], "2.0");
}

TEST(PrintConfigTest, HidesValuesWhoseNameTellsOfASecret) {
  const std::string text =
      PrintConfig(SpecOf("-np 1 -x AWS_SECRET_ACCESS_KEY=abc -x wandb_api_key=def -x A=shown ./t"),
                  PlanFormat::kText);
  EXPECT_EQ(text.find("abc"), std::string::npos);
  EXPECT_EQ(text.find("def "), std::string::npos);
  EXPECT_NE(text.find("A=shown"), std::string::npos);
}

TEST(PrintConfigTest, HasALineForEveryOptionThatIsNotOnlyAWayIn) {
  // These act at once, have no effect, or are variables.
  const std::set<OptionId> elsewhere = {
      OptionId::kDisableCache, OptionId::kGloo,        OptionId::kMpi,        OptionId::kJsrun,
      OptionId::kMpiArgs,      OptionId::kBindingArgs, OptionId::kPrintConfig};
  const std::string text = PrintConfig(SpecOf("-np 1 ./t"), PlanFormat::kText);
  for (const OptionRow& row : OptionTable()) {
    if (row.type == OptionType::kAction || elsewhere.contains(row.id)) continue;
    if (!row.worker_variable.empty()) continue;
    const std::string name(row.id == OptionId::kJobFile ? "file" : row.name);
    EXPECT_FALSE(LineOf(text, name).starts_with("no line")) << name;
  }
}

TEST(PrintConfigTest, StaysOneLineASettingWhateverTheValuesHold) {
  SpecWorld world;
  const Result<RunRequest> request = world.Resolve(
      std::vector<std::string>{"-np", "1", "-x", "A=line\none\x1b[31m", "./t", "two\nlines"});
  ASSERT_TRUE(request.ok());
  const std::string text = PrintConfig(request->spec, PlanFormat::kText);
  const std::string plain = PrintConfig(SpecOf("-np 1 ./t"), PlanFormat::kText);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            std::count(plain.begin(), plain.end(), '\n'));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace hvdray
