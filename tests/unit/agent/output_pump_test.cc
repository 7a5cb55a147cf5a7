// SPDX-License-Identifier: Apache-2.0
#include "agent/output_pump.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "tests/fakes/fake_link.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

constexpr Generation kGeneration = 4;

class OutputPumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    pump_ = std::make_unique<OutputPump>(*loop_, link_, kGeneration, [this] { ++progress_; });
    for (UniqueFd* writer : {&stdout_, &stderr_}) {
      auto pipe = MakePipe();
      ASSERT_TRUE(pipe.ok());
      ASSERT_TRUE(SetNonBlocking(pipe->read_end.get()).ok());
      ASSERT_TRUE(SetNonBlocking(pipe->write_end.get()).ok());
      *writer = std::move(pipe->write_end);
      (writer == &stdout_ ? out_ : err_) = std::move(pipe->read_end);
    }
  }
  void Add() { pump_->Add(3, std::move(out_), std::move(err_)); }
  /// The same with a channel, whose other end is `channel_`.
  void AddWithChannel() {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    channel_.Reset(ends[0]);
    pump_->Add(3, std::move(out_), std::move(err_), UniqueFd(ends[1]));
    agents_channel_ = ends[1];
  }
  size_t SentBytes() const {
    size_t bytes = 0;
    for (const wire::Output& output : sent_) bytes += output.bytes.size();
    return bytes;
  }
  size_t SentBytes(wire::StreamId stream) const {
    size_t bytes = 0;
    for (const wire::Output& output : sent_) {
      if (output.stream == stream) bytes += output.bytes.size();
    }
    return bytes;
  }
  // Writes as long as somebody takes it.
  size_t Fill(UniqueFd& writer, size_t bytes) {
    const std::string block(4096, 'x');
    size_t written = 0;
    for (int stuck = 0; written < bytes && stuck < 3;) {
      const ssize_t n =
          ::write(writer.get(), block.data(), std::min(block.size(), bytes - written));
      stuck = n > 0 ? 0 : stuck + 1;
      if (n > 0) written += static_cast<size_t>(n);
      if (n <= 0) Settle(*loop_);
    }
    Settle(*loop_);
    return written;
  }

  std::unique_ptr<Loop> loop_;
  wire::FakeLink link_{[this](wire::Message message) {
    EXPECT_EQ(message.generation, kGeneration);
    sent_.push_back(std::get<wire::Output>(std::move(message.body)));
  }};
  std::unique_ptr<OutputPump> pump_;
  UniqueFd out_, err_, stdout_, stderr_, channel_;
  int agents_channel_ = -1;
  std::vector<wire::Output> sent_;
  int progress_ = 0;
};

TEST_F(OutputPumpTest, ATracebackOnStderrIsTimedAndPassedOn) {
  Add();
  ASSERT_TRUE(WriteAll(stdout_.get(), "Traceback (most recent call last):\n").ok());
  Settle(*loop_);
  EXPECT_FALSE(pump_->ReadErrors(3).has_value()) << "stdout is data";
  const TimePoint before = loop_->Now();
  ASSERT_TRUE(WriteAll(stderr_.get(), "Traceback (most recent call last):\n").ok());
  const std::optional<TimePoint> erred = pump_->ReadErrors(3);
  ASSERT_TRUE(erred.has_value());
  EXPECT_GE(*erred, before);
  EXPECT_EQ(sent_.size(), 2U);
  EXPECT_FALSE(pump_->ReadErrors(99).has_value());
}

TEST_F(OutputPumpTest, EndOfEachStreamIsToldOnceAndLast) {
  Add();
  ASSERT_TRUE(WriteAll(stdout_.get(), "out").ok());
  ASSERT_TRUE(WriteAll(stderr_.get(), "err").ok());
  stdout_.Reset();
  Settle(*loop_);
  EXPECT_FALSE(pump_->HasEnded());
  stderr_.Reset();
  Settle(*loop_);
  EXPECT_TRUE(pump_->HasEnded());
  EXPECT_EQ(progress_, 2);
  ASSERT_EQ(sent_.size(), 4U);
  EXPECT_EQ(sent_.back(), (wire::Output{3, wire::StreamId::kStderr, true, ""}));
}

TEST_F(OutputPumpTest, BothStreamsShareOneWindow) {
  Add();
  const size_t first = Fill(stdout_, wire::kOutputWindowBytes - 5000);
  EXPECT_EQ(first, wire::kOutputWindowBytes - 5000);
  Fill(stderr_, 20000);
  EXPECT_EQ(SentBytes(), size_t{wire::kOutputWindowBytes});
  EXPECT_TRUE(pump_->IsHeldBack());
  pump_->AddCredit(3, wire::StreamId::kStdout, 1);
  Settle(*loop_);
  EXPECT_EQ(SentBytes(), size_t{wire::kOutputWindowBytes} + 1);
}

TEST_F(OutputPumpTest, WriterBlocksWhenCreditIsUsedUp) {
  Add();
  const size_t taken = Fill(stdout_, size_t{8} << 20);
  EXPECT_EQ(SentBytes(), size_t{wire::kOutputWindowBytes});
  EXPECT_LE(taken, size_t{wire::kOutputWindowBytes} + (1 << 20));
}

TEST_F(OutputPumpTest, EndOfFileWaitsForCreditAndIsNotSpunOn) {
  Add();
  Fill(stdout_, wire::kOutputWindowBytes);
  stdout_.Reset();
  Settle(*loop_);
  EXPECT_EQ(progress_, 0);
  pump_->AddCredit(3, wire::StreamId::kStdout, 100);
  Settle(*loop_);
  EXPECT_EQ(progress_, 1);
}

TEST_F(OutputPumpTest, NothingIsReadWithoutRoomOnTheLink) {
  link_.has_room = false;
  Add();
  Fill(stdout_, 100);
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(pump_->IsHeldBack());
  link_.has_room = true;
  pump_->OnRoom();
  Settle(*loop_);
  EXPECT_EQ(SentBytes(), 100U);
  EXPECT_FALSE(pump_->IsHeldBack());
}

TEST_F(OutputPumpTest, FramesAreNeverLargerThanTheLimit) {
  Add();
  Fill(stdout_, 900'000);
  for (const wire::Output& output : sent_) EXPECT_LE(output.bytes.size(), kOutputFrameBytes);
  EXPECT_EQ(SentBytes(), 900'000U);
}

TEST_F(OutputPumpTest, CreditForAnUnknownRankIsIgnoredAndTooMuchIsCutOff) {
  Add();
  pump_->AddCredit(99, wire::StreamId::kStdout, 1000);
  for (int i = 0; i < 1000; ++i) pump_->AddCredit(3, wire::StreamId::kStdout, UINT32_MAX);
  Fill(stdout_, 2'000'000);
  EXPECT_EQ(SentBytes(), 2'000'000U);
}

TEST_F(OutputPumpTest, DiscardReadsOnWithoutCreditRoomOrFrames) {
  link_.has_room = false;
  Add();
  pump_->Discard();
  EXPECT_EQ(Fill(stdout_, 5'000'000), 5'000'000U);
  EXPECT_TRUE(sent_.empty());
  EXPECT_FALSE(pump_->IsHeldBack());
  stdout_.Reset();
  stderr_.Reset();
  Settle(*loop_);
  EXPECT_TRUE(pump_->HasEnded());
}

TEST_F(OutputPumpTest, ForcedEndTakesWhatIsThereAndDoesNotWaitForEndOfFile) {
  Add();
  ASSERT_TRUE(WriteAll(stdout_.get(), "last words").ok());
  pump_->ForceEnd();
  Settle(*loop_);
  EXPECT_TRUE(pump_->HasEnded());  // though both write ends are still open
  EXPECT_EQ(SentBytes(), 10U);
}

TEST_F(OutputPumpTest, ForcedEndStillObeysCredit) {
  Add();
  Fill(stdout_, wire::kOutputWindowBytes + 3000);
  pump_->ForceEnd();
  Settle(*loop_);
  EXPECT_FALSE(pump_->HasEnded());
  pump_->AddCredit(3, wire::StreamId::kStdout, 10'000);
  Settle(*loop_);
  EXPECT_TRUE(pump_->HasEnded());
  EXPECT_EQ(SentBytes(), size_t{wire::kOutputWindowBytes} + 3000);
}

TEST_F(OutputPumpTest, WriterOutOfReachCannotKeepAForcedStreamOpen) {
  Add();
  pump_->AddCredit(3, wire::StreamId::kStdout, 60 << 20);
  pump_->ForceEnd();
  bool is_gone = false;
  const std::string block(65536, 'x');
  for (int i = 0; i < 100'000 && !is_gone; ++i) {
    is_gone = ::write(stdout_.get(), block.data(), block.size()) < 0 && errno == EPIPE;
    Settle(*loop_);
  }
  EXPECT_TRUE(is_gone);
}

TEST_F(OutputPumpTest, AChannelHasAWindowOfItsOwn) {
  AddWithChannel();
  Fill(channel_, wire::kOutputWindowBytes + 20'000);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), size_t{wire::kOutputWindowBytes});
  EXPECT_TRUE(pump_->IsHeldBack());
  Fill(stdout_, 5000);
  Fill(stderr_, 5000);
  EXPECT_EQ(SentBytes(), wire::kOutputWindowBytes + 10'000U) << "output goes on";
  pump_->AddCredit(3, wire::StreamId::kStdout, 1 << 20);
  Settle(*loop_);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), size_t{wire::kOutputWindowBytes});
  pump_->AddCredit(3, wire::StreamId::kChannel, 1);
  Settle(*loop_);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), size_t{wire::kOutputWindowBytes} + 1);
}

TEST_F(OutputPumpTest, WhatWasPrintedBeforeAMessageLeavesBeforeIt) {
  AddWithChannel();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(WriteAll(stdout_.get(), "out").ok());
    ASSERT_TRUE(WriteAll(stderr_.get(), "err").ok());
    ASSERT_TRUE(WriteAll(channel_.get(), "message").ok());
    Settle(*loop_);
    ASSERT_EQ(sent_.size(), 3U);
    EXPECT_EQ(sent_[2].stream, wire::StreamId::kChannel) << "round " << round;
    sent_.clear();
  }
}

TEST_F(OutputPumpTest, AMessageWaitsForWhatWasPrintedBeforeItAndIsHeldBack) {
  AddWithChannel();
  Fill(stdout_, wire::kOutputWindowBytes + 5000);
  ASSERT_TRUE(WriteAll(channel_.get(), "message").ok());
  Settle(*loop_);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 0U);
  pump_->AddCredit(3, wire::StreamId::kStdout, 4999);
  Settle(*loop_);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 0U);
  // Later than the message.
  ASSERT_TRUE(WriteAll(stderr_.get(), "err").ok());
  pump_->AddCredit(3, wire::StreamId::kStdout, 1);
  Settle(*loop_);
  EXPECT_EQ(SentBytes(wire::StreamId::kStdout), wire::kOutputWindowBytes + 5000U);
  EXPECT_EQ(SentBytes(wire::StreamId::kStderr), 0U);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 7U);
}

TEST_F(OutputPumpTest, AWriterThatNeverPausesDoesNotHoldTheChannel) {
  AddWithChannel();
  const std::string block(4096, 'x');
  const auto print = [&] {
    while (::write(stdout_.get(), block.data(), block.size()) > 0) {
    }
  };
  print();
  ASSERT_TRUE(WriteAll(channel_.get(), "message").ok());
  for (int round = 0; round < 1000 && SentBytes(wire::StreamId::kChannel) == 0; ++round) {
    pump_->AddCredit(3, wire::StreamId::kStdout, kOutputFrameBytes);
    Settle(*loop_);
    print();
  }
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 7U);
}

TEST_F(OutputPumpTest, AForcedEndTakesTheMessageBehindWhatWasHeldBack) {
  AddWithChannel();
  Fill(stdout_, wire::kOutputWindowBytes + 3000);
  ASSERT_TRUE(WriteAll(channel_.get(), "message").ok());
  Settle(*loop_);
  pump_->ForceEnd();
  Settle(*loop_);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 0U);
  pump_->AddCredit(3, wire::StreamId::kStdout, 10'000);
  Settle(*loop_);
  EXPECT_TRUE(pump_->HasEnded());  // though all three writers are still there
  EXPECT_EQ(SentBytes(wire::StreamId::kStdout), wire::kOutputWindowBytes + 3000U);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 7U);
}

TEST_F(OutputPumpTest, DiscardReleasesAMessageThatWaits) {
  AddWithChannel();
  Fill(stdout_, wire::kOutputWindowBytes + 3000);
  ASSERT_TRUE(WriteAll(channel_.get(), "message").ok());
  Settle(*loop_);
  pump_->Discard();
  EXPECT_EQ(Fill(channel_, 5'000'000), 5'000'000U);
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 0U);
}

TEST_F(OutputPumpTest, AChannelEndsByItselfAndIsWaitedFor) {
  AddWithChannel();
  ASSERT_TRUE(WriteAll(channel_.get(), "last").ok());
  stdout_.Reset();
  stderr_.Reset();
  Settle(*loop_);
  EXPECT_FALSE(pump_->HasEnded());
  channel_.Reset();
  Settle(*loop_);
  EXPECT_TRUE(pump_->HasEnded());
  EXPECT_EQ(progress_, 3);
  EXPECT_EQ(sent_.back(), (wire::Output{3, wire::StreamId::kChannel, true, ""}));
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), 4U);
}

// Unread bytes make the end of a socket an error to its peer.
TEST_F(OutputPumpTest, AWorkerThatHasNotReadItsChannelEndsItAsAnyOther) {
  AddWithChannel();
  ASSERT_EQ(::write(agents_channel_, "unread", 6), 6);
  ASSERT_TRUE(WriteAll(channel_.get(), "last").ok());
  std::vector<std::string> logged;
  const LogSink sink([&logged](std::string_view line) { logged.emplace_back(line); });
  channel_.Reset();
  Settle(*loop_);
  EXPECT_EQ(SentBytes(), 4U);
  EXPECT_EQ(sent_.back(), (wire::Output{3, wire::StreamId::kChannel, true, ""}));
  EXPECT_TRUE(logged.empty()) << logged.front();
}

TEST_F(OutputPumpTest, ForcedEndTakesWhatIsInTheChannelWithinItsCredit) {
  AddWithChannel();
  Fill(channel_, wire::kOutputWindowBytes + 3000);
  pump_->ForceEnd();
  Settle(*loop_);
  EXPECT_FALSE(pump_->HasEnded());
  EXPECT_TRUE(pump_->IsHeldBack());
  pump_->AddCredit(3, wire::StreamId::kChannel, 10'000);
  Settle(*loop_);
  EXPECT_TRUE(pump_->HasEnded());  // though all three writers are still there
  EXPECT_EQ(SentBytes(wire::StreamId::kChannel), size_t{wire::kOutputWindowBytes} + 3000);
}

TEST_F(OutputPumpTest, DiscardReadsTheChannelToo) {
  AddWithChannel();
  Fill(channel_, wire::kOutputWindowBytes);
  pump_->Discard();
  EXPECT_FALSE(pump_->IsHeldBack());
  EXPECT_EQ(Fill(channel_, 5'000'000), 5'000'000U);
  EXPECT_EQ(SentBytes(), size_t{wire::kOutputWindowBytes});
}

}  // namespace
}  // namespace hvdray
