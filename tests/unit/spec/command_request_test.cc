// SPDX-License-Identifier: Apache-2.0
// The words of the commands that start no job.
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
  EXPECT_TRUE(Request("follow", "--stop -h")->wants_help);
  EXPECT_TRUE(Request("replay", "-v")->wants_version);
}

TEST(CommandRequestTest, WhatIsWrongIsUsage) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"replay", ""},           {"replay", "--json"},        {"replay", "a b"},
      {"replay", "--nosuch a"}, {"replay", "-np 2"},         {"replay", "--json=1 a"},
      {"follow", ""},           {"follow", "id --json"},     {"status", "extra"},
      {"status", "-v"},         {"slots", "--cpus x"},       {"slots", "--cpus-per-slot -1"},
      {"jobs", "--timeout x"},  {"rendezvous", "--kv-hold"}, {"explain", "--json"}};
  for (const auto& [command, line] : wrong) {
    EXPECT_EQ(Request(command, line).status().code(), ErrorCode::kUsage) << command << line;
  }
  EXPECT_EQ(Request("replay", "--zzzzzzzzzz a").status().hint(), "see hvdray replay --help");
  EXPECT_EQ(Request("follow", "--repotr=x id").status().hint(), "did you mean --report?");
  EXPECT_EQ(Request("follow", "").status().hint(), "hvdray follow [OPTION...] ID");
}

TEST(CommandRequestTest, OnlyRunAndCheckTakeAbbreviations) {
  EXPECT_EQ(Request("follow", "--output o id").status().hint(),
            "write it in full: --output-filename");
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

}  // namespace
}  // namespace hvdray
