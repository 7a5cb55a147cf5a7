// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "launcher/engine/open_job.h"
#include "tests/fakes/fake_transport.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

wire::HostFacts Facts(uint16_t port) {
  wire::HostFacts facts;
  facts.host_name = "machine";
  facts.offered_port = port;
  wire::InterfaceFacts lo;
  lo.name = "lo";
  lo.addresses = {{"127.0.0.1", 8}};
  lo.is_up = true;
  lo.is_loopback = true;
  facts.interfaces.push_back(lo);
  return facts;
}

// Runs a real launcher over agents that the test plays.
class LauncherTest : public testing::Test {
 protected:
  LauncherTest() : loop_(std::move(*Loop::Create())), transport_(*loop_) {
    plan_.hosts = {{"a", 2}, {"b", 1}};
    plan_.is_remote = {false, false};
    plan_.ranks = std::move(*AssignRanks(plan_.hosts, 3, 3));
    plan_.spec.command.Set({"train"}, "test");
    plan_.spec.np.Set(3, "test");
    plan_.spec.is_quiet.Set(true, "test");
    // The launcher kills processes with its job's id: no other test may use the same one.
    plan_.job_id = "job-" + std::to_string(::getpid());
    plan_.began = loop_->Now();
    transport_.on_agent = [this](const std::string& host, FakeAgent& agent) {
      agent.SayHello(Facts(host == "a" ? 4001 : 4002));
      agent.on_message = [this, host](const wire::Message& message) { Play(host, message); };
    };
  }

  // A well-behaved agent: starts what it is told to start and ends with `statuses_`.
  void Play(const std::string& host, const wire::Message& message) {
    FakeAgent& agent = *transport_.agents[host];
    const Generation generation = message.generation;
    if (const auto* probe = std::get_if<wire::Probe>(&message.body)) {
      if (on_probe_) on_probe_(host, agent, *probe);
    } else if (const auto* start = std::get_if<wire::StartGeneration>(&message.body)) {
      for (const wire::WorkerSlot& slot : start->workers) {
        agent.Send(generation, wire::WorkerStarted{slot.rank, 100U + slot.rank});
      }
      for (const wire::WorkerSlot& slot : start->workers) {
        if (!EndsItself(slot.rank)) continue;
        agent.Send(generation, wire::WorkerExited{slot.rank, statuses_[slot.rank], false});
      }
    } else if (std::holds_alternative<wire::StopGeneration>(message.body)) {
      if (is_probe_answered_late_) {
        agent.Send(generation, wire::ProbeResult{{{wire::ProbeStage::kOk, 0}}});
      }
      const auto starts = agent.All<wire::StartGeneration>();
      const auto workers = starts.empty() ? std::vector<wire::WorkerSlot>() : starts.back().workers;
      for (const wire::WorkerSlot& slot : workers) {
        if (EndsItself(slot.rank)) continue;
        wire::ExitStatus killed;
        killed.signal = 15;
        agent.Send(generation, wire::WorkerExited{slot.rank, killed, true});
      }
      agent.Send(generation, wire::GenerationStopped{0, 5000});
    } else if (std::holds_alternative<wire::Bye>(message.body)) {
      transport_.Exit(host, Status());
    }
  }

  // Makes the hosts two machines whose agents can be probed.
  void SpreadOut() {
    plan_.spread = HostSpread::kManyMachines;
    plan_.is_remote = {true, true};
    transport_.on_agent = [this](const std::string& host, FakeAgent& agent) {
      wire::HostFacts facts = Facts(4000);
      facts.probe_port = host == "a" ? 4101 : 4102;
      wire::InterfaceFacts eth;
      eth.name = "eth0";
      eth.addresses = {{host == "a" ? "10.1.0.1" : "10.1.0.2", 24}};
      eth.is_up = true;
      facts.interfaces.push_back(eth);
      agent.SayHello(facts);
      agent.on_message = [this, host](const wire::Message& message) { Play(host, message); };
    };
    on_probe_ = [](const std::string&, FakeAgent& agent, const wire::Probe&) {
      agent.Send(1, wire::ProbeResult{{{wire::ProbeStage::kOk, 0}}});
    };
  }
  // For a job that ended before its first worker.
  void ExpectNothingStarted() {
    for (const auto& [host, agent] : transport_.agents) {
      EXPECT_TRUE(agent->All<wire::StartGeneration>().empty()) << host;
    }
  }

  bool EndsItself(int rank) const { return statuses_.count(rank) != 0; }

  JobReport Run() {
    Trace trace(plan_.began, {"a", "b"}, true);
    // A fake agent's carrier ends with its link.
    const Watch exits = loop_->Every(std::chrono::milliseconds(5), [this] {
      for (auto& [host, agent] : transport_.agents) {
        if (!agent->closed.empty()) transport_.Exit(host, Status());
      }
    });
    auto launcher = OpenJob(*loop_, {transport_}, trace, plan_);
    EXPECT_TRUE(launcher.ok()) << launcher.status().ToString();
    return (*launcher)->Run();
  }

  std::unique_ptr<Loop> loop_;
  FakeTransport transport_;
  LaunchPlan plan_;
  std::map<int, wire::ExitStatus> statuses_;
  std::function<void(const std::string& host, FakeAgent& agent, const wire::Probe&)> on_probe_;
  bool is_probe_answered_late_ = false;  // by a result that crosses the stop
};

TEST_F(LauncherTest, EveryHostGetsItsWorkersAndSuccessIsZero) {
  statuses_ = {{0, {}}, {1, {}}, {2, {}}};
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 0) << report.verdict.error.ToString();
  EXPECT_EQ(report.generations, 1U);
  const auto starts = transport_.agents["a"]->All<wire::StartGeneration>();
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].size, 3);
  EXPECT_EQ(starts[0].local_size, 2);
  EXPECT_EQ(starts[0].host_name, "a");
  EXPECT_EQ(starts[0].gloo_interface, "lo");
  EXPECT_EQ(starts[0].master_address, "127.0.0.1");
  EXPECT_EQ(starts[0].master_port, 4001);
  EXPECT_EQ(starts[0].command, std::vector<std::string>{"train"});
  ASSERT_EQ(starts[0].workers.size(), 2U);
  const auto other = transport_.agents["b"]->All<wire::StartGeneration>();
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].workers[0].rank, 2);
  EXPECT_EQ(other[0].workers[0].cross_rank, 1);
  EXPECT_EQ(other[0].master_port, 4001);
}

TEST_F(LauncherTest, TheStoreIsResetBeforeTheWorkersStart) {
  statuses_ = {{0, {}}, {1, {}}, {2, {}}};
  (void)Run();
  const auto& received = transport_.agents["b"]->received;
  size_t reset = received.size();
  size_t start = received.size();
  for (size_t i = 0; i < received.size(); ++i) {
    if (std::holds_alternative<wire::KvReset>(received[i].body)) reset = i;
    if (std::holds_alternative<wire::StartGeneration>(received[i].body)) start = i;
  }
  ASSERT_LT(start, received.size());
  EXPECT_LT(reset, start);
}

TEST_F(LauncherTest, TheFirstFailureStopsAllHostsAndGivesItsCode) {
  wire::ExitStatus seven;
  seven.exit_code = 7;
  statuses_ = {{2, seven}};
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 7);
  EXPECT_EQ(report.verdict.origin, ExitOrigin::kWorker);
  ASSERT_TRUE(report.verdict.first_failure.has_value());
  EXPECT_EQ(report.verdict.first_failure->rank, 2);
  EXPECT_FALSE(transport_.agents["a"]->All<wire::StopGeneration>().empty());
}

TEST_F(LauncherTest, ARestartGetsAFreshPortAndCount) {
  wire::ExitStatus one;
  one.exit_code = 1;
  statuses_ = {{0, one}};
  plan_.spec.max_restarts.Set(1, "test");
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 1);
  const auto starts = transport_.agents["a"]->All<wire::StartGeneration>();
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[1].restart_count, 1U);
  EXPECT_EQ(starts[1].master_port, 5000);
}

TEST_F(LauncherTest, KeysTravelBetweenHosts) {
  statuses_ = {};
  const auto play = transport_.on_agent;
  transport_.on_agent = [&, play](const std::string& host, FakeAgent& agent) {
    play(host, agent);
    const auto inner = agent.on_message;
    agent.on_message = [&, host, inner](const wire::Message& message) {
      FakeAgent& self = *transport_.agents[host];
      if (std::holds_alternative<wire::StartGeneration>(message.body)) {
        wire::KvRequest request;
        request.id = 1;
        request.scope = "global";
        request.operation = host == "a" ? KvOp::kPut : KvOp::kFollow;
        request.key = host == "a" ? "0" : "";
        request.value = host == "a" ? "address" : "";
        self.Send(message.generation, request);
      }
      const auto* reply = std::get_if<wire::KvReply>(&message.body);
      if (reply != nullptr && host == "b") {
        wire::ExitStatus done;
        for (int rank = 0; rank < 3; ++rank) statuses_[rank] = done;
        transport_.agents["a"]->Send(message.generation, wire::WorkerExited{0, done, false});
        transport_.agents["a"]->Send(message.generation, wire::WorkerExited{1, done, false});
        self.Send(message.generation, wire::WorkerExited{2, done, false});
      }
      inner(message);
    };
  };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 0) << report.verdict.error.ToString();
  const auto replies = transport_.agents["b"]->All<wire::KvReply>();
  ASSERT_FALSE(replies.empty());
  EXPECT_EQ(replies[0].key, "0");
  EXPECT_EQ(replies[0].value, "address");
}

TEST_F(LauncherTest, AHostThatIsLostEndsTheJobWith125) {
  statuses_ = {};
  const auto play = transport_.on_agent;
  transport_.on_agent = [&, play](const std::string& host, FakeAgent& agent) {
    play(host, agent);
    if (host != "b") return;
    const auto inner = agent.on_message;
    agent.on_message = [&, inner](const wire::Message& message) {
      inner(message);
      if (std::holds_alternative<wire::StartGeneration>(message.body)) {
        loop_->Post([&] {
          transport_.agents["b"]->Vanish();
          transport_.Exit("b", Status(ErrorCode::kAgentLost, "agent was killed by SIGKILL"));
        });
      }
    };
  };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 125);
  EXPECT_EQ(report.verdict.error.code(), ErrorCode::kAgentLost);
  EXPECT_NE(report.verdict.error.message().find("b"), std::string::npos);
}

// A compromised host: it invents ranks, or reports about those of another host.
TEST_F(LauncherTest, AHostThatSpeaksForOthersIsLostAndLeavesNoFile) {
  const TempDirectory directory;
  plan_.spec.output_filename.Set(directory.path() + "/out", "test");
  for (const int rank : {0, 5000}) {
    statuses_ = {};
    const auto play = transport_.on_agent;
    transport_.on_agent = [&, play](const std::string& host, FakeAgent& agent) {
      play(host, agent);
      if (host != "b") return;
      const auto inner = agent.on_message;
      agent.on_message = [&, inner](const wire::Message& message) {
        inner(message);
        if (std::holds_alternative<wire::StartGeneration>(message.body)) {
          transport_.agents["b"]->Send(
              message.generation, wire::Output{rank, wire::StreamId::kStdout, false, "forged\n"});
        }
      };
    };
    const JobReport report = Run();
    EXPECT_EQ(report.verdict.exit_code, 125);
    EXPECT_EQ(report.verdict.error.code(), ErrorCode::kProtocolError);
    EXPECT_FALSE(std::filesystem::exists(directory.path() + "/out/rank.5000"));
    EXPECT_EQ(std::filesystem::file_size(directory.path() + "/out/rank.0/stdout"), 0U);
    transport_.on_agent = play;
  }
}

TEST_F(LauncherTest, AnInterfaceThatNoHostHasStartsNothing) {
  plan_.spec.network_interfaces.Set({"eth7"}, "flag --network-interfaces");
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 125);
  EXPECT_EQ(report.verdict.error.code(), ErrorCode::kNoUsableInterface);
  EXPECT_TRUE(transport_.agents["a"]->All<wire::StartGeneration>().empty());
}

TEST_F(LauncherTest, OnManyMachinesNothingStartsBeforeAllHaveReachedTheirNeighbour) {
  SpreadOut();
  statuses_ = {{0, {}}, {1, {}}, {2, {}}};
  std::map<std::string, wire::Probe> probes;
  on_probe_ = [&](const std::string& host, FakeAgent&, const wire::Probe& probe) {
    probes[host] = probe;
    if (probes.size() < 2) return;
    ExpectNothingStarted();
    transport_.agents["b"]->Send(1, wire::ProbeResult{{{wire::ProbeStage::kOk, 0}}});
    // A second answer and an unexpected one: neither counts.
    transport_.agents["b"]->Send(1, wire::ProbeResult{{{wire::ProbeStage::kOk, 0}}});
    loop_->Post([&] {
      ExpectNothingStarted();
      transport_.agents["a"]->Send(1, wire::ProbeResult{{{wire::ProbeStage::kOk, 0}}});
      transport_.agents["a"]->Send(1, wire::ProbeResult{{{wire::ProbeStage::kRefused, 111}}});
    });
  };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 0) << report.verdict.error.ToString();
  EXPECT_EQ(probes["a"].targets, (std::vector{wire::ProbeTarget{"10.1.0.1", "10.1.0.2", 4102}}));
  EXPECT_EQ(probes["b"].targets, (std::vector{wire::ProbeTarget{"10.1.0.2", "10.1.0.1", 4101}}));
  EXPECT_EQ(transport_.agents["a"]->All<wire::StartGeneration>().size(), 1U);
  const auto is_probe = [](const Phase& phase) { return phase.name == "probe" && phase.ended; };
  EXPECT_EQ(std::count_if(report.phases.begin(), report.phases.end(), is_probe), 1);
}

TEST_F(LauncherTest, OnlyTheFirstGenerationIsProbed) {
  SpreadOut();
  wire::ExitStatus one;
  one.exit_code = 1;
  statuses_ = {{0, one}};
  plan_.spec.max_restarts.Set(1, "test");
  (void)Run();
  EXPECT_EQ(transport_.agents["a"]->All<wire::StartGeneration>().size(), 2U);
  EXPECT_EQ(transport_.agents["a"]->All<wire::Probe>().size(), 1U);
}

TEST_F(LauncherTest, HostThatDoesNotReachItsNeighbourEndsTheJobAndStartsNothing) {
  SpreadOut();
  on_probe_ = [](const std::string& host, FakeAgent& agent, const wire::Probe&) {
    const auto stage = host == "b" ? wire::ProbeStage::kTimeout : wire::ProbeStage::kOk;
    agent.Send(1, wire::ProbeResult{{{stage, 0}}});
  };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 125);
  ExpectError(report.verdict.error, ErrorCode::kConnectTimeout,
              {"host b (eth0 10.1.0.2)", "cannot reach", "host a (10.1.0.1)", "5 s"});
  EXPECT_FALSE(report.verdict.error.hint().empty());
  ExpectNothingStarted();
}

// The answers cross the stop.
TEST_F(LauncherTest, StopDuringTheProbeStartsNothing) {
  SpreadOut();
  is_probe_answered_late_ = true;
  on_probe_ = [](const std::string& host, FakeAgent& /*agent*/, const wire::Probe&) {
    if (host != "b") return;
    ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
  };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 128 + SIGTERM);
  ExpectNothingStarted();
}

TEST_F(LauncherTest, ASignalForWorkersThatAreNotThereYetHarmsNobody) {
  SpreadOut();
  statuses_ = {{0, {}}, {1, {}}, {2, {}}};
  const auto answer = on_probe_;
  on_probe_ = [answer](const std::string& host, FakeAgent& agent, const wire::Probe& probe) {
    ASSERT_TRUE(host != "a" || ::kill(::getpid(), SIGUSR1) == 0);
    answer(host, agent, probe);
  };
  EXPECT_EQ(Run().verdict.exit_code, 0);
  for (const auto& [host, agent] : transport_.agents) {
    EXPECT_TRUE(agent->All<wire::Signal>().empty()) << host;
  }
}

TEST_F(LauncherTest, HostThatIsLostDuringTheProbeStartsNothing) {
  SpreadOut();
  on_probe_ = [&](const std::string& host, FakeAgent& agent, const wire::Probe&) {
    if (host == "a") {
      agent.Send(1, wire::ProbeResult{{{wire::ProbeStage::kOk, 0}}});
      return;
    }
    loop_->Post([&] {
      transport_.agents["b"]->Vanish();
      transport_.Exit("b", Status(ErrorCode::kAgentLost, "agent was killed by SIGKILL"));
    });
  };
  const JobReport report = Run();
  EXPECT_EQ(report.verdict.exit_code, 125);
  EXPECT_EQ(report.verdict.error.code(), ErrorCode::kAgentLost);
  ExpectNothingStarted();
}

TEST_F(LauncherTest, AReportPathThatCannotBeWrittenStartsNothing) {
  plan_.spec.report_file.Set("/nowhere/at/all", "flag --report");
  Trace trace(plan_.began, {"a", "b"}, false);
  const auto launcher = OpenJob(*loop_, {transport_}, trace, plan_);
  ASSERT_FALSE(launcher.ok());
  EXPECT_EQ(launcher.status().code(), ErrorCode::kFileUnwritable);
}

}  // namespace
}  // namespace hvdray
