// SPDX-License-Identifier: Apache-2.0
// The words of the commands that start no job.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

Result<CommandRequest> Request(std::string_view command, const std::string& line,
                               const Environment& environment = {}) {
  return ResolveRequest(command, Words(line), environment);
}

TEST(CommandRequestTest, OptionsStandBeforeTheArgumentAndAfterIt) {
  for (const char* line :
       {"--json -q job.record", "job.record -q --json", "-q job.record --json"}) {
    const auto request = Request("replay", line);
    ASSERT_TRUE(request.ok()) << line;
    EXPECT_EQ(request->arguments, std::vector<std::string>{"job.record"});
    EXPECT_TRUE(request->Has(OptionId::kJson) && *request->spec.is_quiet) << line;
  }
  const auto plain = Request("replay", "job.record");
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->Has(OptionId::kJson) || *plain->spec.is_quiet || plain->wants_help);
}

TEST(CommandRequestTest, AnArgumentMayBeginWithADash) {
  EXPECT_EQ(Request("replay", "-- --json")->arguments, std::vector<std::string>{"--json"});
  EXPECT_EQ(Request("explain", "201 -- -1")->arguments, (std::vector<std::string>{"201", "-1"}));
}

TEST(CommandRequestTest, HelpAndVersionNeedNoArgument) {
  EXPECT_TRUE(Request("replay", "--help")->wants_help);
  EXPECT_TRUE(Request("replay", "job.record -h")->wants_help);
  EXPECT_TRUE(Request("follow", "--quiet -h")->wants_help);
  EXPECT_TRUE(Request("replay", "-v")->wants_version);
}

TEST(CommandRequestTest, WhatNobodyGivesIsTheDefaultOfTheCommandsHelp) {
  const auto get = [](const char* command, const char* line, OptionId id) {
    const RawOption value = Request(command, line)->Get(id);
    return fmt::format("{} ({})", value.last(), value.origin);
  };
  EXPECT_EQ(get("monitor", "c.yaml", OptionId::kInterval), "2 (default)");
  EXPECT_EQ(get("monitor", "c.yaml --interval 5", OptionId::kInterval), "5 (flag --interval)");
  EXPECT_EQ(get("stop", "id", OptionId::kTimeout), "60 (default)") << "status has another";
  EXPECT_EQ(get("rendezvous", "", OptionId::kBind), "127.0.0.1 (default)");
}

TEST(CommandRequestTest, WhatIsWrongIsUsage) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"replay", ""},           {"replay", "--json"},     {"replay", "a b"},
      {"replay", "--nosuch a"}, {"replay", "-np 2"},      {"replay", "--json=1 a"},
      {"follow", ""},           {"follow", "id --json"},  {"status", "a b"},
      {"status", "-v"},         {"slots", "--cpus x"},    {"slots", "--cpus-per-slot -1"},
      {"jobs", "--timeout x"},  {"rendezvous", "--port"}, {"explain", "--json"}};
  for (const auto& [command, line] : wrong) {
    ExpectFault(fmt::format("{} {}", command, line), Request(command, line).status(),
                ErrorCode::kUsage);
  }
  const auto hints = [](const char* command, const char* line, std::string_view fact) {
    const std::string hint = Request(command, line).status().hint();
    EXPECT_TRUE(NamesFacts(hint, {fact})) << hint;
  };
  hints("replay", "--zzzzzzzzzz a", "hvdray replay --help");
  hints("follow", "--repotr=x id", "--report");
  hints("follow", "", "hvdray follow [OPTION...] ID");
  hints("follow", "c.yaml", "hvdray follow --cluster c.yaml ID");
  hints("jobs", "c.yaml", "hvdray jobs --cluster c.yaml");
  hints("slots", "c.yml --json", "hvdray slots --cluster c.yml");
}

TEST(CommandRequestTest, OnlyRunAndCheckTakeAbbreviations) {
  const Status status = Request("follow", "--output o id").status();
  ExpectFault("follow --output o id", status, ErrorCode::kUsage);
  EXPECT_TRUE(NamesFacts(status.hint(), {"--output-filename"})) << status.hint();
}

TEST(CommandRequestTest, OptionsOfRayComeFromTheEnvironmentToo) {
  const Environment environment = Env({{"HVDRAY_RAY_ADDRESS", "http://h:1"},
                                       {"HVDRAY_CPUS_PER_SLOT", "2"},
                                       {"HVDRAY_LABEL_SELECTOR", "zone=in(a,b),gpu=yes"},
                                       {"HVDRAY_TIMEOUT", "5"},
                                       {"HVDRAY_NUM_PROC", "no number"}});
  const auto slots = Request("slots", "--cpus-per-slot 4", environment);
  ASSERT_TRUE(slots.ok()) << slots.status().ToString();
  const RaySpec& ray = slots->spec.ray;
  EXPECT_EQ(ray.address.origin(), "env HVDRAY_RAY_ADDRESS");
  EXPECT_FALSE(*ray.is_wanted);
  EXPECT_EQ(*ray.cpus_per_slot, 4);
  EXPECT_EQ(*ray.label_selectors, (std::vector<std::string>{"zone=in(a,b)", "gpu=yes"}));
  EXPECT_TRUE(slots->spec.timeout.is_default()) << "that of run, with another meaning";
}

TEST(CommandRequestTest, DevelopersVariablesAreReadWhereTheyCount) {
  const auto request = [](const char* command, const char* line, const char* name,
                          const char* value) {
    return Request(command, line, Env({{name, value}}));
  };
  for (const char* command : {"up", "down"}) {
    EXPECT_EQ(*request(command, "c.yaml", "HVDRAY_AGENT_PATH", "/a")->spec.agent_path, "/a");
    EXPECT_TRUE(*request(command, "c.yaml", "HVDRAY_FORCE_REMOTE", "1")->spec.is_remote_forced);
    EXPECT_FALSE(request(command, "c.yaml", "HVDRAY_SSH_CONNECTIONS", "0").ok()) << command;
  }
  EXPECT_FALSE(request("rendezvous", "", "HVDRAY_KV_HOLD", "x").ok());
  EXPECT_TRUE(request("explain", "201", "HVDRAY_KV_HOLD", "x").ok());
  EXPECT_TRUE(request("get-head-ip", "c.yaml", "HVDRAY_SSH_CONNECTIONS", "0").ok());
  EXPECT_TRUE(request("up", "c.yaml", "HVDRAY_KV_HOLD", "x").ok());
}

}  // namespace
}  // namespace hvdray
