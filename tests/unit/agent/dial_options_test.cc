// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "agent/dialled_agent.h"

namespace hvdray {
namespace {

Result<DialOptions> Parse(std::vector<std::string_view> words) { return ParseDialOptions(words); }

TEST(DialOptionsTest, AllOfThemAreTaken) {
  const auto options = Parse({"--dial", "10.0.0.5:4711,[fd00::5]:4711", "--endpoint=3", "--gpus",
                              "0,GPU-8932f937/1/0", "--path-end", "/ray/bin", "--raylet", "4242",
                              "--keep-ray-env", "--probe-listener", "--dial-timeout", "5"});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->addresses.size(), 2u);
  EXPECT_EQ(options->endpoint, 3);
  EXPECT_EQ(options->gpus, (std::vector<std::string>{"0", "GPU-8932f937/1/0"}));
  EXPECT_EQ(options->path_end, "/ray/bin");
  EXPECT_EQ(options->raylet, 4242);
  EXPECT_TRUE(options->keeps_ray_environment);
  EXPECT_TRUE(options->has_probe_listener);
  EXPECT_EQ(options->limit, std::chrono::seconds(5));
}

TEST(DialOptionsTest, WhatIsNotSaidIsNotAskedFor) {
  const auto options = Parse({"--dial=10.0.0.5:1", "--endpoint=0", "--gpus="});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->gpus.empty());
  EXPECT_EQ(options->raylet, 0);
  EXPECT_FALSE(options->keeps_ray_environment);
  EXPECT_FALSE(options->has_probe_listener);
  EXPECT_EQ(options->limit, std::chrono::seconds(60));
}

TEST(DialOptionsTest, MistakesAreUsageErrorsThatNameTheWord) {
  const std::vector<std::pair<std::vector<std::string_view>, std::string>> mistakes = {
      {{"--dial", "10.0.0.5:1"}, "--endpoint"},
      {{"--endpoint", "1"}, "--dial"},
      {{"--dial", "10.0.0.5:1", "--endpoint"}, "--endpoint needs a value"},
      {{"--dial", "head:1", "--endpoint", "1"}, "'head:1'"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "-1"}, "'-1'"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--raylet", "1"}, "--raylet"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--gpus", "0,,1"}, "--gpus"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--gpus", "0 1"}, "'0 1'"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--dial-timeout", "0"}, "--dial-timeout"},
      {{"--dial", "10.0.0.5:1", "--endpoint", "1", "--sea", "1"}, "'--sea'"},
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
