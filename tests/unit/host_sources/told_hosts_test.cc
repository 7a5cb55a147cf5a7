// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/engine/host_source.h"
#include "tests/fakes/loop_runner.h"
#include "tests/unit/host_sources/source_log.h"

namespace hvdray {
namespace {

class ToldHostsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Loop> loop_ = std::move(*Loop::Create());
  SourceLog log_;
  ToldHosts source_{*loop_};
};

TEST_F(ToldHostsTest, TheLastListBeforeTheStartIsTheFirstOne) {
  EXPECT_TRUE(source_.Tell({{"a", 1}}, false));
  EXPECT_TRUE(source_.Tell({{"b", 2}, {"a", 1}}, false));
  ASSERT_TRUE(source_.Start(log_.handlers()).ok());
  EXPECT_TRUE(log_.lists.empty());
  Settle(*loop_);
  EXPECT_EQ(log_.lists, std::vector<std::string>{"b:2 a:1"});
  EXPECT_FALSE(log_.is_final);
}

TEST_F(ToldHostsTest, OnlyNewsAreReported) {
  ASSERT_TRUE(source_.Start(log_.handlers()).ok());
  Settle(*loop_);
  EXPECT_TRUE(log_.lists.empty());
  for (const int slots : {1, 1, 2}) {
    EXPECT_TRUE(source_.Tell({{"a", slots}}, false));
    Settle(*loop_);
  }
  EXPECT_TRUE(source_.Tell({}, false));
  Settle(*loop_);
  EXPECT_EQ(log_.lists, (std::vector<std::string>{"a:1", "a:2", ""}));
}

TEST_F(ToldHostsTest, WhatIsToldAfterTheStartIsReportedAtOnceAndOnce) {
  EXPECT_TRUE(source_.Tell({{"a", 1}}, false));
  ASSERT_TRUE(source_.Start(log_.handlers()).ok());
  EXPECT_TRUE(source_.Tell({{"b", 1}}, false));
  EXPECT_EQ(log_.lists, std::vector<std::string>{"b:1"});
  Settle(*loop_);
  EXPECT_EQ(log_.lists.size(), 1U);
}

TEST_F(ToldHostsTest, NothingFollowsTheFinalList) {
  ASSERT_TRUE(source_.Start(log_.handlers()).ok());
  EXPECT_TRUE(source_.Tell({{"a", 1}}, false));
  Settle(*loop_);
  EXPECT_TRUE(source_.Tell({{"a", 1}}, true));
  Settle(*loop_);
  EXPECT_FALSE(source_.Tell({{"b", 1}}, false));
  Settle(*loop_);
  EXPECT_EQ(log_.lists, (std::vector<std::string>{"a:1", "a:1"}));
  EXPECT_TRUE(log_.is_final);
}

TEST_F(ToldHostsTest, StoppedItSaysNothing) {
  source_.Tell({{"a", 1}}, false);
  ASSERT_TRUE(source_.Start(log_.handlers()).ok());
  source_.Stop();
  source_.Tell({{"b", 1}}, false);
  Settle(*loop_);
  EXPECT_TRUE(log_.lists.empty());
}

}  // namespace
}  // namespace hvdray
