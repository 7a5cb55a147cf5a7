// SPDX-License-Identifier: Apache-2.0
// Exit code and description for every way in which a worker can end.
#include "launcher/driver/verdict.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/verdict.txt");

using wire::ExecStage;
using wire::ExitStatus;

TEST(ExitCodeOfTest, IsTheWorkersOwnCode) {
  EXPECT_EQ(ExitCode(ExitStatus{}), 0);
  EXPECT_EQ(ExitCode(ExitStatus{.exit_code = 7}), 7);
  EXPECT_EQ(ExitCode(ExitStatus{.exit_code = 255}), 255);
}

TEST(ExitCodeOfTest, Is128PlusTheSignal) {
  EXPECT_EQ(ExitCode(ExitStatus{.signal = SIGKILL}), 137);
  EXPECT_EQ(ExitCode(ExitStatus{.signal = SIGSEGV, .has_core = true}), 139);
  EXPECT_EQ(ExitCode(ExitStatus{.signal = SIGKILL, .is_oom = true}), 137);
}

TEST(ExitCodeOfTest, Is127OnlyWhenTheCommandDoesNotExist) {
  EXPECT_EQ(ExitCode(ExitStatus{.stage = ExecStage::kExec, .error = ENOENT}), 127);
  for (const int error : {EACCES, EISDIR, ENOEXEC, ENOTDIR, ELOOP, ELIBACC, E2BIG}) {
    EXPECT_EQ(ExitCode(ExitStatus{.stage = ExecStage::kExec, .error = error}), 126) << error;
  }
}

TEST(ExitCodeOfTest, Is125WhenTheWorkerNeverReachedItsCommand) {
  for (const ExecStage stage :
       {ExecStage::kFork, ExecStage::kDirectory, ExecStage::kDescriptors, ExecStage::kLimits}) {
    EXPECT_EQ(ExitCode(ExitStatus{.stage = stage, .error = ENOENT}), 125)
        << static_cast<int>(stage);
  }
}

TEST(ExitCodeOfTest, NeverTurnsAnImpossibleNumberIntoSuccess) {
  for (const int number : {256, 512, -1, -128, -256, 65536, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(ExitCode(ExitStatus{.exit_code = number}), 255) << number;
    EXPECT_EQ(ExitCode(ExitStatus{.signal = number}), 255) << number;
  }
}

TEST(DescribeTest, NamesTheExitCode) {
  ExpectSays(Describe({}), {"code 0"});
  ExpectSays(Describe({.exit_code = 7}), {"code 7"});
}

TEST(DescribeTest, NamesTheSignal) {
  ExpectSays(Describe({.signal = SIGTERM}), {"SIGTERM", "signal 15"});
  ExpectSays(Describe({.signal = SIGSEGV, .has_core = true}),
             {"SIGSEGV", "signal 11", "core dumped"});
  ExpectSays(Describe({.signal = SIGRTMIN + 3}),
             {"SIGRTMIN+3", "signal " + std::to_string(SIGRTMIN + 3)});
}

TEST(DescribeTest, SaysANumberForASignalThatHasNoName) {
  ExpectSays(Describe({.signal = 120}), {"signal 120"});
  ExpectSays(Describe({.signal = -3}), {"signal -3"});
}

TEST(DescribeTest, BlamesMemoryBeforeTheSignalThatFollowedFromIt) {
  const std::string text = Describe({.signal = SIGKILL, .is_oom = true});
  ExpectSays(text, {"memory", "kernel"});
  EXPECT_FALSE(NamesFacts(text, {"SIGKILL"}));
}

TEST(DescribeTest, SaysWhyTheCommandDidNotRun) {
  const auto describe = [](ExecStage stage, int error) {
    return Describe({.stage = stage, .error = error});
  };
  ExpectSays(describe(ExecStage::kExec, ENOENT), {"executed", std::strerror(ENOENT)});
  ExpectSays(describe(ExecStage::kExec, EACCES), {"executed", std::strerror(EACCES)});
  ExpectSays(describe(ExecStage::kExec, ELIBACC), {"executed", "interpreter"});
  ExpectSays(describe(ExecStage::kDirectory, ENOENT), {"directory", std::strerror(ENOENT)});
  ExpectSays(describe(ExecStage::kFork, EAGAIN), {"started", "fork", std::strerror(EAGAIN)});
  ExpectSays(describe(ExecStage::kDescriptors, EMFILE),
             {"started", "descriptors", std::strerror(EMFILE)});
  ExpectSays(describe(ExecStage::kLimits, EPERM), {"started", "limits", std::strerror(EPERM)});
}

TEST(DescribeTest, SurvivesAStageThatNobodyKnows) {
  ExpectSays(Describe({.stage = static_cast<ExecStage>(99), .error = 0}), {"started", "stage 99"});
}

}  // namespace
}  // namespace hvdray
