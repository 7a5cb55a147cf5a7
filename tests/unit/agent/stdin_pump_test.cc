// SPDX-License-Identifier: Apache-2.0
#include "agent/stdin_pump.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <random>

#include "agent/worker_inputs.h"
#include "tests/fakes/loop_runner.h"
#include "wire/message.h"

namespace hvdray {
namespace {

class StdinPumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    auto pipe = MakePipe();
    ASSERT_TRUE(pipe.ok());
    ASSERT_TRUE(SetNonBlocking(pipe->read_end.get()).ok());
    ASSERT_TRUE(SetNonBlocking(pipe->write_end.get()).ok());
    reader_ = std::move(pipe->read_end);
    pump_ = std::make_unique<StdinPump>(*loop_, std::move(pipe->write_end),
                                        [this](uint32_t n) { consumed_ += n; });
  }
  std::string Read() {
    std::string buffer(1 << 20, '\0');
    const ssize_t n = ::read(reader_.get(), buffer.data(), buffer.size());
    is_end_ = n == 0;
    buffer.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return buffer;
  }
  std::unique_ptr<Loop> loop_;
  UniqueFd reader_;
  std::unique_ptr<StdinPump> pump_;
  uint64_t consumed_ = 0;
  bool is_end_ = false;
};

TEST_F(StdinPumpTest, BytesPassInOrderAndEndFollowsThem) {
  ASSERT_TRUE(pump_->Write("one ", false).ok());
  ASSERT_TRUE(pump_->Write("two", true).ok());
  EXPECT_EQ(Read(), "one two");
  Read();
  EXPECT_TRUE(is_end_);
  EXPECT_EQ(consumed_, 7U);
}

TEST_F(StdinPumpTest, OnlyWhatHasLeftIsConsumed) {
  const std::string sent(wire::kStdinWindowBytes, 'x');
  ASSERT_TRUE(pump_->Write(sent, false).ok());
  EXPECT_LT(consumed_, sent.size());
  EXPECT_GT(consumed_, 0U);
  size_t received = 0;
  EXPECT_TRUE(RunUntil(*loop_, [&] { return (received += Read().size()) == sent.size(); }));
  EXPECT_EQ(consumed_, sent.size());
}

TEST_F(StdinPumpTest, MoreThanTheWindowIsAProtocolError) {
  ASSERT_TRUE(pump_->Write(std::string(wire::kStdinWindowBytes, 'x'), false).ok());
  const Status status = pump_->Write(std::string(wire::kStdinWindowBytes, 'x'), false);
  EXPECT_EQ(status.code(), ErrorCode::kProtocolError);
}

TEST_F(StdinPumpTest, ReaderThatGoesAwayConsumesEverything) {
  ASSERT_TRUE(pump_->Write(std::string(wire::kStdinWindowBytes, 'x'), false).ok());
  reader_.Reset();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return consumed_ == wire::kStdinWindowBytes; }));
  ASSERT_TRUE(pump_->Write("more", true).ok());
  EXPECT_EQ(consumed_, wire::kStdinWindowBytes + 4);
}

TEST_F(StdinPumpTest, CloseDropsWhatWaits) {
  ASSERT_TRUE(pump_->Write(std::string(wire::kStdinWindowBytes, 'x'), false).ok());
  pump_->Close();
  EXPECT_EQ(consumed_, wire::kStdinWindowBytes);
}

TEST_F(StdinPumpTest, EndWithoutBytesClosesThePipe) {
  ASSERT_TRUE(pump_->Write("", true).ok());
  Read();
  EXPECT_TRUE(is_end_);
}

TEST(StdinPumpSocketTest, ADescriptorArrivesWithItsBytesInOrder) {
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd reader(ends[1]);
  uint64_t consumed = 0;
  StdinPump pump(**loop, UniqueFd(ends[0]), [&](uint32_t n) { consumed += n; });
  // More than the socket takes at once, so that the rest waits.
  const std::string before(wire::kStdinWindowBytes, 'x');
  ASSERT_TRUE(pump.Write(before, false).ok());
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  pump.WriteWithDescriptor("object\n", std::move(pipe->write_end));
  EXPECT_FALSE(pump.Write("x", false).ok() && consumed == 0)
      << "the window counts bytes of Write()";

  std::string received;
  UniqueFd passed;
  size_t passed_at = 0;
  const auto receive = [&] {
    std::array<char, 4096> bytes;
    std::array<char, CMSG_SPACE(sizeof(int))> control;
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(reader.get(), &message, MSG_CMSG_CLOEXEC);
    if (n <= 0) return;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
      passed.Reset(*reinterpret_cast<const int*>(CMSG_DATA(header)));
      passed_at = received.size();
    }
    received.append(bytes.data(), static_cast<size_t>(n));
  };
  EXPECT_TRUE(RunUntil(**loop, [&] {
    receive();
    return received.find("object\n") != std::string::npos;
  }));
  EXPECT_TRUE(passed.is_valid());
  EXPECT_EQ(passed_at, before.size()) << "the kernel ends a read before a descriptor";
  EXPECT_EQ(::write(passed.get(), "!", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(pipe->read_end.get(), &byte, 1), 1);
}

TEST_F(StdinPumpTest, WhatComesBeforeThePipeIsKeptAndGivenUpIfThereIsNone) {
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  ASSERT_TRUE(SetNonBlocking(pipe->read_end.get()).ok());
  ASSERT_TRUE(SetNonBlocking(pipe->write_end.get()).ok());
  reader_ = std::move(pipe->read_end);
  const auto consume = [this](uint32_t n) { consumed_ += n; };
  StdinPump later(*loop_, consume);
  ASSERT_TRUE(later.Write("early ", false).ok());
  ASSERT_TRUE(later.Write("bird", true).ok());
  EXPECT_EQ(consumed_, 0U);
  EXPECT_FALSE(later.Write(std::string(wire::kStdinWindowBytes, 'x'), false).ok())
      << "its credit holds";
  later.Open(std::move(pipe->write_end));
  EXPECT_EQ(Read(), "early bird");
  Read();
  EXPECT_TRUE(is_end_);
  EXPECT_EQ(consumed_, 10U);

  StdinPump never(*loop_, consume);
  ASSERT_TRUE(never.Write("lost", false).ok());
  never.Close();
  EXPECT_EQ(consumed_, 14U) << "the launcher may send as many for others";
}

// Workers 0 to 2 are expected, 3 is not; any may be opened, read, closed, or lose its reader.
TEST(WorkerInputsTest, EachByteIsQueuedReadOrGrantedAgain) {
  using Input = std::pair<int, wire::StreamId>;
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    std::map<Input, uint64_t> sent, granted;
    std::map<Input, UniqueFd> readers;
    WorkerInputs inputs(**loop, [&granted](wire::Credit credit) {
      granted[{credit.rank, credit.stream}] += credit.bytes;
    });
    const std::array streams = {wire::StreamId::kStdin, wire::StreamId::kChannel};
    for (int worker = 0; worker < 3; ++worker) {
      for (const auto stream : streams) inputs.Expect(worker, stream);
    }
    std::map<int, bool> closed;
    for (int step = 0; step < 60; ++step) {
      const Input input(dice() % 4, streams.at(dice() % 2));
      const auto& [worker, stream] = input;
      const uint32_t act = dice() % 8;
      if (act == 0 && worker < 3 && !closed[worker] && !readers.contains(input)) {
        std::array<int, 2> ends;
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
        readers[input].Reset(ends[0]);
        inputs.Open(worker, stream, UniqueFd(ends[1]));
      } else if (act == 1 && readers.contains(input)) {
        readers[input].Reset();
      } else if (act == 2) {
        inputs.Close(worker);
        closed[worker] = true;
      } else if (act > 3) {
        const uint64_t queued = sent[input] - granted[input];
        const uint64_t size = dice() % (wire::kStdinWindowBytes / 4);
        if (queued + size > wire::kStdinWindowBytes) continue;  // as no launcher does
        sent[input] += size;
        ASSERT_TRUE(inputs.Write({worker, false, std::string(size, 'x'), stream}).ok());
      }
      ASSERT_LE(granted[input], sent[input]);
    }
    for (int worker = 0; worker < 4; ++worker) inputs.Close(worker);
    for (const auto& [input, bytes] : sent) EXPECT_EQ(granted[input], bytes) << input.first;
  }
}

}  // namespace
}  // namespace hvdray
