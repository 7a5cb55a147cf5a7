// SPDX-License-Identifier: Apache-2.0
// Real processes: a stopped agent that was given up does not outlive its job.
#include "launcher/engine/leftovers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace hvdray {
namespace {

// A child that stops itself; stopped when this returns.
pid_t StoppedChild() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
  return pid;
}

TEST(LeftoversTest, AStoppedAgentBelowUsIsKilled) {
  const pid_t agent = StoppedChild();
  EXPECT_EQ(EndLeftovers("no-such-job", static_cast<uint32_t>(agent)), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(agent, &status, 0), agent);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(LeftoversTest, WhoIsNotBelowUsIsLeftAlone) {
  const pid_t other = StoppedChild();
  // Another process checks: the first one is not its child.
  const pid_t looker = ::fork();
  if (looker == 0) {
    EndLeftovers("no-such-job", static_cast<uint32_t>(other));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(looker, &status, 0), looker);
  EXPECT_EQ(::waitpid(other, &status, WNOHANG), 0) << "it still lives";
  ::kill(other, SIGKILL);
  ASSERT_EQ(::waitpid(other, &status, 0), other);
}

}  // namespace
}  // namespace hvdray
