// SPDX-License-Identifier: Apache-2.0
#include "base/exec.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

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
  EXPECT_EQ(ShellCodeOf(ReapChild(pid)), 7);
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
  EXPECT_EQ(ShellCodeOf(ReapChild(pid)), 128 + SIGTERM);
}

}  // namespace
}  // namespace hvdray
