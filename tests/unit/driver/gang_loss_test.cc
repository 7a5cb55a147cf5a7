// SPDX-License-Identifier: Apache-2.0
// Hosts lost before the first generation: which others the job waits for, how long, and what it
// reports.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/sim.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Names = std::vector<std::string>;

std::vector<HostSlots> Nodes(int count) {
  std::vector<HostSlots> hosts;
  for (int i = 1; i <= count; ++i) hosts.push_back({fmt::format("node{}", i), 1});
  return hosts;
}

void Refuse(Sim& sim, int host, Duration after) {
  sim.host(host).ready_after.reset();
  sim.host(host).lost_after = after;
  sim.host(host).why_lost = {ErrorCode::kHostRefused,
                             fmt::format("host node{0}: start agent on node{0}: refused", host + 1),
                             "look at sshd"};
}

void ExpectLost(const Sim& sim, ErrorCode code, Facts facts) {
  for (const std::string& rule : sim.violations()) ADD_FAILURE() << rule;
  EXPECT_EQ(sim.verdict().exit_code, 125);
  EXPECT_EQ(sim.verdict().origin, ExitOrigin::kHvdray);
  ExpectError(sim.verdict().error, code, facts);
  ASSERT_FALSE(sim.verdict().losses.empty());
  EXPECT_EQ(sim.verdict().losses.front().error, sim.verdict().error);
  EXPECT_TRUE(sim.starts().empty());
  EXPECT_TRUE(sim.stops().empty());
}

TEST(GangLossTest, AllHostsWithTheSameReasonAreOneMessageAndNobodyIsWaitedFor) {
  Sim sim({}, Nodes(4));
  for (int i = 0; i < 4; ++i) Refuse(sim, i, milliseconds(10 + 20 * i));
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kHostRefused, {"hosts node[1-4]", "HOST"});
  EXPECT_EQ(sim.verdict().error.hint(), "look at sshd");
  EXPECT_EQ(sim.verdict().losses.size(), 1u);
  EXPECT_EQ(sim.elapsed(), milliseconds(70)) << "the last is known: nothing to wait for";
}

TEST(GangLossTest, TwoReasonsAreTwoErrorsTheFirstGivesTheCode) {
  Sim sim({}, Nodes(4));
  Refuse(sim, 2, milliseconds(10));
  sim.host(0).ready_after.reset();
  sim.host(0).lost_after = milliseconds(300);
  sim.host(0).why_lost = {ErrorCode::kUnknownHost, "host node1: no such name"};
  Refuse(sim, 1, milliseconds(400));
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kHostRefused, {"hosts node[2-3]", "HOST"});
  ASSERT_EQ(sim.verdict().losses.size(), 2u);
  EXPECT_EQ(sim.verdict().losses[0].hosts, (Names{"node3", "node2"}));
  EXPECT_EQ(sim.verdict().losses[1].error.message(), "host node1: no such name");
  EXPECT_EQ(sim.elapsed(), milliseconds(400)) << "node4 was ready long before";
}

TEST(GangLossTest, HostsThatNeverAnswerAreWaitedForTwoSecondsOnly) {
  Sim sim({}, Nodes(3));
  Refuse(sim, 0, milliseconds(50));
  sim.host(1).ready_after.reset();
  sim.host(2).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kHostRefused, {"host node1", "node1"});
  EXPECT_EQ(sim.elapsed(), milliseconds(2050));
  ASSERT_EQ(sim.verdict().losses.size(), 2u);
  const HostLoss& silent = sim.verdict().losses[1];
  ExpectError(silent.error, ErrorCode::kConnectTimeout, {"2 more", "node[2-3]"});
  EXPECT_EQ(silent.hosts, (Names{"node2", "node3"}));
}

TEST(GangLossTest, AQuestionToAUserHoldsUpTheStartAndNothingElse) {
  // From second 1 to second 61 a question is open.
  Sim* clock = nullptr;
  const auto asked = [&clock]() -> Duration {
    const Duration now = clock == nullptr ? Duration::zero() : clock->elapsed();
    return std::clamp<Duration>(now - seconds(1), Duration::zero(), seconds(60));
  };
  Sim patient({.held_up = asked}, Nodes(2));
  clock = &patient;
  patient.host(1).ready_after = seconds(89);
  ASSERT_TRUE(patient.Run());
  EXPECT_EQ(patient.verdict().exit_code, 0) << patient.verdict().error.message();
  Sim late({.held_up = asked}, Nodes(2));
  clock = &late;
  late.host(1).ready_after = seconds(91);
  ASSERT_TRUE(late.Run());
  EXPECT_EQ(late.verdict().error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(late.elapsed(), seconds(90));
  // A job that has lost a host does not wait for a user's answer.
  Sim lost({.held_up = asked}, Nodes(2));
  clock = &lost;
  Refuse(lost, 0, seconds(10));
  lost.host(1).ready_after.reset();
  ASSERT_TRUE(lost.Run());
  EXPECT_EQ(lost.elapsed(), seconds(12));
}

TEST(GangLossTest, ALaterLossDoesNotMakeTheWaitLonger) {
  Sim sim({}, Nodes(3));
  Refuse(sim, 0, milliseconds(50));
  Refuse(sim, 1, milliseconds(1950));
  sim.host(2).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kHostRefused, {"hosts node[1-2]", "HOST"});
  EXPECT_EQ(sim.elapsed(), milliseconds(2050));
}

TEST(GangLossTest, TheStartTimeoutEndsTheWaitToo) {
  Sim sim({.start_timeout = seconds(1)}, Nodes(2));
  Refuse(sim, 0, milliseconds(50));
  sim.host(1).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kHostRefused, {"host node1", "node1"});
  EXPECT_EQ(sim.elapsed(), seconds(1));
}

TEST(GangLossTest, AJobTimeoutEndsTheWaitToo) {
  Sim sim({.timeout = milliseconds(700)}, Nodes(2));
  Refuse(sim, 0, milliseconds(50));
  sim.host(1).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kHostRefused, {"host node1", "node1"});
  EXPECT_EQ(sim.elapsed(), milliseconds(700));
}

TEST(GangLossTest, ASignalInBetweenEndsAtOnceAndTheLossStaysTheCause) {
  Sim sim({}, Nodes(3));
  Refuse(sim, 0, milliseconds(50));
  Refuse(sim, 1, milliseconds(60));
  sim.host(2).ready_after.reset();
  sim.At(milliseconds(300), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kHostRefused, {"hosts node[1-2]", "HOST"});
  EXPECT_EQ(sim.elapsed(), milliseconds(300));
  EXPECT_TRUE(sim.said().empty());
}

TEST(GangLossTest, ASignalBeforeAnyLossIsTheCause) {
  Sim sim({}, Nodes(2));
  Refuse(sim, 0, milliseconds(50));
  sim.host(1).ready_after.reset();
  sim.At(milliseconds(20), event::UserSignal{SIGINT});
  ASSERT_TRUE(sim.Run());
  EXPECT_EQ(sim.verdict().exit_code, 130);
  EXPECT_TRUE(sim.verdict().losses.empty());
}

TEST(GangLossTest, NothingIsStartedWhenAHostWasLostAndTheRestIsReady) {
  Sim sim({}, Nodes(2));
  sim.host(0).lost_after = milliseconds(1);
  sim.host(1).ready_after = milliseconds(900);
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kAgentLost, {"host node1", "link"});
  EXPECT_GE(sim.elapsed(), milliseconds(900));
  EXPECT_LE(sim.elapsed(), milliseconds(901)) << "with the delay of its link";
}

TEST(GangLossTest, AHostThatWasReadyAndIsLostAgainIsToldOfToo) {
  Sim sim({}, Nodes(3));
  sim.host(0).lost_after = milliseconds(100);
  sim.host(1).lost_after = milliseconds(200);
  sim.host(2).ready_after.reset();
  ASSERT_TRUE(sim.Run());
  ExpectLost(sim, ErrorCode::kAgentLost, {"hosts node[1-2]", "link"});
}

TEST(GangLossTest, BeforeAWorkerRunsNobodyIsSaidToBeStopped) {
  Sim sim({}, Nodes(2));
  sim.host(0).is_stuck_in_start = sim.host(1).is_stuck_in_start = true;
  sim.host(0).lost_after = milliseconds(100);
  ASSERT_TRUE(sim.Run());
  ExpectError(sim.verdict().error, ErrorCode::kAgentLost, {"host node1", "link"});
  EXPECT_TRUE(sim.said().empty()) << "the closing line tells it";
}

TEST(GangLossTest, OnceThereAreWorkersOnlyTheFirstReasonIsTold) {
  Sim sim({}, Nodes(3));
  for (int rank = 0; rank < 3; ++rank) {
    sim.worker(rank).ends_after.reset();
    sim.worker(rank).ignores_sigterm = true;
  }
  sim.host(0).lost_after = sim.host(1).lost_after = seconds(1);
  sim.host(2).lost_after = seconds(2);
  sim.host(2).why_lost = {ErrorCode::kProtocolError, "nonsense"};
  ASSERT_TRUE(sim.Run());
  ExpectError(sim.verdict().error, ErrorCode::kAgentLost, {"hosts node[1-2]", "link"});
  ExpectSays(sim.said().front(), {"host node1", "link", "workers of other hosts"});
  EXPECT_EQ(sim.verdict().losses.size(), 1u);
}

}  // namespace
}  // namespace hvdray
