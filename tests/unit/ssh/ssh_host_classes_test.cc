// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cluster/ssh/ssh_config.h"

namespace hvdray {
namespace {

using Files = std::vector<std::string>;

SshHostClasses Of(std::string_view text) {
  SshHostClasses classes;
  classes.AddFile(text);
  return classes;
}

bool AreAlike(std::string_view text, const SshTarget& a, const SshTarget& b) {
  const SshHostClasses classes = Of(text);
  const std::optional<std::string> first = classes.ClassOf(a);
  return first && first == classes.ClassOf(b);
}

TEST(SshHostClassesTest, WithoutHostPatternsAllAreAlike) {
  EXPECT_TRUE(AreAlike("", {.host = "a"}, {.host = "b"}));
  EXPECT_TRUE(AreAlike("# x\n\nHost *\n  User eva\r\nMatch all\n Port 5", {.host = "a"},
                       {.host = "10.0.0.1"}));
}

TEST(SshHostClassesTest, EachPatternMakesItsOwnDifference) {
  constexpr std::string_view kText = "Host n* !n7\n Port 5\nhost=a b\n";
  EXPECT_TRUE(AreAlike(kText, {.host = "n1"}, {.host = "n2"}));
  EXPECT_FALSE(AreAlike(kText, {.host = "n1"}, {.host = "n7"}));
  EXPECT_FALSE(AreAlike(kText, {.host = "n1"}, {.host = "x"}));
  EXPECT_FALSE(AreAlike(kText, {.host = "a"}, {.host = "b"})) << "finer than need be";
}

TEST(SshHostClassesTest, UserAndPortCount) {
  EXPECT_FALSE(AreAlike("", {.host = "a", .user = "x"}, {.host = "b"}));
  EXPECT_FALSE(AreAlike("", {.host = "a", .port = 5}, {.host = "b"}));
  EXPECT_TRUE(AreAlike("", {"a", "x", 5}, {"b", "x", 5}));
}

TEST(SshHostClassesTest, AHostThatIsTheHostNameOfOthersIsByItself) {
  EXPECT_FALSE(AreAlike("HostName A\n", {.host = "a"}, {.host = "b"}));
  EXPECT_TRUE(AreAlike("HostName A\n", {.host = "b"}, {.host = "c"}));
}

TEST(SshHostClassesTest, WhatIsNotFollowedLeavesNoClasses) {
  for (const char* text :
       {"Match host a\n", "Match exec x\n", "Match\n", "HostName %h.example\n", "User %n\n",
        "IdentityFile ~/%\n", "Include ~/%h\n", "CanonicalizeHostname no\n", "canonicaldomains x\n",
        "Host \"a\"\n", "\"Host\" a\n", "Host a\\b\n", "HostName 'a'\n", "Host %h\n", "\fHost a\n",
        "Port 5\vHost a\n", "\xef\xbb\xbfHost a\n", "Host ==a\n", "IdentityFile ~/%%h\n"}) {
    EXPECT_EQ(Of(text).ClassOf({.host = "a"}), std::nullopt) << text;
  }
  SshHostClasses both = Of("Match host a\n");
  both.AddFile("Host *\n");
  EXPECT_EQ(both.ClassOf({.host = "a"}), std::nullopt) << "the next file mends nothing";
}

TEST(SshHostClassesTest, TokensWhereTheyDontCountDoNoHarm) {
  EXPECT_TRUE(AreAlike("ControlPath ~/%C\nProxyCommand nc %h %p\nIdentityFile %d/%u\n",
                       {.host = "a"}, {.host = "b"}));
}

TEST(SshHostClassesTest, NamesThatSshChangesAreAskedForByThemselves) {
  for (const char* host : {"A", "::1", "a%b", "", "-a", "a b", "\xc3\xa4"}) {
    EXPECT_EQ(Of("").ClassOf({.host = host}), std::nullopt) << host;
  }
}

TEST(SshHostClassesTest, AnswersTakeTheOthersName) {
  const auto lines =
      LinesForOther(ParseSshG("host a\nhostname a\nuser a\nproxyjump none\n"), "a", "b");
  ASSERT_TRUE(lines);
  EXPECT_EQ(*lines, ParseSshG("host b\nhostname b\nuser a\nproxyjump none\n"));
  const auto named = LinesForOther(ParseSshG("host a\nhostname x.y\n"), "a", "b");
  EXPECT_EQ(named, ParseSshG("host b\nhostname x.y\n"));
  EXPECT_FALSE(LinesForOther(ParseSshG("host a\nproxyjump b\n"), "a", "b"));
  EXPECT_FALSE(LinesForOther(ParseSshG("host a\nproxycommand nc %h\n"), "a", "b"));
}

TEST(SshHostClassesTest, FilesThatWereReadAreTakenFromSshsWords) {
  const std::string before = "debug1: Reading configuration data ";
  EXPECT_EQ(FilesReadBySsh("OpenSSH\r\n" + before + "/a b\r\ndebug1: x\r\n" + before + "/c"),
            (Files{"/a b", "/c"}));
  EXPECT_EQ(FilesReadBySsh("debug1: x\n"), std::nullopt);
  EXPECT_EQ(FilesReadBySsh(before + "/a\n" + before + "/\\303\n"), std::nullopt);
  EXPECT_EQ(FilesReadBySsh(before + std::string(200, 'x')), std::nullopt);
}

}  // namespace
}  // namespace hvdray
