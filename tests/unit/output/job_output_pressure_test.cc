// SPDX-License-Identifier: Apache-2.0
// A reader slower than the workers: nothing is lost, nothing piles up. Real pipe, real loop; the
// test plays the workers with an agent's credit.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <vector>

#include "base/fd.h"
#include "launcher/report/job_output.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

using wire::StreamId;

constexpr int kRanks = 4;
constexpr size_t kWindow = size_t{1} << 20;
constexpr size_t kFrame = size_t{64} << 10;

// One worker's output, sent as its credit allows.
struct Source {
  std::string bytes;
  size_t sent = 0;
  size_t credit = kWindow;
};

class Pressure : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    JobOutputOptions options;
    options.stdout_fd = out_.write_end.get();
    options.stderr_fd = null_.get();
    JobOutputHandlers handlers;
    handlers.on_consumed = [this](int rank, uint32_t bytes) {
      sources_[static_cast<size_t>(rank)].credit += bytes;
    };
    handlers.on_reader_gone = [this] { is_reader_gone_ = true; };
    handlers.on_damaged = [](Status why) { ADD_FAILURE() << why.ToString(); };
    output_ = JobOutput::Open(*loop_, options, handlers).value();
    ::fcntl(out_.read_end.get(), F_SETFL, O_NONBLOCK);
  }

  // Sends what credit allows. Returns whether it sent anything.
  bool Send() {
    bool has_sent = false;
    for (int rank = 0; rank < kRanks; ++rank) {
      Source& source = sources_[static_cast<size_t>(rank)];
      const size_t size = std::min({kFrame, source.credit, source.bytes.size() - source.sent});
      if (size == 0) continue;
      source.credit -= size;
      const std::string frame = source.bytes.substr(source.sent, size);
      source.sent += size;
      output_->OnOutput(rank, StreamId::kStdout, frame, source.sent == source.bytes.size());
      has_sent = true;
    }
    return has_sent;
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  Pipe out_ = MakePipe().value();
  UniqueFd null_{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  std::vector<Source> sources_ = std::vector<Source>(kRanks);
  std::unique_ptr<JobOutput> output_;
  bool is_reader_gone_ = false;
};

using JobOutputPressureTest = Pressure;

TEST_F(JobOutputPressureTest, ASlowReaderSlowsTheWritersAndLosesNothing) {
  for (int rank = 0; rank < kRanks; ++rank) {
    std::string& bytes = sources_[static_cast<size_t>(rank)].bytes;
    for (int line = 0; bytes.size() < 3 * kWindow; ++line) {
      bytes += fmt::format("{:{}d}\n", line, 1 + line % 150);
    }
  }
  while (Send()) Settle(*loop_);
  // Nothing was read: the window bounds the queue, and only the pipe took bytes.
  EXPECT_LE(output_->QueuedBytes(), kRanks * kWindow);
  EXPECT_GE(output_->QueuedBytes(), kRanks * kWindow - (size_t{1} << 20));

  std::map<int, std::string> got;
  std::string rest;
  size_t total = 0, wanted = 0;
  for (const Source& source : sources_) wanted += source.bytes.size();
  const auto read_some = [&] {
    char part[20'000];
    const ssize_t n = ::read(out_.read_end.get(), part, sizeof part);
    if (n > 0) rest.append(part, static_cast<size_t>(n));
    size_t at = 0;
    for (size_t end = 0; (end = rest.find('\n', at)) != std::string::npos; at = end + 1) {
      const std::string_view line(rest.data() + at, end + 1 - at);
      ASSERT_EQ(line.substr(0, 1), "[");
      const size_t text = line.find(':') + 1;
      ASSERT_EQ(line.substr(2, text - 2), "]<stdout>:");
      got[line[1] - '0'] += line.substr(text);
      total += line.size() - text;
    }
    rest.erase(0, at);
    Send();
    ASSERT_LE(output_->QueuedBytes(), kRanks * kWindow);
  };
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    read_some();
    return total == wanted || testing::Test::HasFatalFailure();
  }));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(got[rank] == sources_[static_cast<size_t>(rank)].bytes) << "rank " << rank;
  }
  EXPECT_EQ(output_->QueuedBytes(), 0u);
}

TEST_F(JobOutputPressureTest, WhoAwaitsWhatHasArrivedDoesNotAwaitWhatArrivesLater) {
  std::vector<std::string> order;
  output_->OnceWritten([&] { order.emplace_back("nothing"); });
  EXPECT_EQ(order, std::vector<std::string>{"nothing"}) << "at once";
  const std::string block(kFrame, '\n');
  for (int i = 0; i < 8; ++i) output_->OnOutput(0, StreamId::kStdout, block, false);
  output_->OnceWritten([&] { order.emplace_back("first"); });
  for (int i = 0; i < 8; ++i) output_->OnOutput(1, StreamId::kStdout, block, false);
  output_->OnceWritten([&] { order.emplace_back("second"); });
  Settle(*loop_);
  EXPECT_EQ(order.size(), 1U);
  size_t read = 0;
  const auto read_until_told = [&](size_t count) {
    return RunUntil(*loop_, [&] {
      char part[4096];
      const ssize_t n = ::read(out_.read_end.get(), part, sizeof part);
      if (n > 0) read += static_cast<size_t>(n);
      return order.size() == count;
    });
  };
  const size_t size_of_half = 8 * kFrame * std::string_view("[0]<stdout>:\n").size();
  EXPECT_TRUE(read_until_told(2));
  EXPECT_LT(read, size_of_half + (size_t{1} << 20)) << "much of the second half still waits";
  EXPECT_GT(output_->QueuedBytes(), 0U);
  EXPECT_TRUE(read_until_told(3));
  EXPECT_EQ(order.back(), "second");
  EXPECT_EQ(output_->QueuedBytes(), 0U);
}

TEST_F(JobOutputPressureTest, AReaderThatLeavesTellsWhoAwaits) {
  const std::string block(kFrame, '\n');
  for (int i = 0; i < 8; ++i) output_->OnOutput(0, StreamId::kStdout, block, false);
  bool is_told = false;
  output_->OnceWritten([&] { is_told = true; });
  Settle(*loop_);
  EXPECT_FALSE(is_told);
  out_.read_end.Reset();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_told; }));
}

TEST_F(JobOutputPressureTest, LinesWithoutEndDoNotStallAWorkerThatHasCreditLeft) {
  for (Source& source : sources_) source.bytes.assign(3 * kWindow, '.');
  size_t total = 0;
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    Send();
    char part[65'536];
    const ssize_t n = ::read(out_.read_end.get(), part, sizeof part);
    for (ssize_t i = 0; i < n; ++i) total += part[i] == '.' ? 1 : 0;
    return total == kRanks * 3 * kWindow;
  }));
}

TEST_F(JobOutputPressureTest, AReaderThatLeavesFreesAllWhoWait) {
  for (Source& source : sources_) source.bytes.assign(2 * kWindow, '\n');
  while (Send()) Settle(*loop_);
  EXPECT_GT(output_->QueuedBytes(), 0u);
  out_.read_end.Reset();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_reader_gone_; }));
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    Send();
    return sources_.back().sent == sources_.back().bytes.size() && output_->QueuedBytes() == 0;
  }));
}

}  // namespace
}  // namespace hvdray
