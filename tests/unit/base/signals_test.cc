// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "base/exec.h"

namespace hvdray {
namespace {

bool IsBlocked(int signo) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return ::sigismember(&blocked, signo) == 1;
}

TEST(SignalCopiesTest, TwoEqualSignalsWithin100MsAreOne) {
  using std::chrono::milliseconds;
  SignalCopies copies;
  const TimePoint start{};
  EXPECT_TRUE(copies.IsNew(SIGINT, start));
  EXPECT_FALSE(copies.IsNew(SIGINT, start));
  EXPECT_TRUE(copies.IsNew(SIGTERM, start)) << "another one is no copy";
  EXPECT_FALSE(copies.IsNew(SIGINT, start + milliseconds(99)));
  EXPECT_TRUE(copies.IsNew(SIGINT, start + milliseconds(100))) << "a copy begins no other 100 ms";
  EXPECT_FALSE(copies.IsNew(SIGTERM, start + milliseconds(99)));
}

TEST(SignalCopiesTest, ASighupBesideAnotherSignalIsItsCopy) {
  using std::chrono::milliseconds;
  for (const auto& [first, second] : {std::pair(SIGTERM, SIGHUP), std::pair(SIGHUP, SIGTERM)}) {
    SignalCopies copies;
    const TimePoint start{};
    EXPECT_TRUE(copies.IsNew(first, start));
    EXPECT_FALSE(copies.IsNew(second, start + milliseconds(99)));
    EXPECT_TRUE(copies.IsNew(second, start + milliseconds(100)));
  }
}

volatile sig_atomic_t caught = 0;

TEST(HeldSignalsTest, APendingSignalIsDeliveredAtTheEnd) {
  ::signal(SIGUSR1, [](int) { caught = caught + 1; });
  {
    const HeldSignals held(SignalSet({SIGUSR1}));
    ::raise(SIGUSR1);
    EXPECT_EQ(caught, 0);
    EXPECT_FALSE(IsBlocked(SIGUSR2));
  }
  EXPECT_EQ(caught, 1);
  ::signal(SIGUSR1, SIG_DFL);
}

TEST(HeldSignalsTest, WhatWasBlockedBeforeStaysBlocked) {
  const HeldSignals outer(SignalSet({SIGUSR1}));
  {
    const HeldSignals inner(AllSignals());
    EXPECT_TRUE(IsBlocked(SIGUSR2));
    EXPECT_EQ(::sigismember(&inner.before(), SIGUSR1), 1);
    EXPECT_EQ(::sigismember(&inner.before(), SIGUSR2), 0);
  }
  EXPECT_TRUE(IsBlocked(SIGUSR1));
  EXPECT_FALSE(IsBlocked(SIGUSR2));
}

TEST(HeldSignalsTest, AThreadStartedMeanwhileGetsNone) {
  std::thread thread;
  bool is_blocked = false;
  {
    const HeldSignals held(AllSignals());
    thread = std::thread([&is_blocked] { is_blocked = IsBlocked(SIGTERM); });
  }
  thread.join();
  EXPECT_TRUE(is_blocked);
  EXPECT_FALSE(IsBlocked(SIGTERM));
}

// Runs `restore` in a child that ignores SIGCHLD and SIGHUP and blocks all signals. Returns which
// of them it still ignores, 1 and 2, and 4 if it blocks SIGTERM.
int LeftBy(void (*restore)()) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGCHLD, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    const HeldSignals held(AllSignals());
    restore();
    const auto is_ignored = [](int signo) {
      struct sigaction action {};
      ::sigaction(signo, nullptr, &action);
      return action.sa_handler == SIG_IGN;
    };
    ::_exit((is_ignored(SIGCHLD) ? 1 : 0) + (is_ignored(SIGHUP) ? 2 : 0) +
            (IsBlocked(SIGTERM) ? 4 : 0));
  }
  return ShellCode(ReapChild(pid));
}

TEST(SignalsTest, AProgramKeepsWhatIsIgnoredOnPurposeAndAForkedChildNothing) {
  EXPECT_EQ(LeftBy(&UnblockSignals), 3);
  EXPECT_EQ(LeftBy(&RestoreSignals), 2);
  EXPECT_EQ(LeftBy(&ResetSignals), 0);
}

}  // namespace
}  // namespace hvdray
