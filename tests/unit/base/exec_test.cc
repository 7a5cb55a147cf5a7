// SPDX-License-Identifier: Apache-2.0
#include "base/exec.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/signals.h"

namespace hvdray {
namespace {

using Texts = std::vector<std::string>;

TEST(ExecTest, AnArrayPointsToTheTextsAndEndsWithNull) {
  const Texts first = {"a", ""};
  const Texts second = {"b=c"};
  const std::vector<char*> both = ExecArray(first, second);
  ASSERT_EQ(both.size(), 4U);
  EXPECT_EQ(both[0], first[0].c_str());
  EXPECT_STREQ(both[1], "");
  EXPECT_STREQ(both[2], "b=c");
  EXPECT_EQ(both[3], nullptr);
  EXPECT_EQ(ExecArray({}).size(), 1U);
}

TEST(SpawnApartTest, AProgramHasNothingOfOursButThreeDescriptors) {
  ::signal(SIGUSR1, SIG_IGN);
  const HeldSignals held(AllSignals());
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd inherited(::open("/dev/null", O_RDONLY));
  pid_t pid = -1;
  const Texts command = {"sh", "-c", "kill -USR1 $$; sleep 1000"};
  for (const ApartAs as : {ApartAs::kGroup, ApartAs::kSession}) {
    ASSERT_EQ(SpawnApart(as, command, null.get(), null.get(), -1, pid), 0);
    EXPECT_EQ(::getpgid(pid), pid);
    EXPECT_EQ(::getsid(pid) == pid, as == ApartAs::kSession);
    EXPECT_EQ(ShellCode(ReapChild(pid)), 128 + SIGUSR1) << "it is neither ignored nor blocked";
  }
  ::signal(SIGUSR1, SIG_DFL);
  const Texts look = {"sh", "-c", fmt::format("test ! -e /proc/$$/fd/{}", inherited.get())};
  ASSERT_EQ(SpawnApart(ApartAs::kGroup, look, null.get(), null.get(), -1, pid), 0);
  EXPECT_EQ(ShellCode(ReapChild(pid)), 0);
  EXPECT_EQ(SpawnApart(ApartAs::kGroup, {"/nonexistent"}, null.get(), null.get(), -1, pid), ENOENT);
}

// timeout(1) and a terminal signal the whole group, maybe while a child is being started.
TEST(SpawnApartTest, NoSignalToOurGroupReachesAProgramThatIsBeingStarted) {
  const pid_t starter = ::fork();
  if (starter == 0) {
    ::setpgid(0, 0);
    struct sigaction no_restart {};  // as Python sets its own: each wait of ours may be interrupted
    no_restart.sa_handler = [](int) {};
    ::sigaction(SIGINT, &no_restart, nullptr);
    const pid_t group = ::getpid();
    Pipe starts = MakePipe().value();
    const pid_t sender = ::fork();
    if (sender == 0) {
      ::signal(SIGINT, SIG_IGN);
      starts.write_end.Reset();
      char byte;
      while (::read(starts.read_end.get(), &byte, 1) == 1) {
        for (int i = 0; i < 100; ++i) ::kill(-group, SIGINT);
      }
      ::_exit(0);
    }
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    int hit = 0;
    for (int i = 0; i < 400; ++i) {
      const ApartAs as = i % 2 == 0 ? ApartAs::kGroup : ApartAs::kSession;
      pid_t pid = -1;
      (void)!::write(starts.write_end.get(), "", 1);
      if (SpawnApart(as, {"true"}, null.get(), null.get(), -1, pid) != 0) ::_exit(99);
      if (ShellCode(ReapChild(pid)) != 0) ++hit;
    }
    ::kill(sender, SIGKILL);
    ReapChild(sender);
    ::_exit(hit == 0 ? 0 : 1);
  }
  EXPECT_EQ(ShellCode(ReapChild(starter)), 0);
}

// Forks a child that becomes `words`.
int Start(const Texts& words, pid_t& pid) {
  Pipe report = MakePipe().value();
  const std::vector<char*> argv = ExecArray(words);
  pid = ::fork();
  if (pid == 0) ExecOrReport(argv.data(), report.write_end.get());
  return AwaitExec(pid, std::move(report));
}

TEST(ExecTest, AProgramOfThePathRuns) {
  pid_t pid = -1;
  ASSERT_EQ(Start({"sh", "-c", "exit 7"}, pid), 0);
  EXPECT_EQ(ShellCode(ReapChild(pid)), 7);
}

TEST(ExecTest, AChildThatCannotExecReportsWhyAndIsReaped) {
  pid_t pid = -1;
  EXPECT_EQ(Start({"/nonexistent/program"}, pid), ENOENT);
  EXPECT_EQ(Start({"/"}, pid), EACCES);
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
}

TEST(ExecTest, ASignalsCodeIsThatOfAShell) {
  pid_t pid = -1;
  ASSERT_EQ(Start({"sleep", "1000"}, pid), 0);
  ::kill(pid, SIGTERM);
  EXPECT_EQ(ShellCode(ReapChild(pid)), 128 + SIGTERM);
}

}  // namespace
}  // namespace hvdray
