// SPDX-License-Identifier: Apache-2.0
#include "base/gitignore.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace hvdray {
namespace {

bool IsIgnored(std::string_view text, std::string_view path, bool is_directory = false) {
  return GitignoreFile(text).Match(path, is_directory) == IgnoreVerdict::kIgnored;
}

TEST(GitignoreTest, NothingSpeaksOfAPathThatNoPatternMatches) {
  EXPECT_EQ(GitignoreFile().Match("a", false), IgnoreVerdict::kNone);
  EXPECT_EQ(GitignoreFile("# a\n\n   \n!\n/\n").Match("a", true), IgnoreVerdict::kNone);
  EXPECT_TRUE(GitignoreFile("# a\n\n").is_empty());
}

TEST(GitignoreTest, NameWithoutSlashMatchesAtAnyDepth) {
  EXPECT_TRUE(IsIgnored("core", "core"));
  EXPECT_TRUE(IsIgnored("core", "a/b/core"));
  EXPECT_FALSE(IsIgnored("core", "score"));
  EXPECT_FALSE(IsIgnored("core", "core/x")) << "the walk does not enter what is ignored";
}

TEST(GitignoreTest, SlashAnchorsToTheDirectoryOfTheFile) {
  EXPECT_TRUE(IsIgnored("/core", "core"));
  EXPECT_FALSE(IsIgnored("/core", "a/core"));
  EXPECT_TRUE(IsIgnored("a/core", "a/core"));
  EXPECT_FALSE(IsIgnored("a/core", "b/a/core"));
}

TEST(GitignoreTest, SlashAtTheEndMeansDirectoriesOnlyAndDoesNotAnchor) {
  EXPECT_TRUE(IsIgnored("build/", "build", true));
  EXPECT_TRUE(IsIgnored("build/", "a/build", true));
  EXPECT_FALSE(IsIgnored("build/", "build", false));
  EXPECT_FALSE(IsIgnored("/build/", "a/build", true));
}

TEST(GitignoreTest, LastPatternThatMatchesDecides) {
  const GitignoreFile file("*.log\n!keep.log\nkeep.log/\n");
  EXPECT_EQ(file.Match("x.log", false), IgnoreVerdict::kIgnored);
  EXPECT_EQ(file.Match("keep.log", false), IgnoreVerdict::kKept);
  EXPECT_EQ(file.Match("keep.log", true), IgnoreVerdict::kIgnored);
}

TEST(GitignoreTest, StarAndQuestionMarkStopAtSlashes) {
  EXPECT_TRUE(IsIgnored("a/*", "a/b"));
  EXPECT_FALSE(IsIgnored("a/*", "a/b/c"));
  EXPECT_TRUE(IsIgnored("a/*/c", "a/b/c"));
  EXPECT_FALSE(IsIgnored("a/*/c", "a/c"));
  EXPECT_FALSE(IsIgnored("a?b", "a/b"));
  EXPECT_TRUE(IsIgnored("a?b", "axb"));
  EXPECT_TRUE(IsIgnored("*.py[cod]", "pkg/m.pyc"));
  EXPECT_TRUE(IsIgnored("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(IsIgnored("a*b*c", "aXbYbZ"));
}

TEST(GitignoreTest, TwoStarsCrossDirectoriesWhereTheyStandAlone) {
  EXPECT_TRUE(IsIgnored("**/foo", "foo"));
  EXPECT_TRUE(IsIgnored("**/foo", "a/b/foo"));
  EXPECT_FALSE(IsIgnored("**/foo", "afoo"));
  EXPECT_FALSE(IsIgnored("**/foo", "a/bfoo"));
  EXPECT_TRUE(IsIgnored("**/a/b", "x/a/b"));
  EXPECT_TRUE(IsIgnored("a/**", "a/b"));
  EXPECT_TRUE(IsIgnored("a/**", "a/b/c"));
  EXPECT_FALSE(IsIgnored("a/**", "a", true));
  EXPECT_TRUE(IsIgnored("a/**/b", "a/b"));
  EXPECT_TRUE(IsIgnored("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(IsIgnored("a/**/b", "ab"));
  EXPECT_FALSE(IsIgnored("a/**/b", "a/xb"));
  EXPECT_FALSE(IsIgnored("a**/b", "a/x/b")) << "within a name two stars are one";
  EXPECT_TRUE(IsIgnored("a**/b", "ax/b"));
  EXPECT_TRUE(IsIgnored("**", "a"));
  EXPECT_TRUE(IsIgnored("**/", "a/b", true));
  EXPECT_TRUE(IsIgnored("a/**/**/b", "a/b"));
}

TEST(GitignoreTest, SetsHoldRangesClassesAndNegations) {
  EXPECT_TRUE(IsIgnored("[a-c]x", "bx"));
  EXPECT_FALSE(IsIgnored("[a-c]x", "dx"));
  EXPECT_TRUE(IsIgnored("[!a-c]x", "dx"));
  EXPECT_TRUE(IsIgnored("[^a-c]x", "dx"));
  EXPECT_TRUE(IsIgnored("[]-]x", "]x"));
  EXPECT_TRUE(IsIgnored("[]-]x", "-x"));
  EXPECT_TRUE(IsIgnored("[\\]]x", "]x"));
  EXPECT_TRUE(IsIgnored("[[:digit:]_]x", "7x"));
  EXPECT_TRUE(IsIgnored("[[:digit:]_]x", "_x"));
  EXPECT_FALSE(IsIgnored("[[:digit:]_]x", "ax"));
  EXPECT_FALSE(IsIgnored("/a[!x]b", "a/b")) << "no set matches a slash";
}

TEST(GitignoreTest, WhatIsNoPatternMatchesNothing) {
  for (const char* text : {"[", "[a", "[!", "a\\", "[[:nope:]]", "[[:alpha:", "[a-", "[\\"}) {
    for (const char* path : {"[", "[a", "a", "a\\", "[[:nope:]]", "n", "!"}) {
      EXPECT_EQ(GitignoreFile(text).Match(path, false), IgnoreVerdict::kNone) << text << path;
    }
  }
}

TEST(GitignoreTest, BackslashTakesTheMeaningAway) {
  EXPECT_TRUE(IsIgnored("\\#a", "#a"));
  EXPECT_TRUE(IsIgnored("\\!a", "!a"));
  EXPECT_TRUE(IsIgnored("a\\*", "a*"));
  EXPECT_FALSE(IsIgnored("a\\*", "ab"));
  EXPECT_TRUE(IsIgnored("a\\ ", "a ")) << "a space that is meant";
  EXPECT_TRUE(IsIgnored("a  ", "a")) << "and some that are not";
  EXPECT_TRUE(IsIgnored("a b", "a b"));
}

TEST(GitignoreTest, LinesEndAsOnAnySystem) {
  EXPECT_TRUE(IsIgnored("a\r\nb\r\n", "a"));
  EXPECT_TRUE(IsIgnored("a\nb", "b")) << "the last one has no end";
  EXPECT_TRUE(
      IsIgnored("\xef\xbb\xbf"
                "a\n",
                "a"))
      << "a byte order mark";
}

TEST(GitignoreTest, AnyBytesMayStandInPathsAndPatterns) {
  EXPECT_TRUE(IsIgnored("\xff*", "\xff\xfe"));
  EXPECT_TRUE(IsIgnored("[\xe0-\xff]", "\xf0"));
  EXPECT_TRUE(IsIgnored("?", "\xf0"));
}

TEST(GitignoreTest, ManyStarsTakeNoTimeToSpeakOf) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  pattern += "[b]";
  const std::string path(4000, 'a');
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(IsIgnored(pattern, path));
  EXPECT_TRUE(IsIgnored(pattern, path + "b"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

}  // namespace
}  // namespace hvdray
