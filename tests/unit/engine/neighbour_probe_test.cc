// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/neighbour_probe.h"

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

class NeighbourProbeTest : public testing::Test {
 protected:
  NeighbourProbeTest() : loop_(std::move(*Loop::Create())) {
    hosts_ = {{"a", "eth0", "10.1.0.2", 4002},
              {"b", "ens3", "10.1.0.3", 4003},
              {"c", "eth0", "10.1.0.4", 4004}};
  }

  void Start(ProbeLimits limits = {}) {
    probe_.emplace(
        *loop_, hosts_, limits,
        [this](int host, wire::Probe probe) { sent_[host].push_back(std::move(probe)); },
        [this](std::optional<ProbeFailure> failure) {
          ++answers_;
          failure_ = std::move(failure);
        });
    probe_->Start();
  }
  void Answer(int host, ProbeStage stage = ProbeStage::kOk, int error = 0) {
    probe_->OnResult(host, {{{stage, error}}});
  }
  bool WaitForAnswer() {
    return RunUntil(*loop_, [this] { return answers_ > 0; });
  }

  std::unique_ptr<Loop> loop_;
  std::vector<ProbedHost> hosts_;
  std::optional<NeighbourProbe> probe_;
  std::map<int, std::vector<wire::Probe>> sent_;
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
    EXPECT_EQ(failure_->host, 1);
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
  EXPECT_EQ(failure_->host, 1);
  ExpectError(failure_->why, ErrorCode::kConnectTimeout, {"host b", "host c", "1 more host"});
}

TEST_F(NeighbourProbeTest, AgentThatDoesNotAnswerEndsTheProbeAtItsDeadline) {
  Start({.connect = milliseconds(10), .answer = milliseconds(20)});
  Answer(0);
  Answer(2);
  ASSERT_TRUE(WaitForAnswer());
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 1);
  ExpectError(failure_->why, ErrorCode::kDeadlineExceeded, {"agent on host b", "0.02 s", "host c"});
  Answer(1);
  EXPECT_EQ(answers_, 1);
}

TEST_F(NeighbourProbeTest, HostWithoutAPortIsTheOneAtFault) {
  hosts_[2].port = 0;
  Start();
  EXPECT_EQ(sent_.count(1), 0U);
  Answer(1);
  Answer(0);
  EXPECT_EQ(answers_, 0);
  Answer(2);
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 2);
  ExpectError(failure_->why, ErrorCode::kOutOfResources, {"agent on host c", "no port", "host b"});
}

TEST_F(NeighbourProbeTest, WithoutAnyPortNothingIsSentAndItFailsAtOnce) {
  for (ProbedHost& host : hosts_) host.port = 0;
  Start();
  EXPECT_EQ(answers_, 0) << "not from within Start()";
  ASSERT_TRUE(WaitForAnswer());
  EXPECT_TRUE(sent_.empty());
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 0);
  ExpectError(failure_->why, ErrorCode::kOutOfResources, {"2 more hosts"});
}

TEST_F(NeighbourProbeTest, ResultsThatDoNotFitTheTargetsAreAViolation) {
  Start();
  probe_->OnResult(0, {});
  probe_->OnResult(1, {{{}, {}}});
  Answer(2);
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->host, 0);
  EXPECT_EQ(failure_->why.code(), ErrorCode::kProtocolError);
}

TEST_F(NeighbourProbeTest, MayBeDestroyedByItsAnswer) {
  probe_.emplace(
      *loop_, hosts_, ProbeLimits(), [](int /*host*/, const wire::Probe& /*probe*/) {},
      [this](const std::optional<ProbeFailure>&) {
        ++answers_;
        probe_.reset();
      });
  probe_->Start();
  for (int host = 0; host < 3; ++host) Answer(host);
  EXPECT_EQ(answers_, 1);
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
