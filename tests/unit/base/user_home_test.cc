// SPDX-License-Identifier: Apache-2.0
#include "base/user_home.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(AtHomeTest, TakesTheHomeOfTheUserThatAPathNames) {
  const HomeOf homes = [](const std::string& user) {
    return user.empty() ? "/home/me" : user == "u" ? "/home/u" : "";
  };
  EXPECT_EQ(AtHome("~", homes), "/home/me");
  EXPECT_EQ(AtHome("~/a/~", homes), "/home/me/a/~");
  EXPECT_EQ(AtHome("~:there", homes), "/home/me:there");
  EXPECT_EQ(AtHome("~u", homes), "/home/u");
  EXPECT_EQ(AtHome("~u/a/~u", homes), "/home/u/a/~u");
  for (const char* path : {"", "a~", "./~", "/a/~/b", "~v/a", "~u~/a"}) {
    EXPECT_EQ(AtHome(path, homes), path);
  }
  EXPECT_EQ(AtHome("~/a", HomeOf()), "~/a");
}

TEST(HomesHereTest, HomeIsTheVariableElseTheDatabasesAndOthersAreTheDatabases) {
  Environment environment;
  environment.Set("HOME", "/mine");
  EXPECT_EQ(HomesHere(environment)(""), "/mine");
  EXPECT_EQ(HomesHere(environment)("root"), "/root");
  EXPECT_FALSE(HomesHere(Environment())("").empty());
  EXPECT_EQ(HomesHere(Environment())("no such user"), "");
}

}  // namespace
}  // namespace hvdray
