// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/engine/host_source.h"

namespace hvdray {
namespace {

using Hosts = std::vector<HostSlots>;

TEST(HostNewsTest, TheFirstListIsNewsAlsoWhenItIsEmpty) {
  HostNews news;
  EXPECT_TRUE(news.IsNews(Hosts{}));
  EXPECT_FALSE(news.IsNews(Hosts{}));
}

TEST(HostNewsTest, OtherHostsSlotsOrAddressesAreNewsAndAnotherOrderIsNot) {
  HostNews news;
  EXPECT_TRUE(news.IsNews(Hosts{{"a", 2}, {"b", 1}}));
  EXPECT_FALSE(news.IsNews(Hosts{{"b", 1}, {"a", 2}}));
  EXPECT_TRUE(news.IsNews(Hosts{{"b", 2}, {"a", 2}}));
  EXPECT_TRUE(news.IsNews(Hosts{{"a", 2}}));
  EXPECT_TRUE(news.IsNews(Hosts{{"a", 2, {.user = "u"}}}));
}

TEST(HostNewsTest, FailureIsNewsOnceAndSoIsTheListBehindIt) {
  HostNews news;
  const Status first(ErrorCode::kSpecInvalid, "exited with code 1");
  const Status other(ErrorCode::kSpecInvalid, "exited with code 2");
  EXPECT_TRUE(news.IsNews(first));
  EXPECT_FALSE(news.IsNews(first));
  EXPECT_TRUE(news.IsNews(other));
  EXPECT_TRUE(news.IsNews(Hosts{{"a", 1}}));
  EXPECT_TRUE(news.IsNews(other));
  EXPECT_TRUE(news.IsNews(Hosts{{"a", 1}})) << "the source works again";
  EXPECT_FALSE(news.IsNews(Hosts{{"a", 1}}));
}

TEST(HostNewsTest, WarningIsNewsUntilAnotherAnswerComes) {
  HostNews news;
  EXPECT_FALSE(news.IsNewWarning(""));
  EXPECT_TRUE(news.IsNewWarning("twice"));
  EXPECT_FALSE(news.IsNewWarning("twice"));
  EXPECT_FALSE(news.IsNewWarning(""));
  EXPECT_TRUE(news.IsNewWarning("twice"));
}

}  // namespace
}  // namespace hvdray
