// SPDX-License-Identifier: Apache-2.0
// --sync in the launcher: before the workers start, to remote hosts only, and what ends it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "launcher/engine/open_job.h"
#include "tests/fakes/fake_transport.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

// Host a is another machine, host b is this one. The test plays both agents.
class LauncherSyncTest : public testing::Test {
 protected:
  LauncherSyncTest() : loop_(std::move(*Loop::Create())), transport_(*loop_) {
    std::filesystem::create_directories(temp_ / "proj/sub");
    EXPECT_TRUE(WriteFileAtomically(temp_ / "proj/sub/x", "hello").ok());
    plan_.hosts = {{"a", 1}, {"b", 1}};
    plan_.is_remote = {true, false};
    plan_.ranks = std::move(*AssignRanks(plan_.hosts, 2, 2));
    plan_.spec.command.Set({"train"}, "test");
    plan_.spec.np.Set(2, "test");
    plan_.spec.is_quiet.Set(true, "test");
    plan_.spec.max_restarts.Set(1, "test");
    // The launcher kills processes with its job's id: no other test may use the same one.
    plan_.job_id = "job-" + std::to_string(::getpid());
    plan_.began = loop_->Now();
    plan_.current_directory = temp_ / "proj/sub";
    plan_.synced = {{temp_ / "proj", "proj", ListDirectory(temp_ / "proj").value()}};
    plan_.worker_place = SyncedPlace{0, "sub"};
    transport_.on_agent = [this](const std::string& host, FakeAgent& agent) {
      wire::HostFacts facts;
      facts.offered_port = 4001;
      facts.interfaces.push_back({"lo", {{"127.0.0.1", 8}}, true, true, false, 0, false});
      agent.SayHello(facts);
      agent.on_message = [this, host](const wire::Message& message) { Play(host, message); };
    };
    on_list_ = [](FakeAgent& agent) { agent.Send(1, Everything()); };
  }

  static wire::DirectoryWanted Everything() { return {{{1, 1}}, 0, "/home/there/proj"}; }

  void Play(const std::string& host, const wire::Message& message) {
    FakeAgent& agent = *transport_.agents[host];
    if (std::holds_alternative<wire::DirectoryList>(message.body)) {
      if (on_list_) on_list_(agent);
    } else if (const auto* file = std::get_if<wire::File>(&message.body)) {
      const auto bytes = static_cast<uint32_t>(file->bytes.size());
      agent.Send(message.generation, wire::FileTaken{file->is_end ? 1U : 0U, bytes});
    } else if (const auto* start = std::get_if<wire::StartGeneration>(&message.body)) {
      const int32_t rank = start->workers[0].rank;
      wire::ExitStatus status;
      if (message.generation < ends_well_in_) status.exit_code = 1;
      agent.Send(message.generation, wire::WorkerStarted{rank, 100});
      agent.Send(message.generation, wire::WorkerExited{rank, status, false});
    } else if (std::holds_alternative<wire::StopGeneration>(message.body)) {
      agent.Send(message.generation, wire::GenerationStopped{0, 5000});
    } else if (std::holds_alternative<wire::Bye>(message.body)) {
      transport_.Exit(host, Status());
    }
  }

  JobReport Run() {
    Trace trace(plan_.began, {"a", "b"}, true);
    const Watch exits = loop_->Every(milliseconds(5), [this] {
      for (auto& [host, agent] : transport_.agents) {
        if (!agent->closed.empty()) transport_.Exit(host, Status());
      }
    });
    auto launcher = OpenJob(*loop_, {transport_}, trace, plan_);
    EXPECT_TRUE(launcher.ok()) << launcher.status().ToString();
    return (*launcher)->Run();
  }
  template <typename T>
  std::vector<T> Sent(const std::string& host) {
    return transport_.agents[host]->All<T>();
  }
  void ExpectNothingStarted() {
    EXPECT_TRUE(Sent<wire::StartGeneration>("a").empty());
    EXPECT_TRUE(Sent<wire::StartGeneration>("b").empty());
  }

  TempDirectory temp_;
  std::unique_ptr<Loop> loop_;
  FakeTransport transport_;
  LaunchPlan plan_;
  std::function<void(FakeAgent& agent)> on_list_;
  Generation ends_well_in_ = 1;
};

TEST_F(LauncherSyncTest, OtherHostsGetTheDirectoryAndTheirWorkersStartInIt) {
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 0) << report.verdict.error.ToString();
  EXPECT_EQ(Sent<wire::DirectoryList>("a").size(), 1U);
  EXPECT_TRUE(Sent<wire::DirectoryList>("b").empty()) << "it is this machine";
  ASSERT_EQ(Sent<wire::File>("a").size(), 1U);
  EXPECT_EQ(Sent<wire::File>("a")[0].bytes, "hello");
  EXPECT_EQ(Sent<wire::StartGeneration>("a").at(0).working_directory, "/home/there/proj/sub");
  EXPECT_EQ(Sent<wire::StartGeneration>("b").at(0).working_directory, "");
  ASSERT_TRUE(report.hosts[0].sync.has_value());
  EXPECT_EQ(report.hosts[0].sync->files, 1U);
  EXPECT_EQ(report.hosts[0].sync->bytes, 5U);
  EXPECT_FALSE(report.hosts[1].sync.has_value());
  EXPECT_TRUE(std::any_of(report.phases.begin(), report.phases.end(), [](const Phase& phase) {
    return phase.name == kPhaseSync && phase.ended.has_value();
  }));
}

TEST_F(LauncherSyncTest, DirectoryOfWorkersThatIsNotCopiedIsAsWithoutACopy) {
  plan_.worker_place.reset();
  Run();
  const auto start = Sent<wire::StartGeneration>("a").at(0);
  EXPECT_EQ(start.working_directory, plan_.current_directory);
  EXPECT_TRUE(start.directory_trust.is_checked);
}

TEST_F(LauncherSyncTest, RestartStartsInTheCopyAgainAndCopiesNothing) {
  ends_well_in_ = 2;
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 0);
  const auto starts = Sent<wire::StartGeneration>("a");
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[1].working_directory, "/home/there/proj/sub");
  EXPECT_EQ(Sent<wire::DirectoryList>("a").size(), 1U);
}

TEST_F(LauncherSyncTest, TimeOfTheCopyIsNotTheStartsAsLongAsItGoesOn) {
  plan_.spec.start_timeout.Set(milliseconds(1000), "test");
  int turns = 0;
  Watch slow;
  on_list_ = [&](FakeAgent& agent) {
    // Sends messages for twice the limit before it answers the list.
    slow = loop_->Every(milliseconds(100), [&] {
      agent.Send(1, wire::FileTaken{0, 0});
      if (++turns < 20) return;
      slow.Cancel();
      agent.Send(1, Everything());
    });
  };
  EXPECT_EQ(Run().verdict.exit_code, 0);
}

TEST_F(LauncherSyncTest, CopyThatDoesNotGoOnEndsTheJobAndNamesTheHost) {
  plan_.spec.start_timeout.Set(milliseconds(500), "test");  // in which both are ready
  on_list_ = nullptr;
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 125);
  ExpectError(report.verdict.error, ErrorCode::kDeadlineExceeded,
              {"host a", "--sync " + (temp_ / "proj"), "copy", "0.5 s"});
  EXPECT_FALSE(report.hosts[0].sync.has_value());
  ExpectNothingStarted();
}

TEST_F(LauncherSyncTest, ProblemOfAHostEndsTheJob) {
  on_list_ = [](FakeAgent& agent) { agent.Send(1, wire::DirectoryProblem{ENOSPC, "write", "/x"}); };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 125);
  EXPECT_EQ(report.verdict.error.code(), ErrorCode::kOutOfResources);
  EXPECT_NE(report.verdict.error.message().find("host a: --sync "), std::string::npos);
  ExpectNothingStarted();
}

TEST_F(LauncherSyncTest, StopDuringTheCopyStartsNothing) {
  on_list_ = [](FakeAgent&) { ASSERT_EQ(::kill(::getpid(), SIGTERM), 0); };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 128 + SIGTERM);
  EXPECT_EQ(Sent<wire::StopGeneration>("a").size(), 1U);
  ExpectNothingStarted();
}

TEST_F(LauncherSyncTest, HostThatIsLostDuringTheCopyStartsNothing) {
  on_list_ = [this](FakeAgent&) {
    loop_->Post([this] {
      transport_.agents["a"]->Vanish();
      transport_.Exit("a", Status(ErrorCode::kAgentLost, "agent was killed by SIGKILL"));
    });
  };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 125);
  EXPECT_EQ(report.verdict.error.code(), ErrorCode::kAgentLost);
  EXPECT_TRUE(Sent<wire::StartGeneration>("b").empty());
}

}  // namespace
}  // namespace hvdray
