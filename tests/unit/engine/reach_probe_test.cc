// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/reach_probe.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::ProbeStage;

class ReachProbeTest : public testing::Test {
 protected:
  ReachProbeTest() : loop_(std::move(*Loop::Create())) { MakeHosts(3); }

  void MakeHosts(int count) {
    hosts_.clear();
    for (int i = 0; i < count; ++i) {
      hosts_.push_back({"n" + std::to_string(i), "eth0", "10.1.0." + std::to_string(i),
                        static_cast<uint16_t>(4000 + i)});
    }
  }
  void Start(ProbeLimits limits = {}) {
    probe_.emplace(
        *loop_, hosts_, ReachProbe::kAll, limits,
        [this](size_t host, wire::Probe probe) { sent_[host] = std::move(probe); },
        [this](std::vector<ClosedWay> closed) {
          ++answers_;
          closed_ = std::move(closed);
        });
    probe_->Start();
  }
  void Answer(size_t host, std::vector<ProbeStage> stages) {
    wire::ProbeResult result;
    for (const ProbeStage stage : stages) result.results.push_back({stage, 0});
    probe_->OnResult(host, result);
  }
  void AnswerWell(size_t host) {
    Answer(host, std::vector(sent_[host].targets.size(), ProbeStage::kOk));
  }

  std::unique_ptr<Loop> loop_;
  std::vector<ProbedHost> hosts_;
  std::optional<ReachProbe> probe_;
  std::map<size_t, wire::Probe> sent_;
  int answers_ = 0;
  std::vector<ClosedWay> closed_;
};

TEST_F(ReachProbeTest, EveryHostTriesEveryOther) {
  Start();
  ASSERT_EQ(sent_.size(), 3U);
  EXPECT_EQ(sent_[1],
            (wire::Probe{5000, {{"10.1.0.1", "10.1.0.2", 4002}, {"10.1.0.1", "10.1.0.0", 4000}}}));
  for (size_t host = 0; host < 3; ++host) {
    EXPECT_EQ(answers_, 0);
    AnswerWell(host);
  }
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(closed_.empty());
}

TEST_F(ReachProbeTest, EachClosedWayIsTold) {
  Start();
  AnswerWell(0);
  Answer(1, {ProbeStage::kTimeout, ProbeStage::kOk});
  Answer(2, {ProbeStage::kRefused, ProbeStage::kTimeout});
  ASSERT_EQ(closed_.size(), 3U);
  EXPECT_EQ(closed_[0].from, 1U);
  EXPECT_EQ(closed_[0].to, 2U);
  EXPECT_EQ(closed_[0].why.code(), ErrorCode::kConnectTimeout);
  EXPECT_EQ(closed_[1].from, 2U);
  EXPECT_EQ(closed_[1].to, 0U);
  EXPECT_EQ(closed_[1].why.code(), ErrorCode::kHostRefused);
}

TEST_F(ReachProbeTest, ManyHostsTryAsManyAsAProbeHolds) {
  MakeHosts(100);
  Start();
  ASSERT_EQ(sent_.size(), 100U);
  for (const auto& [host, probe] : sent_) {
    ASSERT_EQ(probe.targets.size(), wire::kMaxProbeTargets);
    EXPECT_EQ(probe.targets[0].port, 4000 + (host + 1) % 100);
  }
}

TEST_F(ReachProbeTest, AHostThatIsLostIsNotWaitedForAndWaysToItAreNoFinding) {
  Start();
  AnswerWell(0);
  Answer(1, {ProbeStage::kRefused, ProbeStage::kOk});
  EXPECT_EQ(answers_, 0);
  probe_->OnLost(2);
  probe_->OnLost(2);
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(closed_.empty());
}

TEST_F(ReachProbeTest, AnAgentThatDoesNotAnswerIsToldAtTheDeadline) {
  Start({.connect = milliseconds(10), .answer = milliseconds(20)});
  AnswerWell(0);
  AnswerWell(2);
  ASSERT_TRUE(RunUntil(*loop_, [this] { return answers_ > 0; }));
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].from, 1U);
  EXPECT_EQ(closed_[0].to, 1U);
  EXPECT_EQ(closed_[0].why.code(), ErrorCode::kDeadlineExceeded);
  AnswerWell(1);
  EXPECT_EQ(answers_, 1);
}

TEST_F(ReachProbeTest, AHostWithoutAPortIsTriedByNobody) {
  hosts_[2].port = 0;
  Start();
  EXPECT_EQ(sent_[0].targets.size(), 1U);
  EXPECT_EQ(sent_[2].targets.size(), 2U);
  for (size_t host = 0; host < 3; ++host) AnswerWell(host);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].to, 2U);
  EXPECT_EQ(closed_[0].why.code(), ErrorCode::kOutOfResources);
}

TEST_F(ReachProbeTest, ResultsThatDoNotFitTheTargetsAreAViolationAndASecondAnswerCountsForNothing) {
  Start();
  Answer(0, {ProbeStage::kOk});
  Answer(0, {ProbeStage::kRefused, ProbeStage::kRefused});
  AnswerWell(1);
  AnswerWell(2);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].why.code(), ErrorCode::kProtocolError);
}

TEST_F(ReachProbeTest, MayBeDestroyedByItsAnswer) {
  probe_.emplace(
      *loop_, hosts_, ReachProbe::kAll, ProbeLimits(),
      [this](size_t host, wire::Probe probe) { sent_[host] = std::move(probe); },
      [this](const std::vector<ClosedWay>&) {
        ++answers_;
        probe_.reset();
      });
  probe_->Start();
  for (size_t host = 0; host < 3; ++host) AnswerWell(host);
  EXPECT_EQ(answers_, 1);
}

// ---- each host tries the next one, and the user is told the first failure

class NeighbourProbeTest : public testing::Test {
 protected:
  NeighbourProbeTest() : loop_(std::move(*Loop::Create())) {
    hosts_ = {{"a", "eth0", "10.1.0.2", 4002},
              {"b", "ens3", "10.1.0.3", 4003},
              {"c", "eth0", "10.1.0.4", 4004}};
  }

  void Start(ProbeLimits limits = {}) {
    probe_.emplace(
        *loop_, hosts_, 1, limits,
        [this](size_t host, wire::Probe probe) { sent_[host].push_back(std::move(probe)); },
        [this](const std::vector<ClosedWay>& closed) {
          ++answers_;
          failure_ = FailureOf(hosts_, closed);
        });
    probe_->Start();
  }
  void Answer(size_t host, ProbeStage stage = ProbeStage::kOk, int error = 0) {
    probe_->OnResult(host, {{{stage, error}}});
  }
  bool WaitForAnswer() {
    return RunUntil(*loop_, [this] { return answers_ > 0; });
  }

  std::unique_ptr<Loop> loop_;
  std::vector<ProbedHost> hosts_;
  std::optional<ReachProbe> probe_;
  std::map<size_t, std::vector<wire::Probe>> sent_;
  int answers_ = 0;
  std::optional<ProbeFailure> failure_;
};

TEST_F(NeighbourProbeTest, EveryHostIsSentToTheNextAndTheLastToTheFirst) {
  Start();
  ASSERT_EQ(sent_.size(), 3U);
  EXPECT_EQ(sent_[0], (std::vector{wire::Probe{5000, {{"10.1.0.2", "10.1.0.3", 4003}}}}));
  EXPECT_EQ(sent_[1], (std::vector{wire::Probe{5000, {{"10.1.0.3", "10.1.0.4", 4004}}}}));
  EXPECT_EQ(sent_[2], (std::vector{wire::Probe{5000, {{"10.1.0.4", "10.1.0.2", 4002}}}}));
}

TEST_F(NeighbourProbeTest, TwoHostsProveBothWays) {
  hosts_.pop_back();
  Start();
  ASSERT_EQ(sent_.size(), 2U);
  EXPECT_EQ(sent_[0][0].targets[0].address, "10.1.0.3");
  EXPECT_EQ(sent_[1][0].targets[0].address, "10.1.0.2");
}

TEST_F(NeighbourProbeTest, AllWellIsSaidOnceTheLastHasAnswered) {
  Start();
  Answer(2);
  Answer(0);
  EXPECT_EQ(answers_, 0);
  Answer(1);
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(failure_.has_value());
}

TEST_F(NeighbourProbeTest, SecondResultOfAHostCountsForNothing) {
  Start();
  Answer(0);
  Answer(0, ProbeStage::kRefused, ECONNREFUSED);
  Answer(0);
  EXPECT_EQ(answers_, 0);
  Answer(1);
  Answer(2);
  Answer(2, ProbeStage::kRefused, ECONNREFUSED);
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(failure_.has_value());
}

struct StageRow {
  ProbeStage stage;
  int error;
  ErrorCode code;
  std::string_view fact;
};

TEST_F(NeighbourProbeTest, FailureNamesThePairAndTheStage) {
  const StageRow rows[] = {
      {ProbeStage::kRefused, ECONNREFUSED, ErrorCode::kHostRefused, "refused"},
      {ProbeStage::kTimeout, 0, ErrorCode::kConnectTimeout, "5 s"},
      {ProbeStage::kTimeout, ETIMEDOUT, ErrorCode::kConnectTimeout, "5 s"},
      {ProbeStage::kUnreachable, EHOSTUNREACH, ErrorCode::kHostUnreachable,
       std::strerror(EHOSTUNREACH)},
      {ProbeStage::kUnreachable, ENETDOWN, ErrorCode::kHostUnreachable, std::strerror(ENETDOWN)},
      {ProbeStage::kUnreachable, 0, ErrorCode::kHostUnreachable, std::strerror(EHOSTUNREACH)},
      {ProbeStage::kOther, EADDRNOTAVAIL, ErrorCode::kSystem, std::strerror(EADDRNOTAVAIL)},
  };
  for (const StageRow& row : rows) {
    answers_ = 0;
    Start();
    Answer(0);
    Answer(1, row.stage, row.error);
    Answer(2);
    ASSERT_TRUE(failure_.has_value()) << row.fact;
    EXPECT_EQ(answers_, 1);
    EXPECT_EQ(failure_->host, 1U);
    ExpectError(failure_->why, row.code,
                {"host b (ens3 10.1.0.3)", "cannot reach", "host c (10.1.0.4)", row.fact,
                 "hint: ", "--network-interfaces"});
  }
}

TEST_F(NeighbourProbeTest, OfManyFailuresTheFirstPairIsNamedAndTheOthersAreCounted) {
  Start();
  Answer(2, ProbeStage::kRefused, ECONNREFUSED);
  Answer(1, ProbeStage::kTimeout);
  Answer(0);
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 1U);
  ExpectError(failure_->why, ErrorCode::kConnectTimeout, {"host b", "host c", "1 more host"});
}

TEST_F(NeighbourProbeTest, AgentThatDoesNotAnswerEndsTheProbeAtItsDeadline) {
  Start({.connect = milliseconds(10), .answer = milliseconds(20)});
  Answer(0);
  Answer(2);
  ASSERT_TRUE(WaitForAnswer());
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 1U);
  ExpectError(failure_->why, ErrorCode::kDeadlineExceeded, {"host b: its agent", "0.02 s"});
  Answer(1);
  EXPECT_EQ(answers_, 1);
}

TEST_F(NeighbourProbeTest, HostWithoutAPortIsTheOneAtFault) {
  hosts_[2].port = 0;
  Start();
  EXPECT_EQ(sent_[1][0].targets[0].address, "10.1.0.2");
  Answer(1);
  Answer(0);
  EXPECT_EQ(answers_, 0);
  Answer(2);
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 2U);
  ExpectError(failure_->why, ErrorCode::kOutOfResources, {"host c: its agent", "no port"});
}

TEST_F(NeighbourProbeTest, WithoutAnyPortNothingIsSentAndItFailsAtOnce) {
  for (ProbedHost& host : hosts_) host.port = 0;
  Start();
  EXPECT_EQ(answers_, 0) << "not from within Start()";
  ASSERT_TRUE(WaitForAnswer());
  EXPECT_TRUE(sent_.empty());
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 0U);
  ExpectError(failure_->why, ErrorCode::kOutOfResources, {"2 more hosts"});
}

TEST_F(NeighbourProbeTest, ResultsThatDoNotFitTheTargetsAreAViolation) {
  Start();
  probe_->OnResult(0, {});
  probe_->OnResult(1, {{{}, {}}});
  Answer(2);
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 0U);
  EXPECT_EQ(failure_->why.code(), ErrorCode::kProtocolError);
}

TEST(ProbeLimitsTest, StayBelowTheStartTimeout) {
  const ProbeLimits usual = ProbeLimitsWithin(std::chrono::seconds(30));
  EXPECT_EQ(usual.connect, milliseconds(5000));
  EXPECT_EQ(usual.answer, milliseconds(10000));
  const ProbeLimits hasty = ProbeLimitsWithin(std::chrono::seconds(2));
  EXPECT_EQ(hasty.connect, milliseconds(500));
  EXPECT_EQ(hasty.answer, milliseconds(1000));
  EXPECT_GT(ProbeLimitsWithin(Duration::zero()).connect, milliseconds(0));
}

TEST(ProbeLimitsTest, OneHostAndOneMachineNeedNoProbe) {
  EXPECT_TRUE(IsProbeWanted(HostSpread::kManyMachines, 2));
  EXPECT_FALSE(IsProbeWanted(HostSpread::kManyMachines, 1));
  EXPECT_FALSE(IsProbeWanted(HostSpread::kOneMachine, 2));
}

}  // namespace
}  // namespace hvdray
