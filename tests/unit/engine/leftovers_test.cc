// SPDX-License-Identifier: Apache-2.0
// Real processes: a stopped agent that was given up does not outlive its job.
#include "launcher/engine/leftovers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "agent/cgroup.h"
#include "base/fd.h"

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

// Whoever is within execve() shows no environment for a moment: here almost always. And one that is
// longer than what is read at once may be cut off.
TEST(LeftoversTest, AnOrphanThatAlwaysExecutesAnotherProgramIsFound) {
  constexpr const char* kScript = "exec sh -c \"$0\" \"$0\"";
  for (int round = 0; round < 30; ++round) {
    const std::string job = "leftovers-test-" + std::to_string(::getpid());
    const pid_t orphan = ::fork();
    if (orphan == 0) {
      ::setenv("LONG", std::string(100'000, 'x').c_str(), 1);
      ::setenv("HVDRAY_JOB_ID", job.c_str(), 1);
      ::execl("/bin/sh", "sh", "-c", kScript, kScript, nullptr);
      ::_exit(96);
    }
    const std::string environ = "/proc/" + std::to_string(orphan) + "/environ";
    const auto has_begun = [&] {
      const Result<std::string> text = ReadFile(environ);
      return text.ok() && text->find(job) != std::string::npos;
    };
    while (!has_begun()) std::this_thread::yield();
    EXPECT_EQ(EndLeftovers(job, 0), 1) << "round " << round;
    ::kill(orphan, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(orphan, &status, 0), orphan);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
}

// A large process takes the kernel a while to end, and its group cannot go before.
TEST(LeftoversTest, TheGroupGoesThoughItsMembersDieSlowly) {
  const pid_t agent = StoppedChild();
  const auto own = OwnCgroupDirectory();
  const std::string group = own ? AgentCgroupDirectory(*own, agent) : "";
  if (group.empty() || !Cgroup::Create(group + "/probe").ok()) {
    ::kill(agent, SIGKILL);
    ::waitpid(agent, nullptr, 0);
    GTEST_SKIP() << "no cgroup may be made here";
  }
  const pid_t member = ::fork();
  if (member == 0) {
    const int procs = ::open((group + "/cgroup.procs").c_str(), O_WRONLY);
    if (::write(procs, "0", 1) != 1) ::_exit(96);
    ::mmap(nullptr, size_t{256} << 20, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(member, &status, WUNTRACED), member);
  ASSERT_TRUE(WIFSTOPPED(status));
  EndLeftovers("no-such-job", static_cast<uint32_t>(agent));
  EXPECT_NE(::access(group.c_str(), F_OK), 0) << group;
  for (const pid_t pid : {agent, member}) ::waitpid(pid, &status, 0);
}

}  // namespace
}  // namespace hvdray
