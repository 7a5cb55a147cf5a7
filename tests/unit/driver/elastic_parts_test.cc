// SPDX-License-Identifier: Apache-2.0
// What always holds of the parts of ElasticDriver, whatever happens in whatever order.
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "launcher/driver/blame.h"
#include "launcher/driver/host_target.h"
#include "launcher/driver/init_barrier.h"
#include "launcher/driver/next_generation.h"
#include "launcher/driver/notice_schedule.h"
#include "launcher/driver/reset_count.h"

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

// ---- the round

TEST(RoundTest, ItBreaksForGoodAndItsBarrierOpensOnlyWhileItIsWhole) {
  int fell_apart = 0, was_through = 0;
  for (int round_number = 0; round_number < kRounds; ++round_number) {
    PartDice dice(round_number);
    Round round({{0, 2}}, {4, 7}, TimePoint{});
    TimePoint now{};
    int waiting = 0, connected = 0, done = 0;
    bool is_broken = false, has_failed = false;
    for (int step = 0; step < kSteps / 4; ++step) {
      now += milliseconds(dice.Below(900));
      const bool was_open = round.barrier().is_open();
      switch (dice.Below(10)) {
        case 0:
          round.Break(now);
          is_broken = true;
          break;
        case 1:
          if (!dice.OneIn(4)) break;
          round.Fail(now);
          is_broken = has_failed = true;
          break;
        case 2:
          if (dice.OneIn(3) && done < 2) round.NoteDone(done++ == 0 ? 7 : 4);
          break;
        case 3:
          if (!was_open || connected == 2) break;
          round.barrier().Connect(now);
          ++connected;
          break;
        default:
          if (waiting == 2) break;
          const bool opens = round.Meet(now + seconds(9), true);
          EXPECT_EQ(opens, ++waiting == 2 && !is_broken && done == 0);
          break;
      }
      EXPECT_EQ(round.is_broken(), is_broken);
      EXPECT_EQ(round.has_failures(), has_failed);
      EXPECT_EQ(round.is_whole(), !is_broken && done == 0);
      EXPECT_EQ(round.first_done(), done > 0 ? 7 : kNoWorker);
      EXPECT_TRUE(is_broken || !(round.fell_apart() || round.was_through()));
      EXPECT_FALSE(round.fell_apart() && round.was_through());
      EXPECT_EQ(round.IsBarrierLost(),
                waiting > 0 && !round.barrier().is_open() && !round.is_whole());
    }
    fell_apart += round.fell_apart() ? 1 : 0;
    was_through += round.was_through() ? 1 : 0;
  }
  EXPECT_GT(fell_apart, 10);
  EXPECT_GT(was_through, 10);
}

// ---- deadlines of processes

TEST(WorkerRosterTest, OnlyTheLastDeadlineOfALivingProcessComesDueAndOnce) {
  for (int round = 0; round < kRounds; ++round) {
    PartDice dice(round);
    WorkerRoster roster({});
    std::map<WorkerId, TimePoint> limits;
    for (int host = 0; host < 4; ++host) roster.Add(PlaceOn(host, 0), 1, Role::kMember, {});
    TimePoint now{};
    for (int step = 0; step < kSteps; ++step) {
      now += milliseconds(dice.Below(400));
      const auto worker = static_cast<WorkerId>(dice.Below(4));
      if (dice.OneIn(40)) {
        roster.MarkLost(worker, now);
        limits.erase(worker);
      } else if (dice.OneIn(2)) {
        const TimePoint limit = now + seconds(1);
        roster.SetLimit(worker, limit);
        if (roster.Living(worker) != nullptr) limits[worker] = limit;
      }
      for (WorkerId due = roster.TakeDue(now); due != kNoWorker; due = roster.TakeDue(now)) {
        ASSERT_TRUE(limits.contains(due));
        EXPECT_LE(limits[due], now);
        limits.erase(due);
      }
      for (const auto& [one, limit] : limits) {
        EXPECT_GT(limit, now);
        EXPECT_LE(*roster.NextLimit(), limit);
      }
    }
  }
}

// ---- the count of resets

TEST(ResetCountTest, UnannouncedLossesCountAndTheirReplacementIsFree) {
  const std::vector<HostSlots> slots = {{"a", 4}, {"b", 4}};
  for (int round_number = 0; round_number < kRounds; ++round_number) {
    PartDice dice(round_number);
    HostRegistry hosts(std::nullopt, 1);
    hosts.Update(slots, {});
    const uint32_t limit = static_cast<uint32_t>(dice.Below(3));
    ResetCount resets(limit);
    const auto count = [&](const Round& round, const HostPlan& plan) {
      const bool is_counted =
          resets.IsCounted(round, plan, ChangesBetween(round.plan(), plan, hosts), hosts);
      if (is_counted && !resets.IsUsedUp()) resets.Add();
      resets.NoteNext(round, SizeOf(plan));
      EXPECT_LE(resets.count(), limit);
      EXPECT_EQ(resets.IsUsedUp(), resets.count() == limit);
      return is_counted;
    };
    const int before = 2 + dice.Below(3);
    const int lost = 1 + dice.Below(before - 1);
    Round failed({{0, before}}, std::vector<WorkerId>(static_cast<size_t>(before)), {});
    failed.Fail({});
    EXPECT_TRUE(count(failed, {{0, before - lost}}));
    // Back, one by one or at once, up to the size before.
    for (int size = before - lost; size < before;) {
      const int next = size + 1 + dice.Below(before - size);
      const Round whole({{0, size}}, std::vector<WorkerId>(static_cast<size_t>(size)), {});
      EXPECT_FALSE(count(whole, {{0, next}}));
      size = next;
    }
    const Round whole({{0, before}}, std::vector<WorkerId>(static_cast<size_t>(before)), {});
    EXPECT_TRUE(count(whole, {{0, before}, {1, 1}}));
  }
}

// ---- notices

TEST(NoticeScheduleTest, NoticesKeepTheirDistanceAndTheirTimestampsRise) {
  for (int round = 0; round < kRounds; ++round) {
    PartDice dice(round);
    const Duration interval = milliseconds(100 + dice.Below(1500));
    NoticeSchedule notices(interval, TimePoint{}, dice.Below(2) * 1'700'000'000);
    TimePoint now{};
    bool is_running = false;
    std::optional<TimePoint> earliest;
    int64_t last = 0;
    for (int step = 0; step < kSteps; ++step) {
      now += milliseconds(dice.Below(400));
      switch (dice.Below(8)) {
        case 0:
          notices.Start(now);
          if (!std::exchange(is_running, true)) earliest = now;
          break;
        case 1:
          notices.Stop();
          is_running = false;
          break;
        case 2:
          notices.Hurry(now);
          earliest = now;
          break;
        default: {
          const bool is_due = notices.Take(now);
          EXPECT_EQ(is_due, is_running && now >= *earliest);
          if (!is_due) break;
          earliest = now + interval;
          const int64_t timestamp = notices.Timestamp(now);
          EXPECT_GT(timestamp, last);
          last = timestamp;
        }
      }
      EXPECT_EQ(notices.next().has_value(), is_running);
    }
  }
}

// ---- the target

TEST(HostTargetTest, ItsPlanCouldStartNowAndNoHostIsReleasedThatIsWantedOrHasWorkers) {
  int released = 0;
  for (int round = 0; round < kRounds; ++round) {
    PartDice dice(round);
    std::optional<CooldownRange> cooldown;
    if (dice.OneIn(2)) cooldown.emplace();
    HostRegistry hosts(cooldown, static_cast<uint64_t>(round));
    WorkerRoster roster({});
    HostTarget target;
    HostPlan present;
    TimePoint now{};
    for (int step = 0; step < kSteps; ++step) {
      now += milliseconds(dice.Below(400));
      const int host = dice.Below(4);
      switch (dice.Below(6)) {
        case 0: {
          std::vector<HostSlots> listed;
          for (int i = 0; i < 4; ++i) {
            const std::string name(1, static_cast<char>('a' + i));
            if (!dice.OneIn(3)) listed.push_back({name, 1 + dice.Below(3)});
          }
          hosts.Update(listed, now);
          break;
        }
        case 1:
          hosts.MarkReady(host, 0);
          break;
        case 2:
          if (hosts.IsKnown(host) && dice.OneIn(3)) hosts.Blacklist(host, now);
          break;
        case 3:
          if (dice.OneIn(3)) hosts.MarkLeaving(host);
          break;
        case 4:
          for (const WorkerId worker : roster.LivingOn(host)) roster.MarkLost(worker, now);
          break;
        case 5:
          if (target.size() == 0 || roster.counts().living > 0) break;
          if (!Holds(target.plan(), hosts)) break;
          present = target.plan();
          for (const RankInfo& place : RanksOf(present, hosts)) {
            roster.Add(place, 1, Role::kMember, now);
          }
          break;
      }
      hosts.Expire(now);
      target.MarkChanged();
      const HostTarget::Moves moves = target.Renew(hosts, roster, present, 5, now + seconds(9));
      EXPECT_TRUE(Holds(target.plan(), hosts));
      EXPECT_LE(target.size(), 5);
      EXPECT_TRUE(target.HasInSight(target.size(), hosts));
      for (const int one : moves.connect) {
        EXPECT_TRUE(hosts.host(one).is_available());
        EXPECT_EQ(hosts.host(one).agent, HostRegistry::Agent::kConnecting);
      }
      for (const int one : moves.release) {
        EXPECT_FALSE(hosts.host(one).is_available());
        EXPECT_EQ(roster.CountLivingOn(one), 0);
      }
      released += static_cast<int>(moves.release.size());
      EXPECT_FALSE(target.is_changed());
      const HostPlan plan = target.plan();
      const HostTarget::Moves again = target.Renew(hosts, roster, present, 5, now + seconds(9));
      EXPECT_TRUE(again.connect.empty() && again.release.empty());
      EXPECT_EQ(target.plan(), plan);
    }
  }
  EXPECT_GT(released, kRounds);
}

}  // namespace
}  // namespace hvdray
