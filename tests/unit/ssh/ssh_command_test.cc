// SPDX-License-Identifier: Apache-2.0
// The stream and the process of a command on a real sshd.
#include <algorithm>

#include "base/digest.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/stream_owner.h"
#include "tests/unit/ssh/ssh_shell_harness.h"

namespace hvdray {
namespace {

class SshCommandTest : public SshShellTest {
 protected:
  void SetUp() override {
    SshShellTest::SetUp();
    Configure(sshd_);
  }
  LoopbackSshd sshd_;
};

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = 42;
  for (char& c : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return bytes;
}

TEST_F(SshCommandTest, BytesPassBothWaysAndTheCommandSeesTheEndOfItsInput) {
  Follow(Run("cat"));
  stream_->Write("ping");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_ == "ping"; }));
  EXPECT_EQ(process_->pid(), 0);
  EXPECT_FALSE(exit_.has_value());
  stream_.reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return exit_.has_value(); }));
  EXPECT_TRUE(exit_->ok()) << exit_->ToString();
  EXPECT_FALSE(closed_.has_value()) << "nobody is left to hear of it";
}

TEST_F(SshCommandTest, OutputComesWholeBeforeTheEnd) {
  EXPECT_EQ(Output("echo one; echo two"), "one\ntwo\n");
  EXPECT_TRUE(closed_->ok());
  EXPECT_TRUE(exit_->ok());
}

TEST_F(SshCommandTest, ExitCodesAreTold) {
  EXPECT_EQ(Output("echo x; exit 7"), "x\n");
  EXPECT_TRUE(closed_->ok()) << "the stream itself ended in order";
  EXPECT_EQ(exit_->code(), ErrorCode::kAgentLost);
  EXPECT_NE(exit_->message().find("node7 exited with code 7"), std::string::npos);
}

TEST_F(SshCommandTest, ASignalIsNotTakenForExitCodeZero) {
  Output("kill -9 $$");
  EXPECT_NE(exit_->message().find("killed by SIGKILL"), std::string::npos) << exit_->message();
}

TEST_F(SshCommandTest, StderrComesByLinesApartFromStdout) {
  EXPECT_EQ(Output("printf 'a\\nb\\r\\n' >&2; echo out; printf rest >&2"), "out\n");
  EXPECT_EQ(stderr_lines_, (std::vector<std::string>{"a", "b", "rest"}));
}

TEST_F(SshCommandTest, ALineOfStderrWithoutEndDoesNotPileUp) {
  Output("head -c 100000 /dev/zero | tr '\\0' x >&2");
  size_t total = 0;
  for (const std::string& line : stderr_lines_) {
    EXPECT_LE(line.size(), 8192u);
    total += line.size();
  }
  EXPECT_EQ(total, 100000u);
}

TEST_F(SshCommandTest, ACommandThatClosesItsOutputAndGoesOnIsStillFollowed) {
  Follow(Run("exec >&- 2>&-; read line; exit 3"));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_TRUE(closed_->ok());
  Settle(*loop_);
  EXPECT_FALSE(exit_.has_value());
  stream_.reset();  // ends its input
  ASSERT_TRUE(RunUntil(*loop_, [&] { return exit_.has_value(); }));
  EXPECT_NE(exit_->message().find("code 3"), std::string::npos) << exit_->message();
}

TEST_F(SshCommandTest, WhatIsWrittenBeforeStartLeavesAfterIt) {
  AgentStart start = Run("cat").value();
  start.stream->Write("early");
  EXPECT_EQ(start.stream->QueuedBytes(), 5u);
  Follow(std::move(start));
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got_ == "early" && drained_ == 1; }));
  EXPECT_EQ(stream_->QueuedBytes(), 0u);
}

TEST_F(SshCommandTest, SixtyFourMebibytesPassBothWaysAtOnce) {
  const std::string sent = Pattern(size_t{64} << 20);
  Follow(Run("cat"));
  for (size_t i = 0; i < sent.size(); i += 1 << 20) stream_->Write(sent.substr(i, 1 << 20));
  EXPECT_GT(stream_->QueuedBytes(), size_t{32} << 20);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_.size() >= sent.size(); }));
  EXPECT_EQ(Hex(Sha256(got_)), Hex(Sha256(sent)));
  EXPECT_EQ(drained_, 1);
  EXPECT_EQ(stream_->QueuedBytes(), 0u);
}

TEST_F(SshCommandTest, SixtyFourMebibytesOfOutputComeWhole) {
  const std::string output = Output("head -c 67108864 /dev/zero");
  EXPECT_EQ(output.size(), size_t{64} << 20);
  EXPECT_EQ(std::count(output.begin(), output.end(), '\0'), 64 << 20);
}

TEST_F(SshCommandTest, PausedReadingHoldsTheCommandBackAndLosesNothing) {
  Follow(Run("head -c 33554432 /dev/zero; echo end >&2"));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return !got_.empty(); }));
  stream_->SetReading(false);
  const size_t before = got_.size();
  Settle(*loop_);
  EXPECT_EQ(got_.size(), before);
  EXPECT_EQ(stderr_lines_.size(), 0u) << "more than the window cannot have come";
  stream_->SetReading(true);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return exit_.has_value(); }));
  EXPECT_EQ(got_.size(), 33554432u);
}

TEST_F(SshCommandTest, WritingGoesOnWhileReadingIsPaused) {
  Follow(Run("head -c 1000000 /dev/zero; head -c 16777216 | wc -c >&2"));
  stream_->SetReading(false);
  stream_->Write(std::string(size_t{16} << 20, 'x'));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return drained_ == 1; }))
      << stream_->QueuedBytes() << " still queued";
  EXPECT_EQ(got_, "");
  stream_->SetReading(true);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return exit_.has_value(); }));
  EXPECT_EQ(got_.size(), 1000000u);
  EXPECT_EQ(stderr_lines_, std::vector<std::string>{"16777216"});
}

TEST_F(SshCommandTest, PauseWithinOnDataHoldsFromTheNextBytesOn) {
  AgentStart start = Run("echo one; read line; echo two").value();
  stream_ = std::move(start.stream);
  StartStream(*stream_, {.on_data =
                             [this](ByteView bytes) {
                               got_ += bytes;
                               stream_->SetReading(false);
                             },
                         .on_closed = [this](Status status) { closed_ = std::move(status); }});
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_ == "one\n"; }));
  stream_->Write("\n");
  Settle(*loop_);
  EXPECT_EQ(got_, "one\n");
  stream_->SetReading(true);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_ == "one\ntwo\n"; }));
  stream_->SetReading(true);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
}

TEST_F(SshCommandTest, AServerKilledInTheMiddleIsALostConnection) {
  Follow(Run("cat /dev/zero"));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return !got_.empty(); }));
  sshd_.KillSessions();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_ && exit_; }));
  EXPECT_EQ(closed_->code(), ErrorCode::kAgentLost);
  EXPECT_EQ(exit_->code(), ErrorCode::kAgentLost);
  EXPECT_NE(exit_->message().find("node7"), std::string::npos);
}

TEST_F(SshCommandTest, AServerKilledWhileWeWriteIsALostConnectionToo) {
  Follow(Run("sleep 1000"));
  stream_->Write(std::string(size_t{16} << 20, 'x'));
  Settle(*loop_);
  sshd_.KillSessions();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_ && exit_; }));
  EXPECT_FALSE(closed_->ok());
  EXPECT_EQ(stream_->QueuedBytes(), 0u);
}

TEST_F(SshCommandTest, ACommandThatIgnoresTheEndOfItsInputIsCutOffAfterAWhile) {
  Follow(Run("echo up; exec sleep 60"));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_ == "up\n"; }));
  stream_.reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return exit_.has_value(); }));
  EXPECT_EQ(exit_->code(), ErrorCode::kAgentLost);
  EXPECT_TRUE(NamesFacts(exit_->message(), {"before", "command", "ended"})) << exit_->message();
}

TEST_F(SshCommandTest, StreamAndProcessMayBeDestroyedInAnyOfTheirCallbacks) {
  for (const std::string where : {"data", "drained", "closed", "exit"}) {
    AgentStart start = Run("cat").value();
    stream_ = std::move(start.stream);
    process_ = std::move(start.process);
    bool is_done = false;
    const auto drop = [&, capture = std::string(100, 'x')](const std::string& now) {
      if (now != where) return;
      stream_.reset();
      process_.reset();
      is_done = capture[99] == 'x';  // the function must still be there
    };
    process_->OnExit([drop](const Status&) { drop("exit"); });
    StartStream(*stream_, {.on_data =
                               [&, drop](ByteView) {
                                 drop("data");
                                 if (where == "closed" || where == "exit") sshd_.KillSessions();
                               },
                           .on_drained = [drop] { drop("drained"); },
                           .on_closed = [drop](const Status&) { drop("closed"); }});
    stream_->Write(std::string(5'000'000, 'y'));
    EXPECT_TRUE(RunUntil(*loop_, [&] { return is_done; })) << where;
    Settle(*loop_);
  }
}

TEST_F(SshCommandTest, ProcessMayGoFirst) {
  Follow(Run("cat"));
  process_.reset();
  stream_->Write("still here");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_ == "still here"; }));
  stream_.reset();
  Settle(*loop_);
  EXPECT_FALSE(exit_.has_value());
}

TEST_F(SshCommandTest, ProcessAskedLateAnswersFromTheLoop) {
  AgentStart start = Run("exit 4").value();
  stream_ = std::move(start.stream);
  StartStream(*stream_, {.on_closed = [this](Status status) { closed_ = std::move(status); }});
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  Settle(*loop_);
  start.process->OnExit([this](Status how) { exit_ = std::move(how); });
  EXPECT_FALSE(exit_.has_value());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return exit_.has_value(); }));
  EXPECT_NE(exit_->message().find("code 4"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
