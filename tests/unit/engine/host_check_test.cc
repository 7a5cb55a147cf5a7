// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/host_check.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/fakes/fake_transport.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

// Runs a real check over agents that the test plays.
class HostCheckTest : public testing::Test {
 protected:
  HostCheckTest() : loop_(std::move(*Loop::Create())), transport_(*loop_) {
    plan_.hosts = {{"a", 2}, {"b", 2}, {"c", 2}};
    plan_.is_remote = {true, true, true};
    plan_.spread = HostSpread::kManyMachines;
    plan_.ranks = std::move(*AssignRanks(plan_.hosts, 5, 5));
    plan_.spec.np.Set(5, "test");
    plan_.spec.command.Set({"train", "--fast"}, "test");
    plan_.current_directory = "/here";
    plan_.environment.Set("PATH", "/opt/bin");
    plan_.build = "hvdray test";
    transport_.on_agent = [this](const std::string& host, FakeAgent& agent) {
      if (mute_.contains(host)) return;
      agent.SayHello(Facts(host));
      agent.on_message = [this, host](const wire::Message& message) { Play(host, message); };
    };
  }

  static wire::HostFacts Facts(const std::string& host) {
    wire::HostFacts facts;
    facts.host_name = host;
    facts.probe_port = static_cast<uint16_t>(4000 + host[0]);
    facts.measures = !old_.contains(host);
    wire::InterfaceFacts eth;
    eth.name = "eth0";
    eth.addresses = {{"10.1.0." + std::to_string(host[0]), 24}};
    eth.is_up = true;
    facts.interfaces = {eth};
    return facts;
  }

  // An agent that answers every request.
  void Play(const std::string& host, const wire::Message& message) {
    FakeAgent& agent = *transport_.agents[host];
    if (std::holds_alternative<wire::Inspect>(message.body)) {
      if (on_inspect_) on_inspect_(host);
      if (silent_.contains(host)) return;
      wire::Inspection inspection;
      inspection.libc = "glibc of " + host;
      agent.Send(message.generation, std::move(inspection));
    } else if (const auto* probe = std::get_if<wire::Probe>(&message.body);
               probe != nullptr && !probe->token.empty()) {
      wire::ProbeResult result;
      for (size_t i = 0; i < probe->targets.size(); ++i) {
        if (on_measure_) on_measure_(host);
        result.results.push_back(
            {wire::ProbeStage::kOk, 0, wire::MeasureStep::kDone, 60'000, 1'000'000, 2'000'000});
      }
      agent.Send(message.generation, std::move(result));
    } else if (probe != nullptr) {
      if (on_probe_) on_probe_(host);
      wire::ProbeResult result;
      for (const wire::ProbeTarget& target : probe->targets) {
        const bool is_closed = closed_.contains({host, target.port - 4000});
        const auto stage = is_closed ? wire::ProbeStage::kRefused : wire::ProbeStage::kOk;
        result.results.push_back({stage, 0});
      }
      agent.Send(message.generation, std::move(result));
    }
  }

  HostCheck::Outcome Run(CheckLimits limits = {}) { return RunWith({}, limits); }
  HostCheck::Outcome RunWith(CheckWishes wishes, CheckLimits limits = {}) {
    // A fake agent's carrier ends with its link.
    const Watch exits = loop_->Every(milliseconds(5), [this] {
      for (auto& [host, agent] : transport_.agents) {
        if (!agent->closed.empty()) transport_.Exit(host, Status());
      }
    });
    return HostCheck(*loop_, transport_, plan_, limits, std::move(wishes)).Run();
  }
  void ExpectNothingStarted() {
    for (const auto& [host, agent] : transport_.agents) {
      EXPECT_TRUE(agent->All<wire::StartGeneration>().empty()) << host;
    }
  }

  std::unique_ptr<Loop> loop_;
  FakeTransport transport_;
  LaunchPlan plan_;
  std::set<std::string> mute_;                    // send no Hello
  std::set<std::string> silent_;                  // do not answer an Inspect
  std::set<std::pair<std::string, int>> closed_;  // host, first letter of the other
  std::function<void(const std::string& host)> on_inspect_;
  std::function<void(const std::string& host)> on_probe_;
  std::function<void(const std::string& host)> on_measure_;
  static inline std::set<std::string> old_;  // agents that can't measure
};

TEST_F(HostCheckTest, EveryHostIsAskedAndNothingIsStarted) {
  const CheckFacts facts = Run().facts;
  ASSERT_EQ(facts.hosts.size(), 3U);
  for (const CheckedHost& host : facts.hosts) {
    EXPECT_TRUE(host.lost.ok());
    ASSERT_TRUE(host.inspection.has_value());
    EXPECT_EQ(host.inspection->libc, "glibc of " + host.name);
    EXPECT_EQ(host.build, "fake");
    EXPECT_EQ(host.nic, "eth0");
    EXPECT_TRUE(host.ready_after.has_value());
    EXPECT_TRUE(host.clock.has_value());
  }
  EXPECT_EQ(facts.hosts[0].workers, 2);
  EXPECT_EQ(facts.hosts[2].workers, 1);
  EXPECT_TRUE(facts.is_probed);
  EXPECT_TRUE(facts.closed_ways.empty());
  ExpectNothingStarted();
  for (const auto& [host, agent] : transport_.agents) {
    ASSERT_EQ(agent->closed.size(), 1U) << host;
    EXPECT_TRUE(agent->closed[0].ok()) << "told Bye";
  }
}

TEST_F(HostCheckTest, AgentsLookWhereWorkersWould) {
  plan_.is_remote[2] = false;
  (void)Run();
  const auto remote = transport_.agents["a"]->All<wire::Inspect>();
  ASSERT_EQ(remote.size(), 1U);
  EXPECT_EQ(remote[0].working_directory, "/here");
  EXPECT_EQ(remote[0].command, "train");
  EXPECT_EQ(remote[0].path, "/opt/bin");
  EXPECT_EQ(transport_.agents["c"]->All<wire::Inspect>()[0].working_directory, "")
      << "this machine: where the agent is";
  plan_.spec.working_directory.Set("/data", "flag --cwd");
  const CheckFacts facts = Run().facts;
  EXPECT_EQ(transport_.agents["c"]->All<wire::Inspect>()[0].working_directory, "/data");
}

TEST_F(HostCheckTest, FilesAndModulesAreAskedForWithTheWorkersEnvironment) {
  plan_.spec.env.Set({"PYTHONPATH=/mine"}, "flag -x");
  const CheckWishes wishes{{"train.py", "a.yaml"}, "train.py", {"torch"}};
  const CheckFacts facts = RunWith(wishes).facts;
  EXPECT_EQ(facts.script, "train.py");
  const auto asked = transport_.agents["a"]->All<wire::Inspect>();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].files, wishes.files);
  EXPECT_EQ(asked[0].modules, wishes.modules);
  const std::vector<std::string>& given = asked[0].environment;
  EXPECT_NE(std::find(given.begin(), given.end(), "PYTHONPATH=/mine"), given.end());
  EXPECT_GT(asked[0].timeout_ms, CheckLimits().inspect.count()) << "an import takes its time";
}

TEST_F(HostCheckTest, OneHostThatFailsDoesNotEndTheCheckOfTheOthers) {
  transport_.failures["b"] = Status(ErrorCode::kHostRefused, "start agent on b: refused");
  const CheckFacts facts = Run().facts;
  EXPECT_EQ(facts.hosts[1].lost.code(), ErrorCode::kHostRefused);
  EXPECT_TRUE(facts.hosts[0].inspection.has_value());
  EXPECT_TRUE(facts.hosts[2].inspection.has_value());
  // The remaining hosts probe each other.
  const auto probes = transport_.agents["a"]->All<wire::Probe>();
  ASSERT_FALSE(probes.empty());
  ASSERT_EQ(probes[0].targets.size(), 1U);
  EXPECT_EQ(probes[0].targets[0].port, 4000 + 'c');
}

TEST_F(HostCheckTest, WithAllHostsLostItEndsAndIsProbedByNobody) {
  for (const char* host : {"a", "b", "c"}) {
    transport_.failures[host] = Status(ErrorCode::kHostRefused, "refused");
  }
  const CheckFacts facts = Run().facts;
  EXPECT_FALSE(facts.is_probed);
  EXPECT_TRUE(facts.interfaces.ok());
  for (const CheckedHost& host : facts.hosts) EXPECT_FALSE(host.lost.ok());
}

TEST_F(HostCheckTest, AHostThatIsNotReadyInTimeIsLostAndTheOthersAreToldOf) {
  mute_ = {"b"};
  plan_.spec.start_timeout.Set(milliseconds(500), "test");
  const CheckFacts facts = Run().facts;
  ExpectError(facts.hosts[1].lost, ErrorCode::kDeadlineExceeded, {"host b", "ready", "0.5 s"});
  EXPECT_TRUE(facts.hosts[0].inspection.has_value());
}

TEST_F(HostCheckTest, AnAgentThatDoesNotAnswerIsNotWaitedForForEver) {
  silent_ = {"c"};
  const CheckFacts facts = Run({.inspect = milliseconds(10), .spare = milliseconds(500)}).facts;
  EXPECT_TRUE(facts.hosts[2].lost.ok());
  EXPECT_FALSE(facts.hosts[2].inspection.has_value());
  EXPECT_TRUE(facts.hosts[0].inspection.has_value());
}

TEST_F(HostCheckTest, ClosedWaysAreThoseOfTheHostsEvenWhenSomeAreLost) {
  transport_.failures["a"] = Status(ErrorCode::kHostRefused, "refused");
  closed_ = {{"c", 'b'}};
  const CheckFacts facts = Run().facts;
  ASSERT_EQ(facts.closed_ways.size(), 1U);
  EXPECT_EQ(facts.closed_ways[0].from, 2U);
  EXPECT_EQ(facts.closed_ways[0].to, 1U);
}

TEST_F(HostCheckTest, AHostThatIsLostWhileItIsProbedIsToldAsLost) {
  on_probe_ = [this](const std::string& host) {
    if (host != "b") return;
    loop_->Post([this] {
      transport_.agents["b"]->Vanish();
      transport_.Exit("b", Status(ErrorCode::kAgentLost, "agent was killed by SIGKILL"));
    });
  };
  closed_ = {{"a", 'b'}, {"c", 'b'}};
  silent_ = {"b"};
  const CheckFacts facts = Run().facts;
  EXPECT_EQ(facts.hosts[1].lost.code(), ErrorCode::kAgentLost);
  EXPECT_TRUE(facts.hosts[0].lost.ok());
}

TEST_F(HostCheckTest, EveryPairMeasuresOnceAllElseIsDone) {
  const CheckFacts facts = Run().facts;
  ASSERT_EQ(facts.pairs.size(), 3U);
  for (const MeasuredPair& pair : facts.pairs) {
    EXPECT_TRUE(pair.why.ok());
    EXPECT_NE(pair.from, pair.to);
    EXPECT_EQ(pair.there, 1e6);
    EXPECT_EQ(pair.back, 2e6);
  }
  std::set<std::string> tokens;
  for (const auto& [host, agent] : transport_.agents) {
    const auto probes = agent->All<wire::Probe>();
    ASSERT_GE(probes.size(), 2U);
    EXPECT_EQ(probes[0].token, "");
    for (size_t i = 1; i < probes.size(); ++i) tokens.insert(probes[i].token);
  }
  EXPECT_EQ(tokens.size(), 1U) << "one for all, and for this check only";
}

TEST_F(HostCheckTest, AnAgentThatDoesNotMeasureIsNotAskedTo) {
  old_ = {"b"};
  const CheckFacts facts = Run().facts;
  old_.clear();
  EXPECT_EQ(transport_.agents["b"]->All<wire::Probe>().size(), 1U);
  ASSERT_EQ(facts.pairs.size(), 1U);
  EXPECT_EQ(facts.pairs[0].from + facts.pairs[0].to, 2U);
}

TEST_F(HostCheckTest, AHostThatDiesWhileItMeasuresIsLostAndTheOthersHaveNumbers) {
  bool is_dead = false;
  on_measure_ = [this, &is_dead](const std::string&) {
    if (std::exchange(is_dead, true)) return;
    loop_->Post([this] {
      transport_.agents["b"]->Vanish();
      transport_.Exit("b", Status(ErrorCode::kAgentLost, "agent was killed by SIGKILL"));
    });
  };
  const CheckFacts facts = Run().facts;
  EXPECT_EQ(facts.hosts[1].lost.code(), ErrorCode::kAgentLost);
  ASSERT_EQ(facts.pairs.size(), 1U);
  EXPECT_EQ(facts.pairs[0].from + facts.pairs[0].to, 2U);
}

TEST_F(HostCheckTest, ASignalEndsAMeasurement) {
  on_measure_ = [](const std::string&) { ::kill(::getpid(), SIGINT); };
  EXPECT_EQ(Run().signo, SIGINT);
}

TEST_F(HostCheckTest, OneMachineIsNotProbedAndTakesLoopback) {
  plan_.hosts = {{"a", 5}};
  plan_.is_remote = {false};
  plan_.spread = HostSpread::kOneMachine;
  plan_.ranks = std::move(*AssignRanks(plan_.hosts, 5, 5));
  const CheckFacts facts = Run().facts;
  EXPECT_FALSE(facts.is_probed);
  EXPECT_EQ(facts.hosts[0].nic_status.code(), ErrorCode::kNoUsableInterface)
      << "this fake machine has none";
  EXPECT_TRUE(transport_.agents["a"]->All<wire::Probe>().empty());
}

TEST_F(HostCheckTest, ASignalEndsItAndAgentsAreToldBye) {
  silent_ = {"a", "b", "c"};
  on_inspect_ = [](const std::string& host) {
    if (host == "c") ::kill(::getpid(), SIGINT);
  };
  EXPECT_EQ(Run().signo, SIGINT);
  for (const auto& [host, agent] : transport_.agents) {
    ASSERT_EQ(agent->closed.size(), 1U) << host;
    EXPECT_TRUE(agent->closed[0].ok());
  }
}

}  // namespace
}  // namespace hvdray
