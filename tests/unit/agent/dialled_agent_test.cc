// SPDX-License-Identifier: Apache-2.0
// Real agents below real "actors", over TLS on loopback; killed as Ray kills, counted from outside.
#include "agent/dialled_agent.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/exec.h"
#include "base/fd.h"
#include "base/tls_stream.h"
#include "cluster/transport/endpoint_listener.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/link_calls.h"
#include "tests/unit/agent/probe.h"
#include "tests/unit/agent/process_scan.h"
#include "wire/link.h"

namespace hvdray {
namespace {

using wire::Message;

class DialledAgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    EndpointListenerOptions options;
    options.addresses = {"127.0.0.1"};
    auto listener = EndpointListener::Open(*loop_, options, ParseTlsKey(key_).value());
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(listener).value();
    listener_->Expect(4, [this](EndpointArrival arrival) { Link(std::move(arrival.stream)); });
  }

  void TearDown() override {
    link_.reset();
    stdin_.Reset();
    if (actor_ > 0 && !actor_status_) ReapActor();
    Kill(raylet_);
    EXPECT_TRUE(NothingIsLeft());
  }

  static void Kill(pid_t pid) {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  pid_t Spawn(const std::vector<std::string>& command, int stdin_fd, const std::string& mark) {
    const std::vector<char*> argv = ExecArray(command);
    std::string omp = "OMP_NUM_THREADS=1";
    std::string ray = "RAY_ADDRESS=here";
    std::string copy = mark;
    char* const envp[] = {copy.data(), omp.data(), ray.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    if (stdin_fd >= 0) ::posix_spawn_file_actions_adddup2(&actions, stdin_fd, 0);
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  void StartActor(std::vector<std::string> more = {}, const std::string& line = {}) {
    Pipe pipe = MakePipe().value();
    std::vector<std::string> words = {
        "actor", "--dial", fmt::format("127.0.0.1:{}", listener_->port()), "--endpoint", "4"};
    words.insert(words.end(), more.begin(), more.end());
    actor_ = Spawn(ProbeCommand(words), pipe.read_end.get(), mark_);
    stdin_ = std::move(pipe.write_end);
    ASSERT_TRUE(WriteAll(stdin_.get(), (line.empty() ? key_ : line) + "\n").ok());
  }

  void Link(std::unique_ptr<ByteStream> stream) {
    link_ = wire::MakeLink(*loop_, wire::LinkRole::kLauncher, std::move(stream));
    calls_.on_message = [this](Message&& m) { OnMessage(std::move(m)); };
    calls_.on_closed = [this](const Status& why) { closed_ = why; };
    link_->Start(calls_);
    link_->Send({0, wire::Hello{.build = "launcher"}});
    wire::Welcome welcome;
    welcome.job_id = "job";
    welcome.host = "here";
    welcome.grace_ms = 50;
    link_->Send({0, welcome});
  }

  void OnMessage(Message&& message) {
    if (auto* hello = std::get_if<wire::Hello>(&message.body)) {
      agent_ = static_cast<pid_t>(hello->facts.agent_pid);
    } else if (auto* output = std::get_if<wire::Output>(&message.body)) {
      text_ += output->bytes;
    } else if (auto* exited = std::get_if<wire::WorkerExited>(&message.body)) {
      exited_ = exited->status;
    }
  }

  void StartWorkers(int workers, std::vector<std::string> probe) {
    ASSERT_TRUE(WaitFor(*loop_, [&] { return agent_ != 0; }));
    wire::StartGeneration start;
    start.size = start.local_size = workers;
    start.host_name = "here";
    for (int i = 0; i < workers; ++i) start.workers.push_back({i, i, 0, 1});
    start.command = ProbeCommand(std::move(probe));
    start.is_on_own_environment = true;
    start.gpu_visibility = wire::GpuVisibility::kRank;
    link_->Send({1, wire::KvReset{}});
    link_->Send({1, start});
  }
  /// Each worker with a daemon beside it; all of them say that they are ready.
  void StartDaemons(int workers) {
    StartWorkers(workers, {"double-fork"});
    ASSERT_TRUE(WaitFor(*loop_, [&] { return text_.size() == 6 * static_cast<size_t>(workers); }));
    // Actor, front, keeper, agent.
    EXPECT_EQ(FindMarked(mark_).size(), 4 + 2 * static_cast<size_t>(workers));
    EXPECT_TRUE(KeeperIsApart());
  }
  /// The keeper leaves the actor's group while the agent is already at work.
  bool KeeperIsApart() {
    return WaitFor(*loop_, [&] { return ::getpgid(Parent(agent_)) != actor_; });
  }

  int ReapActor() {
    EXPECT_TRUE(WaitFor(*loop_, [&] {
      int status = 0;
      if (!actor_status_ && ::waitpid(actor_, &status, WNOHANG) == actor_) actor_status_ = status;
      return actor_status_.has_value();
    }));
    return ShellCode(actor_status_.value_or(0));
  }
  bool NothingIsLeft() {
    return WaitFor(*loop_, [&] { return FindMarked(mark_).empty(); });
  }
  pid_t Parent(pid_t pid) {
    const Result<std::string> stat = ReadFile(fmt::format("/proc/{}/stat", pid));
    int parent = 0;
    if (stat.ok()) ::sscanf(stat->c_str() + stat->rfind(')') + 4, "%d", &parent);
    return parent;
  }

  const std::string key_ = std::string(62, 'a') + "07";
  std::string mark_ = MakeMark();
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<EndpointListener> listener_;
  wire::LinkCalls calls_;
  std::unique_ptr<wire::Link> link_;
  UniqueFd stdin_;
  pid_t actor_ = 0;
  pid_t raylet_ = 0;
  pid_t agent_ = 0;
  std::optional<int> actor_status_;
  std::optional<wire::ExitStatus> exited_;
  std::string text_;
  std::optional<Status> closed_;
};

TEST_F(DialledAgentTest, AgentStaysInTheActorsGroupAndItsKeeperDoesNot) {
  StartActor();
  ASSERT_TRUE(WaitFor(*loop_, [&] { return agent_ != 0; }));
  EXPECT_EQ(::getpgid(agent_), actor_);
  const pid_t keeper = Parent(agent_);
  EXPECT_TRUE(KeeperIsApart());
  EXPECT_NE(Parent(keeper), actor_) << "Ray kills the actor's own children, wherever they are";
}

TEST_F(DialledAgentTest, ByeEndsAllOfItWithSuccess) {
  StartActor();
  StartDaemons(2);
  link_->Close({}, std::chrono::seconds(5), [] {});
  EXPECT_EQ(ReapActor(), 0);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(DialledAgentTest, KilledGroupOfTheActorLeavesNothing) {
  StartActor();
  StartDaemons(3);
  ASSERT_EQ(::kill(-actor_, SIGKILL), 0);
  EXPECT_EQ(ReapActor(), 128 + SIGKILL);
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
}

TEST_F(DialledAgentTest, KilledActorAloneStopsTheWorkersInOrder) {
  StartActor();
  StartDaemons(2);
  ASSERT_EQ(::kill(actor_, SIGKILL), 0);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_TRUE(NamesFacts(closed_->message(), {"actor", "gone"})) << closed_->ToString();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(DialledAgentTest, EndOfStdinStopsTheWorkersInOrder) {
  StartActor();
  StartDaemons(2);
  stdin_.Reset();
  EXPECT_EQ(ReapActor(), 125);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(DialledAgentTest, DeathOfTheRayletStopsTheWorkersAndIsTold) {
  raylet_ = Spawn(ProbeCommand({"wait"}), -1, MakeMark());
  StartActor({"--raylet", fmt::format("{}", raylet_)});
  StartDaemons(2);
  Kill(raylet_);
  const pid_t dead = std::exchange(raylet_, 0);
  EXPECT_EQ(ReapActor(), 125);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_TRUE(NamesFacts(closed_->message(), {"raylet", fmt::format("pid {}", dead), "died"}))
      << closed_->ToString();
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(DialledAgentTest, RayletThatIsDeadBeforehandLetsNoAgentStart) {
  const pid_t dead = Spawn(ProbeCommand({"exit", "0"}), -1, MakeMark());
  ::waitpid(dead, nullptr, 0);
  StartActor({"--raylet", fmt::format("{}", dead)});
  EXPECT_EQ(ReapActor(), 125);
}

TEST_F(DialledAgentTest, KilledKeeperMakesTheAgentStopEverything) {
  StartActor();
  StartDaemons(2);
  ASSERT_EQ(::kill(Parent(agent_), SIGKILL), 0);
  EXPECT_EQ(ReapActor(), 128 + SIGKILL);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(DialledAgentTest, TerminatedGroupIsOneRequestHoweverOftenItComes) {
  StartActor();
  StartWorkers(1, {"slow-child"});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return text_ == "ready\n"; }));
  // Front and agent both get it, and the front passes it on.
  ASSERT_EQ(::kill(-actor_, SIGTERM), 0);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return closed_.has_value(); }));
  EXPECT_NE(closed_->message().find("SIGTERM"), std::string::npos) << closed_->ToString();
  EXPECT_EQ(ReapActor(), 128 + SIGTERM);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(DialledAgentTest, WorkersGetTheNodesEnvironmentWithoutRay) {
  StartActor({"--gpus", "6,7"});
  StartWorkers(1, {"environment"});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exited_.has_value(); }));
  EXPECT_TRUE(WaitFor(*loop_, [&] { return text_.find(mark_ + "\n") != std::string::npos; }));
  EXPECT_NE(text_.find("CUDA_VISIBLE_DEVICES=6,7\n"), std::string::npos) << text_;
  EXPECT_EQ(text_.find("RAY_ADDRESS"), std::string::npos);
  EXPECT_EQ(text_.find("OMP_NUM_THREADS"), std::string::npos);
  EXPECT_EQ(text_.find(key_), std::string::npos);
}

TEST_F(DialledAgentTest, KeyThatIsNoneEndsItAtOnceAndIsNotRepeated) {
  testing::internal::CaptureStderr();
  StartActor({}, "no key at all");
  EXPECT_EQ(ReapActor(), 125);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("hvdray-agent: "), std::string::npos) << said;
  EXPECT_EQ(said.find("no key at all"), std::string::npos) << said;
}

TEST_F(DialledAgentTest, AnotherJobsKeyIsRefusedAndItLeaves) {
  StartActor({}, std::string(64, 'b'));
  EXPECT_EQ(ReapActor(), 125);
  EXPECT_EQ(agent_, 0);
  EXPECT_GT(listener_->refusals().wrong_key, 0u);
}

TEST_F(DialledAgentTest, ActorThatGoesAwayBeforeTheDriverAnswersTakesTheAgentAlong) {
  const uint16_t port = listener_->port();
  listener_.reset();
  Pipe pipe = MakePipe().value();
  actor_ =
      Spawn(ProbeCommand({"actor", "--dial", fmt::format("127.0.0.1:{}", port), "--endpoint", "4"}),
            pipe.read_end.get(), mark_);
  stdin_ = std::move(pipe.write_end);
  ASSERT_TRUE(WriteAll(stdin_.get(), key_ + "\n").ok());
  ASSERT_TRUE(WaitFor(*loop_, [&] { return FindMarked(mark_).size() == 4; }));
  stdin_.Reset();
  EXPECT_EQ(ReapActor(), 125);
}

}  // namespace
}  // namespace hvdray
