// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/output_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using Outcome = OutputSink::Outcome;
using Reopen = OutputSink::Reopen;

class OutputSinkTest : public testing::TestWithParam<Reopen> {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }
  std::unique_ptr<Loop> loop_ = Loop::Create().value();
};

std::string ReadSome(int fd) {
  std::string bytes(size_t{1} << 20, '\0');
  const ssize_t n = ::read(fd, bytes.data(), bytes.size());
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

// Writes all of `bytes` while the test reads it back in the same loop.
std::string PumpThrough(Loop& loop, OutputSink& sink, int read_fd, const std::string& bytes) {
  std::string got;
  size_t sent = 0;
  std::function<void()> write = [&] {
    const OutputSink::Progress progress = sink.Write(ByteView(bytes).substr(sent));
    sent += progress.written;
    if (progress.outcome == Outcome::kMustWait) sink.OnWritable(write);
  };
  const Watch reader = loop.OnFd(read_fd, FdEvent::kRead, [&] { got += ReadSome(read_fd); });
  write();
  RunUntil(loop, [&] { return got.size() >= bytes.size(); });
  return got;
}

TEST_P(OutputSinkTest, AFullPipeMakesItWaitAndGivesItsFlagsNoOneElse) {
  Pipe pipe = MakePipe().value();
  OutputSink sink(*loop_, pipe.write_end.get(), GetParam());
  const std::string bytes = Pattern(size_t{3} << 20);
  const OutputSink::Progress progress = sink.Write(bytes);
  EXPECT_EQ(progress.outcome, Outcome::kMustWait);
  EXPECT_GT(progress.written, 0u);
  EXPECT_LT(progress.written, bytes.size());
  EXPECT_EQ(::fcntl(pipe.write_end.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_P(OutputSinkTest, AllBytesArriveThroughAPipe) {
  Pipe pipe = MakePipe().value();
  OutputSink sink(*loop_, pipe.write_end.get(), GetParam());
  const std::string bytes = Pattern(size_t{3} << 20);
  EXPECT_TRUE(PumpThrough(*loop_, sink, pipe.read_end.get(), bytes) == bytes);
}

TEST_P(OutputSinkTest, AReaderThatLeftIsNoticedAtTheNextWrite) {
  Pipe pipe = MakePipe().value();
  OutputSink sink(*loop_, pipe.write_end.get(), GetParam());
  pipe.read_end.Reset();
  const OutputSink::Progress progress = sink.Write("x");
  EXPECT_EQ(progress.outcome, Outcome::kReaderGone);
  EXPECT_EQ(progress.error, EPIPE);
}

TEST_P(OutputSinkTest, AReaderThatLeavesWakesAWaitingWriter) {
  Pipe pipe = MakePipe().value();
  OutputSink sink(*loop_, pipe.write_end.get(), GetParam());
  ASSERT_EQ(sink.Write(Pattern(size_t{1} << 20)).outcome, Outcome::kMustWait);
  Outcome outcome = Outcome::kWritten;
  sink.OnWritable([&] { outcome = sink.Write("x").outcome; });
  pipe.read_end.Reset();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return outcome == Outcome::kReaderGone; }));
}

TEST_P(OutputSinkTest, ATerminalTakesItAllAndKeepsItsFlags) {
  int master = -1, slave = -1;
  ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  const UniqueFd master_fd(master), slave_fd(slave);
  OutputSink sink(*loop_, slave, GetParam());
  EXPECT_TRUE(sink.is_terminal());
  const std::string bytes(200'000, 'x');
  EXPECT_TRUE(PumpThrough(*loop_, sink, master, bytes) == bytes);
  EXPECT_EQ(::fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
}

INSTANTIATE_TEST_SUITE_P(Descriptions, OutputSinkTest,
                         testing::Values(Reopen::kTry, Reopen::kNever), [](const auto& test) {
                           return test.param == Reopen::kTry ? "Own" : "Shared";
                         });

using OutputSinkKindTest = OutputSinkTest;

TEST_F(OutputSinkKindTest, ASocketWaitsWithoutChangingItsFlags) {
  auto pair = MakeSocketPair().value();
  OutputSink sink(*loop_, pair.first.get());
  const std::string bytes = Pattern(size_t{3} << 20);
  EXPECT_TRUE(PumpThrough(*loop_, sink, pair.second.get(), bytes) == bytes);
  EXPECT_EQ(::fcntl(pair.first.get(), F_GETFL) & O_NONBLOCK, 0);
  pair.second.Reset();
  EXPECT_EQ(sink.Write("x").outcome, Outcome::kReaderGone);
}

TEST_F(OutputSinkKindTest, AFileIsWrittenAtItsSharedOffset) {
  const TempDirectory temp;
  const UniqueFd fd = OpenForWriting(temp / "out").value();
  ASSERT_TRUE(WriteAll(fd.get(), "before ").ok());
  OutputSink sink(*loop_, fd.get());
  EXPECT_EQ(sink.Write("after").outcome, Outcome::kWritten);
  EXPECT_EQ(ReadFile(temp / "out").value(), "before after");
}

TEST_F(OutputSinkKindTest, AFullDiskIsAFailureWithItsNumber) {
  const UniqueFd fd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(fd.is_valid());
  OutputSink sink(*loop_, fd.get());
  const OutputSink::Progress progress = sink.Write("x");
  EXPECT_EQ(progress.outcome, Outcome::kFailed);
  EXPECT_EQ(progress.error, ENOSPC);
}

TEST_F(OutputSinkKindTest, AClosedDescriptorSwallowsAll) {
  OutputSink sink(*loop_, -1);
  const OutputSink::Progress progress = sink.Write("xyz");
  EXPECT_EQ(progress.outcome, Outcome::kWritten);
  EXPECT_EQ(progress.written, 3u);
}

TEST_F(OutputSinkKindTest, PlacesAreTheSameOnlyWhereBytesWouldMix) {
  Pipe one = MakePipe().value(), two = MakePipe().value();
  const UniqueFd copy(::dup(one.write_end.get()));
  const UniqueFd null_a(::open("/dev/null", O_WRONLY)), null_b(::open("/dev/null", O_WRONLY));
  OutputSink a(*loop_, one.write_end.get()), b(*loop_, copy.get());
  OutputSink other(*loop_, two.write_end.get());
  EXPECT_TRUE(a.IsSamePlace(b));
  EXPECT_FALSE(a.IsSamePlace(other));
  EXPECT_FALSE(OutputSink(*loop_, null_a.get()).IsSamePlace(OutputSink(*loop_, null_b.get())));
  EXPECT_FALSE(OutputSink(*loop_, -1).IsSamePlace(OutputSink(*loop_, -1)));
}

}  // namespace
}  // namespace hvdray
