// SPDX-License-Identifier: Apache-2.0
// Output of workers whose rank changes while they live, as in elastic jobs: tags, files, credit.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "base/fd.h"
#include "launcher/report/job_output.h"
#include "launcher/report/worker_lines.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using wire::StreamId;

class JobOutputMovesTest : public testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  std::unique_ptr<JobOutput> Open(TagOutput tag = TagOutput::kRank) {
    JobOutputOptions options;
    options.tag = tag;
    options.stdout_fd = out_.write_end.get();
    options.stderr_fd = err_.write_end.get();
    options.directory = temp_ / "out";
    options.np = 2;
    JobOutputHandlers handlers;
    handlers.on_consumed = [this](int worker, uint32_t bytes) { consumed_[worker] += bytes; };
    handlers.on_reader_gone = [] { ADD_FAILURE(); };
    handlers.on_damaged = [](const Status& why) { ADD_FAILURE() << why.ToString(); };
    return JobOutput::Open(*loop_, std::move(options), std::move(handlers)).value();
  }
  static std::string ReadAvailable(int fd) {
    std::string all, part(65536, '\0');
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t n = 0; (n = ::read(fd, part.data(), part.size())) > 0;) {
      all.append(part, 0, static_cast<size_t>(n));
    }
    return all;
  }
  std::string Stdout() { return ReadAvailable(out_.read_end.get()); }
  std::string Stderr() { return ReadAvailable(err_.read_end.get()); }
  std::string FileOf(int rank, const std::string& stream = "stdout") {
    return ReadFile(temp_ / ("out/rank." + std::to_string(rank) + "/" + stream)).value();
  }
  bool Drain(JobOutput& output) {
    std::optional<Status> result;
    output.Drain(std::nullopt, [&](Status status) { result = std::move(status); });
    EXPECT_TRUE(RunUntil(*loop_, [&] { return result.has_value(); }));
    return result.has_value() && result->ok();
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  TempDirectory temp_;
  Pipe out_ = MakePipe().value();
  Pipe err_ = MakePipe().value();
  std::map<int, size_t> consumed_;
};

TEST_F(JobOutputMovesTest, AWorkerIsTaggedByItsRankAndGetsCreditByItsNumber) {
  const auto output = Open();
  output->StartWorker(70'000, 1, "a");
  output->OnOutput(70'000, StreamId::kStdout, "one\n", false);
  output->OnOutput(70'000, StreamId::kStderr, "two\n", false);
  EXPECT_EQ(Stdout(), "[1]<stdout>:one\n");
  EXPECT_EQ(Stderr(), "[1]<stderr>:two\n");
  EXPECT_EQ(consumed_, (std::map<int, size_t>{{70'000, 8}}));
}

TEST_F(JobOutputMovesTest, AMoveChangesTheTagOfBothStreamsAndTheCreditStays) {
  const auto output = Open(TagOutput::kHost);
  output->StartWorker(5, 1, "a");
  output->OnOutput(5, StreamId::kStdout, "one\n", false);
  output->MoveWorker(5, 0, "a");
  output->OnOutput(5, StreamId::kStdout, "two\n", false);
  output->OnOutput(5, StreamId::kStderr, "three\n", false);
  EXPECT_EQ(Stdout(), "[a:1]<stdout>:one\n[a:0]<stdout>:two\n");
  EXPECT_EQ(Stderr(), "[a:0]<stderr>:three\n");
  EXPECT_EQ(consumed_, (std::map<int, size_t>{{5, 14}}));
}

TEST_F(JobOutputMovesTest, FilesFollowTheRank) {
  const auto output = Open();
  output->StartWorker(5, 0, "a");
  output->StartWorker(6, 1, "b");
  output->OnOutput(5, StreamId::kStdout, "five at 0\n", false);
  output->OnOutput(6, StreamId::kStdout, "six at 1\n", false);
  output->MoveWorker(6, 0, "b");
  output->OnOutput(6, StreamId::kStdout, "six at 0\n", false);
  output->StartWorker(7, 1, "c");
  output->OnOutput(7, StreamId::kStdout, "seven at 1\n", false);
  EXPECT_TRUE(Drain(*output));
  EXPECT_EQ(FileOf(0), "[0]<stdout>:five at 0\n[0]<stdout>:six at 0\n");
  EXPECT_EQ(FileOf(1), "[1]<stdout>:six at 1\n[1]<stdout>:seven at 1\n");
}

TEST_F(JobOutputMovesTest, ARankBeyondTheFirstSizeGetsItsFilesWhenItWrites) {
  const auto output = Open();
  output->StartWorker(9, 7, "d");
  output->OnOutput(9, StreamId::kStderr, "late\n", false);
  EXPECT_TRUE(Drain(*output));
  EXPECT_EQ(FileOf(7, "stderr"), "[7]<stderr>:late\n");
}

TEST_F(JobOutputMovesTest, AnOpenLineThatIsHeldIsTaggedWhenItIsWhole) {
  const auto output = Open();
  output->StartWorker(5, 1, "a");
  output->OnOutput(5, StreamId::kStdout, "half", false);
  output->MoveWorker(5, 0, "a");
  output->OnOutput(5, StreamId::kStdout, " whole\nnext\n", false);
  EXPECT_EQ(Stdout(), "[0]<stdout>:half whole\n[0]<stdout>:next\n") << "one tag a line";
  EXPECT_EQ(consumed_[5], 16u);
  EXPECT_EQ(output->QueuedBytes(), 0u);
}

TEST_F(JobOutputMovesTest, ALineOfWhichAPieceIsOutKeepsItsTagToItsEnd) {
  const auto output = Open();
  output->StartWorker(5, 1, "a");
  output->OnOutput(5, StreamId::kStdout, std::string(kMaxHeldLine + 1, 'x'), false);
  EXPECT_EQ(consumed_[5] + output->QueuedBytes(), kMaxHeldLine + 1);
  output->MoveWorker(5, 0, "a");
  output->OnOutput(5, StreamId::kStdout, "end\nnext\n", false);
  std::string all;
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    all += Stdout();
    return all.ends_with("next\n");
  }));
  EXPECT_EQ(all.find("[1]<stdout>:"), 0u);
  EXPECT_TRUE(all.ends_with("xend\n[0]<stdout>:next\n"));
  EXPECT_EQ(all.find('['), 0u);
  EXPECT_EQ(all.find('[', 1), all.rfind('[')) << "no tag in the middle of the line";
}

TEST_F(JobOutputMovesTest, WhatWasQueuedBeforeTheMoveKeepsItsTagAndItsFile) {
  const auto output = Open();
  output->StartWorker(5, 1, "a");
  // More than the pipe holds: the rest waits for a reader.
  std::string line(999, 'x');
  line += '\n';
  constexpr int kLines = 500;
  for (int i = 0; i < kLines; ++i) output->OnOutput(5, StreamId::kStdout, line, false);
  output->OnOutput(5, StreamId::kStdout, "last of old\n", false);
  ASSERT_TRUE(output->IsBlocked());
  output->MoveWorker(5, 0, "a");
  output->OnOutput(5, StreamId::kStdout, "first of new\n", false);
  std::string all;
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    all += Stdout();
    return all.ends_with("first of new\n");
  }));
  EXPECT_TRUE(all.ends_with("[1]<stdout>:last of old\n[0]<stdout>:first of new\n"));
  EXPECT_EQ(all.find("[0]"), all.rfind("[0]"));
  EXPECT_TRUE(FileOf(1).ends_with("last of old\n"));
  EXPECT_EQ(FileOf(0), "[0]<stdout>:first of new\n");
  EXPECT_EQ(consumed_[5], line.size() * kLines + 25);
}

TEST_F(JobOutputMovesTest, TheLastLinesOfStdoutAreThoseOfTheWholeStream) {
  const auto output = Open();
  output->StartWorker(5, 1, "a");
  EXPECT_TRUE(output->LastOutLines(5).empty());
  std::vector<std::string> last;
  std::string flood;
  for (int i = 0; i < 20'000; ++i) flood += std::to_string(i) + "\n";
  for (int i = 19'981; i < 20'000; ++i) last.push_back(std::to_string(i));
  last.emplace_back("the end");
  for (size_t at = 0, piece = 1; at < flood.size(); at += piece, piece = piece * 3 % 9'973) {
    output->OnOutput(5, StreamId::kStdout, flood.substr(at, piece), false);
  }
  output->OnOutput(5, StreamId::kStdout, "the end", true);
  output->OnOutput(5, StreamId::kStderr, "other\n", true);
  EXPECT_EQ(output->LastOutLines(5), last);
}

TEST_F(JobOutputMovesTest, LastErrorLinesAreFoundByTheNumberAfterAMove) {
  const auto output = Open();
  output->StartWorker(5, 1, "a");
  output->OnOutput(5, StreamId::kStderr, "before\n", false);
  output->MoveWorker(5, 0, "a");
  output->OnOutput(5, StreamId::kStderr, "after\n", false);
  EXPECT_EQ(output->LastErrorLines(5), (std::vector<std::string>{"before", "after"}));
  EXPECT_TRUE(output->LastErrorLines(0).empty());
}

}  // namespace
}  // namespace hvdray
