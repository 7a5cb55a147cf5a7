// SPDX-License-Identifier: Apache-2.0
// Random command lines, environments and files: an answer or one line of error, always.
#include <gtest/gtest.h>

#include <random>

#include "launcher/job/argv.h"
#include "launcher/job/option_table.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

constexpr unsigned kSeed = 20240501;

class Chooser {
 public:
  explicit Chooser(unsigned seed) : random_(seed) {}
  size_t Below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }
  bool OneIn(size_t n) { return Below(n) == 0; }

  std::string Word() {
    static const std::vector<std::string> kWords = {"-",    "--",       "",     "=",      "-1",
                                                    "a:2",  "4",        "0.5",  "2m",     "none",
                                                    "x=1",  "-x y",     "-q",   "---",    "-=1",
                                                    "--=",  "json",     "true", "~a",     "é",
                                                    "\x01", "job.yaml", ",",    "a:1,b:2"};
    if (OneIn(3)) return kWords[Below(kWords.size())];
    const Spelling& spelling = AllSpellings()[Below(AllSpellings().size())];
    std::string word(spelling.text.substr(0, 1 + Below(spelling.text.size())));
    if (OneIn(3)) word += "=" + kWords[Below(kWords.size())];
    if (OneIn(10)) word += kWords[Below(kWords.size())];
    return word;
  }

  std::vector<std::string> Line() {
    std::vector<std::string> words;
    if (!OneIn(4)) words = {"-np", "2"};
    for (size_t i = Below(8); i > 0; --i) words.push_back(Word());
    if (!OneIn(4)) words.push_back("./train");
    return words;
  }

 private:
  std::mt19937 random_;
};

void ExpectOneLine(const Status& status) {
  EXPECT_FALSE(status.message().empty());
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  EXPECT_EQ(status.hint().find('\n'), std::string::npos) << status.hint();
  EXPECT_NE(status.code(), ErrorCode::kInternal);
}

TEST(ResolverPropertyTest, AnyWordsGiveASpecOrOneLine) {
  Chooser choose(kSeed);
  SpecWorld world;
  world.files["job.yaml"] = "grace: 1\n";
  int resolved = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<std::string> words = choose.Line();
    const Result<RunRequest> request = world.Resolve(words);
    if (!request.ok()) {
      ExpectOneLine(request.status());
      continue;
    }
    ++resolved;
    if (request->wants_help || request->wants_version || request->wants_check_build) continue;
    EXPECT_GE(*request->spec.np, 1);
    EXPECT_LE(*request->spec.np, 65536);
  }
  EXPECT_GT(resolved, 200) << "seed " << kSeed << ": too few lines resolve to say anything";
}

TEST(ResolverPropertyTest, TheCommandIsNeverReadForOptions) {
  Chooser choose(kSeed + 1);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> tail = {"./train"};
    for (size_t n = choose.Below(5); n > 0; --n) tail.push_back(choose.Word());
    std::vector<std::string> words = {"-np", "2"};
    if (choose.OneIn(2)) words.push_back("--");
    words.insert(words.end(), tail.begin(), tail.end());
    const Result<ParsedArgv> argv = ParseArgv(words);
    ASSERT_TRUE(argv.ok()) << argv.status().ToString();
    EXPECT_EQ(argv->command, tail);
  }
}

TEST(ResolverPropertyTest, WhatTheParserSpellsOutParsesToTheSame) {
  Chooser choose(kSeed + 2);
  for (int i = 0; i < 4000; ++i) {
    const Result<ParsedArgv> argv = ParseArgv(choose.Line());
    if (!argv.ok()) continue;
    std::vector<std::string> again;
    for (const ParsedOption& option : argv->options) {
      const bool is_pair = option.values.size() == 2;
      again.push_back(option.spelling);
      if (is_pair) again.insert(again.end(), option.values.begin(), option.values.end());
      if (option.values.size() == 1) again.back() += "=" + option.values[0];
    }
    again.push_back("--");
    again.insert(again.end(), argv->command.begin(), argv->command.end());
    const Result<ParsedArgv> second = ParseArgv(again);
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    ASSERT_EQ(second->options.size(), argv->options.size());
    for (size_t k = 0; k < argv->options.size(); ++k) {
      EXPECT_EQ(second->options[k].row, argv->options[k].row);
      EXPECT_EQ(second->options[k].values, argv->options[k].values);
      EXPECT_EQ(second->options[k].is_negation, argv->options[k].is_negation);
    }
  }
}

TEST(ResolverPropertyTest, AnyEnvironmentGivesASpecOrOneLine) {
  Chooser choose(kSeed + 3);
  for (int i = 0; i < 1000; ++i) {
    SpecWorld world;
    for (int n = 0; n < 3; ++n) {
      const OptionKey& key = AllKeys()[choose.Below(AllKeys().size())];
      if (key.row->id == OptionId::kJobFile || key.row->id == OptionId::kCluster) continue;
      world.environment.Set(VariableOfKey(key.text), choose.Word());
    }
    const Result<RunRequest> request = world.Resolve("-np 2 ./t");
    if (!request.ok()) ExpectOneLine(request.status());
  }
}

}  // namespace
}  // namespace hvdray
