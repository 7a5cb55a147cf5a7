// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "base/byte_stream.h"
#include "base/passed_descriptors.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/stream_owner.h"

namespace hvdray {
namespace {

class FdStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    auto [mine, peer] = MakeSocketPair().value();
    peer_ = std::move(peer);
    UniqueFd copy(::fcntl(mine.get(), F_DUPFD_CLOEXEC, 0));
    stream_ = MakeFdStream(*loop_, std::move(mine), std::move(copy));
  }

  void Start() {
    StartStream(*stream_, {.on_data = [this](ByteView bytes) { got_ += bytes; },
                           .on_drained = [this] { ++drained_; },
                           .on_closed = [this](const Status& status) { closed_ = status; }});
  }

  /// What the peer can read now.
  std::string ReadPeer() {
    std::string bytes;
    char buffer[65536];
    for (ssize_t n; (n = ::recv(peer_.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;) {
      bytes.append(buffer, static_cast<size_t>(n));
    }
    return bytes;
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  UniqueFd peer_;
  std::unique_ptr<ByteStream> stream_;
  std::string got_;
  int drained_ = 0;
  std::optional<Status> closed_;
};

TEST_F(FdStreamTest, BytesPassBothWays) {
  Start();
  stream_->Write("to peer");
  ASSERT_TRUE(WriteAll(peer_.get(), "from peer").ok());
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got_ == "from peer"; }));
  EXPECT_EQ(ReadPeer(), "to peer");
  EXPECT_EQ(drained_, 0) << "nothing had to wait";
}

class DescriptorStreamTest : public FdStreamTest {
 protected:
  void SetUp() override {
    auto [mine, peer] = MakeSocketPair().value();
    peer_ = std::move(peer);
    UniqueFd copy(::fcntl(mine.get(), F_DUPFD_CLOEXEC, 0));
    stream_ = MakeDescriptorStream(*loop_, std::move(mine), std::move(copy), [this](UniqueFd fd) {
      got_ += '[';
      EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
      descriptors_.push_back(std::move(fd));
    });
  }

  void Pass(ByteView bytes, const std::vector<int>& descriptors) {
    ASSERT_EQ(SendWithDescriptors(peer_.get(), bytes, descriptors),
              static_cast<ssize_t>(bytes.size()));
  }

  std::vector<UniqueFd> descriptors_;
};

TEST_F(DescriptorStreamTest, DescriptorsComeBeforeTheBytesThatTheyCameWith) {
  Start();
  auto [read_end, write_end] = MakePipe().value();
  ASSERT_TRUE(WriteAll(peer_.get(), "first ").ok());
  Pass("second ", {write_end.get()});
  Pass("third ", {0, 0});
  ASSERT_TRUE(WriteAll(peer_.get(), "last").ok());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_.ends_with("last"); }));
  // Earlier bytes may come with them.
  EXPECT_LT(got_.find('['), got_.find("second"));
  EXPECT_LT(got_.rfind('['), got_.find("third"));
  EXPECT_LT(got_.find("second"), got_.rfind("[["));
  std::erase(got_, '[');
  EXPECT_EQ(got_, "first second third last");
  ASSERT_EQ(descriptors_.size(), 3u);
  ASSERT_TRUE(WriteAll(descriptors_.front().get(), "x").ok());
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(DescriptorStreamTest, TooManyWithOneByteEndIt) {
  Start();
  Pass("x", std::vector<int>(200, 0));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_FALSE(closed_->ok());
  EXPECT_LE(descriptors_.size(), 16u);
}

TEST_F(FdStreamTest, WhatIsWrittenBeforeStartLeavesAfterIt) {
  stream_->Write("early");
  EXPECT_EQ(stream_->QueuedBytes(), 5u);
  EXPECT_EQ(ReadPeer(), "");
  Start();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return drained_ == 1; }));
  EXPECT_EQ(ReadPeer(), "early");
}

TEST_F(FdStreamTest, PeerThatDoesNotReadFillsTheQueueAndDrainsItInOrder) {
  Start();
  std::string sent;
  for (int i = 0; i < 40; ++i) {
    sent += std::string(50'000, static_cast<char>('a' + i % 26));
    stream_->Write(std::string(50'000, static_cast<char>('a' + i % 26)));
  }
  EXPECT_GT(stream_->QueuedBytes(), 1'000'000u);
  std::string read;
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    read += ReadPeer();
    return read.size() == sent.size();
  }));
  EXPECT_EQ(read, sent);
  EXPECT_EQ(stream_->QueuedBytes(), 0u);
  EXPECT_EQ(drained_, 1);
}

TEST_F(FdStreamTest, PausedReadingLeavesTheBytesWithThePeer) {
  Start();
  stream_->SetReading(false);
  ASSERT_TRUE(WriteAll(peer_.get(), "later").ok());
  Settle(*loop_);
  EXPECT_EQ(got_, "");
  stream_->SetReading(true);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got_ == "later"; }));
}

TEST_F(FdStreamTest, PauseWithinOnDataHoldsFromTheNextBytesOn) {
  StartStream(*stream_, {.on_data = [this](ByteView bytes) {
    got_ += bytes;
    stream_->SetReading(false);
  }});
  ASSERT_TRUE(WriteAll(peer_.get(), "one").ok());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_ == "one"; }));
  ASSERT_TRUE(WriteAll(peer_.get(), "two").ok());
  Settle(*loop_);
  EXPECT_EQ(got_, "one");
}

TEST_F(FdStreamTest, PeerThatClosesInOrderIsOkAndComesAfterItsBytes) {
  Start();
  ASSERT_TRUE(WriteAll(peer_.get(), "last").ok());
  peer_.Reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_TRUE(closed_->ok());
  EXPECT_EQ(got_, "last");
  stream_->Write("into the void");
  Settle(*loop_);
  EXPECT_EQ(stream_->QueuedBytes(), 0u);
}

TEST_F(FdStreamTest, LastWordsComeBeforeTheFailedWriteIsReported) {
  Start();
  ASSERT_TRUE(WriteAll(peer_.get(), "last words").ok());
  peer_.Reset();
  stream_->Write("x");  // EPIPE, without a SIGPIPE that would end this test
  EXPECT_FALSE(closed_.has_value()) << "never from within Write";
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(got_, "last words");
  EXPECT_FALSE(closed_->ok());
}

TEST_F(FdStreamTest, QueueOfAPeerThatWentAwayIsDropped) {
  Start();
  stream_->Write(std::string(2'000'000, 'x'));
  EXPECT_GT(stream_->QueuedBytes(), 0u);
  peer_.Reset();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(stream_->QueuedBytes(), 0u);
}

TEST_F(FdStreamTest, MayBeDestroyedInOnData) {
  const std::string capture(100, 'x');
  StartStream(*stream_, {.on_data = [this, capture](ByteView bytes) {
    stream_.reset();
    got_ = std::string(bytes) + capture[99];  // the function must still be there
  }});
  ASSERT_TRUE(WriteAll(peer_.get(), "a").ok());
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got_ == "ax"; }));
  EXPECT_EQ(stream_, nullptr);
}

TEST_F(FdStreamTest, MayBeDestroyedInOnDrained) {
  const std::string capture(100, 'x');
  StartStream(*stream_, {.on_drained = [this, capture] {
    stream_.reset();
    got_ = capture;
  }});
  stream_->Write(std::string(1'000'000, 'x'));
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    ReadPeer();
    return stream_ == nullptr;
  }));
  EXPECT_EQ(got_, capture);
}

TEST_F(FdStreamTest, MayBeDestroyedInOnClosed) {
  const std::string capture(100, 'x');
  StartStream(*stream_, {.on_closed = [this, capture](const Status& status) {
    stream_.reset();
    closed_ = status;
    got_ = capture;
  }});
  peer_.Reset();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(got_, capture);
}

TEST_F(FdStreamTest, MayBeDestroyedWithAFailureStillToReport) {
  Start();
  peer_.Reset();
  stream_->Write("x");
  stream_.reset();
  Settle(*loop_);
  EXPECT_FALSE(closed_.has_value());
}

TEST_F(FdStreamTest, DescriptorThatCannotBeReadIsReportedLater) {
  Pipe pipe = MakePipe().value();
  stream_ = MakeFdStream(*loop_, UniqueFd(), std::move(pipe.write_end));
  Start();
  EXPECT_FALSE(closed_.has_value());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(closed_->code(), ErrorCode::kSystem);
}

TEST_F(FdStreamTest, TwoPipesMakeAStreamToo) {
  Pipe in = MakePipe().value();
  Pipe out = MakePipe().value();
  stream_ = MakeFdStream(*loop_, std::move(in.read_end), std::move(out.write_end));
  Start();
  stream_->Write("abc");
  char buffer[8];
  EXPECT_EQ(::read(out.read_end.get(), buffer, sizeof buffer), 3);
  ASSERT_TRUE(WriteAll(in.write_end.get(), "def").ok());
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got_ == "def"; }));
  in.write_end.Reset();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return closed_.has_value(); }));
}

}  // namespace
}  // namespace hvdray
