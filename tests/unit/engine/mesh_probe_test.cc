// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/mesh_probe.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::ProbeStage;

class MeshProbeTest : public testing::Test {
 protected:
  MeshProbeTest() : loop_(std::move(*Loop::Create())) { MakeHosts(3); }

  void MakeHosts(int count) {
    hosts_.clear();
    for (int i = 0; i < count; ++i) {
      hosts_.push_back({"n" + std::to_string(i), "eth0", "10.1.0." + std::to_string(i),
                        static_cast<uint16_t>(4000 + i)});
    }
  }
  void Start(ProbeLimits limits = {}) {
    probe_.emplace(
        *loop_, hosts_, limits,
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
  std::optional<MeshProbe> probe_;
  std::map<size_t, wire::Probe> sent_;
  int answers_ = 0;
  std::vector<ClosedWay> closed_;
};

TEST_F(MeshProbeTest, EveryHostTriesEveryOther) {
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

TEST_F(MeshProbeTest, EachClosedWayIsTold) {
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

TEST_F(MeshProbeTest, ManyHostsTryAsManyAsAProbeHolds) {
  MakeHosts(100);
  Start();
  ASSERT_EQ(sent_.size(), 100U);
  for (const auto& [host, probe] : sent_) {
    ASSERT_EQ(probe.targets.size(), wire::kMaxProbeTargets);
    EXPECT_EQ(probe.targets[0].port, 4000 + (host + 1) % 100);
  }
}

TEST_F(MeshProbeTest, AHostThatIsLostIsNotWaitedForAndWaysToItAreNoFinding) {
  Start();
  AnswerWell(0);
  Answer(1, {ProbeStage::kRefused, ProbeStage::kOk});
  EXPECT_EQ(answers_, 0);
  probe_->OnLost(2);
  probe_->OnLost(2);
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(closed_.empty());
}

TEST_F(MeshProbeTest, AnAgentThatDoesNotAnswerIsToldAtTheDeadline) {
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

TEST_F(MeshProbeTest, AHostWithoutAPortIsTriedByNobody) {
  hosts_[2].port = 0;
  Start();
  EXPECT_EQ(sent_[0].targets.size(), 1U);
  EXPECT_EQ(sent_[2].targets.size(), 2U);
  for (size_t host = 0; host < 3; ++host) AnswerWell(host);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].to, 2U);
  EXPECT_EQ(closed_[0].why.code(), ErrorCode::kOutOfResources);
}

TEST_F(MeshProbeTest, ResultsThatDoNotFitTheTargetsAreAViolationAndASecondAnswerCountsForNothing) {
  Start();
  Answer(0, {ProbeStage::kOk});
  Answer(0, {ProbeStage::kRefused, ProbeStage::kRefused});
  AnswerWell(1);
  AnswerWell(2);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].why.code(), ErrorCode::kProtocolError);
}

TEST_F(MeshProbeTest, MayBeDestroyedByItsAnswer) {
  probe_.emplace(
      *loop_, hosts_, ProbeLimits(),
      [this](size_t host, wire::Probe probe) { sent_[host] = std::move(probe); },
      [this](const std::vector<ClosedWay>&) {
        ++answers_;
        probe_.reset();
      });
  probe_->Start();
  for (size_t host = 0; host < 3; ++host) AnswerWell(host);
  EXPECT_EQ(answers_, 1);
}

}  // namespace
}  // namespace hvdray
