// SPDX-License-Identifier: Apache-2.0
// The inspector with a real child, and what it does when that child hangs.
#include "agent/inspector.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "agent/host_inspection.h"
#include "tests/fakes/loop_runner.h"
#include "tests/unit/agent/process_scan.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Report = std::function<void(const wire::Inspection&)>;

class InspectorTest : public testing::Test {
 protected:
  InspectorTest() : loop_(std::move(*Loop::Create())) {}

  void Start(const Inspector::GatherFn& gather, uint32_t timeout_ms = 60000) {
    wire::Inspect inspect;
    inspect.timeout_ms = timeout_ms;
    inspector_ = std::make_unique<Inspector>(
        *loop_, inspect,
        [this](wire::Inspection inspection) {
          ++answers_;
          answer_ = std::move(inspection);
          inspector_.reset();
        },
        gather);
  }
  wire::Inspection Answer() {
    EXPECT_TRUE(RunUntil(*loop_, [this] { return answers_ > 0; }));
    return answer_;
  }
  /// No child is left, not even a dead one.
  static bool HasNoChild() { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Inspector> inspector_;
  int answers_ = 0;
  wire::Inspection answer_;
};

TEST_F(InspectorTest, AnswersWithWhatTheChildHasGathered) {
  Start(&GatherInspection);
  const wire::Inspection inspection = Answer();
  EXPECT_FALSE(inspection.kernel.empty());
  EXPECT_TRUE(inspection.unanswered.empty());
  EXPECT_GT(inspection.received_ns, uint64_t{1'700'000'000} * 1'000'000'000);
  EXPECT_GE(inspection.sent_ns, inspection.received_ns);
  EXPECT_TRUE(WaitFor([] { return HasNoChild(); }));
}

TEST_F(InspectorTest, AStepThatHangsIsNamedAndWhatCameBeforeItCounts) {
  Start(
      [](const wire::Inspect& /*inspect*/, const Report& report) {
        wire::Inspection inspection;
        inspection.libc = "glibc 2.36";
        inspection.unanswered = {"free disk of /hung", "nvidia-smi"};
        report(inspection);
        for (;;) ::pause();
      },
      2000);  // for the fork and the report, too
  const wire::Inspection inspection = Answer();
  EXPECT_EQ(inspection.libc, "glibc 2.36");
  EXPECT_EQ(inspection.unanswered, (std::vector<std::string>{"free disk of /hung", "nvidia-smi"}));
  EXPECT_TRUE(WaitFor([] { return HasNoChild(); }));
}

TEST_F(InspectorTest, AChildThatDiesBeforeItSaysAnythingIsAnAnswerToo) {
  Start([](const wire::Inspect&, const Report&) { ::raise(SIGKILL); });
  EXPECT_EQ(Answer().unanswered, std::vector<std::string>{"all"});
}

TEST_F(InspectorTest, HalfAReportIsNotTaken) {
  Start([](const wire::Inspect&, const Report& report) {
    wire::Inspection inspection;
    inspection.libc = "whole";
    report(inspection);
    (void)!::write(3, "{\"libc\":\"ha", 11);
  });
  EXPECT_EQ(Answer().libc, "whole");
}

TEST_F(InspectorTest, TheChildHoldsNothingOfOurs) {
  auto sockets = MakeSocketPair();
  ASSERT_TRUE(sockets.ok());
  Start([](const wire::Inspect&, const Report& report) {
    report({});
    for (;;) ::pause();
  });
  Settle(*loop_);
  // Were a copy open in the child, its end would not be seen here.
  sockets->first.Reset();
  char byte = 0;
  EXPECT_TRUE(WaitFor([&] { return ::recv(sockets->second.get(), &byte, 1, MSG_DONTWAIT) == 0; }));
}

TEST_F(InspectorTest, DestroyedItNeverAnswersAndEndsTheChild) {
  Start([](const wire::Inspect&, const Report&) {
    for (;;) ::pause();
  });
  inspector_.reset();
  Settle(*loop_);
  EXPECT_EQ(answers_, 0);
  EXPECT_TRUE(WaitFor([] { return HasNoChild(); }));
}

TEST(AskProgramTest, GivesTextAndCode) {
  const auto answer = AskProgram({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, seconds(30));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->text, "out\nerr\n");
  EXPECT_EQ(answer->exit_code, 3);
  EXPECT_EQ(AskProgram({"/bin/sh", "-c", "kill -9 $$"}, seconds(30))->exit_code, 137);
}

TEST(AskProgramTest, WhatIsTooMuchIsCutAndWhatIsNotThereIsAnError) {
  const auto much = AskProgram({"/bin/sh", "-c", "head -c 200000 /dev/zero"}, seconds(30));
  ASSERT_TRUE(much.ok());
  EXPECT_EQ(much->text.size(), size_t{64} << 10);
  EXPECT_EQ(much->exit_code, 0);
  EXPECT_FALSE(AskProgram({"/no/such/program"}, seconds(30)).ok());
}

TEST(AskProgramTest, OneThatHangsIsKilledInTime) {
  const auto answer = AskProgram({"/bin/sh", "-c", "exec sleep 600"}, milliseconds(100));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(WaitFor([] { return ::waitpid(-1, nullptr, WNOHANG) < 0; }));
}

}  // namespace
}  // namespace hvdray
