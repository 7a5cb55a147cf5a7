// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/pair_measure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <optional>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::MeasureStep;
using wire::ProbeStage;

TEST(RoundsTest, EveryTwoMeetOnceAndNobodyMeetsTwoInARound) {
  for (size_t hosts = 0; hosts <= 32; ++hosts) {
    const auto rounds = RoundsOf(hosts);
    EXPECT_EQ(rounds.size(), hosts < 2 ? 0 : hosts - 1 + hosts % 2);
    std::set<HostPair> met;
    for (const std::vector<HostPair>& round : rounds) {
      std::set<size_t> busy;
      EXPECT_EQ(round.size(), hosts / 2);
      for (const HostPair& pair : round) {
        EXPECT_LT(pair.first, pair.second);
        EXPECT_LT(pair.second, hosts);
        EXPECT_TRUE(met.insert(pair).second);
        EXPECT_TRUE(busy.insert(pair.first).second && busy.insert(pair.second).second);
      }
    }
    EXPECT_EQ(met.size(), hosts < 2 ? 0 : hosts * (hosts - 1) / 2);
  }
}

TEST(RoundsTest, ManyHostsMeetAsManyOthersAsThereAreRounds) {
  const auto rounds = RoundsOf(1000);
  EXPECT_EQ(rounds.size(), kMaxMeasureRounds);
  for (const auto& round : rounds) EXPECT_EQ(round.size(), 500U);
}

TEST(MeasureLimitsTest, ManyRoundsAreShort) {
  EXPECT_EQ(MeasureLimitsFor(1).step, milliseconds(250));
  EXPECT_EQ(MeasureLimitsFor(7).step, milliseconds(142));
  EXPECT_EQ(MeasureLimitsFor(31).step, milliseconds(50));
}

class PairMeasureTest : public testing::Test {
 protected:
  PairMeasureTest() : loop_(std::move(*Loop::Create())) { MakeHosts(3); }

  void MakeHosts(int count) {
    hosts_.clear();
    for (int i = 0; i < count; ++i) {
      hosts_.push_back({{"n" + std::to_string(i), "eth0", "10.1.0." + std::to_string(i),
                         static_cast<uint16_t>(4000 + i)},
                        true});
    }
  }
  void Start(std::set<HostPair> closed = {}, MeasureLimits limits = {}) {
    measure_.emplace(
        *loop_, hosts_, std::move(closed), "0123456789abcdef0123456789abcdef", limits,
        [this](size_t host, wire::Probe probe) { asked_[host] = std::move(probe); },
        [this](std::vector<MeasuredPair> pairs) {
          ++answers_;
          pairs_ = std::move(pairs);
        });
    measure_->Start();
  }
  /// Answers for all hosts that are asked to serve.
  void AllServe() {
    for (const auto& [host, probe] : std::exchange(asked_, {})) {
      EXPECT_TRUE(probe.targets.empty());
      measure_->OnResult(host, {});
    }
  }
  /// Answers for all hosts that measure now, until there are none.
  void AllMeasure() {
    while (!asked_.empty()) {
      for (const auto& [host, probe] : std::exchange(asked_, {})) Answer(host);
    }
  }
  void Answer(size_t host,
              wire::ProbeOutcome outcome = {ProbeStage::kOk, 0, MeasureStep::kDone, 60'000, 7, 5}) {
    measure_->OnResult(host, {{outcome}});
  }

  std::unique_ptr<Loop> loop_;
  std::vector<MeasuredHost> hosts_;
  std::optional<PairMeasure> measure_;
  std::map<size_t, wire::Probe> asked_;
  int answers_ = 0;
  std::vector<MeasuredPair> pairs_;
};

TEST_F(PairMeasureTest, AllServeFirstAndEveryPairIsMeasuredOnce) {
  Start();
  ASSERT_EQ(asked_.size(), 3U);
  measure_->OnResult(0, {});
  measure_->OnResult(1, {});
  asked_.clear();
  EXPECT_TRUE(asked_.empty()) << "one does not know the token yet";
  measure_->OnResult(2, {});
  ASSERT_EQ(asked_.size(), 1U) << "three hosts: one pair a round";
  const auto [host, probe] = *asked_.begin();
  EXPECT_EQ(probe.token.size(), wire::kMeasureTokenBytes);
  ASSERT_EQ(probe.targets.size(), 1U);
  EXPECT_EQ(probe.targets[0].source, hosts_[host].place.address);
  AllMeasure();
  EXPECT_EQ(answers_, 1);
  ASSERT_EQ(pairs_.size(), 3U);
  EXPECT_TRUE(pairs_[0].why.ok());
  EXPECT_EQ(pairs_[0].round_trip, std::chrono::microseconds(60));
  EXPECT_EQ(pairs_[0].there, 7);
  EXPECT_EQ(pairs_[0].back, 5);
}

TEST_F(PairMeasureTest, AWayThatIsClosedIsMeasuredFromItsOtherEnd) {
  MakeHosts(2);
  Start({{0, 1}});
  AllServe();
  ASSERT_TRUE(asked_.contains(1));
  AllMeasure();
  ASSERT_EQ(pairs_.size(), 1U);
  EXPECT_EQ(pairs_[0].from, 1U);
}

TEST_F(PairMeasureTest, PairsWithoutAWayAreLeftOut) {
  hosts_[2].measures = false;
  Start({{0, 1}, {1, 0}});
  ASSERT_EQ(asked_.size(), 2U);
  AllServe();
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(pairs_.empty());
}

TEST_F(PairMeasureTest, NobodyWhoMeasuresIsTheEnd) {
  for (MeasuredHost& host : hosts_) host.measures = false;
  Start();
  EXPECT_EQ(answers_, 0) << "not from within the call";
  EXPECT_TRUE(RunUntil(*loop_, [this] { return answers_ > 0; }));
}

TEST_F(PairMeasureTest, AHostThatIsLostHasNoPairsAndDoesNotHoldTheOthersUp) {
  Start();
  measure_->OnResult(0, {});
  measure_->OnResult(1, {});
  asked_.clear();
  measure_->OnLost(2);
  AllMeasure();
  EXPECT_EQ(answers_, 1);
  ASSERT_EQ(pairs_.size(), 1U);
  EXPECT_EQ(pairs_[0].from + pairs_[0].to, 1U);
}

TEST_F(PairMeasureTest, APairWhoseTargetIsLostMeanwhileIsNoFinding) {
  MakeHosts(2);
  Start();
  AllServe();
  measure_->OnLost(1);
  Answer(0, {ProbeStage::kOther, ECONNRESET, MeasureStep::kSending, 0, 0, 0});
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(pairs_.empty());
}

TEST_F(PairMeasureTest, AnAgentThatFallsSilentIsToldAndAskedNoMore) {
  MakeHosts(4);
  Start({}, {milliseconds(1), milliseconds(10), milliseconds(10)});
  AllServe();
  ASSERT_EQ(asked_.size(), 2U);
  const size_t silent = asked_.begin()->first;
  const size_t other = asked_.rbegin()->first;
  asked_.clear();
  Answer(other);
  ASSERT_TRUE(RunUntil(*loop_, [this] { return !asked_.empty() || answers_ > 0; }));
  AllMeasure();
  EXPECT_EQ(answers_, 1);
  size_t failed = 0;
  for (const MeasuredPair& pair : pairs_) {
    if (!pair.why.ok()) ++failed;
    if (pair.why.ok()) {
      EXPECT_NE(pair.from, silent);
      EXPECT_NE(pair.to, silent);
    } else {
      EXPECT_EQ(pair.from, silent);
      EXPECT_EQ(pair.why.code(), ErrorCode::kDeadlineExceeded);
    }
  }
  EXPECT_EQ(failed, 1U);
  Answer(silent);
  EXPECT_EQ(answers_, 1);
}

TEST_F(PairMeasureTest, WhyThereAreNoNumbersSaysHowFarItCame) {
  struct Case {
    wire::ProbeOutcome outcome;
    std::string_view said;
    std::string_view also = "";
  };
  const Case cases[] = {
      {{ProbeStage::kTimeout, 0, MeasureStep::kConnecting}, "timed out after 4 s"},
      {{ProbeStage::kRefused, ECONNREFUSED, MeasureStep::kConnecting}, "refused"},
      {{ProbeStage::kTimeout, 0, MeasureStep::kRoundTrips}, "no message came back", "4 s"},
      {{ProbeStage::kTimeout, 0, MeasureStep::kSending, 9}, "no bulk", "4 s"},
      {{ProbeStage::kOther, ECONNRESET, MeasureStep::kReceiving, 9, 9}, "came back", "reset"},
      {{ProbeStage::kOk, 0}, "without numbers"},
  };
  MakeHosts(2);
  for (const auto& [outcome, said, also] : cases) {
    Start();
    AllServe();
    asked_.clear();
    Answer(0, outcome);
    ASSERT_EQ(pairs_.size(), 1U);
    EXPECT_FALSE(pairs_[0].why.ok());
    ExpectSays(pairs_[0].why.message(), {said});
    if (!also.empty()) ExpectSays(pairs_[0].why.message(), {said, also});
  }
  Start();
  AllServe();
  measure_->OnResult(0, {});
  ASSERT_EQ(pairs_.size(), 1U);
  EXPECT_EQ(pairs_[0].why.code(), ErrorCode::kProtocolError);
}

TEST_F(PairMeasureTest, MayBeDestroyedByItsAnswer) {
  MakeHosts(2);
  measure_.emplace(
      *loop_, hosts_, std::set<HostPair>(), std::string(32, 'a'), MeasureLimits(),
      [this](size_t host, wire::Probe probe) { asked_[host] = std::move(probe); },
      [this](const std::vector<MeasuredPair>&) {
        ++answers_;
        measure_.reset();
      });
  measure_->Start();
  AllServe();
  AllMeasure();
  EXPECT_EQ(answers_, 1);
}

}  // namespace
}  // namespace hvdray
