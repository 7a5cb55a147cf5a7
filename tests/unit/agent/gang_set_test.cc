// SPDX-License-Identifier: Apache-2.0
// Gangs side by side, with real processes and a real relay; the launcher is the test.
#include "agent/gang_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_link.h"
#include "tests/unit/agent/probe.h"
#include "tests/unit/agent/process_scan.h"

namespace hvdray {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

struct NobodyUpstream final : KvUpstream {
  void Ask(KvQuestion /*question*/) override {}
};

class GangSetTest : public ::testing::Test, private GangSet::Owner {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    relay_ = std::make_unique<Relay>(*loop_, Relay::Options(), upstream_);
    Make(/*is_elastic=*/true);
  }

  void TearDown() override {
    gangs_.reset();
    EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
  }

  void Make(bool is_elastic, std::string cgroup_directory = {}) {
    gangs_ = std::make_unique<GangSet>(
        *loop_, link_, *relay_, GangSet::Options{"job", std::move(cgroup_directory), is_elastic},
        static_cast<GangSet::Owner&>(*this));
  }

  void OnReaped(int worker) override { reaped_.push_back(worker); }
  void OnStopped(Generation generation, uint32_t swept) override {
    stopped_.emplace_back(generation, swept);
    exits_at_answer_ = exits_.size();
  }
  void OnIdle() override { ++idle_calls_; }

  void OnSend(Generation generation, wire::Body body) {
    if (auto* output = std::get_if<wire::Output>(&body)) {
      text_[output->rank] += output->bytes;
    } else if (auto* started = std::get_if<wire::WorkerStarted>(&body)) {
      EXPECT_TRUE(started_.emplace(started->rank, generation).second);
    } else if (auto* exited = std::get_if<wire::WorkerExited>(&body)) {
      EXPECT_TRUE(exits_.emplace(exited->rank, *exited).second);
    } else if (auto* warmed = std::get_if<wire::Warmed>(&body)) {
      warmed_.emplace_back(generation, warmed->why);
    }
  }

  wire::StartGeneration Order(const std::vector<int>& workers, std::vector<std::string> command) {
    wire::StartGeneration start;
    start.size = static_cast<int>(workers.size());
    start.local_size = start.size;
    start.host_name = "here";
    int rank = 0;
    for (const int worker : workers) {
      start.workers.push_back({rank, rank, 0, 1, worker});
      ++rank;
    }
    start.command = std::move(command);
    start.environment = {"PATH=/usr/bin:/bin", mark_};
    return start;
  }
  Status Start(Generation generation, const std::vector<int>& workers,
               std::vector<std::string> words) {
    return gangs_->Start(generation, Order(workers, ProbeCommand(std::move(words))));
  }
  void StartReady(Generation generation, const std::vector<int>& workers, std::string kind) {
    const Status status = Start(generation, workers, {std::move(kind)});
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(WaitUntilReady(workers));
  }

  bool WaitUntilReady(const std::vector<int>& workers) {
    return WaitFor(*loop_, [&] {
      for (const int worker : workers) {
        if (text_[worker] != "ready\n") return false;
      }
      return true;
    });
  }
  bool WaitForAnswers(size_t count) {
    return WaitFor(*loop_, [&] { return stopped_.size() >= count; });
  }
  bool WaitForProcesses(size_t count) {
    return WaitFor(*loop_, [&] { return FindMarked(mark_).size() == count; });
  }
  bool WaitUntilEmpty() {
    return WaitFor(*loop_, [&] { return gangs_->is_empty(); });
  }
  std::vector<Generation> Answered() const {
    std::vector<Generation> generations;
    for (const auto& [generation, swept] : stopped_) generations.push_back(generation);
    return generations;
  }
  size_t Processes() const { return FindMarked(mark_).size(); }

  using Answers = std::vector<std::pair<Generation, uint32_t>>;

  std::string mark_ = MakeMark();
  NobodyUpstream upstream_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Relay> relay_;
  wire::FakeLink link_{
      [this](wire::Message message) { OnSend(message.generation, std::move(message.body)); }};
  std::unique_ptr<GangSet> gangs_;
  std::map<int, std::string> text_;
  std::map<int, Generation> started_;
  std::map<int, wire::WorkerExited> exits_;
  std::vector<int> reaped_;
  Answers stopped_;
  std::vector<std::pair<Generation, std::string>> warmed_;  // and why not
  size_t exits_at_answer_ = 0;
  int idle_calls_ = 0;
};

TEST_F(GangSetTest, ElasticGangsRunSideBySideEvenOfOneGeneration) {
  StartReady(1, {10, 11}, "wait");
  StartReady(2, {12}, "wait");
  StartReady(2, {13}, "wait");
  EXPECT_EQ(Processes(), 4U);
  EXPECT_EQ(started_, (std::map<int, Generation>{{10, 1}, {11, 1}, {12, 2}, {13, 2}}));
  ASSERT_NE(gangs_->Find(1, 11), nullptr);
  EXPECT_NE(gangs_->Find(2, 12), gangs_->Find(2, 13));
  EXPECT_EQ(gangs_->Find(1, 12), nullptr);
  EXPECT_EQ(gangs_->stale_requests(), 1U);
  EXPECT_EQ(gangs_->LivingOf(1).size(), 2U);
  EXPECT_EQ(gangs_->LivingOf(2).size(), 2U);
  EXPECT_TRUE(gangs_->LivingOf(3).empty());
  EXPECT_FALSE(gangs_->has_begun()) << "an elastic job counts what was stopped";
}

TEST_F(GangSetTest, StopIsAnsweredOnceWhenAllUpToItAreGoneAndOthersLiveOn) {
  StartReady(1, {10, 11}, "wait");
  StartReady(2, {12}, "stubborn");
  StartReady(3, {13}, "wait");
  gangs_->Stop(2, milliseconds(30));
  EXPECT_TRUE(stopped_.empty());
  ASSERT_TRUE(WaitForAnswers(1));
  EXPECT_EQ(Answered(), std::vector<Generation>{2});
  EXPECT_EQ(exits_at_answer_, 3U) << "behind the last word of each";
  EXPECT_EQ(exits_[10].status.signal, SIGTERM);
  EXPECT_EQ(exits_[12].status.signal, SIGKILL);
  EXPECT_TRUE(exits_[11].was_stopping);
  EXPECT_EQ(Processes(), 1U);
  EXPECT_EQ(idle_calls_, 0);
  EXPECT_NE(gangs_->Find(3, 13), nullptr);
}

TEST_F(GangSetTest, RepeatedStopIsAnsweredAgainAndOneOfThePastIsNot) {
  StartReady(2, {10}, "wait");
  gangs_->Stop(2, minutes(1));
  ASSERT_TRUE(WaitForAnswers(1));
  gangs_->Stop(2, minutes(1));
  EXPECT_EQ(stopped_, (Answers{{2, 0}, {2, 0}}));
  gangs_->Stop(1, minutes(1));
  EXPECT_EQ(stopped_.size(), 2U);
  EXPECT_EQ(gangs_->stale_requests(), 1U);
}

TEST_F(GangSetTest, StopWithLessGraceBeforeTheAnswerMakesOneAnswer) {
  StartReady(1, {10, 11}, "stubborn");
  gangs_->Stop(1, hours(1));
  gangs_->Stop(1, Duration::zero());
  ASSERT_TRUE(WaitUntilEmpty());
  EXPECT_EQ(Answered(), std::vector<Generation>{1});
}

TEST_F(GangSetTest, HigherStopBeforeTheAnswerAnswersForBoth) {
  StartReady(1, {10}, "wait");
  StartReady(2, {11}, "stubborn");
  gangs_->Stop(1, hours(1));
  gangs_->Stop(2, milliseconds(10));
  ASSERT_TRUE(WaitUntilEmpty());
  EXPECT_EQ(Answered(), std::vector<Generation>{2});
}

TEST_F(GangSetTest, StopOfWhatNeverBeganIsAnsweredAtOnceAndForbidsItsStart) {
  gangs_->Stop(3, minutes(1));
  EXPECT_EQ(stopped_, (Answers{{3, 0}}));
  EXPECT_TRUE(Start(3, {10}, {"wait"}).ok());
  EXPECT_TRUE(Start(2, {11}, {"wait"}).ok());
  EXPECT_EQ(gangs_->stale_requests(), 2U);
  EXPECT_TRUE(gangs_->is_empty());
  StartReady(4, {12}, "wait");
  EXPECT_EQ(started_, (std::map<int, Generation>{{12, 4}}));
}

TEST_F(GangSetTest, ElasticGangThatEndsByItselfIsSilentAndCountedInTheNextAnswer) {
  ASSERT_TRUE(Start(1, {10}, {"exit", "4"}).ok());
  ASSERT_TRUE(Start(2, {11}, {"daemon", "and-exit"}).ok());
  ASSERT_TRUE(WaitUntilEmpty());
  EXPECT_EQ(exits_[10].status.exit_code, 4);
  EXPECT_TRUE(stopped_.empty());
  EXPECT_EQ(idle_calls_, 1);
  EXPECT_EQ(Processes(), 0U);
  gangs_->Stop(2, minutes(1));
  EXPECT_EQ(stopped_, (Answers{{2, 1}})) << "the daemon that was swept in between";
}

TEST_F(GangSetTest, FixedGangThatEndsByItselfIsToldAndItsStopComesTooLate) {
  Make(/*is_elastic=*/false);
  ASSERT_TRUE(Start(1, {0, 1}, {"exit", "0"}).ok());
  ASSERT_TRUE(WaitForAnswers(1));
  EXPECT_EQ(stopped_, (Answers{{1, 0}}));
  EXPECT_EQ(idle_calls_, 1);
  gangs_->Stop(1, minutes(1));
  EXPECT_EQ(stopped_.size(), 1U);
  EXPECT_EQ(gangs_->stale_requests(), 1U);
  StartReady(2, {10}, "wait");
  EXPECT_EQ(Start(3, {11}, {"wait"}).code(), ErrorCode::kProtocolError);
}

TEST_F(GangSetTest, StopWorkersEndsThatWorkerWithItsGroupAndNobodyElse) {
  StartReady(1, {10, 11, 12}, "stubborn");
  StartReady(2, {13}, "stubborn");
  ASSERT_TRUE(WaitForProcesses(8));
  gangs_->StopWorkers({{11, 77}, 20});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(11); }));
  EXPECT_EQ(exits_[11].status.signal, SIGKILL);
  EXPECT_TRUE(exits_[11].was_stopping);
  ASSERT_TRUE(WaitForProcesses(6));
  EXPECT_EQ(exits_.size(), 1U);
  EXPECT_EQ(reaped_, std::vector<int>{11});
  EXPECT_TRUE(stopped_.empty());
  EXPECT_EQ(gangs_->LivingOf(1).size(), 2U);
}

// The leader obeys SIGTERM, its child does not.
TEST_F(GangSetTest, WhatIsLeftOfTheGroupOfAStoppedWorkerIsKilledAfterTheGrace) {
  ASSERT_TRUE(gangs_
                  ->Start(1, Order({10, 11}, {"sh", "-c",
                                              "trap '' TERM; sleep 1000 & trap - TERM; "
                                              "echo ready; wait"}))
                  .ok());
  ASSERT_TRUE(WaitUntilReady({10, 11}));
  ASSERT_TRUE(WaitForProcesses(4));
  gangs_->StopWorkers({{10}, 50});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(10); }));
  EXPECT_EQ(exits_[10].status.signal, SIGTERM);
  ASSERT_TRUE(WaitForProcesses(2));
  EXPECT_FALSE(exits_.contains(11));
}

TEST_F(GangSetTest, WhatAWorkerLeavesInItsGroupIsKilledThoughOthersOfItsGangLive) {
  ASSERT_TRUE(gangs_
                  ->Start(1, Order({10, 11}, {"sh", "-c",
                                              "sleep 1000 & echo ready; "
                                              "[ $HVDRAY_RANK = 0 ] && exit 3; wait"}))
                  .ok());
  ASSERT_TRUE(WaitUntilReady({10, 11}));  // each with its child
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(10); }));
  EXPECT_EQ(exits_[10].status.exit_code, 3);
  EXPECT_FALSE(exits_[10].was_stopping);
  ASSERT_TRUE(WaitForProcesses(2));
  EXPECT_FALSE(exits_.contains(11));
}

TEST_F(GangSetTest, WorkersThatAreStoppedBeforeTheyWereForkedAreReported) {
  std::vector<int> workers(40);
  std::iota(workers.begin(), workers.end(), 100);
  ASSERT_TRUE(Start(1, workers, {"wait"}).ok());
  gangs_->StopWorkers({{139}, 1000});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(139); }));
  EXPECT_EQ(exits_[139].status.error, ECANCELED);
  EXPECT_TRUE(exits_[139].was_stopping);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return started_.size() == 39; }));
  EXPECT_FALSE(started_.contains(139));
}

TEST_F(GangSetTest, WorkerNumberTwiceIsAViolationWhereverTheFirstIs) {
  EXPECT_EQ(Start(1, {10, 10}, {"wait"}).code(), ErrorCode::kProtocolError);
  EXPECT_TRUE(gangs_->is_empty());
  StartReady(1, {10, 11}, "wait");
  const Status again = Start(2, {12, 11}, {"wait"});
  EXPECT_EQ(again.code(), ErrorCode::kProtocolError);
  EXPECT_NE(again.message().find("worker 11"), std::string::npos);
  EXPECT_EQ(Processes(), 2U);
}

TEST_F(GangSetTest, SignalReachesOneWorkerOrAllUpToThatGeneration) {
  StartReady(1, {10, 11}, "wait");
  StartReady(2, {12}, "wait");
  StartReady(3, {13}, "wait");
  gangs_->Signal(1, 11, SIGUSR1);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.size() == 1; }));
  EXPECT_EQ(exits_[11].status.signal, SIGUSR1);
  EXPECT_FALSE(exits_[11].was_stopping);
  gangs_->Signal(2, -1, SIGUSR2);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.size() == 3; }));
  EXPECT_FALSE(exits_.contains(13));
  EXPECT_EQ(gangs_->stale_requests(), 0U);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return gangs_->Find(1, -1) == nullptr; }));
  gangs_->Signal(2, 13, SIGUSR1);
  EXPECT_GT(gangs_->stale_requests(), 1U);
}

TEST_F(GangSetTest, EverythingStopsWithoutAnAnswerWhenTheLinkIsGone) {
  StartReady(1, {10}, "wait");
  StartReady(2, {11}, "stubborn");
  gangs_->StopAll(milliseconds(20));
  ASSERT_TRUE(WaitUntilEmpty());
  EXPECT_TRUE(stopped_.empty());
  EXPECT_EQ(idle_calls_, 1);
}

TEST_F(GangSetTest, OrderWithoutACommandIsAViolation) {
  EXPECT_EQ(gangs_->Start(1, Order({10}, {})).code(), ErrorCode::kProtocolError);
  EXPECT_TRUE(gangs_->is_empty());
}

TEST_F(GangSetTest, EachOrderToWarmIsAnsweredAndOneServerIsMadeForAll) {
  wire::StartGeneration order = Order({}, {"/nowhere/python3", "a.py"});
  order.preload = {"json"};
  EXPECT_TRUE(gangs_->Warm(order).ok());
  EXPECT_TRUE(gangs_->Warm(order).ok()) << "while the first is open";
  EXPECT_TRUE(warmed_.empty()) << "from the loop";
  ASSERT_TRUE(WaitFor(*loop_, [&] { return warmed_.size() == 2; }));
  EXPECT_TRUE(gangs_->Warm(order).ok()) << "of a server that is settled";
  const std::pair<Generation, std::string> cold = {0, "No such file or directory"};
  EXPECT_EQ(warmed_, (decltype(warmed_)(3, cold)));
  EXPECT_TRUE(gangs_->is_empty());
  order.command = {"/bin/true"};
  EXPECT_TRUE(gangs_->Warm(order).ok());
  ASSERT_EQ(warmed_.size(), 4U);
  EXPECT_EQ(warmed_.back().first, 0U);
  EXPECT_FALSE(warmed_.back().second.empty());
}

TEST_F(GangSetTest, AnOrderToWarmWaitsForNoOtherServer) {
  wire::StartGeneration order = Order({}, {"/nowhere/python3", "a.py"});
  order.preload = {"json"};
  EXPECT_TRUE(gangs_->Warm(order).ok());
  order.preload = {"socket"};
  EXPECT_TRUE(gangs_->Warm(order).ok());
  ASSERT_EQ(warmed_.size(), 1U);
  EXPECT_EQ(warmed_[0].second, "another fork server is still importing");
}

TEST_F(GangSetTest, AnOrderToWarmThatIsNoneIsAViolation) {
  wire::StartGeneration order = Order({}, {"python3", "a.py"});
  EXPECT_EQ(gangs_->Warm(order).code(), ErrorCode::kProtocolError) << "no modules";
  order.preload = {"json"};
  order.command.clear();
  EXPECT_EQ(gangs_->Warm(order).code(), ErrorCode::kProtocolError) << "no command";
  order = Order({0}, {"python3", "a.py"});
  order.preload = {"json"};
  EXPECT_EQ(gangs_->Warm(order).code(), ErrorCode::kProtocolError) << "workers";
}

TEST_F(GangSetTest, WithoutACgroupNoSweepTouchesTheChildrenOfAnotherGang) {
  StartReady(1, {10}, "daemon");
  StartReady(2, {11}, "double-fork");
  gangs_->Stop(1, minutes(1));
  ASSERT_TRUE(WaitForAnswers(1));
  EXPECT_EQ(stopped_, (Answers{{1, 0}}));
  EXPECT_EQ(Processes(), 3U) << "nobody can tell whose the two daemons are";
  gangs_->Stop(2, minutes(1));
  ASSERT_TRUE(WaitForAnswers(2));
  EXPECT_EQ(stopped_[1], std::make_pair(Generation{2}, 2U)) << "the last gang sweeps for all";
  EXPECT_EQ(Processes(), 0U);
}

class GangSetCgroupTest : public GangSetTest {
 protected:
  void SetUp() override {
    GangSetTest::SetUp();
    const auto own = OwnCgroupDirectory();
    directory_ = own ? AgentCgroupDirectory(*own, ::getpid()) : "";
    if (directory_.empty() || !Cgroup::Create(directory_ + "/probe").ok()) {
      GTEST_SKIP() << "no cgroup may be made here; the case without one runs";
    }
    Make(/*is_elastic=*/true, directory_);
  }
  void TearDown() override {
    GangSetTest::TearDown();
    if (directory_.empty()) return;
    EXPECT_TRUE(WaitFor([this] { return KillAndRemoveCgroup(directory_); }));
  }
  std::string directory_;
};

TEST_F(GangSetCgroupTest, DaemonOfAStoppedGangIsSweptAndThatOfAnotherGangIsLeftAlone) {
  StartReady(1, {10}, "daemon");
  StartReady(2, {11}, "double-fork");
  StartReady(2, {12}, "daemon");
  EXPECT_EQ(Processes(), 6U);
  gangs_->Stop(1, minutes(1));
  ASSERT_TRUE(WaitForAnswers(1));
  EXPECT_EQ(stopped_, (Answers{{1, 1}}));
  EXPECT_EQ(Processes(), 4U);
  gangs_->Stop(2, minutes(1));
  ASSERT_TRUE(WaitForAnswers(2));
  EXPECT_EQ(stopped_[1], std::make_pair(Generation{2}, 2U));
  EXPECT_EQ(Processes(), 0U);
}

}  // namespace
}  // namespace hvdray
