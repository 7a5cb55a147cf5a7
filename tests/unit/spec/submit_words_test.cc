// SPDX-License-Identifier: Apache-2.0
// The words of `hvdray submit`.
#include <gtest/gtest.h>

#include "launcher/job/options_resolver.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

Status ToStatus(const Words& words) { return ResolveSubmit(words).status(); }

TEST(SubmitWordsTest, OptionsStandBeforeTheScriptAndItsArgumentsAreItsOwn) {
  const auto submit = ResolveSubmit(Words{"-p", "8265", "c.yaml", "--tmux", "t.py", "-p", "--np"});
  ASSERT_TRUE(submit.ok()) << submit.status().ToString();
  EXPECT_EQ(submit->request.arguments, (Words{"c.yaml", "t.py", "-p", "--np"}));
  EXPECT_TRUE(submit->request.Has(OptionId::kTmux));
  EXPECT_EQ(submit->request.said.Find(OptionId::kPortForward)->values, Words{"8265"});
  EXPECT_FALSE(submit->is_gang);
}

TEST(SubmitWordsTest, OneDoubleDashBeforeTheArgumentsIsRays) {
  EXPECT_EQ(ResolveSubmit(Words{"c.yaml", "t.py", "--", "-a", "--", "b"})->request.arguments,
            (Words{"c.yaml", "t.py", "-a", "--", "b"}));
}

TEST(SubmitWordsTest, AGangTakesTheOptionsOfRunAsTheyWereTyped) {
  const auto submit = ResolveSubmit(Words{"-v", "c.yaml", "--gang", "-np", "4", "--min-np=2", "-x",
                                          "A=b c", "--print-plan=json", "-n", "other",
                                          "--working-dir", ".", "t.py", "-np", "9"});
  ASSERT_TRUE(submit.ok()) << submit.status().ToString();
  EXPECT_TRUE(submit->is_gang);
  EXPECT_TRUE(submit->has_working_dir);
  EXPECT_EQ(submit->run_words,
            (Words{"--cluster", "c.yaml", "--backend", "ray", "--verbose", "-np", "4", "--min-np",
                   "2", "-x", "A=b c", "--print-plan=json", "--working-dir", "."}));
  EXPECT_EQ(submit->request.arguments, (Words{"c.yaml", "t.py", "-np", "9"}));
}

TEST(SubmitWordsTest, WhatDoesNotFitIsSaid) {
  EXPECT_EQ(ToStatus({}).message(), "no cluster file given");
  EXPECT_EQ(ToStatus({"c.yaml"}).message(), "no script given");
  EXPECT_EQ(ToStatus({"c.yaml", "-np", "2", "t.py"}).message(), "-np needs --gang");
  EXPECT_EQ(ToStatus({"--gang", "c.yaml", "--tmux", "t.py"}).message(),
            "--tmux is not allowed with --gang");
  EXPECT_EQ(ToStatus({"--gang", "--backend", "ssh", "c.yaml", "t.py"}).code(), ErrorCode::kUsage);
  EXPECT_EQ(ToStatus({"c.yaml", "--no-such", "t.py"}).code(), ErrorCode::kUsage);
  EXPECT_TRUE(ResolveSubmit(Words{"c.yaml", "--help"})->request.wants_help);
}

}  // namespace
}  // namespace hvdray
