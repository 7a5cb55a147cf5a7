// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/record_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/fd.h"
#include "launcher/driver/elastic_mode.h"
#include "launcher/driver/elastic_replay.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using std::chrono::seconds;

class RecordWriterTest : public testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  RecordOptions Options(std::string path) {
    RecordOptions options;
    options.path = std::move(path);
    options.header = {"hvdray 1.2.3 (abc)", "job", ElasticPolicy{.np = 2}, 5};
    options.began = TimePoint{} + seconds(100);
    options.on_damaged = [this](Status why) { damage_.push_back(std::move(why)); };
    return options;
  }
  static TimePoint At(int64_t s) { return TimePoint{} + seconds(100 + s); }
  std::vector<std::string> Lines(const std::string& path) {
    std::vector<std::string> lines;
    std::string text = ReadFile(path).value();
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      lines.push_back(text.substr(0, end));
    }
    EXPECT_EQ(text, "");
    return lines;
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  TempDirectory temp_;
  std::vector<Status> damage_;
};

TEST_F(RecordWriterTest, WhatTheDriverIsToldIsInTheFileAtOnce) {
  auto writer = RecordWriter::Open(*loop_, Options(temp_ / "r")).value();
  EXPECT_EQ(Lines(temp_ / "r").size(), 1u);
  writer->OnEvent(event::HostsDiscovered{{{"a", 2}}, true}, At(1));
  const std::vector<std::string> lines = Lines(temp_ / "r");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1].starts_with(R"({"t":1000000000,"event":"hosts_discovered",)")) << lines[1];
}

TEST_F(RecordWriterTest, TheFileIsARecordingThatReplays) {
  auto writer = RecordWriter::Open(*loop_, Options(temp_ / "r")).value();
  const auto driver = MakeElasticDriver(ElasticPolicy{.np = 2}, 5, At(0));
  std::vector<ElasticEffect> last;
  int64_t second = 0;
  for (const ElasticEvent& event :
       std::vector<ElasticEvent>{event::HostsDiscovered{{{"a", 2}}, true}, event::HostReady{0, {}},
                                 event::ProcessExited{0, {}}, event::ProcessExited{1, {}},
                                 event::GenerationStopped{1, 0, 0, 0}}) {
    writer->OnEvent(event, At(++second));
    last = driver->Handle(event, At(second));
  }
  writer->OnEnd(std::get<effect::Finish>(last.back()).verdict, driver->Snapshot(), At(second));
  writer->OnEvent(event::Tick{}, At(99));
  writer.reset();
  ElasticReplay replay("r");
  for (const std::string& line : Lines(temp_ / "r")) {
    ASSERT_TRUE(replay.Feed(line, ElasticReplay::Line::kWhole).ok());
  }
  const ReplayResult result = replay.Finish().value();
  EXPECT_TRUE(result.is_well());
  EXPECT_EQ(result.events, 5u);
  ASSERT_TRUE(result.end.has_value());
  EXPECT_EQ(result.end->exit_code, 0);
  EXPECT_EQ(result.recorded_end, result.end);
  EXPECT_TRUE(damage_.empty());
}

TEST_F(RecordWriterTest, ATimeThatGoesBackCountsAsTheLastOne) {
  auto writer = RecordWriter::Open(*loop_, Options(temp_ / "r")).value();
  writer->OnEvent(event::Tick{}, At(-5));
  writer->OnEvent(event::Tick{}, At(7));
  writer->OnEvent(event::Tick{}, At(6));
  const std::vector<std::string> lines = Lines(temp_ / "r");
  EXPECT_EQ(lines[1], R"({"t":0,"event":"tick"})");
  EXPECT_EQ(lines[3], lines[2]);
}

TEST_F(RecordWriterTest, ADirectoryThatDoesNotExistIsSaidAtOnce) {
  const auto writer = RecordWriter::Open(*loop_, Options("/nowhere/r"));
  ExpectError(writer.status(), ErrorCode::kFileUnwritable,
              {"--record: /nowhere/r", std::strerror(ENOENT)});
}

TEST_F(RecordWriterTest, AFullDiskIsSaidOnce) {
  auto writer = RecordWriter::Open(*loop_, Options("/dev/full")).value();
  for (int i = 0; i < 3; ++i) writer->OnEvent(event::Tick{}, At(i));
  ASSERT_EQ(damage_.size(), 1u);
  ExpectError(damage_[0], ErrorCode::kOutputLost,
              {"--record /dev/full", "write", std::strerror(ENOSPC)});
}

TEST_F(RecordWriterTest, APipeThatNobodyReadsIsGivenUpWithinABoundAndNothingBlocks) {
  ASSERT_EQ(::mkfifo((temp_ / "pipe").c_str(), 0600), 0);
  const UniqueFd reader(::open((temp_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto writer = RecordWriter::Open(*loop_, Options(temp_ / "pipe")).value();
  const Status why(ErrorCode::kAgentLost, std::string(100'000, 'x'));
  for (int i = 0; i < 100; ++i) writer->OnEvent(event::HostLost{0, why}, At(i));
  ASSERT_EQ(damage_.size(), 1u);
  EXPECT_NE(damage_[0].message().find("its reader is too slow"), std::string::npos);
}

TEST_F(RecordWriterTest, APipesReaderGetsTheLastLineToo) {
  ASSERT_EQ(::mkfifo((temp_ / "pipe").c_str(), 0600), 0);
  const UniqueFd reader(::open((temp_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto writer = RecordWriter::Open(*loop_, Options(temp_ / "pipe")).value();
  writer->OnEnd({}, {}, At(1));
  writer.reset();
  std::string bytes(size_t{1} << 16, '\0');
  const ssize_t n = ::read(reader.get(), bytes.data(), bytes.size());
  ASSERT_GT(n, 0);
  bytes.resize(static_cast<size_t>(n));
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), '\n'), 2);
  EXPECT_NE(bytes.find(R"("event":"end")"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
