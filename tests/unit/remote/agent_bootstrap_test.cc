// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/agent_bootstrap.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(AgentBootstrapTest, TheScriptHoldsNothingThatLoginShellsReadDifferently) {
  const std::string command = BootstrapCommand({"id", "", "", {}});
  // Between the first and the last quote of the script: no quote, backslash, '!' or line's end.
  const size_t begin = command.find('\'') + 1;
  const size_t end = command.find('\'', begin);
  const std::string script = command.substr(begin, end - begin);
  EXPECT_GT(script.size(), 500U);
  EXPECT_EQ(script.find_first_of("\\!\n\r"), std::string::npos);
  EXPECT_TRUE(command.starts_with("exec /bin/sh -c '"));
  EXPECT_TRUE(command.ends_with("hvdray-stage 'id' '' ''")) << command;
}

TEST(AgentBootstrapTest, WordsAreQuoted) {
  EXPECT_EQ(ShellQuoted("a b"), "'a b'");
  EXPECT_EQ(ShellQuoted("it's"), "'it'\"'\"'s'");
  EXPECT_EQ(ShellQuoted(""), "''");
  const std::string command = BootstrapCommand({"id", "/tmp/$(x)", "/opt/a b", {"--one", "t'wo"}});
  EXPECT_TRUE(command.ends_with("'id' '/opt/a b' '/tmp/$(x)' '--one' 't'\"'\"'wo'")) << command;
}

TEST(AgentBootstrapTest, LinesAreTakenApart) {
  const auto line = ParseBootstrapLine("HVDRAY-STAGE/1 Linux aarch64 /home/a b/.cache/hvdray\r");
  ASSERT_EQ(line.kind, BootstrapLine::Kind::kNeedsAgent);
  EXPECT_EQ(line.system, "Linux");
  EXPECT_EQ(line.machine, "aarch64");
  EXPECT_EQ(line.directory, "/home/a b/.cache/hvdray");

  const auto failed = ParseBootstrapLine("HVDRAY-FAILED/1 mkdir /x: No space left on device");
  ASSERT_EQ(failed.kind, BootstrapLine::Kind::kFailed);
  EXPECT_EQ(failed.why, "mkdir /x: No space left on device");

  EXPECT_EQ(ParseBootstrapLine("HVDRAY-AGENT/1 12 ab").kind, BootstrapLine::Kind::kAgentSpeaks);
  EXPECT_EQ(ParseBootstrapLine("$ HVDRAY-AGENT/1 12 ab").kind, BootstrapLine::Kind::kAgentSpeaks)
      << "a prompt without a newline may stand before it";
  for (const char* noise : {"", "Welcome!", "HVDRAY-STAGE/1 Linux", "HVDRAY-STAGE/2 a b c"}) {
    EXPECT_EQ(ParseBootstrapLine(noise).kind, BootstrapLine::Kind::kNoise) << noise;
  }
}

TEST(AgentBootstrapTest, TheAnswerIsOneLine) { EXPECT_EQ(StageAnswer("abc", 12), "abc 12\n"); }

}  // namespace
}  // namespace hvdray
