// SPDX-License-Identifier: Apache-2.0
// Real shells.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "launcher/engine/discovery_script.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/host_sources.txt");

/// No such process any more, or only its corpse.
bool IsDead(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  const size_t end = text.rfind(')');
  return end == std::string::npos || text.at(end + 2) == 'Z' || text.at(end + 2) == 'X';
}

class ScriptRunTest : public testing::Test {
 protected:
  ScriptRunTest() : loop_(std::move(*Loop::Create())) {}

  void Start(const std::string& command, Duration limit = std::chrono::hours(1)) {
    DiscoveryScriptOptions options;
    options.command = command;
    options.limit = limit;
    options.max_output_bytes = 100'000;
    options.on_stderr = [this](std::string line) { errors_.push_back(std::move(line)); };
    auto run = ScriptRun::Start(*loop_, std::move(options), [this](Result<std::string> output) {
      EXPECT_FALSE(is_done_) << "told twice";
      is_done_ = true;
      output_ = std::move(output);
    });
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    run_ = std::move(run).value();
    EXPECT_FALSE(is_done_) << "told from within Start()";
  }
  Result<std::string> Run(const std::string& command, Duration limit = std::chrono::hours(1)) {
    Start(command, limit);
    EXPECT_TRUE(RunUntil(*loop_, [&] { return is_done_; }));
    return output_;
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ScriptRun> run_;
  bool is_done_ = false;
  Result<std::string> output_ = Status(ErrorCode::kInternal, "not yet");
  std::vector<std::string> errors_;
};

TEST_F(ScriptRunTest, OutputIsWholeAndErrorsComeByLines) {
  const auto output = Run("echo a; echo one >&2; printf b; printf two >&2");
  ASSERT_TRUE(output.ok()) << output.status().ToString();
  EXPECT_EQ(*output, "a\nb");
  EXPECT_EQ(errors_, (std::vector<std::string>{"one", "two"}));
}

TEST_F(ScriptRunTest, OutputThatFillsThePipeManyTimesIsWhole) {
  const auto output = Run("head -c 100000 /dev/zero");
  ASSERT_TRUE(output.ok()) << output.status().ToString();
  EXPECT_EQ(output->size(), 100'000U);
}

TEST_F(ScriptRunTest, ItsInputIsEmpty) {
  const auto output = Run("cat; echo a");
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(*output, "a\n");
}

TEST_F(ScriptRunTest, ItsSignalsAreTheDefaultsAndItLeadsASession) {
  // SIGPIPE is what ends `yes`; ignored, it would report_error.
  const auto output = Run("yes | head -n 1; [ $$ = $(cut -d' ' -f6 /proc/$$/stat) ] && echo leads");
  ASSERT_TRUE(output.ok()) << output.status().ToString();
  EXPECT_EQ(*output, "y\nleads\n");
  EXPECT_TRUE(errors_.empty()) << errors_[0];
}

TEST_F(ScriptRunTest, CodeAndLastErrorLineAreTold) {
  const auto output = Run("echo first >&2; echo 'no token' >&2; echo ' ' >&2; exit 3");
  ExpectError(output.status(), ErrorCode::kSpecInvalid, {"code 3", "no token"});
}

TEST_F(ScriptRunTest, CommandThatIsNotThereIsSaidInTheShellsWords) {
  const auto output = Run("no-such-command-of-ours");
  EXPECT_EQ(output.status().message().find("exited with code 127: "), 0U)
      << output.status().message();
  EXPECT_NE(output.status().message().find("no-such-command-of-ours"), std::string::npos);
}

TEST_F(ScriptRunTest, SignalIsNamed) {
  ExpectSays(Run("kill -TERM $$").status().message(), {"SIGTERM"});
}

TEST_F(ScriptRunTest, HangingOneIsKilledAtItsLimit) {
  const auto output = Run("sleep 3600; echo a", std::chrono::milliseconds(20));
  ExpectError(output.status(), ErrorCode::kDeadlineExceeded, {"0.02 s", "killed"});
}

TEST_F(ScriptRunTest, ItMayNotIgnoreThat) {
  const auto output =
      Run("trap '' TERM INT HUP; while :; do sleep 3600; done", std::chrono::milliseconds(20));
  EXPECT_EQ(output.status().code(), ErrorCode::kDeadlineExceeded);
}

TEST_F(ScriptRunTest, TooMuchOutputEndsItWithItsWholeGroup) {
  const auto output = Run("sleep 3600 & echo $! >&2; yes");
  ExpectError(output.status(), ErrorCode::kSpecInvalid, {"100000 bytes"});
  ASSERT_EQ(errors_.size(), 1U);
  const pid_t grandchild = std::stoi(errors_[0]);
  ASSERT_GT(grandchild, 1);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return IsDead(grandchild); }));
}

TEST_F(ScriptRunTest, GrandchildThatKeepsThePipesOpenDelaysNothing) {
  const auto output = Run("sleep 3600 & echo $! >&2; echo a");
  ASSERT_TRUE(output.ok()) << output.status().ToString();
  EXPECT_EQ(*output, "a\n");
  ASSERT_EQ(errors_.size(), 1U);
  const pid_t grandchild = std::stoi(errors_[0]);
  ASSERT_GT(grandchild, 1);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return IsDead(grandchild); }))
      << "a script that runs each second would leave one each second";
}

TEST_F(ScriptRunTest, WhatItLeavesInASessionOfItsOwnIsItsOwnBusiness) {
  const auto output = Run("setsid sleep 3600 >/dev/null 2>&1 & echo $! >&2; echo a");
  ASSERT_TRUE(output.ok()) << output.status().ToString();
  ASSERT_EQ(errors_.size(), 1U);
  const pid_t daemon = std::stoi(errors_[0]);
  ASSERT_GT(daemon, 1);
  ::kill(daemon, SIGKILL);
}

TEST_F(ScriptRunTest, DestroyedItTellsNothingAndLeavesNothing) {
  Start("sleep 3600 & echo $! >&2; echo $$ >&2; wait");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return errors_.size() == 2; }));
  run_.reset();
  Settle(*loop_);
  EXPECT_FALSE(is_done_);
  for (const std::string& pid : errors_) {
    EXPECT_TRUE(RunUntil(*loop_, [&] { return IsDead(std::stoi(pid)); })) << pid;
  }
}

TEST_F(ScriptRunTest, LineOfItsErrorsThatNeverEndsIsCut) {
  const auto output = Run("head -c 10000 /dev/zero | tr '\\0' x >&2");
  ASSERT_TRUE(output.ok());
  ASSERT_EQ(errors_.size(), 3U);
  EXPECT_EQ(errors_[0].size(), 4096U);
}

}  // namespace
}  // namespace hvdray
