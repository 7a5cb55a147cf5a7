// SPDX-License-Identifier: Apache-2.0
// A whole job of simulated Horovod members on a FakeKvNetwork: starts, rounds of hvd.init(), losses
// of members, restarts of the gang and elastic resets.
#ifndef HVDRAY_TESTS_UNIT_RENDEZVOUS_RENDEZVOUS_JOB_H_
#define HVDRAY_TESTS_UNIT_RENDEZVOUS_RENDEZVOUS_JOB_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_horovod_member.h"
#include "tests/fakes/fake_kv_network.h"

namespace hvdray {

class RendezvousJob {
 public:
  enum class Scopes : uint8_t { kThree, kSix };  // before 0.23 there were no process sets

  RendezvousJob(std::vector<int> slots, uint64_t seed, RelayCoreOptions options = {})
      : slots_(std::move(slots)), network_(HostNames(slots_.size()), seed, options) {}

  FakeKvNetwork& network() { return network_; }
  Generation generation() const { return generation_; }
  std::vector<int>& slots() { return slots_; }
  void UseBarrier(FakeHorovodMember::Barrier barrier) { barrier_ = barrier; }
  void UseScopes(Scopes scopes) { scopes_ = scopes; }

  /// A gang of new processes in the next generation; all older ones are killed first.
  void StartGang() {
    Retire([](const FakeHorovodMember&) { return true; });
    ++generation_;
    network_.Reset(Assignment());
    Fill();
  }

  /// SIGKILL to those of which `is_lost` holds.
  template <typename Predicate>
  void Kill(Predicate is_lost) {
    Retire(is_lost);
  }

  /// A request that the member of that slot makes beside its init, its answer unread.
  void SendAs(const std::string& slot, const std::string& method, const std::string& target,
              std::string body) {
    for (const auto& member : members_) {
      if (member->slot() != slot) continue;
      network_.Request(member->host(), member->worker(), method, target, std::move(body),
                       [](int, const std::string&) {});
    }
  }

  /// All living members wait for a place; then the next generation begins on `slots()` with
  /// newcomers where no member is. A member without a slot is told to leave, and ends.
  void ElasticReset() {
    size_t parked = network_.parked_places();
    for (auto& member : members_) {
      ++parked;
      member->AskPlace([this, at = member.get()](const std::string& place) {
        if (place == kRemovedFromJob) removed_.push_back(at);
        ++placed_;
      });
    }
    ASSERT_TRUE(network_.RunUntilDone([&] { return network_.parked_places() == parked; },
                                      std::chrono::minutes(10)));
    ++generation_;
    placed_ = 0;
    const size_t waiting = members_.size();
    network_.Reset(Assignment());
    Fill();
    ASSERT_TRUE(
        network_.RunUntilDone([&] { return placed_ == waiting; }, std::chrono::minutes(10)));
    const auto removed = std::exchange(removed_, {});
    Retire([&](const FakeHorovodMember& member) {
      return std::find(removed.begin(), removed.end(), &member) != removed.end();
    });
  }

  /// Begins an init of all members, each at a random moment within `spread`.
  void BeginInit(Duration spread = std::chrono::milliseconds(5)) {
    ++round_;
    ready_ = 0;
    for (auto& member : members_) {
      const auto wait = Duration(
          static_cast<int64_t>(network_.random()() % static_cast<uint64_t>(spread.count() + 1)));
      network_.After(wait, [this, at = member.get(), meshes = Meshes(*member), round = round_] {
        if (!IsMember(at) || round != round_) return;
        at->set_barrier(barrier_);
        at->Init(meshes, fmt::format("g{}r{}", generation_, round), [this] { ++ready_; });
      });
    }
  }
  bool FinishInit(Duration limit = std::chrono::minutes(5)) {
    return network_.RunUntilDone([this] { return ready_ == members_.size(); }, limit);
  }
  bool Init() {
    BeginInit();
    return FinishInit();
  }
  size_t ready() const { return ready_; }

  /// An extra process set of all members, walked and given up.
  bool WalkProcessSet(const std::string& hash) {
    ++round_;
    ready_ = 0;
    for (auto& member : members_) {
      const FakeMesh all = Meshes(*member).front();
      member->Init({{fmt::format("global_process_set_hash_{}", hash), all.rank, all.size}},
                   fmt::format("p{}", round_), [this] { ++ready_; });
    }
    return FinishInit();
  }

  std::vector<std::string> Faults() const {
    std::vector<std::string> all = old_faults_;
    for (const auto& member : members_) {
      all.insert(all.end(), member->faults().begin(), member->faults().end());
    }
    return all;
  }

 private:
  static std::vector<std::string> HostNames(size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("h{}", i));
    return names;
  }

  /// Place of each slot, as the launcher assigns them: ranks in the order of hosts, cross
  /// ranks among the hosts that have this local rank.
  template <typename Fn>
  void ForEachSlot(Fn fn) const {
    int size = 0;
    for (const int slots : slots_) size += slots;
    int rank = 0;
    for (size_t host = 0; host < slots_.size(); ++host) {
      for (int local = 0; local < slots_[host]; ++local, ++rank) {
        int cross_rank = 0, cross_size = 0;
        for (size_t other = 0; other < slots_.size(); ++other) {
          if (slots_[other] <= local) continue;
          cross_rank += other < host ? 1 : 0;
          ++cross_size;
        }
        fn(static_cast<int>(host), rank, size, local, slots_[host], cross_rank, cross_size);
      }
    }
  }

  KvAssignment Assignment() const {
    KvAssignment assignment;
    assignment.generation = generation_;
    ForEachSlot([&](int host, int rank, int size, int local, int local_size, int cross,
                    int cross_size) {
      assignment.Add(fmt::format("h{}", host), rank, size, local, local_size, cross, cross_size);
    });
    return assignment;
  }

  std::vector<FakeMesh> Meshes(const FakeHorovodMember& member) const {
    std::vector<FakeMesh> meshes;
    ForEachSlot(
        [&](int host, int rank, int size, int local, int local_size, int cross, int cross_size) {
          if (member.slot() != fmt::format("h{}:{}", host, local)) return;
          meshes = {{"global", rank, size},
                    {fmt::format("local_h{}", host), local, local_size},
                    {fmt::format("cross_{}", local), cross, cross_size}};
          if (scopes_ == Scopes::kThree) return;
          for (int i = 0; i < 3; ++i) {
            FakeMesh mesh = meshes[static_cast<size_t>(i)];
            mesh.scope += fmt::format("_process_set_hash_{:x}", size);
            meshes.push_back(mesh);
          }
        });
    return meshes;
  }

  void Fill() {
    ForEachSlot([&](int host, int, int, int local, int, int, int) {
      const std::string slot = fmt::format("h{}:{}", host, local);
      for (const auto& member : members_) {
        if (member->slot() == slot) return;
      }
      members_.push_back(std::make_unique<FakeHorovodMember>(network_, barriers_, host,
                                                             ++last_worker_, local, generation_));
    });
  }

  template <typename Predicate>
  void Retire(Predicate is_lost) {
    for (auto& member : members_) {
      if (!is_lost(*member)) continue;
      member->Kill();
      old_faults_.insert(old_faults_.end(), member->faults().begin(), member->faults().end());
      graveyard_.push_back(std::move(member));
    }
    std::erase(members_, nullptr);
  }

  bool IsMember(const FakeHorovodMember* member) const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const auto& other) { return other.get() == member; });
  }

  std::vector<int> slots_;
  FakeKvNetwork network_;
  FakeBarriers barriers_;
  FakeHorovodMember::Barrier barrier_ = FakeHorovodMember::Barrier::kBeforeDelete;
  Scopes scopes_ = Scopes::kSix;
  Generation generation_ = 0;
  int round_ = 0;
  int last_worker_ = 0;
  size_t ready_ = 0;
  size_t placed_ = 0;
  std::vector<std::unique_ptr<FakeHorovodMember>> members_;
  // Killed ones: events that speak of them may still be due.
  std::vector<std::unique_ptr<FakeHorovodMember>> graveyard_;
  std::vector<const FakeHorovodMember*> removed_;
  std::vector<std::string> old_faults_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_RENDEZVOUS_RENDEZVOUS_JOB_H_
