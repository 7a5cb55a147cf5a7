// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/job_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/file_size_limit.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;
using wire::StreamId;

std::string ReadAvailable(int fd) {
  std::string all, part(65536, '\0');
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  for (ssize_t n = 0; (n = ::read(fd, part.data(), part.size())) > 0;) {
    all.append(part, 0, static_cast<size_t>(n));
  }
  return all;
}

RankInfo On(std::string host, int rank) {
  RankInfo info;
  info.host = std::move(host);
  info.rank = rank;
  return info;
}

class JobOutputTest : public testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  JobOutputOptions Options() const {
    JobOutputOptions options;
    options.stdout_fd = out_.write_end.get();
    options.stderr_fd = err_.write_end.get();
    return options;
  }
  JobOutputHandlers Handlers() {
    JobOutputHandlers handlers;
    handlers.on_consumed = [this](int rank, uint32_t bytes) { consumed_[rank] += bytes; };
    handlers.on_reader_gone = [this] { ++readers_gone_; };
    handlers.on_damaged = [this](Status why) { damage_.push_back(std::move(why)); };
    return handlers;
  }
  std::unique_ptr<JobOutput> Open(JobOutputOptions options) {
    return JobOutput::Open(*loop_, std::move(options), Handlers()).value();
  }
  std::string Stdout() { return ReadAvailable(out_.read_end.get()); }
  std::string Stderr() { return ReadAvailable(err_.read_end.get()); }
  Status Drain(JobOutput& output) {
    std::optional<Status> result;
    output.Drain(std::nullopt, [&](Status status) { result = std::move(status); });
    EXPECT_TRUE(RunUntil(*loop_, [&] { return result.has_value(); }));
    return result.value_or(Status(ErrorCode::kInternal, "not drained"));
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  Pipe out_ = MakePipe().value();
  Pipe err_ = MakePipe().value();
  std::map<int, size_t> consumed_;
  int readers_gone_ = 0;
  std::vector<Status> damage_;
};

TEST_F(JobOutputTest, LinesGoToTheirStreamWithTheirTag) {
  const auto output = Open(Options());
  output->OnOutput(1, StreamId::kStdout, "one\n", false);
  output->OnOutput(0, StreamId::kStderr, "two\n", false);
  EXPECT_EQ(Stdout(), "[1]<stdout>:one\n");
  EXPECT_EQ(Stderr(), "[0]<stderr>:two\n");
  EXPECT_EQ(consumed_[1], 4u);
  EXPECT_EQ(consumed_[0], 4u);
}

TEST_F(JobOutputTest, LinesOfTwoWorkersAreNotMixed) {
  const auto output = Open(Options());
  output->OnOutput(0, StreamId::kStdout, "half", false);
  output->OnOutput(1, StreamId::kStdout, "whole\n", false);
  EXPECT_EQ(consumed_[0], 0u);  // Held bytes are not written yet.
  EXPECT_EQ(output->QueuedBytes(), 4u);
  EXPECT_FALSE(output->IsBlocked());
  output->OnOutput(0, StreamId::kStdout, " done\n", false);
  EXPECT_EQ(Stdout(), "[1]<stdout>:whole\n[0]<stdout>:half done\n");
  EXPECT_EQ(consumed_[0], 10u);
  EXPECT_EQ(output->QueuedBytes(), 0u);
}

TEST_F(JobOutputTest, TheEndOfAStreamFlushesWithoutANewline) {
  const auto output = Open(Options());
  output->OnOutput(0, StreamId::kStdout, "a\nrest", true);
  EXPECT_EQ(Stdout(), "[0]<stdout>:a\n[0]<stdout>:rest");
}

TEST_F(JobOutputTest, HostTagsNameTheHostOfTheGeneration) {
  JobOutputOptions options = Options();
  options.tag = TagOutput::kHost;
  const auto output = Open(options);
  output->StartGeneration(std::vector<RankInfo>{On("node1", 0), On("node2", 1)});
  output->OnOutput(1, StreamId::kStdout, "x\n", false);
  output->StartGeneration(std::vector<RankInfo>{On("node3", 1)});
  output->OnOutput(1, StreamId::kStdout, "y\n", false);
  EXPECT_EQ(Stdout(), "[node2:1]<stdout>:x\n[node3:1]<stdout>:y\n");
}

TEST_F(JobOutputTest, TimeStampsFollowTheClock) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  JobOutputOptions options = Options();
  options.is_timestamped = true;
  std::time_t now = 1795232250;
  options.clock = [&now] { return now; };
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "x\n", false);
  now += 61;
  output->OnOutput(0, StreamId::kStdout, "y\n", false);
  EXPECT_EQ(Stdout(),
            "Sat Nov 21 03:37:30 2026[0]<stdout>:x\nSat Nov 21 03:38:31 2026[0]<stdout>:y\n");
}

TEST_F(JobOutputTest, FilesHoldWhatTheConsoleShowsButTheEndOfAnUnfinishedLine) {
  const TempDirectory temp;
  JobOutputOptions options = Options();
  options.directory = temp / "out";
  options.np = 2;
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "a\rb\npart", false);
  output->OnOutput(1, StreamId::kStderr, "e\n", false);
  ASSERT_TRUE(Drain(*output).ok());
  EXPECT_EQ(Stdout(), "[0]<stdout>:a\r[0]<stdout>:b\n[0]<stdout>:part\n");
  EXPECT_EQ(ReadFile(temp / "out/rank.0/stdout").value(),
            "[0]<stdout>:a\r[0]<stdout>:b\n[0]<stdout>:part");
  EXPECT_EQ(ReadFile(temp / "out/rank.1/stderr").value(), "[1]<stderr>:e\n");
  EXPECT_EQ(ReadFile(temp / "out/rank.1/stdout").value(), "");
}

TEST_F(JobOutputTest, ARestartBeginsFilesAnewAfterTheOldOutputIsWritten) {
  const TempDirectory temp;
  JobOutputOptions options = Options();
  options.directory = temp.path();
  const auto output = Open(options);
  output->StartGeneration(std::vector<RankInfo>{On("a", 0)});
  output->OnOutput(0, StreamId::kStdout, "old\nopen", false);  // Its agent was lost: no end.
  output->OnOutput(0, StreamId::kStderr, "old error\n", true);
  output->StartGeneration(std::vector<RankInfo>{On("a", 0)});
  EXPECT_EQ(consumed_[0], 8u + 10u);
  EXPECT_TRUE(output->LastErrorLines(0).empty());
  output->OnOutput(0, StreamId::kStdout, "new\n", true);
  EXPECT_EQ(Stdout(), "[0]<stdout>:old\n[0]<stdout>:open\n[0]<stdout>:new\n");
  EXPECT_EQ(ReadFile(temp / "rank.0/stdout").value(), "[0]<stdout>:new\n");
  EXPECT_EQ(ReadFile(temp / "attempt.1/rank.0/stdout").value(),
            "[0]<stdout>:old\n[0]<stdout>:open");
}

TEST_F(JobOutputTest, AnUnwritableDirectoryIsSaidBeforeAnythingStarts) {
  const TempDirectory temp;
  ASSERT_TRUE(WriteFileAtomically(temp / "file", "").ok());
  JobOutputOptions options = Options();
  options.directory = temp / "file";
  const auto output = JobOutput::Open(*loop_, options, Handlers());
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.status().code(), ErrorCode::kFileUnwritable);
}

TEST_F(JobOutputTest, AFullDiskUnderTheDirectoryIsSaidOnceAndTheConsoleGoesOn) {
  const TempDirectory temp;
  const FileSizeLimit full(4);
  JobOutputOptions options = Options();
  options.directory = temp.path();
  options.np = 2;
  const auto output = Open(options);
  for (int rank : {0, 1, 0}) output->OnOutput(rank, StreamId::kStdout, "x\n", false);
  EXPECT_TRUE(damage_.empty()) << "must not be called from within OnOutput";
  Settle(*loop_);
  ASSERT_EQ(damage_.size(), 1u);
  EXPECT_EQ(damage_[0].code(), ErrorCode::kOutputLost);
  EXPECT_EQ(output->DamagedFiles().size(), 2u);
  EXPECT_EQ(Stdout(), "[0]<stdout>:x\n[1]<stdout>:x\n[0]<stdout>:x\n");
  EXPECT_EQ(Drain(*output).code(), ErrorCode::kOutputLost);
}

TEST_F(JobOutputTest, AStdoutThatIsFullIsDamageAndCreditStillComes) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  JobOutputOptions options = Options();
  options.stdout_fd = full.get();
  const auto output = Open(options);
  for (int i = 0; i < 3; ++i) output->OnOutput(0, StreamId::kStdout, "x\n", false);
  Settle(*loop_);
  ASSERT_EQ(damage_.size(), 1u);
  ExpectError(damage_[0], ErrorCode::kOutputLost, {"write", "stdout", std::strerror(ENOSPC)});
  EXPECT_EQ(readers_gone_, 0);
  EXPECT_EQ(consumed_[0], 6u);
}

TEST_F(JobOutputTest, AReaderOfStdoutThatLeftIsSaidOnceAndFilesGoOn) {
  const TempDirectory temp;
  JobOutputOptions options = Options();
  options.directory = temp.path();
  const auto output = Open(options);
  out_.read_end.Reset();
  output->OnOutput(0, StreamId::kStdout, "x\n", false);
  output->OnOutput(0, StreamId::kStdout, "y\n", false);
  EXPECT_EQ(readers_gone_, 0) << "must not be called from within OnOutput";
  Settle(*loop_);
  EXPECT_EQ(readers_gone_, 1);
  EXPECT_EQ(consumed_[0], 4u);
  EXPECT_EQ(ReadFile(temp / "rank.0/stdout").value(), "[0]<stdout>:x\n[0]<stdout>:y\n");
  EXPECT_EQ(Drain(*output).code(), ErrorCode::kReaderGone);
}

TEST_F(JobOutputTest, WhatBreaksInTheLastBytesIsToldByDrain) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  JobOutputOptions options = Options();
  options.stdout_fd = full.get();
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "last words", false);
  EXPECT_EQ(Drain(*output).code(), ErrorCode::kOutputLost);
}

TEST_F(JobOutputTest, AReaderThatLeavesBeforeTheLastBytesIsToldByDrain) {
  const auto output = Open(Options());
  output->OnOutput(0, StreamId::kStdout, "last words", false);
  out_.read_end.Reset();
  EXPECT_EQ(Drain(*output).code(), ErrorCode::kReaderGone);
}

TEST_F(JobOutputTest, WithoutAReaderOfStderrTheJobGoesOn) {
  const auto output = Open(Options());
  err_.read_end.Reset();
  output->OnOutput(0, StreamId::kStderr, "x\n", false);
  output->Say("nobody reads this");
  output->OnOutput(0, StreamId::kStdout, "y\n", false);
  Settle(*loop_);
  EXPECT_EQ(readers_gone_, 0);
  EXPECT_TRUE(damage_.empty());
  EXPECT_EQ(Stdout(), "[0]<stdout>:y\n");
  EXPECT_EQ(output->LastErrorLines(0), (std::vector<std::string>{"x"}));
}

TEST_F(JobOutputTest, StreamsIntoOnePipeKeepTheirOrder) {
  JobOutputOptions options = Options();
  const UniqueFd copy(::dup(out_.write_end.get()));
  options.stderr_fd = copy.get();
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "1\n", false);
  output->OnOutput(0, StreamId::kStderr, "2\n", false);
  output->Say("3");
  output->OnOutput(0, StreamId::kStdout, "4\n", false);
  EXPECT_EQ(Stdout(), "[0]<stdout>:1\n[0]<stderr>:2\n3\n[0]<stdout>:4\n");
}

TEST_F(JobOutputTest, OurOwnLinesNeverStandInTheMiddleOfAnother) {
  const auto output = Open(Options());
  output->OnOutput(0, StreamId::kStderr, "no end", true);
  output->Say("hvdray: note");
  output->Say("hvdray: next");
  EXPECT_EQ(Stderr(), "[0]<stderr>:no end\nhvdray: note\nhvdray: next\n");
}

TEST_F(JobOutputTest, DrainEndsOpenLinesAndMayBeAskedAgain) {
  const auto output = Open(Options());
  output->OnOutput(0, StreamId::kStdout, "open", false);
  EXPECT_TRUE(Drain(*output).ok());
  EXPECT_EQ(Stdout(), "[0]<stdout>:open");
  output->Say("the end");
  EXPECT_TRUE(Drain(*output).ok());
  EXPECT_EQ(Stderr(), "the end\n");
}

TEST_F(JobOutputTest, DrainGivesUpOnAReaderThatDoesNotRead) {
  const auto output = Open(Options());
  output->OnOutput(0, StreamId::kStdout, std::string(size_t{1} << 20, '\n'), true);
  EXPECT_TRUE(output->IsBlocked());
  std::optional<Status> result;
  output->Drain(10ms, [&](Status status) { result = std::move(status); });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return result.has_value(); }));
  EXPECT_EQ(result->code(), ErrorCode::kOutputLost);
  EXPECT_NE(result->message().find("within 0.01 s"), std::string::npos) << result->message();
}

class JobOutputTerminalTest : public JobOutputTest {
 protected:
  void SetUp() override {
    JobOutputTest::SetUp();
    int master = -1, slave = -1;
    ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    master_.Reset(master);
    slave_.Reset(slave);
    termios mode{};
    ::tcgetattr(slave, &mode);
    ::cfmakeraw(&mode);
    ::tcsetattr(slave, TCSANOW, &mode);
  }
  UniqueFd master_, slave_;
};

TEST_F(JobOutputTerminalTest, ProgressIsRewrittenAndGivesWayToOutput) {
  JobOutputOptions options = Options();
  options.stdout_fd = options.stderr_fd = slave_.get();
  const auto output = Open(options);
  EXPECT_TRUE(output->IsStderrTerminal());
  output->ShowProgress("1/2");
  output->ShowProgress("2/2");
  output->OnOutput(0, StreamId::kStdout, "x\n", false);
  output->ShowProgress("");
  EXPECT_EQ(ReadAvailable(master_.get()), "\r\x1b[K1/2\r\x1b[K2/2\r\x1b[K[0]<stdout>:x\n");
}

TEST_F(JobOutputTerminalTest, ProgressDoesNotWriteOverAnOpenLine) {
  JobOutputOptions options = Options();
  options.stdout_fd = options.stderr_fd = slave_.get();
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "50%\r", false);
  output->ShowProgress("1/2");
  EXPECT_EQ(ReadAvailable(master_.get()), "[0]<stdout>:50%\r");
}

TEST_F(JobOutputTerminalTest, AQuestionOfTheOnlyRankIsShownAndItsCreditReturned) {
  JobOutputOptions options = Options();
  options.stdout_fd = options.stderr_fd = slave_.get();
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "(Pdb) ", false);
  EXPECT_EQ(ReadAvailable(master_.get()), "");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return consumed_[0] == 6; }));
  output->OnOutput(0, StreamId::kStdout, "7\n(Pdb)", false);
  output->OnOutput(0, StreamId::kStderr, "why\n", false);
  EXPECT_EQ(ReadAvailable(master_.get()), "[0]<stdout>:(Pdb) 7\n[0]<stderr>:why\n");
  ASSERT_TRUE(RunUntil(*loop_, [&] { return output->QueuedBytes() == 0; }));
  output->OnOutput(0, StreamId::kStderr, "x\n", false);
  EXPECT_EQ(ReadAvailable(master_.get()), "[0]<stdout>:(Pdb)\n[0]<stderr>:x\n");
}

TEST_F(JobOutputTerminalTest, AQuestionOfTheRankThatIsTypedToIsShownAmongOthers) {
  JobOutputOptions options = Options();
  options.stdout_fd = options.stderr_fd = slave_.get();
  options.asking_worker = 1;
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "zero\nhalf", false);
  output->OnOutput(1, StreamId::kStdout, "name? ", false);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return consumed_[1] == 6; }));
  EXPECT_EQ(ReadAvailable(master_.get()), "[0]<stdout>:zero\n[1]<stdout>:name? ");
  output->OnOutput(0, StreamId::kStdout, " done\n", false);
  EXPECT_EQ(ReadAvailable(master_.get()), "\n[0]<stdout>:half done\n");
  output->OnOutput(1, StreamId::kStdout, "hello\n", false);
  EXPECT_EQ(ReadAvailable(master_.get()), "[1]<stdout>:hello\n");
}

TEST_F(JobOutputTerminalTest, FilesKeepTheLineOfAQuestionWhole) {
  const TempDirectory directory;
  JobOutputOptions options = Options();
  options.stdout_fd = options.stderr_fd = slave_.get();
  options.asking_worker = 0;
  options.np = 2;
  options.tag = TagOutput::kNone;
  options.directory = directory / "out";
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "name? ", false);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return consumed_[0] == 6; }));
  output->OnOutput(1, StreamId::kStdout, "one\n", false);
  output->OnOutput(0, StreamId::kStdout, "hello\n", false);
  EXPECT_TRUE(Drain(*output).ok());
  EXPECT_EQ(ReadFile(directory / "out/rank.0/stdout").value_or(""), "name? hello\n");
}

TEST_F(JobOutputTerminalTest, PartsOfLinesOfSeveralRanksWaitForTheirEnds) {
  JobOutputOptions options = Options();
  options.stdout_fd = options.stderr_fd = slave_.get();
  const auto output = Open(options);
  output->OnOutput(0, StreamId::kStdout, "50%\r", false);
  output->OnOutput(1, StreamId::kStdout, "60%\r", false);
  output->OnOutput(0, StreamId::kStdout, "half", false);
  output->OnOutput(1, StreamId::kStdout, "one", true);
  EXPECT_EQ(ReadAvailable(master_.get()), "[0]<stdout>:50%\r[1]<stdout>:60%\r[1]<stdout>:one\n");
  EXPECT_EQ(output->QueuedBytes(), 4u);
}

TEST_F(JobOutputTest, ThereIsNoProgressInAPipe) {
  const auto output = Open(Options());
  EXPECT_FALSE(output->IsStderrTerminal());
  output->ShowProgress("1/2");
  EXPECT_EQ(Stderr(), "");
}

}  // namespace
}  // namespace hvdray
