// SPDX-License-Identifier: Apache-2.0
// Help, man pages and completion: made from the table, and the files in the tree are up to date;
// docs/cli.md knows every command.
#include "launcher/job/help.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "launcher/job/option_table.h"
#include "tests/unit/report/doc_tables.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

/// Tests run in the source directory.
std::string FileText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

constexpr const char* kHowToUpdate = "update with: hvdray-gen-cli . (in the source directory)";

TEST(HelpTest, FilesInTheTreeAreUpToDate) {
  EXPECT_EQ(FileText("tests/golden/help/hvdray.txt"), OverviewHelp()) << kHowToUpdate;
  const std::string release = NewestRelease(FileText("CHANGELOG.md"));
  EXPECT_EQ(FileText("docs/man/hvdray.1"), OverviewManPage(release)) << kHowToUpdate;
  EXPECT_EQ(FileText("docs/completions/hvdray.bash"), BashCompletion()) << kHowToUpdate;
  EXPECT_EQ(FileText("docs/completions/_hvdray"), ZshCompletion()) << kHowToUpdate;
  EXPECT_EQ(FileText("docs/completions/hvdray.fish"), FishCompletion()) << kHowToUpdate;
  for (const CommandRow& command : CommandTable()) {
    if (command.arguments.empty()) continue;
    const std::string name(command.name);
    EXPECT_EQ(FileText("docs/man/hvdray-" + name + ".1"), ManPage(command, release))
        << kHowToUpdate;
    EXPECT_EQ(FileText("tests/golden/help/" + name + ".txt"), Help(command)) << kHowToUpdate;
  }
}

TEST(HelpTest, ThePagesNameTheNewestRelease) {
  const char* changelog =
      "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.2.0] - 2026-02-03\n## [1.1.0] - "
      "2026-01-02\n";
  EXPECT_EQ(NewestRelease(changelog), "2026-02-03 \"hvdray 1.2.0\"");
  EXPECT_EQ(NewestRelease("# Changelog\n\n## [Unreleased]"), "");
}

TEST(HelpTest, ShowsEveryVisibleSpellingEverywhereAndNoHiddenOne) {
  const std::string help = Help(CommandNamed("run"));
  const std::string completion = BashCompletion();
  for (const Spelling& spelling : AllSpellings()) {
    const std::string text(spelling.text);
    const auto stands_in = [&text](const std::string& where, const std::string& after) {
      for (const char end : after) {
        if (where.find(text + end) != std::string::npos) return true;
      }
      return false;
    };
    EXPECT_EQ(stands_in(help, " ,[\n"), !spelling.is_hidden) << text;
    EXPECT_EQ(stands_in(completion, " '|)"), !spelling.is_hidden) << text;
  }
}

TEST(HelpTest, EveryOptionOfACommandIsShownEverywhere) {
  const std::string completion = BashCompletion();
  for (const CommandRow& command : CommandTable()) {
    if (command.options.empty()) continue;
    const std::string name(command.name);
    const size_t in_completion = completion.find("    " + name + ") words='");
    ASSERT_NE(in_completion, std::string::npos) << name;
    for (const OptionRow& row : OptionsOf(command)) {
      const std::string text(Spellings(row).front().text);
      EXPECT_NE(Help(command).find("  " + text), std::string::npos) << name << text;
      EXPECT_NE(completion.find(text, in_completion), std::string::npos) << name << text;
    }
  }
}

TEST(HelpTest, ThePageHasEachCommandWithItsFirstExampleAndSummary) {
  const std::vector<DocRow> rows = DocRows("docs/cli.md", "Commands");
  size_t number = 0;
  for (const CommandRow& command : CommandTable()) {
    if (command.arguments.empty()) continue;
    ASSERT_LT(number, rows.size()) << command.name;
    const DocRow& row = rows[number++];
    ASSERT_EQ(row.size(), 3u) << command.name;
    EXPECT_EQ(row[0], "`" + std::string(command.examples.front().command) + "`");
    EXPECT_EQ(row[1], command.summary);
  }
  EXPECT_EQ(number, rows.size());
}

TEST(HelpTest, ATunableSaysWhatItSetsAndItsKeyInHorovodsFile) {
  const std::string help = Help(CommandNamed("run"), 200);
  EXPECT_NE(help.find("Sets HOROVOD_CYCLE_TIME; in --config-file: params.cycle_time_ms."),
            std::string::npos);
  EXPECT_NE(help.find("Sets NCCL_IB_DISABLE.\n"), std::string::npos);
}

TEST(HelpTest, WhatIsOfOtherCommandsIsNotShownWithRun) {
  for (const char* option : {"--json", "--import", "--stop", "--port", "--allow"}) {
    EXPECT_EQ(Help(CommandNamed("run")).find(std::string("  ") + option + "\n"), std::string::npos);
  }
}

TEST(HelpTest, KeepsToTheWidthAsked) {
  for (const size_t width : {60u, 80u, 120u}) {
    std::istringstream lines(Help(CommandNamed("run"), width) + Help(CommandNamed("check"), width));
    bool is_in_examples = false;
    for (std::string line; std::getline(lines, line);) {
      if (line == "Examples:") is_in_examples = true;
      if (line.empty()) is_in_examples = false;
      const bool is_spelling = line.starts_with("  -");
      if (is_in_examples || is_spelling) continue;
      EXPECT_LE(line.size(), width) << line;
    }
  }
}

TEST(HelpTest, ShowsExamplesThatResolve) {
  SpecWorld world;
  world.files["job.yaml"] = "np: 2\ncommand: [true]\n";
  world.clusters["configs/quickstart.yaml"] = {{{"localhost", 4}}, std::nullopt};
  std::istringstream lines(Help(CommandNamed("run")));
  int examples = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string prefix = "  hvdray run ";
    if (!line.starts_with(prefix)) continue;
    ++examples;
    std::string words = line.substr(prefix.size());
    if (words.find("--cluster") != std::string::npos) words += " ./train";
    EXPECT_TRUE(world.Resolve(words).ok()) << line << world.ToStatus(words).ToString();
  }
  EXPECT_GE(examples, 5);
}

TEST(HelpTest, TheTableIsFitForRoff) {
  for (const OptionRow& row : OptionTable()) {
    EXPECT_FALSE(row.help.empty()) << row.name;
    EXPECT_EQ(row.help.find_first_of("`\\\n"), std::string_view::npos) << row.name;
  }
  std::istringstream lines(ManPage(CommandNamed("run"), ""));
  for (std::string line; std::getline(lines, line);) {
    const bool is_request = line.starts_with(".TH ") || line.starts_with(".SH ") ||
                            line.starts_with(".SS ") || line.starts_with(".TP") ||
                            line.starts_with(".B ") || line.starts_with(".I ") ||
                            line.starts_with(".\\\"");
    EXPECT_TRUE(is_request || !line.starts_with('.')) << line;
    EXPECT_FALSE(line.starts_with('\'')) << line;
  }
}

}  // namespace
}  // namespace hvdray
