// SPDX-License-Identifier: Apache-2.0
// The words of `hvdray replay`.
#include "launcher/job/replay_options.h"

#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

Status StatusOf(const std::string& line) {
  const auto request = ResolveReplay(Words(line));
  return request.ok() ? Status() : request.status();
}

TEST(ReplayOptionsTest, OptionsStandBeforeTheFileAndBehindIt) {
  for (const char* line :
       {"--json -q job.record", "job.record -q --json", "-q job.record --json"}) {
    const auto request = ResolveReplay(Words(line));
    ASSERT_TRUE(request.ok()) << line;
    EXPECT_EQ(request->path, "job.record");
    EXPECT_TRUE(request->is_json && request->is_quiet) << line;
  }
  const auto plain = ResolveReplay(Words("job.record"));
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->is_json || plain->is_quiet || plain->wants_help);
}

TEST(ReplayOptionsTest, AFileMayBeginWithADash) {
  EXPECT_EQ(ResolveReplay(Words("-- --json")).value().path, "--json");
}

TEST(ReplayOptionsTest, HelpAndVersionNeedNoFile) {
  EXPECT_TRUE(ResolveReplay(Words("--help")).value().wants_help);
  EXPECT_TRUE(ResolveReplay(Words("job.record -h")).value().wants_help);
  EXPECT_TRUE(ResolveReplay(Words("-v")).value().wants_version);
}

TEST(ReplayOptionsTest, WhatIsWrongIsUsage) {
  for (const char* line : {"", "--json", "a b", "--nosuch a", "-np 2", "--json=1 a"}) {
    EXPECT_EQ(StatusOf(line).code(), ErrorCode::kUsage) << line;
  }
  EXPECT_EQ(StatusOf("--zzzzzzzzzz a").hint(), "see hvdray replay --help");
}

TEST(ReplayOptionsTest, EveryOptionIsShownEverywhere) {
  for (const OptionRow& row : ReplayOptionTable()) {
    const std::string text(SpellingsOf(row).front().text);
    EXPECT_NE(ReplayHelp().find("  " + text), std::string::npos) << text;
    EXPECT_NE(ReplayMarkdown().find("`" + text + "`"), std::string::npos) << text;
    EXPECT_NE(ReplayWords().find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hvdray
