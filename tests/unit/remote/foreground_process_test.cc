// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/foreground_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/fd.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;
constexpr Duration kLimit = std::chrono::seconds(60);

Words Sh(const std::string& text) { return {"/bin/sh", "-c", text}; }

TEST(RunInForegroundTest, ReturnsTheCodeOrTheSignal) {
  EXPECT_EQ(RunInForeground(Sh("exit 3"))->exit_code, 3);
  EXPECT_EQ(RunInForeground(Sh("kill -KILL $$"))->exit_code, 128 + SIGKILL);
  const Result<ProcessEnd> none = RunInForeground({"/no/such/program"});
  EXPECT_EQ(none.status().code(), ErrorCode::kAgentStartFailed);
}

TEST(RunInForegroundTest, TheChildIsInOurProcessGroup) {
  const std::string ours = std::to_string(::getpgrp());
  EXPECT_EQ(RunInForeground(Sh("[ $(ps -o pgid= $$) = " + ours + " ]"))->exit_code, 0);
}

TEST(RunInForegroundTest, ASignalForThisProcessAloneReachesTheChildAndIsTold) {
  const Result<ProcessEnd> end =
      RunInForeground(Sh("trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.02; done"));
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->exit_code, 9);
  EXPECT_EQ(end->signo, SIGTERM);
}

TEST(RunInForegroundTest, ErrorsMayBeKept) {
  const Result<ProcessEnd> end = RunInForeground(Sh("echo a >&2; echo b >&2"), ErrorsOf::kAreKept);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->error_lines, (Words{"a", "b"}));
}

TEST(RunInOwnSessionTest, TheChildLeadsASessionAndWhatItLeavesGoesOn) {
  const Result<ProcessEnd> end = RunInOwnSession(
      Sh("[ $(ps -o sid= $$) = $$ ] || exit 4; (sleep 0.2; kill -0 $$ || echo ok >&5) 5>" +
         testing::TempDir() + "own_session & exit 3"),
      std::chrono::seconds(60));
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->exit_code, 3);
  EXPECT_EQ(end->signo, 0);
  std::string said;
  while (said.empty()) std::ifstream(testing::TempDir() + "own_session") >> said;
  EXPECT_EQ(said, "ok");
}

TEST(RunInOwnSessionTest, ASignalForThisProcessEndsTheWholeGroup) {
  const Result<ProcessEnd> end = RunInOwnSession(
      Sh("sh -c 'trap : TERM; kill -INT $1; sleep 4720; sleep 4720' sh $PPID & sleep 4720"),
      std::chrono::milliseconds(100));
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->exit_code, 128 + SIGTERM);
  EXPECT_EQ(end->signo, SIGINT);
  EXPECT_NE(::system("pgrep -f '^sleep 4720$'"), 0) << "also those that ignore SIGTERM";
}

TEST(RunForOutputTest, PassesInputAndKeepsOutputAndErrorsApart) {
  const std::string large(300'000, 'x');
  const Result<CapturedRun> run =
      RunForOutput(Sh("cat; echo a >&2; echo b >&2; exit 4"), large, kLimit);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->output, large);
  EXPECT_EQ(run->error_lines, (Words{"a", "b"}));
  EXPECT_EQ(run->exit_code, 4);
}

TEST(RunForOutputTest, AChildThatTakesNoInputOrDoesNotEndHoldsNobody) {
  ::signal(SIGPIPE, SIG_IGN);  // as hvdray does
  EXPECT_EQ(RunForOutput(Sh("exec 0<&-; echo x"), std::string(1 << 20, 'x'), kLimit)->output,
            "x\n");
  const Result<CapturedRun> hung =
      RunForOutput(Sh("sleep 1000"), "", std::chrono::milliseconds(50));
  EXPECT_EQ(hung.status().code(), ErrorCode::kDeadlineExceeded);
}

TEST(RunForOutputTest, ACallThatIsCancelledKillsItsChild) {
  const Pipe cancel = MakePipe().value();
  ASSERT_TRUE(WriteAll(cancel.write_end.get(), "x").ok());
  EXPECT_EQ(RunForOutput(Sh("sleep 1000"), "", kLimit, cancel.read_end.get()).status().code(),
            ErrorCode::kCancelled);
}

/// A program instead of ssh.
class FakeSsh {
 public:
  explicit FakeSsh(const std::string& body) {
    path_ = std::filesystem::path(testing::TempDir()) / "fake_ssh";
    std::ofstream(path_) << "#!/bin/sh\nwhile [ \"$1\" != -E ]; do shift; done\nlog=$2\n" << body;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  OpensshOptions options() const {
    OpensshOptions options;
    options.program = path_.string();
    return options;
  }

 private:
  std::filesystem::path path_;
};

TEST(RunOverSshTest, SshsOwnFailureIsAnErrorAndTheCommandsCode255IsNot) {
  Words warnings;
  const FakeSsh refused(
      "echo 'ssh: connect to host h port 22: Connection refused' >>$log; exit 255");
  const Result<int> failed = RunOverSsh(refused.options(), "h", "true", &warnings);
  EXPECT_EQ(failed.status().code(), ErrorCode::kHostRefused) << failed.status().ToString();
  const FakeSsh command("exit 255");
  EXPECT_EQ(RunOverSsh(command.options(), "h", "true", &warnings).value(), 255);
  EXPECT_TRUE(warnings.empty());
  const FakeSsh warning("echo 'channel 3: open failed: connect failed' >>$log; exit 2");
  EXPECT_EQ(RunOverSsh(warning.options(), "h", "true", &warnings).value(), 2);
  EXPECT_EQ(warnings, Words{"channel 3: open failed: connect failed"});
}

}  // namespace
}  // namespace hvdray
