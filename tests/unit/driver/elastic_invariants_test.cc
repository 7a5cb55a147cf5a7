// SPDX-License-Identifier: Apache-2.0
// Effects that break a rule are reported for that rule, and only for that one.
#include "launcher/driver/elastic_invariants.h"

#include <gtest/gtest.h>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using std::chrono::seconds;
using Rules = std::vector<std::string>;

/// Two hosts with two slots each; the test plays the driver.
class Watched {
 public:
  explicit Watched(ElasticPolicy policy = Policy())
      : rules_(policy, [this](std::string rule) { broken_.push_back(std::move(rule)); }) {}

  static ElasticPolicy Policy() {
    ElasticPolicy policy;
    policy.np = 2;
    policy.min_np = 1;
    policy.max_np = 4;
    return policy;
  }
  static RankInfo Place(int host, int local_rank, int rank, int size, int local_size,
                        int cross_size) {
    return {host == 0 ? "a" : "b",
            host,
            rank,
            size,
            local_rank,
            local_size,
            host == 1 && cross_size > 1 ? 1 : 0,
            cross_size};
  }
  /// The rules that these effects broke.
  Rules Say(std::vector<ElasticEffect> effects, const ElasticEvent& event = event::Tick{},
            std::optional<TimePoint> deadline = std::nullopt) {
    broken_.clear();
    rules_.Check(event, TimePoint{} + seconds(5), effects, deadline);
    return broken_;
  }
  Rules Ended() {
    broken_.clear();
    rules_.CheckEnded();
    return broken_;
  }
  static effect::PublishGeneration Pair(Generation generation) {
    return {generation, {Place(0, 0, 0, 2, 1, 2), Place(1, 0, 1, 2, 1, 2)}, {0, 1}};
  }
  /// Both hosts ready, worker 0 on a and worker 1 on b in generation 1.
  Watched& Running() {
    EXPECT_EQ(Say({effect::ConnectHost{0, {"a", 2}}, effect::ConnectHost{1, {"b", 2}}}), Rules{});
    EXPECT_EQ(Say({}, event::HostReady{0, {}}), Rules{});
    const effect::PublishGeneration first = Pair(1);
    EXPECT_EQ(Say({first, effect::StartWorkers{1, {{0, first.ranks[0]}, {1, first.ranks[1]}}, 0, 0},
                   effect::MembershipChanged{1, 2, {}, {}, false}},
                  event::HostReady{1, {}}),
              Rules{});
    return *this;
  }
  Watched& Parked() {
    Running();
    EXPECT_EQ(Say({}, event::RankAsked{0}), Rules{});
    EXPECT_EQ(Say({}, event::RankAsked{1}), Rules{});
    return *this;
  }

 private:
  Rules broken_;
  ElasticInvariants rules_;
};

/// Expects that `rules` are those that `parts` tell from all others, and no more; their wording
/// goes into the catalogue.
void ExpectBroken(const Rules& rules, const std::vector<std::string_view>& parts) {
  EXPECT_EQ(rules.size(), parts.size()) << testing::PrintToString(rules);
  for (size_t i = 0; i < std::min(rules.size(), parts.size()); ++i)
    ExpectSays(rules[i], {parts[i]});
}

TEST(ElasticInvariantsTest, ARightJobBreaksNone) {
  Watched job;
  job.Parked();
  EXPECT_EQ(job.Say({Watched::Pair(2)}), Rules{});
  EXPECT_EQ(job.Say({effect::StopGeneration{2, {0, 1}, {}}}), Rules{});
  EXPECT_EQ(job.Say({}, event::GenerationStopped{2, 0, 0, 0}), Rules{});
  EXPECT_EQ(job.Say({effect::Finish{}}, event::GenerationStopped{2, 1, 0, 0}), Rules{});
  EXPECT_EQ(job.Ended(), Rules{});
}

TEST(ElasticInvariantsTest, NothingComesAfterFinish) {
  Watched job;
  ExpectBroken(job.Say({effect::Finish{}, effect::Say{"more"}}), {"last effect"});
  ExpectBroken(job.Say({effect::Say{"more"}}), {"after Finish"});
  EXPECT_EQ(job.Say({}), Rules{});
  ExpectBroken(job.Say({}, event::Tick{}, TimePoint{} + seconds(9)), {"after Finish"});
}

TEST(ElasticInvariantsTest, AJobEnds) { ExpectBroken(Watched().Ended(), {"not end"}); }

TEST(ElasticInvariantsTest, AJobThatIsOverLeavesNobodyBehind) {
  Watched job;
  job.Running();
  ExpectBroken(job.Say({effect::Finish{}}, event::ProcessExited{0, {}}), {"slot 0 of b"});
  Watched stopping;
  stopping.Running();
  stopping.Say({effect::StopGeneration{1, {0, 1}, {}}});
  stopping.Say({}, event::ProcessExited{0, {}});
  stopping.Say({}, event::GenerationStopped{1, 1, 0, 0});
  ExpectBroken(stopping.Say({effect::Finish{}}), {"over before a host"});
}

TEST(ElasticInvariantsTest, APassedDeadlineIsActedOn) {
  Watched job;
  EXPECT_EQ(job.Say({}, event::Tick{}, TimePoint{} + seconds(6)), Rules{});
  ExpectBroken(job.Say({}, event::Tick{}, TimePoint{} + seconds(5)), {"deadline"});
}

TEST(ElasticInvariantsTest, AHostIsConnectedOnceAtATime) {
  Watched job;
  job.Running();
  ExpectBroken(job.Say({effect::ConnectHost{0, {"a", 2}}}), {"host is connected twice"});
  EXPECT_EQ(job.Say({effect::ReleaseHost{1}, effect::ConnectHost{1, {"b", 2}}}), Rules{});
}

TEST(ElasticInvariantsTest, ASlotHasOneLivingWorkerWithANumberOfItsOwn) {
  const RankInfo slot = Watched::Place(0, 0, 0, 2, 1, 2);
  Watched job;
  job.Running();
  ExpectBroken(job.Say({effect::StartWorkers{2, {{2, slot}}, 0, 0}}), {"second worker"});
  Watched again;
  again.Running();
  ExpectBroken(again.Say({effect::StartWorkers{2, {{0, slot}}, 0, 0}}, event::ProcessExited{0, {}}),
               {"worker's number"});
  ExpectBroken(again.Say({effect::StartWorkers{2, {}, 0, 0}}), {"StartWorkers"});
}

TEST(ElasticInvariantsTest, WorkersStartWhereThereIsAnAgent) {
  const RankInfo slot = Watched::Place(1, 0, 1, 2, 1, 2);
  Watched job;
  job.Running();
  ExpectBroken(job.Say({effect::StartWorkers{2, {{2, slot}}, 0, 0}}, event::HostLost{1, {}}),
               {"without an agent"});
}

TEST(ElasticInvariantsTest, TheMapIsWhole) {
  const auto broken_by = [](const std::function<void(effect::PublishGeneration&)>& change) {
    Watched job;
    job.Parked();
    effect::PublishGeneration next = Watched::Pair(2);
    change(next);
    return job.Say({next});
  };
  ExpectBroken(broken_by([](auto& e) { e.generation = 1; }), {"generation does not rise"});
  ExpectBroken(broken_by([](auto& e) { e.ranks[1].rank = 2; }), {"0..N-1"});
  ExpectBroken(broken_by([](auto& e) { e.ranks[0].size = 3; }), {"0..N-1"});
  ExpectBroken(broken_by([](auto& e) { e.ranks[0].local_size = 2; }), {"local size"});
  ExpectBroken(broken_by([](auto& e) { e.ranks[0].cross_size = 1; }), {"cross size"});
  ExpectBroken(broken_by([](auto& e) { e.ranks[1].cross_rank = 0; }), {"cross ranks"});
  ExpectBroken(broken_by([](auto& e) { e.workers.pop_back(); }), {"rank without a worker"});
}

TEST(ElasticInvariantsTest, LocalRanksAreDenseAndHostsTogether) {
  Watched job(ElasticPolicy{.np = 1});
  const effect::PublishGeneration gap{1, {Watched::Place(0, 1, 0, 1, 1, 1)}, {0}};
  ExpectBroken(job.Say({gap}), {"local ranks"});
  effect::PublishGeneration apart{
      2,
      {Watched::Place(0, 0, 0, 3, 2, 2), Watched::Place(1, 0, 1, 3, 1, 2),
       Watched::Place(0, 1, 2, 3, 2, 1)},
      {0, 1, 2}};
  Watched other(ElasticPolicy{.np = 1});
  ExpectBroken(other.Say({apart}), {"ranks of a host"});
}

TEST(ElasticInvariantsTest, TheSizeIsWithinItsBounds) {
  ElasticPolicy policy = Watched::Policy();
  policy.np = 3;
  Watched small(policy);
  ExpectBroken(small.Say({Watched::Pair(1)}), {"fewer than 3"});
  policy.np = 1;
  policy.max_np = 1;
  Watched large(policy);
  ExpectBroken(large.Say({Watched::Pair(1)}), {"more than max_np 1"});
}

TEST(ElasticInvariantsTest, AGenerationBeginsWhenTheOldOneIsParkedOrDead) {
  Watched job;
  job.Running();
  job.Say({}, event::RankAsked{0});
  ExpectBroken(job.Say({Watched::Pair(2)}), {"old worker"});
}

TEST(ElasticInvariantsTest, RankZeroIsASurvivor) {
  Watched job;
  job.Parked();
  job.Say({effect::StartWorkers{2, {{2, Watched::Place(0, 0, 0, 2, 1, 2)}}, 0, 0}},
          event::ProcessExited{0, {.exit_code = 1}});
  effect::PublishGeneration next = Watched::Pair(2);
  next.workers = {2, 1};
  ExpectBroken(job.Say({next}, event::WorkerArrived{2}), {"no survivor"});
}

TEST(ElasticInvariantsTest, SomebodyHasTheStateAndTheDeadHaveNoRank) {
  Watched job;
  job.Parked();
  ExpectBroken(job.Say({Watched::Pair(2)}, event::ProcessExited{1, {.exit_code = 1}}),
               {"rank 1 has no living"});
  Watched lost;
  lost.Parked();
  lost.Say({}, event::HostLost{1, {}});
  ExpectBroken(lost.Say({Watched::Pair(2)}, event::HostLost{0, {}}),
               {"rank 0 has no living", "rank 1 has no living", "has the state"});
}

TEST(ElasticInvariantsTest, ANewcomerIsLetInWhereItWasPromisedAndWhenItHasArrived) {
  const auto with = [](const RankInfo& promised, bool has_arrived) {
    Watched job;
    job.Parked();
    job.Say({effect::StartWorkers{2, {{2, promised}}, 0, 0}},
            event::ProcessExited{1, {.exit_code = 1}});
    if (has_arrived) job.Say({}, event::WorkerArrived{2});
    effect::PublishGeneration next = Watched::Pair(2);
    next.workers = {0, 2};
    return job.Say({next});
  };
  EXPECT_EQ(with(Watched::Place(1, 0, 1, 2, 1, 2), true), Rules{});
  ExpectBroken(with(Watched::Place(1, 0, 1, 2, 1, 2), false), {"newcomer is let in"});
  ExpectBroken(with(Watched::Place(1, 0, 2, 3, 1, 2), true), {"newcomer was promised"});
}

TEST(ElasticInvariantsTest, WhoIsStoppedLives) {
  Watched job;
  job.Running();
  ExpectBroken(job.Say({effect::StopWorkers{{1}, {}}}, event::ProcessExited{1, {}}),
               {"dead worker"});
  ExpectBroken(job.Say({effect::StopWorkers{{7}, {}}}), {"dead worker"});
}

TEST(ElasticInvariantsTest, ConnectionsAreBrokenOnlyForALossOfTheirGeneration) {
  Watched job;
  job.Running();
  ExpectBroken(job.Say({effect::BreakConnections{1, {0}}}, event::ProcessExited{1, {}}),
               {"without a loss"});
  Watched lost;
  lost.Running();
  EXPECT_EQ(lost.Say({effect::BreakConnections{1, {0}}}, event::HostLost{1, {}}), Rules{});
  ExpectBroken(lost.Say({effect::BreakConnections{2, {0}}}), {"connections of another"});
}

ElasticPolicy Repairing() {
  ElasticPolicy policy = Watched::Policy();
  policy.repairs_barriers = true;
  return policy;
}

TEST(ElasticInvariantsTest, ABarrierOpensOnceAndWhenAllThatLiveAreThere) {
  Watched job(Repairing());
  job.Running();
  EXPECT_EQ(job.Say({}, event::WorkerMet{0}), Rules{});
  ExpectBroken(job.Say({effect::OpenBarrier{2}}, event::WorkerMet{1}), {"barrier of another"});
  ExpectBroken(job.Say({effect::OpenBarrier{1}}), {"barrier is opened twice"});
  Watched early(Repairing());
  early.Running();
  ExpectBroken(early.Say({effect::OpenBarrier{1}}, event::WorkerMet{0}),
               {"barrier is opened before"});
  Watched dead(Repairing());
  dead.Running();
  EXPECT_EQ(dead.Say({}, event::WorkerMet{0}), Rules{});
  EXPECT_EQ(dead.Say({}, event::WorkerMet{1}), Rules{});
  ExpectBroken(dead.Say({effect::OpenBarrier{1}}, event::ProcessExited{1, {.signal = 9}}),
               {"barrier is opened before"});
}

TEST(ElasticInvariantsTest, OnlyAMemberThatDiedBeforeTheBarrierIsReplaced) {
  const effect::StartWorkers again{1, {{2, Watched::Pair(1).ranks[1]}}, 0, 0};
  Watched job(Repairing());
  job.Running();
  EXPECT_EQ(job.Say({again}, event::ProcessExited{1, {.signal = 9}}), Rules{});
  EXPECT_EQ(job.Say({}, event::WorkerMet{0}), Rules{});
  EXPECT_EQ(job.Say({effect::OpenBarrier{1}}, event::WorkerMet{2}), Rules{});
  Watched open(Repairing());
  open.Running();
  EXPECT_EQ(open.Say({}, event::WorkerMet{0}), Rules{});
  EXPECT_EQ(open.Say({effect::OpenBarrier{1}}, event::WorkerMet{1}), Rules{});
  ExpectBroken(open.Say({again}, event::ProcessExited{1, {.signal = 9}}), {"has met"});
  Watched off;
  off.Running();
  ExpectBroken(off.Say({again}, event::ProcessExited{1, {.signal = 9}}), {"has begun"});
  Watched moved(Repairing());
  moved.Running();
  RankInfo elsewhere = Watched::Pair(1).ranks[1];
  elsewhere.local_rank = 1;
  ExpectBroken(moved.Say({effect::StartWorkers{1, {{2, elsewhere}}, 0, 0}},
                         event::ProcessExited{1, {.signal = 9}}),
               {"in a place"});
}

TEST(ElasticInvariantsTest, RankZeroOfALaterGenerationIsNotReplaced) {
  Watched job(Repairing());
  job.Parked();
  EXPECT_EQ(job.Say({Watched::Pair(2)}), Rules{});
  ExpectBroken(job.Say({effect::StartWorkers{2, {{2, Watched::Pair(2).ranks[0]}}, 0, 0}},
                       event::ProcessExited{0, {.signal = 9}}),
               {"state is lost"});
}

TEST(ElasticInvariantsTest, NoticesGoToRankZeroWithTimesThatRise) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::Notify{0, 0, 5, UpdateCode::kMixed}}), Rules{});
  ExpectBroken(job.Say({effect::Notify{0, 0, 5, UpdateCode::kMixed}}), {"timestamps"});
  ExpectBroken(job.Say({effect::Notify{1, 0, 6, UpdateCode::kMixed}}), {"another than rank 0"});
  ExpectBroken(job.Say({effect::Notify{0, 0, 7, UpdateCode::kAdded}}), {"skip their sync"});
}

TEST(ElasticInvariantsTest, WhatIsSaidIsTrueAndOneLine) {
  Watched job;
  job.Running();
  ExpectBroken(job.Say({effect::MembershipChanged{2, 2, {}, {}, false}}), {"change of another"});
  ExpectBroken(job.Say({effect::MembershipChanged{1, 3, {}, {}, false}}), {"wrong size is told"});
  ExpectBroken(job.Say({effect::Say{"a\nb"}}), {"Say has"});
}

TEST(ElasticInvariantsTest, FactsAboutNobodyAreHarmless) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({}, event::ProcessExited{kNoWorker, {}}), Rules{});
  EXPECT_EQ(job.Say({}, event::RankAsked{kNoWorker}), Rules{});
  EXPECT_EQ(job.Say({}, event::WorkerArrived{77}), Rules{});
  EXPECT_EQ(job.Say({}, event::HostLost{-5, {}}), Rules{});
  EXPECT_EQ(job.Say({}, event::HostReady{99, {}}), Rules{});
  EXPECT_EQ(job.Say({}, event::GenerationStopped{9, 99, 0, 0}), Rules{});
}

}  // namespace
}  // namespace hvdray
