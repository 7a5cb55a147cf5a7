// SPDX-License-Identifier: Apache-2.0
#include "agent/orphans.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/fd.h"
#include "tests/unit/agent/process_scan.h"

namespace hvdray {
namespace {

pid_t StartSleeper() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (;;) ::pause();
  }
  return pid;
}

bool Contains(const std::vector<pid_t>& list, pid_t pid) {
  return std::find(list.begin(), list.end(), pid) != list.end();
}

TEST(OrphansTest, ChildrenAreListed) {
  const pid_t child = StartSleeper();
  EXPECT_TRUE(Contains(ListChildren(), child));
  EXPECT_FALSE(Contains(ListChildren(), ::getpid()));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(Contains(ListChildren(), child));
}

TEST(OrphansTest, DeadOrphansAreReapedAndWorkersAreNot) {
  const pid_t worker = StartSleeper();
  const pid_t stray = StartSleeper();
  ::kill(stray, SIGKILL);
  const auto is_worker = [&](pid_t pid) { return pid == worker; };
  EXPECT_TRUE(WaitFor([&] {
    ReapOrphans(is_worker);
    return !Contains(ListChildren(), stray);
  }));
  ::kill(worker, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOWAIT), 0);
  ReapOrphans(is_worker);
  EXPECT_EQ(::waitpid(worker, nullptr, WNOHANG), worker) << "it was left for its owner";
}

class SweeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
  }
  std::unique_ptr<Loop> loop_;
};

TEST_F(SweeperTest, NothingToDoIsCleanAtOnce) {
  Sweeper sweeper(*loop_, nullptr, [](pid_t) { return false; });
  std::optional<uint32_t> swept;
  sweeper.Run(std::chrono::seconds(5), [&](uint32_t count, bool is_clean) {
    swept = count;
    EXPECT_TRUE(is_clean);
  });
  EXPECT_FALSE(swept.has_value()) << "never from within the call";
  ASSERT_TRUE(WaitFor(*loop_, [&] { return swept.has_value(); }));
  EXPECT_EQ(swept, 0U);
}

TEST_F(SweeperTest, OrphansAreKilledWithTheirDescendantsAndWorkersStay) {
  const pid_t worker = StartSleeper();
  // Each level becomes ours when the one above it is gone.
  const pid_t stray = ::fork();
  if (stray == 0) {
    for (int depth = 0; depth < 5; ++depth) {
      if (::fork() != 0) break;
      ::setsid();
    }
    for (;;) ::pause();
  }
  Sweeper sweeper(*loop_, nullptr, [&](pid_t pid) { return pid == worker; });
  std::optional<uint32_t> swept;
  // All six must be there before the sweep, or the count is a matter of luck.
  ASSERT_TRUE(WaitFor([&] {
    int count = 0;
    for (pid_t pid = stray; pid != 0; ++count) {
      const auto text = ReadFile(fmt::format("/proc/{}/task/{}/children", pid, pid));
      if (!text.ok()) return true;  // a kernel without this file: take the luck
      pid = text->empty() ? 0 : static_cast<pid_t>(std::stoi(*text));
    }
    return count == 6;
  }));
  sweeper.Run(std::chrono::minutes(1), [&](uint32_t count, bool is_clean) {
    swept = count;
    EXPECT_TRUE(is_clean);
  });
  ASSERT_TRUE(WaitFor(*loop_, [&] { return swept.has_value(); }));
  EXPECT_EQ(swept, 6U);
  EXPECT_EQ(ListChildren(), std::vector<pid_t>{worker});
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
}

TEST_F(SweeperTest, ZombiesAreReapedAndNotCounted) {
  const pid_t stray = StartSleeper();
  ::kill(stray, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(stray), &info, WEXITED | WNOWAIT), 0);
  Sweeper sweeper(*loop_, nullptr, [](pid_t) { return false; });
  std::optional<uint32_t> swept;
  sweeper.Run(std::chrono::seconds(5), [&](uint32_t count, bool) { swept = count; });
  ASSERT_TRUE(WaitFor(*loop_, [&] { return swept.has_value(); }));
  EXPECT_EQ(swept, 0U);
  EXPECT_TRUE(ListChildren().empty());
}

}  // namespace
}  // namespace hvdray
