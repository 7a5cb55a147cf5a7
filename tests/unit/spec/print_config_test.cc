// SPDX-License-Identifier: Apache-2.0
// The two forms of --print-config.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/json.h"
#include "launcher/job/option_table.h"
#include "launcher/job/plan.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

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
