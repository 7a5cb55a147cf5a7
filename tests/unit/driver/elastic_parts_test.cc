// SPDX-License-Identifier: Apache-2.0
// What always holds of the parts of ElasticDriver, whatever happens in whatever order.
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <random>
#include <set>

#include "launcher/driver/blame.h"
#include "launcher/driver/init_barrier.h"
#include "launcher/driver/next_generation.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Role = WorkerRoster::Role;

constexpr int kRounds = 500;
constexpr int kSteps = 60;

class PartDice {
 public:
  explicit PartDice(int seed) : random_(static_cast<uint64_t>(seed)) {}
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }

 private:
  std::mt19937_64 random_;
};

// ---- the init barrier

TEST(InitBarrierTest, OpensOnceWhileAllMembersWaitAndNobodyConnectsBefore) {
  for (int round = 0; round < kRounds; ++round) {
    PartDice dice(round);
    const int members = 1 + dice.Below(4);
    InitBarrier barrier(members);
    std::set<int> waiting;
    std::set<int> connected;
    bool has_opened = false;
    TimePoint now{};
    for (int step = 0; step < kSteps; ++step) {
      now += milliseconds(dice.Below(400));
      const int member = dice.Below(members);
      switch (dice.Below(5)) {
        case 0:
          if (!has_opened && waiting.insert(member).second) {
            const bool can_open = !dice.OneIn(8);
            const bool opens = barrier.Meet(now + seconds(9), can_open);
            EXPECT_EQ(opens, can_open && static_cast<int>(waiting.size()) == members);
            has_opened = opens;
          }
          break;
        case 1:
          if (!has_opened && waiting.erase(member) > 0) barrier.Leave();
          break;
        case 2:
          if (has_opened && connected.insert(member).second) barrier.Connect(now);
          break;
        case 3:
          barrier.NoteThrough(now);
          break;
        case 4:
          barrier.Extend(now + seconds(9));
          break;
      }
      const bool are_all_connected = static_cast<int>(connected.size()) == members;
      EXPECT_EQ(barrier.is_open(), has_opened);
      EXPECT_EQ(barrier.met(), static_cast<int>(waiting.size()));
      EXPECT_EQ(barrier.is_connecting(), has_opened && !are_all_connected);
      EXPECT_FALSE(has_opened && barrier.limit());
      EXPECT_TRUE(are_all_connected || !barrier.IsThrough(now));
    }
  }
}

TEST(InitBarrierTest, ALimitIsThatOfTheFirstWhoWaitsUntilItIsExtended) {
  InitBarrier barrier(3);
  EXPECT_FALSE(barrier.Meet(TimePoint(seconds(5)), true));
  EXPECT_FALSE(barrier.Meet(TimePoint(seconds(7)), true));
  EXPECT_EQ(barrier.limit(), TimePoint(seconds(5)));
  barrier.Extend(TimePoint(seconds(9)));
  EXPECT_EQ(barrier.limit(), TimePoint(seconds(9)));
  barrier.GiveUp();
  barrier.Extend(TimePoint(seconds(11)));
  EXPECT_FALSE(barrier.limit());
}

// ---- blame

RankInfo PlaceOn(int host, int local_rank, int rank = 0) {
  return {.host = std::string(1, static_cast<char>('a' + host)),
          .host_index = host,
          .rank = rank,
          .local_rank = local_rank};
}

TEST(BlameTest, TheFirstFailureIsNoVictimAndNoAbortIfAnotherFailedToo) {
  for (int round = 0; round < kRounds; ++round) {
    PartDice dice(round);
    const int size = 1 + dice.Below(5);
    WorkerRoster roster({});
    std::vector<WorkerId> members;
    for (int rank = 0; rank < size; ++rank) {
      members.push_back(roster.Add(PlaceOn(rank, 0, rank), 1, Role::kMember, {}));
    }
    Blame blame;
    bool has_other = false;
    for (int count = 0; count < size; ++count) {
      const WorkerId worker = members[static_cast<size_t>(count)];
      const bool is_abort = dice.OneIn(2);
      const wire::ExitStatus status =
          is_abort ? wire::ExitStatus{.signal = SIGABRT} : wire::ExitStatus{.exit_code = 1};
      EXPECT_EQ(Blame::IsAbort(status), is_abort);
      roster.MarkEnded(worker, status, false, {});
      blame.NoteFailed(roster, worker, count > 0, true);
      has_other |= !is_abort;
      ASSERT_TRUE(blame.first_failure());
      const auto rank = static_cast<size_t>(blame.first_failure()->rank);
      EXPECT_FALSE(roster.Of(members[rank]).record.is_victim);
      EXPECT_EQ(Blame::IsAbort(*blame.first_failure()->status), !has_other);
    }
    // No error was shown, so the order of the ends decides.
    const std::optional<WorkerRecord> first = blame.first_failure();
    blame.Weigh(roster, members);
    EXPECT_EQ(blame.first_failure()->rank, first->rank);
    EXPECT_EQ(blame.culprit().index, -1);
  }
}

TEST(BlameTest, AMomentBeginsOnceAndEnds) {
  for (int round = 0; round < kRounds; ++round) {
    PartDice dice(round);
    const Duration length = milliseconds(1 + dice.Below(900));
    WorkerRoster roster({});
    const std::vector<WorkerId> members = {roster.Add(PlaceOn(0, 0), 1, Role::kMember, {}),
                                           roster.Add(PlaceOn(1, 0, 1), 1, Role::kMember, {})};
    // Still running, with an error of its own.
    if (dice.OneIn(2)) roster.MarkErred(members[1], {.text = "ValueError"}, {}, {});
    Blame blame;
    const TimePoint began(milliseconds(dice.Below(1000)));
    blame.BeginMoment(began, length);
    const auto first = blame.moment_by();
    blame.BeginMoment(began + seconds(1), length);
    EXPECT_EQ(blame.moment_by(), first);
    blame.EvictAfterMoment(1);
    TimePoint now = *first;
    while (!blame.EndMoment(roster, members, now, length)) {
      ASSERT_GT(*blame.moment_by(), now);
      now = *blame.moment_by();
    }
    EXPECT_LT(now, began + Blame::kLongestMoment + length);
    EXPECT_FALSE(blame.moment_by());
    blame.BeginMoment(now, length);  // hosts that wait for the end of one are stopped at it
    EXPECT_FALSE(blame.moment_by());
  }
}

// ---- the next generation

TEST(NextGenerationTest, EachPlaceGetsOneWorkerAndItBeginsOnlyWithThoseItWasPromisedTo) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 3}, {"c", 1}};
  int met = 0;
  for (int round = 0; round < kRounds; ++round) {
    PartDice dice(round);
    HostRegistry registry(std::nullopt, 1);
    registry.Update(hosts, {});
    WorkerRoster roster({});
    NextGeneration next;
    Generation number = 1;
    std::vector<RankInfo> ranks;
    std::set<WorkerId> started;
    for (int step = 0; step < kSteps; ++step) {
      switch (dice.Below(5)) {
        case 0: {
          HostPlan plan;
          for (int host = 0; host < 3; ++host) {
            const int count = dice.Below(hosts[static_cast<size_t>(host)].slots + 1);
            if (count > 0) plan.push_back({host, count});
          }
          if (plan.empty()) break;
          if (dice.OneIn(4)) ++number;
          next.Prepare(plan, registry);
          ranks = RanksOf(plan, registry);
          break;
        }
        case 1:
          for (const WorkerId worker : next.Misplaced(roster, number)) {
            roster.MarkToldToEnd(worker, {}, {});
          }
          EXPECT_TRUE(next.Misplaced(roster, number).empty());
          for (const NewWorker& one : next.StartMissing(roster, number, {})) {
            EXPECT_TRUE(started.insert(one.worker).second);
            EXPECT_EQ(roster.Of(one.worker).place, one.place);
          }
          for (const RankInfo& place : ranks) {
            EXPECT_NE(roster.On(place.host_index, place.local_rank), kNoWorker);
          }
          break;
        case 2:
        case 3:
          for (const WorkerId worker : started) {
            if (dice.OneIn(2)) roster.MarkArrived(worker);
            if (dice.OneIn(6)) roster.MarkEnded(worker, {.exit_code = 1}, false, {});
          }
          break;
        case 4:
          if (dice.OneIn(5)) {
            for (const WorkerId worker : next.Abandon(roster)) {
              roster.MarkToldToEnd(worker, {}, {});
            }
            EXPECT_FALSE(next.has_plan());
            ranks.clear();
          }
          break;
      }
      if (!next.has_plan() || !next.IsMet(roster, number)) continue;
      ++met;
      for (const RankInfo& place : ranks) {
        const auto* process = roster.Living(roster.On(place.host_index, place.local_rank));
        ASSERT_NE(process, nullptr);
        EXPECT_TRUE(process->has_arrived);
        EXPECT_FALSE(process->is_told_to_end);
        EXPECT_EQ(process->place, place);
        EXPECT_EQ(process->record.generation, number);
      }
      EXPECT_EQ(roster.counts().living, static_cast<int>(ranks.size()));
    }
  }
  EXPECT_GT(met, kRounds);
}

}  // namespace
}  // namespace hvdray
