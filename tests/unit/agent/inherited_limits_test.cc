// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "agent/dialled_agent.h"
#include "base/fd.h"
#include "base/file.h"

namespace hvdray {
namespace {

/// In the child: inherits as below a Ray worker, repairs, tells what is still wrong.
int RepairedFlaws() {
  sigset_t interrupts;
  ::sigemptyset(&interrupts);
  ::sigaddset(&interrupts, SIGINT);
  ::sigprocmask(SIG_BLOCK, &interrupts, nullptr);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = 64;
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::setpriority(PRIO_PROCESS, 0, 15);
  (void)WriteFileAtomically("/proc/self/oom_score_adj", "1000").ok();
  const size_t complaints = RepairInheritedLimits().size();
  int flaws = 0;
  ::sigprocmask(SIG_BLOCK, nullptr, &interrupts);
  if (::sigismember(&interrupts, SIGINT) == 1) flaws |= 1;
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur != files.rlim_max) flaws |= 2;
  // Each thing that is as it was has its line, and nothing else has.
  size_t left = ::getpriority(PRIO_PROCESS, 0) > 0 ? 1 : 0;
  const Result<std::string> score = ReadFile("/proc/self/oom_score_adj", 64);
  if (score.ok() && ::atoi(score->c_str()) > 0) ++left;
  if (complaints != left) flaws |= 4;
  if (::geteuid() == 0 && left != 0) flaws |= 8;
  return flaws;
}

TEST(InheritedLimitsTest, WhatRayLeavesIsRepairedOrNamed) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(RepairedFlaws());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hvdray
