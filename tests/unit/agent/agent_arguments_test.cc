// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_arguments.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

Result<AgentArguments> Parse(std::vector<std::string_view> words) {
  return ParseAgentArguments(words);
}

TEST(AgentArgumentsTest, AnAgentOfALauncher) {
  const auto plain = Parse({});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->task, AgentTask::kServe);
  EXPECT_EQ(plain->directory, "");
  EXPECT_FALSE(plain->has_probe_listener);
  const auto copied = Parse({"--folder", "/tmp/x", "--probe-listener"});
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  EXPECT_EQ(copied->task, AgentTask::kServe);
  EXPECT_EQ(copied->directory, "/tmp/x");
  EXPECT_TRUE(copied->has_probe_listener);
  EXPECT_FALSE(copied->keeps_processes);
  EXPECT_TRUE(Parse({"--keep-processes"})->keeps_processes);
}

TEST(AgentArgumentsTest, HelpVersionAndLeaveEndTheLine) {
  EXPECT_EQ(Parse({"--help"})->task, AgentTask::kHelp);
  EXPECT_EQ(Parse({"-h", "--what"})->task, AgentTask::kHelp);
  EXPECT_EQ(Parse({"--version"})->task, AgentTask::kVersion);
  EXPECT_EQ(Parse({"--leave"})->leave_in, "");
  const auto leave = Parse({"--leave", "45"});
  EXPECT_EQ(leave->task, AgentTask::kLeave);
  EXPECT_EQ(leave->leave_in, "45");
}

TEST(AgentArgumentsTest, AllOptionsOfADialAreTaken) {
  const auto arguments =
      Parse({"--dial", "10.0.0.5:4711,[fd00::5]:4711", "--endpoint=3", "--gpus",
             "0,GPU-8932f937/1/0", "--python", "/ray/bin/python", "--raylet", "4242",
             "--keep-ray-env", "--probe-listener", "--dial-timeout", "5"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().ToString();
  EXPECT_EQ(arguments->task, AgentTask::kDial);
  const DialOptions* const options = &arguments->dial;
  EXPECT_EQ(options->addresses.size(), 2u);
  EXPECT_EQ(options->endpoint, 3);
  EXPECT_EQ(options->gpus, (std::vector<std::string>{"0", "GPU-8932f937/1/0"}));
  EXPECT_EQ(options->python, "/ray/bin/python");
  EXPECT_EQ(options->raylet, 4242);
  EXPECT_TRUE(options->keeps_ray_environment);
  EXPECT_TRUE(options->has_probe_listener);
  EXPECT_EQ(options->limit, std::chrono::seconds(5));
}

TEST(AgentArgumentsTest, WhatIsNotSaidIsNotAskedFor) {
  const auto arguments = Parse({"--dial=10.0.0.5:1", "--endpoint=0", "--gpus="});
  ASSERT_TRUE(arguments.ok());
  const DialOptions* const options = &arguments->dial;
  EXPECT_TRUE(options->gpus.empty());
  EXPECT_EQ(options->raylet, 0);
  EXPECT_FALSE(options->keeps_ray_environment);
  EXPECT_FALSE(options->has_probe_listener);
  EXPECT_EQ(options->limit, std::chrono::seconds(60));
}

TEST(AgentArgumentsTest, MistakesAreUsageErrorsThatNameTheWord) {
  const std::vector<std::pair<std::vector<std::string_view>, std::string>> mistakes = {
      {{"--dial", "10.0.0.5:1"}, "--endpoint"},
      {{"--endpoint", "1"}, "'--endpoint'"},
      {{"--dial", "10.0.0.5:1", "--endpoint"}, "--endpoint needs a value"},
      {{"--dial", "head:1", "--endpoint", "1"}, "'head:1'"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "-1"}, "'-1'"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--raylet", "1"}, "--raylet"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--gpus", "0,,1"}, "--gpus"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--gpus", "0 1"}, "'0 1'"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--dial-timeout", "0"}, "--dial-timeout"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--end", "1"}, "'--end'"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--keep-ray-env=1"}, "'--keep-ray-env=1'"},
      {{"--raylet", "42"}, "'--raylet'"},
      {{"--folder"}, "--folder needs a value"},
      {{"--np", "4"}, "'--np'"},
      {{"train.py"}, "'train.py'"},
  };
  for (const auto& [words, name] : mistakes) {
    const auto options = Parse(words);
    ASSERT_FALSE(options.ok()) << name;
    EXPECT_EQ(options.status().code(), ErrorCode::kUsage);
    EXPECT_NE(options.status().message().find(name), std::string::npos)
        << options.status().message();
  }
}

}  // namespace
}  // namespace hvdray
