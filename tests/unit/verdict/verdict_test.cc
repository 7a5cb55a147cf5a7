// SPDX-License-Identifier: Apache-2.0
// Exit code and description for every way in which a worker can end.
#include "launcher/driver/verdict.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

namespace hvdray {
namespace {

using wire::ExecStage;
using wire::ExitStatus;

TEST(ExitCodeOfTest, IsTheWorkersOwnCode) {
  EXPECT_EQ(ExitCodeOf(ExitStatus{}), 0);
  EXPECT_EQ(ExitCodeOf(ExitStatus{.exit_code = 7}), 7);
  EXPECT_EQ(ExitCodeOf(ExitStatus{.exit_code = 255}), 255);
}

TEST(ExitCodeOfTest, Is128PlusTheSignal) {
  EXPECT_EQ(ExitCodeOf(ExitStatus{.signal = SIGKILL}), 137);
  EXPECT_EQ(ExitCodeOf(ExitStatus{.signal = SIGSEGV, .has_core = true}), 139);
  EXPECT_EQ(ExitCodeOf(ExitStatus{.signal = SIGKILL, .is_oom = true}), 137);
}

TEST(ExitCodeOfTest, Is127OnlyWhenTheCommandDoesNotExist) {
  EXPECT_EQ(ExitCodeOf(ExitStatus{.stage = ExecStage::kExec, .error = ENOENT}), 127);
  for (const int error : {EACCES, EISDIR, ENOEXEC, ENOTDIR, ELOOP, ELIBACC, E2BIG}) {
    EXPECT_EQ(ExitCodeOf(ExitStatus{.stage = ExecStage::kExec, .error = error}), 126) << error;
  }
}

TEST(ExitCodeOfTest, Is125WhenTheWorkerNeverReachedItsCommand) {
  for (const ExecStage stage :
       {ExecStage::kFork, ExecStage::kDirectory, ExecStage::kDescriptors, ExecStage::kLimits}) {
    EXPECT_EQ(ExitCodeOf(ExitStatus{.stage = stage, .error = ENOENT}), 125)
        << static_cast<int>(stage);
  }
}

TEST(ExitCodeOfTest, NeverTurnsAnImpossibleNumberIntoSuccess) {
  for (const int number : {256, 512, -1, -128, -256, 65536, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(ExitCodeOf(ExitStatus{.exit_code = number}), 255) << number;
    EXPECT_EQ(ExitCodeOf(ExitStatus{.signal = number}), 255) << number;
  }
}

TEST(DescribeTest, NamesTheExitCode) {
  EXPECT_EQ(Describe({}), "exited with code 0");
  EXPECT_EQ(Describe({.exit_code = 7}), "exited with code 7");
}

TEST(DescribeTest, NamesTheSignal) {
  EXPECT_EQ(Describe({.signal = SIGTERM}), "was killed by SIGTERM (signal 15)");
  EXPECT_EQ(Describe({.signal = SIGSEGV, .has_core = true}),
            "was killed by SIGSEGV (signal 11), core dumped");
  EXPECT_EQ(Describe({.signal = SIGRTMIN + 3}),
            "was killed by SIGRTMIN+3 (signal " + std::to_string(SIGRTMIN + 3) + ")");
}

TEST(DescribeTest, SaysANumberForASignalThatHasNoName) {
  EXPECT_EQ(Describe({.signal = 120}), "was killed by signal 120");
  EXPECT_EQ(Describe({.signal = -3}), "was killed by signal -3");
}

TEST(DescribeTest, BlamesMemoryBeforeTheSignalThatFollowedFromIt) {
  EXPECT_EQ(Describe({.signal = SIGKILL, .is_oom = true}),
            "ran out of memory (killed by the kernel)");
}

TEST(DescribeTest, SaysWhyTheCommandDidNotRun) {
  EXPECT_EQ(Describe({.stage = ExecStage::kExec, .error = ENOENT}),
            "could not be executed: No such file or directory");
  EXPECT_EQ(Describe({.stage = ExecStage::kExec, .error = EACCES}),
            "could not be executed: Permission denied");
  EXPECT_EQ(Describe({.stage = ExecStage::kExec, .error = ELIBACC}),
            "could not be executed: its interpreter does not exist");
  EXPECT_EQ(Describe({.stage = ExecStage::kDirectory, .error = ENOENT}),
            "could not be entered as working directory: No such file or directory");
  EXPECT_EQ(Describe({.stage = ExecStage::kFork, .error = EAGAIN}),
            "could not be started: fork: Resource temporarily unavailable");
  EXPECT_EQ(Describe({.stage = ExecStage::kDescriptors, .error = EMFILE}),
            "could not be started: file descriptors: Too many open files");
  EXPECT_EQ(Describe({.stage = ExecStage::kLimits, .error = EPERM}),
            "could not be started: process group or limits: Operation not permitted");
}

TEST(DescribeTest, SurvivesAStageThatNobodyKnows) {
  EXPECT_EQ(Describe({.stage = static_cast<ExecStage>(99), .error = 0}),
            "could not be started: stage 99: Success");
}

}  // namespace
}  // namespace hvdray
