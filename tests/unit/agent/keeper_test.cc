// SPDX-License-Identifier: Apache-2.0
// Real agents with real keepers, killed from outside; survivors are counted from outside.
#include "agent/keeper.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "agent/cgroup.h"
#include "base/exec.h"
#include "tests/fakes/link_calls.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/agent/probe.h"
#include "tests/unit/agent/process_scan.h"
#include "wire/link.h"

namespace hvdray {
namespace {

using wire::Message;

class KeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    auto sockets = MakeSocketPair();
    ASSERT_TRUE(sockets.ok());
    SpawnAgent(sockets->second.get());
    sockets->second.Reset();
    UniqueFd copy(::dup(sockets->first.get()));
    link_ = wire::MakeLink(*loop_, wire::LinkRole::kLauncher,
                           MakeFdStream(*loop_, std::move(sockets->first), std::move(copy)));
    calls_.on_message = [this](Message&& m) { OnMessage(std::move(m)); };
    calls_.on_closed = [this](const Status& why) { closed_ = why; };
    link_->Start(calls_);
    link_->Send({0, wire::Hello{.build = "launcher"}});
    ASSERT_TRUE(WaitFor(*loop_, [&] { return agent_ != 0; }));
    wire::Welcome welcome;
    welcome.job_id = "job";
    welcome.host = "here";
    welcome.grace_ms = 50;
    welcome.is_elastic = is_elastic_;
    link_->Send({0, welcome});
  }

  void TearDown() override {
    link_.reset();
    if (keeper_ > 0 && !keeper_status_) ReapKeeper();
    EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
    const auto own = OwnCgroupDirectory();
    if (own) {
      // The name is that of the keeper's PID namespace, which is ours.
      const std::string directory = AgentCgroupDirectory(*own, agent_);
      EXPECT_TRUE(WaitFor([&] { return ::access(directory.c_str(), F_OK) != 0; })) << directory;
    }
  }

  void SpawnAgent(int socket) {
    const std::vector<std::string> command = ProbeCommand({agent_word_});
    const std::vector<char*> argv = ExecArray(command);
    std::string runtime = "XDG_RUNTIME_DIR=" + runtime_.path();
    char* const envp[] = {mark_.data(), runtime.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, socket, 0);
    ::posix_spawn_file_actions_adddup2(&actions, socket, 1);
    ASSERT_EQ(::posix_spawn(&keeper_, argv[0], &actions, nullptr, argv.data(), envp), 0);
    ::posix_spawn_file_actions_destroy(&actions);
  }

  void OnMessage(Message&& message) {
    if (auto* hello = std::get_if<wire::Hello>(&message.body)) {
      agent_ = static_cast<pid_t>(hello->facts.agent_pid);
    } else if (auto* output = std::get_if<wire::Output>(&message.body)) {
      text_ += output->bytes;
    } else if (auto* started = std::get_if<wire::WorkerStarted>(&message.body)) {
      workers_.push_back(static_cast<pid_t>(started->pid));
    } else if (std::holds_alternative<wire::GenerationStopped>(message.body)) {
      is_stopped_ = true;
    }
  }

  /// `workers` probes of this kind, each with a process besides itself.
  void StartPairs(int workers, const std::string& kind) {
    wire::StartGeneration start;
    start.size = workers;
    start.local_size = workers;
    start.host_name = "here";
    for (int i = 0; i < workers; ++i) start.workers.push_back({i, i, 0, 1});
    start.command = ProbeCommand({kind});
    start.environment = {mark_};
    link_->Send({1, wire::KvReset{}});
    link_->Send({1, start});
    ASSERT_TRUE(WaitFor(*loop_, [&] { return text_.size() == 6 * static_cast<size_t>(workers); }));
    EXPECT_EQ(FindMarked(mark_).size(), 2 + 2 * static_cast<size_t>(workers));
  }

  bool IsReaped() {
    int status = 0;
    if (!keeper_status_ && ::waitpid(keeper_, &status, WNOHANG) == keeper_) keeper_status_ = status;
    return keeper_status_.has_value();
  }
  /// The exit code; 128+n for a signal.
  int ReapKeeper() {
    EXPECT_TRUE(WaitFor(*loop_, [&] { return IsReaped(); }));
    return ShellCode(keeper_status_.value_or(0));
  }
  bool NothingIsLeft() {
    return WaitFor(*loop_, [&] { return FindMarked(mark_).empty(); });
  }

  const TempDirectory runtime_;
  std::string agent_word_ = "agent";
  bool is_elastic_ = false;
  std::string mark_ = MakeMark();
  std::unique_ptr<Loop> loop_;
  wire::LinkCalls calls_;
  std::unique_ptr<wire::Link> link_;
  pid_t keeper_ = 0;
  pid_t agent_ = 0;
  std::optional<int> keeper_status_;
  std::vector<pid_t> workers_;
  std::string text_;
  std::optional<Status> closed_;
  bool is_stopped_ = false;
};

TEST_F(KeeperTest, AgentRunsInASessionOfItsOwnBesideItsKeeper) {
  EXPECT_NE(agent_, keeper_);
  EXPECT_NE(::getsid(agent_), ::getsid(0));
  EXPECT_EQ(FindMarked(mark_).size(), 2U);
}

TEST_F(KeeperTest, ByeEndsAgentAndKeeperWithSuccess) {
  link_->Close({}, std::chrono::seconds(5), [] {});
  EXPECT_EQ(ReapKeeper(), 0);
}

TEST_F(KeeperTest, KilledLauncherLeavesNothing) {
  StartPairs(3, "daemon");
  link_.reset();
  EXPECT_EQ(ReapKeeper(), 125);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(KeeperTest, KilledAgentLeavesNothing) {
  StartPairs(3, "daemon");
  ASSERT_EQ(::kill(agent_, SIGKILL), 0);
  EXPECT_EQ(ReapKeeper(), 128 + SIGKILL);
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
}

TEST_F(KeeperTest, KilledAgentLeavesNoStubbornGroup) {
  StartPairs(3, "stubborn");
  ASSERT_EQ(::kill(agent_, SIGKILL), 0);
  EXPECT_EQ(ReapKeeper(), 128 + SIGKILL);
  EXPECT_TRUE(NothingIsLeft());
}

class ElasticKeeperTest : public KeeperTest {
 protected:
  ElasticKeeperTest() { is_elastic_ = true; }
};

TEST_F(ElasticKeeperTest, KilledAgentLeavesNoLeaveSocket) {
  StartPairs(1, "daemon");
  const std::string directory = runtime_ / "hvdray";
  EXPECT_FALSE(std::filesystem::is_empty(directory));
  ASSERT_EQ(::kill(agent_, SIGKILL), 0);
  EXPECT_EQ(ReapKeeper(), 128 + SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(KeeperTest, KilledKeeperMakesTheAgentStopEverything) {
  StartPairs(3, "double-fork");
  ASSERT_EQ(::kill(keeper_, SIGKILL), 0);
  EXPECT_EQ(ReapKeeper(), 128 + SIGKILL);
  EXPECT_TRUE(NothingIsLeft());
  ASSERT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_EQ(closed_->code(), ErrorCode::kAgentLost);
  EXPECT_NE(closed_->message().find("keeper"), std::string::npos);
}

TEST_F(KeeperTest, SignalToTheKeeperStopsTheGangWithGrace) {
  StartPairs(2, "stubborn");
  ASSERT_EQ(::kill(keeper_, SIGTERM), 0);
  EXPECT_EQ(ReapKeeper(), 128 + SIGTERM);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(KeeperTest, SignalToTheAgentIsPassedOnAsItsEnd) {
  StartPairs(2, "daemon");
  ASSERT_EQ(::kill(agent_, SIGHUP), 0);
  EXPECT_EQ(ReapKeeper(), 128 + SIGHUP);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(KeeperTest, KilledWorkerIsReportedAndItsDaemonSwept) {
  StartPairs(1, "daemon");
  ASSERT_EQ(::kill(workers_.at(0), SIGKILL), 0);
  EXPECT_TRUE(WaitFor(*loop_, [&] { return is_stopped_; }));
  EXPECT_EQ(FindMarked(mark_).size(), 2U);  // keeper and agent
}

TEST_F(KeeperTest, RandomKillsInTheMiddleOfTheStartLeaveNothing) {
  wire::StartGeneration start;
  start.size = start.local_size = 40;
  for (int i = 0; i < 40; ++i) start.workers.push_back({i, i, 0, 1});
  start.command = ProbeCommand({"daemon"});
  start.environment = {mark_};
  link_->Send({1, start});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return workers_.size() > 5; }));
  ASSERT_EQ(::kill(agent_, SIGKILL), 0);
  EXPECT_EQ(ReapKeeper(), 128 + SIGKILL);
  EXPECT_TRUE(NothingIsLeft());
}

/// An agent without a keeper, for the commands of `hvdray up`.
class KeepingAgentTest : public KeeperTest {
 protected:
  KeepingAgentTest() { agent_word_ = "keeping-agent"; }
  void StartShell(const std::string& line) {
    wire::StartGeneration start;
    start.size = 1;
    start.local_size = 1;
    start.workers = {wire::WorkerSlot{}};
    start.command = {"/bin/sh", "-c", line};
    start.environment = {"PATH=/usr/bin:/bin"};
    start.is_on_own_environment = true;
    link_->Send({1, start});
  }
};

TEST_F(KeepingAgentTest, WhatACommandLeavesRunningOutlivesTheAgent) {
  StartShell("sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 & echo ready");
  ASSERT_TRUE(WaitFor(*loop_, [&] { return is_stopped_; }));
  EXPECT_EQ(text_, "ready\n");
  link_->Close({}, std::chrono::seconds(5), [] {});
  EXPECT_EQ(ReapKeeper(), 0);
  // A process that is just calling execve() shows no environment for a moment.
  std::vector<pid_t> daemons;
  EXPECT_TRUE(WaitFor([&] { return (daemons = FindMarked(mark_)).size() == 2; }));
  for (const pid_t pid : daemons) ::kill(pid, SIGKILL);
}

TEST_F(KeepingAgentTest, ACommandThatRunsEndsWithTheLinkAndItsGroupWithIt) {
  StartShell("sleep 1000 & echo ready; sleep 1000");
  ASSERT_TRUE(WaitFor(*loop_, [&] { return text_ == "ready\n"; }));
  link_.reset();
  EXPECT_EQ(ReapKeeper(), 125);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(KeepingAgentTest, ACommandThatIsStoppedTakesItsGroupWithIt) {
  StartShell("sleep 1000 & echo ready; sleep 1000");
  ASSERT_TRUE(WaitFor(*loop_, [&] { return text_ == "ready\n"; }));
  link_->Send({1, wire::StopGeneration{.grace_ms = 50}});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return is_stopped_; }));
  // The agent; it is no subreaper, so one of the group may still be at its end.
  EXPECT_TRUE(WaitFor(*loop_, [&] { return FindMarked(mark_).size() == 1; }));
}

TEST_F(KeepingAgentTest, ACommandSeesNoVariableOfAJob) {
  StartShell("env");
  ASSERT_TRUE(WaitFor(*loop_, [&] { return is_stopped_; }));
  EXPECT_NE(text_.find(mark_), std::string::npos);
  for (const char* name : {"HOROVOD_", "RANK=", "HVDRAY_JOB_ID", "HVDRAY_GENERATION"}) {
    EXPECT_EQ(text_.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace hvdray
