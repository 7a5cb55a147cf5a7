// SPDX-License-Identifier: Apache-2.0
#include "base/environ.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdray {
namespace {

// Replaces the process environment by other entries, raw ones among them.
class EnvironBlock {
 public:
  explicit EnvironBlock(std::vector<const char*> entries) : entries_(std::move(entries)) {
    entries_.push_back(nullptr);
    saved_ = ::environ;
    ::environ = const_cast<char**>(entries_.data());
  }
  ~EnvironBlock() { ::environ = saved_; }
  EnvironBlock(const EnvironBlock&) = delete;
  EnvironBlock& operator=(const EnvironBlock&) = delete;

 private:
  std::vector<const char*> entries_;
  char** saved_;
};

TEST(EnvironmentTest, TakesOddEntriesAsGetenvDoes) {
  const EnvironBlock block({"B=2", "A=1", "A=later", "EMPTY=", "no equals sign", "=leading",
                            "X=a=b", "BASH_FUNC_f%%=() { :; }", "BYTES=\xff\n"});
  const Environment environment = Environment::FromProcess();
  EXPECT_EQ(environment.Get("A"), "1");
  EXPECT_EQ(environment.Get("EMPTY"), "");
  EXPECT_EQ(environment.Get("X"), "a=b");
  EXPECT_EQ(environment.Get("BASH_FUNC_f%%"), "() { :; }");
  EXPECT_EQ(environment.Get("BYTES"), "\xff\n");
  EXPECT_EQ(environment.Get("no equals sign"), std::nullopt);
  EXPECT_EQ(environment.Get(""), std::nullopt);
  EXPECT_EQ(environment.values().size(), 6u);
}

TEST(EnvironmentTest, NoEnvironmentAtAllIsEmpty) {
  char** const saved = ::environ;
  ::environ = nullptr;
  const Environment environment = Environment::FromProcess();
  ::environ = saved;
  EXPECT_TRUE(environment.values().empty());
}

TEST(EnvironmentTest, FallbackServesUnsetAndEmpty) {
  const Environment environment({{"EMPTY", ""}, {"SET", "x"}});
  EXPECT_EQ(environment.GetOr("EMPTY", "y"), "y");
  EXPECT_EQ(environment.GetOr("UNSET", "y"), "y");
  EXPECT_EQ(environment.GetOr("SET", "y"), "x");
}

TEST(EnvironmentTest, SetReplacesUnsetRemovesAndTheStringsAreOrdered) {
  Environment environment;
  environment.Set("B", "1");
  environment.Set("A", "2");
  environment.Set("B", "3");
  environment.Set("C", "");
  environment.Unset("C");
  environment.Unset("never there");
  EXPECT_EQ(environment.ToStrings(), (std::vector<std::string>{"A=2", "B=3"}));
}

}  // namespace
}  // namespace hvdray
