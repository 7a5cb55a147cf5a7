// SPDX-License-Identifier: Apache-2.0
// Effects that break a rule are reported for that rule, and only for that one.
#include "launcher/driver/elastic_invariants.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(job.Say({effect::Finish{}, effect::Say{"more"}}),
            Rules{"Finish is not the last effect"});
  EXPECT_EQ(job.Say({effect::Say{"more"}}), Rules{"something comes after Finish"});
  EXPECT_EQ(job.Say({}), Rules{});
  EXPECT_EQ(job.Say({}, event::Tick{}, TimePoint{} + seconds(9)),
            Rules{"something comes after Finish"});
}

TEST(ElasticInvariantsTest, AJobEnds) {
  EXPECT_EQ(Watched().Ended(), Rules{"the job does not end"});
}

TEST(ElasticInvariantsTest, AJobThatIsOverLeavesNobodyBehind) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::Finish{}}, event::ProcessExited{0, {}}),
            Rules{"the job is over and the worker on slot 0 of b lives"});
  Watched stopping;
  stopping.Running();
  stopping.Say({effect::StopGeneration{1, {0, 1}, {}}});
  stopping.Say({}, event::ProcessExited{0, {}});
  stopping.Say({}, event::GenerationStopped{1, 1, 0, 0});
  EXPECT_EQ(stopping.Say({effect::Finish{}}),
            Rules{"the job is over before a host has reported its end"});
}

TEST(ElasticInvariantsTest, APassedDeadlineIsActedOn) {
  Watched job;
  EXPECT_EQ(job.Say({}, event::Tick{}, TimePoint{} + seconds(6)), Rules{});
  EXPECT_EQ(job.Say({}, event::Tick{}, TimePoint{} + seconds(5)),
            Rules{"a deadline that has passed is not acted on"});
}

TEST(ElasticInvariantsTest, AHostIsConnectedOnceAtATime) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::ConnectHost{0, {"a", 2}}}), Rules{"a host is connected twice"});
  EXPECT_EQ(job.Say({effect::ReleaseHost{1}, effect::ConnectHost{1, {"b", 2}}}), Rules{});
}

TEST(ElasticInvariantsTest, ASlotHasOneLivingWorkerWithANumberOfItsOwn) {
  const RankInfo slot = Watched::Place(0, 0, 0, 2, 1, 2);
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::StartWorkers{2, {{2, slot}}, 0, 0}}),
            Rules{"a second worker for slot 0 of a, whose first one lives"});
  Watched again;
  again.Running();
  EXPECT_EQ(again.Say({effect::StartWorkers{2, {{0, slot}}, 0, 0}}, event::ProcessExited{0, {}}),
            Rules{"a worker's number is used twice"});
  EXPECT_EQ(again.Say({effect::StartWorkers{2, {}, 0, 0}}), Rules{"StartWorkers for nobody"});
}

TEST(ElasticInvariantsTest, WorkersStartWhereThereIsAnAgent) {
  const RankInfo slot = Watched::Place(1, 0, 1, 2, 1, 2);
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::StartWorkers{2, {{2, slot}}, 0, 0}}, event::HostLost{1, {}}),
            Rules{"workers are started on a host without an agent"});
}

TEST(ElasticInvariantsTest, TheMapIsWhole) {
  const auto broken_by = [](const std::function<void(effect::PublishGeneration&)>& change) {
    Watched job;
    job.Parked();
    effect::PublishGeneration next = Watched::Pair(2);
    change(next);
    return job.Say({next});
  };
  EXPECT_EQ(broken_by([](auto& e) { e.generation = 1; }), Rules{"a generation does not rise"});
  EXPECT_EQ(broken_by([](auto& e) { e.ranks[1].rank = 2; }), Rules{"ranks are not 0..N-1"});
  EXPECT_EQ(broken_by([](auto& e) { e.ranks[0].size = 3; }), Rules{"ranks are not 0..N-1"});
  EXPECT_EQ(broken_by([](auto& e) { e.ranks[0].local_size = 2; }), Rules{"a wrong local size"});
  EXPECT_EQ(broken_by([](auto& e) { e.ranks[0].cross_size = 1; }), Rules{"a wrong cross size"});
  EXPECT_EQ(broken_by([](auto& e) { e.ranks[1].cross_rank = 0; }),
            Rules{"cross ranks do not follow the hosts"});
  EXPECT_EQ(broken_by([](auto& e) { e.workers.pop_back(); }), Rules{"a rank without a worker"});
}

TEST(ElasticInvariantsTest, LocalRanksAreDenseAndHostsTogether) {
  Watched job(ElasticPolicy{.np = 1});
  const effect::PublishGeneration gap{1, {Watched::Place(0, 1, 0, 1, 1, 1)}, {0}};
  EXPECT_EQ(job.Say({gap}), Rules{"local ranks are not dense"});
  effect::PublishGeneration apart{
      2,
      {Watched::Place(0, 0, 0, 3, 2, 2), Watched::Place(1, 0, 1, 3, 1, 2),
       Watched::Place(0, 1, 2, 3, 2, 1)},
      {0, 1, 2}};
  Watched other(ElasticPolicy{.np = 1});
  EXPECT_EQ(other.Say({apart}), Rules{"the ranks of a host are not together"});
}

TEST(ElasticInvariantsTest, TheSizeIsWithinItsBounds) {
  ElasticPolicy policy = Watched::Policy();
  policy.np = 3;
  Watched small(policy);
  EXPECT_EQ(small.Say({Watched::Pair(1)}), Rules{"2 workers, fewer than 3"});
  policy.np = 1;
  policy.max_np = 1;
  Watched large(policy);
  EXPECT_EQ(large.Say({Watched::Pair(1)}), Rules{"2 workers, more than max_np 1"});
}

TEST(ElasticInvariantsTest, AGenerationBeginsWhenTheOldOneIsParkedOrDead) {
  Watched job;
  job.Running();
  job.Say({}, event::RankAsked{0});
  EXPECT_EQ(job.Say({Watched::Pair(2)}),
            Rules{"a generation is published before an old worker is parked or dead"});
}

TEST(ElasticInvariantsTest, RankZeroIsASurvivor) {
  Watched job;
  job.Parked();
  job.Say({effect::StartWorkers{2, {{2, Watched::Place(0, 0, 0, 2, 1, 2)}}, 0, 0}},
          event::ProcessExited{0, {.exit_code = 1}});
  effect::PublishGeneration next = Watched::Pair(2);
  next.workers = {2, 1};
  EXPECT_EQ(job.Say({next}, event::WorkerArrived{2}), Rules{"rank 0 is no survivor"});
}

TEST(ElasticInvariantsTest, SomebodyHasTheStateAndTheDeadHaveNoRank) {
  Watched job;
  job.Parked();
  EXPECT_EQ(job.Say({Watched::Pair(2)}, event::ProcessExited{1, {.exit_code = 1}}),
            Rules{"rank 1 has no living worker"});
  Watched lost;
  lost.Parked();
  lost.Say({}, event::HostLost{1, {}});
  EXPECT_EQ(lost.Say({Watched::Pair(2)}, event::HostLost{0, {}}),
            (Rules{"rank 0 has no living worker", "rank 1 has no living worker",
                   "nobody has the state"}));
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
  EXPECT_EQ(with(Watched::Place(1, 0, 1, 2, 1, 2), false),
            Rules{"a newcomer is let in before it has arrived"});
  EXPECT_EQ(with(Watched::Place(1, 0, 2, 3, 1, 2), true),
            Rules{"a newcomer was promised another place"});
}

TEST(ElasticInvariantsTest, WhoIsStoppedLives) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::StopWorkers{{1}, {}}}, event::ProcessExited{1, {}}),
            Rules{"a dead worker is stopped"});
  EXPECT_EQ(job.Say({effect::StopWorkers{{7}, {}}}), Rules{"a dead worker is stopped"});
}

TEST(ElasticInvariantsTest, ConnectionsAreBrokenOnlyForALossOfTheirGeneration) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::BreakConnections{1, {0}}}, event::ProcessExited{1, {}}),
            Rules{"connections are broken without a loss"});
  Watched lost;
  lost.Running();
  EXPECT_EQ(lost.Say({effect::BreakConnections{1, {0}}}, event::HostLost{1, {}}), Rules{});
  EXPECT_EQ(lost.Say({effect::BreakConnections{2, {0}}}),
            Rules{"connections of another generation are broken"});
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
  EXPECT_EQ(job.Say({effect::OpenBarrier{2}}, event::WorkerMet{1}),
            Rules{"the barrier of another generation is opened"});
  EXPECT_EQ(job.Say({effect::OpenBarrier{1}}), Rules{"a barrier is opened twice"});
  Watched early(Repairing());
  early.Running();
  EXPECT_EQ(early.Say({effect::OpenBarrier{1}}, event::WorkerMet{0}),
            Rules{"a barrier is opened before all are there"});
  Watched dead(Repairing());
  dead.Running();
  EXPECT_EQ(dead.Say({}, event::WorkerMet{0}), Rules{});
  EXPECT_EQ(dead.Say({}, event::WorkerMet{1}), Rules{});
  EXPECT_EQ(dead.Say({effect::OpenBarrier{1}}, event::ProcessExited{1, {.signal = 9}}),
            Rules{"a barrier is opened before all are there"});
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
  EXPECT_EQ(open.Say({again}, event::ProcessExited{1, {.signal = 9}}),
            Rules{"a worker joins a generation that has met"});
  Watched off;
  off.Running();
  EXPECT_EQ(off.Say({again}, event::ProcessExited{1, {.signal = 9}}),
            Rules{"a worker joins a generation that has begun"});
  Watched moved(Repairing());
  moved.Running();
  RankInfo elsewhere = Watched::Pair(1).ranks[1];
  elsewhere.local_rank = 1;
  EXPECT_EQ(moved.Say({effect::StartWorkers{1, {{2, elsewhere}}, 0, 0}},
                      event::ProcessExited{1, {.signal = 9}}),
            Rules{"a worker joins a generation in a place that it does not have"});
}

TEST(ElasticInvariantsTest, RankZeroOfALaterGenerationIsNotReplaced) {
  Watched job(Repairing());
  job.Parked();
  EXPECT_EQ(job.Say({Watched::Pair(2)}), Rules{});
  EXPECT_EQ(job.Say({effect::StartWorkers{2, {{2, Watched::Pair(2).ranks[0]}}, 0, 0}},
                    event::ProcessExited{0, {.signal = 9}}),
            Rules{"rank 0 begins anew and the state is lost"});
}

TEST(ElasticInvariantsTest, NoticesGoToRankZeroWithTimesThatRise) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::Notify{0, 0, 5, UpdateCode::kMixed}}), Rules{});
  EXPECT_EQ(job.Say({effect::Notify{0, 0, 5, UpdateCode::kMixed}}),
            Rules{"timestamps of notices do not rise"});
  EXPECT_EQ(job.Say({effect::Notify{1, 0, 6, UpdateCode::kMixed}}),
            Rules{"a notice to another than rank 0"});
  EXPECT_EQ(job.Say({effect::Notify{0, 0, 7, UpdateCode::kAdded}}),
            Rules{"a notice that lets workers skip their sync"});
}

TEST(ElasticInvariantsTest, WhatIsSaidIsTrueAndOneLine) {
  Watched job;
  job.Running();
  EXPECT_EQ(job.Say({effect::MembershipChanged{2, 2, {}, {}, false}}),
            Rules{"a change of another generation is told"});
  EXPECT_EQ(job.Say({effect::MembershipChanged{1, 3, {}, {}, false}}),
            Rules{"a wrong size is told"});
  EXPECT_EQ(job.Say({effect::Say{"a\nb"}}), Rules{"Say has more than one line"});
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
