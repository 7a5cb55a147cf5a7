// SPDX-License-Identifier: Apache-2.0
#include "agent/process_tree.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace hvdray {
namespace {

using Pids = std::vector<pid_t>;

TEST(ParseKinTest, NamesMayHoldAnything) {
  EXPECT_EQ(ParseKin("12 (sh) S 7 11 12 0"), (ProcessKin{12, 7, 11}));
  EXPECT_EQ(ParseKin("12 (a b) c) R 9 9 ) S 7 11 12 0"), (ProcessKin{12, 7, 11}));
  EXPECT_EQ(ParseKin("2 () S 0 0 0"), (ProcessKin{2, 0, 0}));
}

TEST(ParseKinTest, CutAndMalformedTextsGiveNothing) {
  const std::string_view whole = "12 (sh) S 7 11 ";
  ASSERT_TRUE(ParseKin(whole).has_value());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseKin(whole.substr(0, size)).has_value()) << size;
  }
  for (const char* text : {"x (sh) S 7 11 ", "12 (sh) S x 11 ", "12 (sh) S 7 -1 ",
                           "99999999999999 (sh) S 7 11 ", "12 sh S 7 11 "}) {
    EXPECT_FALSE(ParseKin(text).has_value()) << text;
  }
}

TEST(RelativesOfTest, DescendantsOfEveryDepthBelong) {
  const std::vector<ProcessKin> all = {{5, 1, 5}, {6, 5, 5}, {7, 6, 7}, {8, 7, 8}, {9, 1, 9}};
  EXPECT_EQ(Relatives(all, 5), (Pids{6, 7, 8}));
  EXPECT_EQ(Relatives(all, 8), Pids());
}

TEST(RelativesOfTest, MembersOfTheGroupBelongWhoeverTheirParentIs) {
  // 6 has lost its parent; 7 is its child in a group of its own.
  const std::vector<ProcessKin> all = {{5, 1, 5}, {6, 1, 5}, {7, 6, 7}, {9, 1, 9}};
  EXPECT_EQ(Relatives(all, 5), (Pids{6, 7}));
}

TEST(RelativesOfTest, ACircleInAListingEnds) {
  EXPECT_EQ(Relatives(std::vector<ProcessKin>{{5, 6, 5}, {6, 5, 6}}, 5), Pids{6});
}

TEST(ScanProcessesTest, FindsAChildUnderItsParent) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const std::vector<ProcessKin> all = ScanProcesses();
  const Pids relatives = Relatives(all, ::getpid());
  EXPECT_TRUE(std::binary_search(relatives.begin(), relatives.end(), child));
  EXPECT_EQ(std::count(all.begin(), all.end(), ProcessKin{child, ::getpid(), ::getpgrp()}), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace hvdray
