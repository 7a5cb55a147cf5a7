// SPDX-License-Identifier: Apache-2.0
// Probes over real sockets; nothing leaves this machine.
#include "agent/prober.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <optional>

#include "agent/host_facts.h"
#include "agent/preparation.h"
#include "tests/fakes/fake_link.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"
#include "tests/fakes/test_sockets.h"

namespace hvdray {
namespace {

using wire::ProbeOutcome;
using wire::ProbeStage;

class ProberTest : public testing::Test {
 protected:
  ProberTest() : loop_(std::move(*Loop::Create())) {}

  std::vector<ProbeOutcome> Run(std::vector<wire::ProbeTarget> targets, uint32_t timeout_ms) {
    std::optional<wire::ProbeResult> result;
    Prober prober(*loop_, wire::Probe{timeout_ms, std::move(targets)}, [&](wire::ProbeResult r) {
      EXPECT_FALSE(result.has_value()) << "a second answer";
      result = std::move(r);
    });
    EXPECT_FALSE(result.has_value()) << "answered from within the constructor";
    EXPECT_TRUE(RunUntil(*loop_, [&] { return result.has_value(); }));
    Settle(*loop_);
    return result ? result->results : std::vector<ProbeOutcome>();
  }
  // For outcomes that are known at once: the deadline must not be what ends the test.
  std::vector<ProbeOutcome> Run(std::vector<wire::ProbeTarget> targets) {
    return Run(std::move(targets), 3'600'000);
  }

  std::unique_ptr<Loop> loop_;
};

TEST_F(ProberTest, ListenerOfANeighbourIsReached) {
  const auto listener = ProbeListener::Open(*loop_);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  ASSERT_GT((*listener)->port(), 0);
  const auto outcomes = Run({{"127.0.0.1", "127.0.0.1", (*listener)->port()}});
  EXPECT_EQ(outcomes, (std::vector<ProbeOutcome>{{ProbeStage::kOk, 0}}));
}

TEST_F(ProberTest, ConnectionComesFromTheSourceThatWasNamed) {
  const TestListener listener;
  const auto outcomes = Run({{"127.0.0.42", "127.0.0.1", listener.port()}});
  EXPECT_EQ(outcomes, (std::vector<ProbeOutcome>{{ProbeStage::kOk, 0}}));
  EXPECT_EQ(listener.AcceptAndNamePeer(), "127.0.0.42");
}

TEST_F(ProberTest, PortWhereNobodyListensRefuses) {
  const Result<HeldPort> held = HeldPort::Hold();
  ASSERT_TRUE(held.ok());
  const auto outcomes = Run({{"127.0.0.1", "127.0.0.1", held->port()}});
  EXPECT_EQ(outcomes, (std::vector<ProbeOutcome>{{ProbeStage::kRefused, ECONNREFUSED}}));
}

TEST_F(ProberTest, SilenceIsATimeoutWhenTheTimeIsOver) {
  const DeafListener deaf;
  const auto outcomes = Run({{"127.0.0.1", "127.0.0.1", deaf.port()}}, 30);
  EXPECT_EQ(outcomes, (std::vector<ProbeOutcome>{{ProbeStage::kTimeout, 0}}));
}

TEST_F(ProberTest, AddressThatTcpHasNoWayToIsUnreachable) {
  // TCP does not go to a broadcast address: the kernel says so without sending anything.
  const auto outcomes = Run({{"127.0.0.1", "255.255.255.255", 9}});
  EXPECT_EQ(outcomes, (std::vector<ProbeOutcome>{{ProbeStage::kUnreachable, ENETUNREACH}}));
}

TEST_F(ProberTest, SourceThatIsNotOursFailsBeforeAnythingIsSent) {
  const TestListener listener;
  const auto outcomes = Run({{"203.0.113.7", "127.0.0.1", listener.port()}});
  EXPECT_EQ(outcomes, (std::vector<ProbeOutcome>{{ProbeStage::kOther, EADDRNOTAVAIL}}));
}

TEST_F(ProberTest, OutcomesStandInTheOrderOfTheTargetsAndShareOneDeadline) {
  const TestListener listener;
  const DeafListener deaf;
  const Result<HeldPort> held = HeldPort::Hold();
  ASSERT_TRUE(held.ok());
  std::vector<wire::ProbeTarget> targets;
  for (const uint16_t port : {deaf.port(), listener.port(), deaf.port(), held->port()}) {
    targets.push_back({"127.0.0.1", "127.0.0.1", port});
  }
  const auto outcomes = Run(targets, 30);
  EXPECT_EQ(outcomes, (std::vector<ProbeOutcome>{{ProbeStage::kTimeout, 0},
                                                 {ProbeStage::kOk, 0},
                                                 {ProbeStage::kTimeout, 0},
                                                 {ProbeStage::kRefused, ECONNREFUSED}}));
}

// More than a turn of the loop looks at; the kernel has made all of them before the first.
TEST_F(ProberTest, ConnectionsThatCameInTimeCountHoweverLateTheyAreSeen) {
  const auto listener = ProbeListener::Open(*loop_);
  ASSERT_TRUE(listener.ok());
  const std::vector<wire::ProbeTarget> targets(wire::kMaxProbeTargets,
                                               {"127.0.0.1", "127.0.0.1", (*listener)->port()});
  EXPECT_EQ(Run(targets, 0), (std::vector<ProbeOutcome>(targets.size(), {ProbeStage::kOk, 0})));
}

TEST_F(ProberTest, NoTargetsAreAnsweredByNoOutcomes) { EXPECT_TRUE(Run({}).empty()); }

TEST_F(ProberTest, DestroyedBeforeItsEndItNeverAnswers) {
  const TestListener listener;
  bool is_answered = false;
  auto prober = std::make_unique<Prober>(
      *loop_, wire::Probe{0, {{"127.0.0.1", "127.0.0.1", listener.port()}}},
      [&](const wire::ProbeResult&) { is_answered = true; });
  prober.reset();
  Settle(*loop_);
  EXPECT_FALSE(is_answered);
}

TEST_F(ProberTest, MayBeDestroyedByItsAnswer) {
  std::unique_ptr<Prober> prober;
  bool is_answered = false;
  prober = std::make_unique<Prober>(*loop_, wire::Probe{}, [&](const wire::ProbeResult&) {
    prober.reset();
    is_answered = true;
  });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_answered; }));
}

TEST_F(ProberTest, ListenerClosesWhatComesAndIsGoneWhenDestroyed) {
  auto listener = ProbeListener::Open(*loop_);
  ASSERT_TRUE(listener.ok());
  const uint16_t port = (*listener)->port();
  std::vector<UniqueFd> clients(100);  // more than one turn of the loop takes
  for (UniqueFd& client : clients) ASSERT_EQ(ConnectTo(port, &client), 0);
  Settle(*loop_);
  for (const UniqueFd& client : clients) {
    char byte = 0;
    EXPECT_EQ(::recv(client.get(), &byte, 1, MSG_DONTWAIT), 0) << "not closed, or it spoke";
  }
  listener->reset();
  UniqueFd late;
  EXPECT_EQ(ConnectTo(port, &late), ECONNREFUSED);
}

// Ended before the answer, and after it: each time it can be asked anew.
TEST_F(ProberTest, PreparationThatHasEndedAnswersNothingAndLeavesNothing) {
  const TempDirectory temp;
  std::vector<wire::Body> sent;
  wire::FakeLink link([&sent](wire::Message message) { sent.push_back(std::move(message.body)); });
  Preparation preparation(*loop_, link);
  for (const bool has_answered : {false, true}) {
    sent.clear();
    const uint16_t port = preparation.Listen();
    ASSERT_NE(port, 0);
    const auto is_open = [&] {
      return Run({{"127.0.0.1", "127.0.0.1", port}})[0].stage == ProbeStage::kOk;
    };
    EXPECT_TRUE(is_open());
    wire::DirectoryList list{0, temp.path() + "/copy", {}, {}};
    list.entries.resize(1);
    list.entries[0].path = "file";
    list.entries[0].size = 9;
    ASSERT_TRUE(preparation.On(1, std::move(list)).ok());
    ASSERT_EQ(sent.size(), 1U);
    wire::File half;
    half.bytes = "half";
    ASSERT_TRUE(preparation.On(1, std::move(half)).ok());
    wire::Probe probe{3'600'000, {{"127.0.0.1", "127.0.0.1", port}}};
    ASSERT_TRUE(preparation.On(1, wire::Probe(probe)).ok());
    const uint64_t stale = preparation.stale_requests();
    ASSERT_TRUE(preparation.On(1, std::move(probe)).ok());
    EXPECT_EQ(preparation.stale_requests(), stale + 1) << "one probe until the end";
    EXPECT_TRUE(RunUntil(*loop_, [&] { return !has_answered || sent.size() == 2; }));
    preparation.End();
    EXPECT_FALSE(is_open());
    EXPECT_EQ(sent.size(), has_answered ? 2U : 1U);
    EXPECT_TRUE(std::filesystem::is_empty(temp.path() + "/copy"));
    EXPECT_FALSE(preparation.On(1, wire::File()).ok()) << "no list yet";
  }
}

}  // namespace
}  // namespace hvdray
