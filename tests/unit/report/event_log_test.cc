// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/event_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/fd.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/golden.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/report/sample_elastic.h"
#include "tests/unit/report/sample_events.h"

namespace hvdray {
namespace {

class EventLogTest : public testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  EventLogOptions Options(std::string path) {
    EventLogOptions options;
    options.path = std::move(path);
    const JobReport job = FullReport();
    options.job_id = job.job_id;
    options.build = job.build;
    options.command = job.command;
    options.np = 3;
    options.hosts = {"node1", "node2"};
    options.began = job.began;
    options.began_wall = job.began_wall;
    options.on_damaged = [this](Status why) { damage_.push_back(std::move(why)); };
    return options;
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  TempDirectory temp_;
  std::vector<Status> damage_;
};

TEST_F(EventLogTest, EveryFactAndEffectHasItsLine) {
  auto log = EventLog::Open(*loop_, Options(temp_ / "events")).value();
  Feed(*log);
  ExpectGolden("tests/golden/report/events.jsonl", ReadFile(temp_ / "events").value());
  EXPECT_TRUE(damage_.empty());
}

TEST_F(EventLogTest, EveryFactAndEffectOfAnElasticJobHasItsLine) {
  EventLogOptions options = Options(temp_ / "events");
  options.hosts.clear();
  auto log = EventLog::Open(*loop_, std::move(options)).value();
  FeedElastic(*log);
  ExpectGolden("tests/golden/report/events_elastic.jsonl", ReadFile(temp_ / "events").value());
  EXPECT_TRUE(damage_.empty());
}

TEST_F(EventLogTest, AHostThatFailsAtOnceHasItsName) {
  EventLogOptions options = Options(temp_ / "events");
  options.hosts.clear();
  auto log = EventLog::Open(*loop_, std::move(options)).value();
  log->OnEffect(ElasticEffect(effect::ConnectHost{7, {"far", 2}}), At(1));
  log->OnEvent(ElasticEvent(event::HostLost{7, Status(ErrorCode::kHostRefused, "refused")}), At(2));
  const std::string text = ReadFile(temp_ / "events").value();
  EXPECT_NE(text.find(R"("event":"host_lost","host":"far")"), std::string::npos) << text;
}

TEST_F(EventLogTest, AnAnswerOfTheSourceIsSaidAgainOnlyWhenItChanges) {
  auto log = EventLog::Open(*loop_, Options(temp_ / "events")).value();
  const auto lines = [this] {
    const std::string text = ReadFile(temp_ / "events").value();
    return std::count(text.begin(), text.end(), '\n');
  };
  const ElasticEvent found = event::HostsDiscovered{{{"a", 1}}};
  const ElasticEvent failed = event::DiscoveryFailed{Status(ErrorCode::kNoCapacity, "exit 3")};
  for (int i = 0; i < 3; ++i) log->OnEvent(found, At(i));
  EXPECT_EQ(lines(), 2);
  for (int i = 0; i < 3; ++i) log->OnEvent(failed, At(i));
  EXPECT_EQ(lines(), 3);
  log->OnEvent(found, At(9));
  EXPECT_EQ(lines(), 4);
}

TEST_F(EventLogTest, WorkersAndHostsThatNobodyKnowsAreHarmless) {
  auto log = EventLog::Open(*loop_, Options(temp_ / "events")).value();
  log->OnEvent(ElasticEvent(event::ProcessStarted{kNoWorker, 7}), At(1));
  log->OnEvent(ElasticEvent(event::ProcessExited{99, Exited(0)}), At(1));
  log->OnEvent(ElasticEvent(event::HostReady{-1, {}}), At(1));
  log->OnEffect(ElasticEffect(effect::ReleaseHost{1 << 30}), At(1));
  log->OnEffect(ElasticEffect(effect::PublishGeneration{1, {RankInfo()}, {}}), At(1));
  log->OnConnectionsBroken(-7, 1, {}, At(1));
  log->OnReport(WorkerId{99}, 1, Json::object(), At(1));
  log->OnReport(kNoWorker, 1, Json::object(), At(1));
  EXPECT_TRUE(damage_.empty());
}

TEST_F(EventLogTest, ALineIsInTheFileAsSoonAsItHappened) {
  auto log = EventLog::Open(*loop_, Options(temp_ / "events")).value();
  log->OnEvent(Event(event::ReaderGone{}), At(1));
  EXPECT_TRUE(ReadFile(temp_ / "events").value().ends_with("\"event\":\"reader_gone\"}\n"));
}

TEST_F(EventLogTest, TheFirstLineNamesTheSchema) {
  EventLog::Open(*loop_, Options(temp_ / "events")).value();
  const Result<Json> line = ParseJson(ReadFile(temp_ / "events").value());
  ASSERT_TRUE(line.ok());
  EXPECT_EQ((*line)["schema"], kEventsSchema);
  EXPECT_EQ((*line)["event"], "job");
}

TEST_F(EventLogTest, NumbersOutOfRangeFromAnAgentAreHarmless) {
  auto log = EventLog::Open(*loop_, Options(temp_ / "events")).value();
  log->OnEvent(Event(event::HostReady{-1, {}}), At(1));
  log->OnEvent(Event(event::HostReady{99, {}}), At(1));
  log->OnEvent(Event(event::WorkerStarted{1, -1, 7}), At(1));
  log->OnEvent(Event(event::WorkerExited{1, 1 << 30, Exited(0), false}), At(1));
  log->OnReport(1, -1, 1, Json::object(), At(1));
  RankInfo stray;
  stray.rank = 5;
  log->OnEffect(Effect(effect::StartGeneration{1, {stray}, 0, 0}), At(1));
  EXPECT_TRUE(damage_.empty());
}

TEST_F(EventLogTest, ADirectoryThatDoesNotExistIsSaidAtOnce) {
  const auto log = EventLog::Open(*loop_, Options("/nowhere/events"));
  ExpectFault("/nowhere/events", log.status(), ErrorCode::kFileUnwritable,
              "--events: /nowhere/events");
}

TEST_F(EventLogTest, AFullDiskIsSaidOnce) {
  auto log = EventLog::Open(*loop_, Options("/dev/full")).value();
  Feed(*log);
  ASSERT_EQ(damage_.size(), 1u);
  ExpectFault("/dev/full", damage_[0], ErrorCode::kOutputLost, "--events /dev/full");
}

class EventLogPipeTest : public EventLogTest {
 protected:
  void SetUp() override {
    EventLogTest::SetUp();
    ASSERT_EQ(::mkfifo((temp_ / "pipe").c_str(), 0600), 0);
    reader_.Reset(::open((temp_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    log_ = EventLog::Open(*loop_, Options(temp_ / "pipe")).value();
  }
  std::string ReadSome() {
    std::string bytes(size_t{1} << 20, '\0');
    const ssize_t n = ::read(reader_.get(), bytes.data(), bytes.size());
    bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return bytes;
  }
  UniqueFd reader_;
  std::unique_ptr<EventLog> log_;
};

TEST_F(EventLogPipeTest, AReaderThatLagsGetsAllInTheEnd) {
  for (int i = 0; i < 2000; ++i) log_->OnEvent(Event(event::ReaderGone{}), At(i));
  std::string got;
  const auto count = [&] { return std::count(got.begin(), got.end(), '\n'); };
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    got += ReadSome();
    return count() == 2001;
  }));
  EXPECT_TRUE(damage_.empty());
}

TEST_F(EventLogPipeTest, AReaderThatNeverReadsIsGivenUpWithinABound) {
  const Status long_reason(ErrorCode::kAgentLost, std::string(100'000, 'x'));
  for (int i = 0; i < 100; ++i) log_->OnEvent(Event(event::HostLost{0, long_reason}), At(i));
  ASSERT_EQ(damage_.size(), 1u);
  EXPECT_EQ(damage_[0].code(), ErrorCode::kOutputLost);
  EXPECT_NE(damage_[0].message().find("its reader is too slow"), std::string::npos);
}

TEST_F(EventLogPipeTest, AReaderThatLeftIsDamageNotDeath) {
  reader_.Reset();
  log_->OnEvent(Event(event::ReaderGone{}), At(1));
  log_->OnEvent(Event(event::ReaderGone{}), At(2));
  ASSERT_EQ(damage_.size(), 1u);
  EXPECT_EQ(damage_[0].code(), ErrorCode::kReaderGone);
  EXPECT_EQ(damage_[0].message(), "--events " + (temp_ / "pipe") + ": its reader went away");
  EXPECT_EQ(damage_[0].hint(), "");
}

TEST_F(EventLogPipeTest, AReaderThatLeavesAtTheEndIsNoNewsToWhoHasGone) {
  for (int i = 0; i < 2000; ++i) log_->OnEvent(Event(event::ReaderGone{}), At(i));
  reader_.Reset();
  log_.reset();  // what it told of damage is being destroyed, too
  EXPECT_TRUE(damage_.empty());
}

}  // namespace
}  // namespace hvdray
