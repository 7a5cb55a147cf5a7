// SPDX-License-Identifier: Apache-2.0
// Random schedules: what each rank submits, in which order and in which round, with disagreements,
// groups, process sets, joins and ranks that leave. All ranks come to one plan, which has an
// operation neither too early nor too late nor twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "collective/async/negotiator.h"
#include "collective/communicator.h"

namespace hvdray {
namespace {

using Name = std::pair<int, std::string>;  // with its process set

class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed) {
    size_ = Pick(2, 5);
    NegotiationSettings settings;
    settings.small_bytes = static_cast<size_t>(Pick(0, 200));
    settings.fusion_bytes = static_cast<size_t>(Pick(0, 400));
    settings.fuses_groups = Pick(0, 1) == 1;
    for (int rank = 0; rank < size_; ++rank) {
      ranks_.push_back(std::make_unique<Negotiator>(rank, size_, settings));
    }
    sets_ = ranks_[0]->ProcessSets();
    queued_.resize(static_cast<size_t>(size_));
    in_flight_.resize(static_cast<size_t>(size_));
    own_.resize(static_cast<size_t>(size_));
    has_joined_.resize(static_cast<size_t>(size_));
  }

  void Run() {
    const int steps = Pick(1, 3);
    for (int step = 0; step < steps && !has_ended_; ++step) {
      QueueStep(step);
      if (Pick(0, 3) == 0) QueueSetChange();
      if (Pick(0, 5) == 0) QueueJoin();
      const bool may_leave = Pick(0, 9) == 0;
      while (!has_ended_ && std::any_of(queued_.begin(), queued_.end(),
                                        [](const auto& queue) { return !queue.empty(); })) {
        Round(may_leave);
        if (testing::Test::HasFailure()) return;
      }
    }
    if (has_ended_) return;
    // Everybody has submitted everything: what is left was submitted by some only.
    std::map<Name, std::vector<int>> waiting;
    for (const WaitingOperation& each : ranks_[0]->Waiting()) {
      waiting[{each.process_set, each.name}] = each.missing;
    }
    for (int rank = 0; rank < size_; ++rank) {
      for (const auto& [name, request] : in_flight_[static_cast<size_t>(rank)]) {
        if (request.kind == RequestKind::kJoin) continue;
        ASSERT_TRUE(waiting.contains(name)) << name.second << " is forgotten";
      }
    }
  }

 private:
  int Pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  // Operations that all members submit, each in an order of its own; now and then one differs or
  // is missing.
  void QueueStep(int step) {
    const int count = Pick(1, 8);
    for (int i = 0; i < count; ++i) {
      auto set = std::next(sets_.begin(), Pick(0, static_cast<int>(sets_.size()) - 1));
      const int members = Pick(0, 3) == 0 ? Pick(2, 4) : 1;  // of a group
      std::vector<Request> group;
      group.reserve(static_cast<size_t>(members));
      for (int k = 0; k < members; ++k) group.push_back(Operation(step, i, k, set->first));
      if (members > 1) {
        std::vector<std::string_view> names;
        names.reserve(group.size());
        for (const Request& request : group) names.push_back(request.name);
        for (Request& request : group) {
          request.group = GroupOf(names);
          request.group_size = static_cast<uint32_t>(members);
        }
      }
      for (const int rank : set->second) {
        if (Pick(0, 60) == 0) continue;
        std::vector<Request> own = group;
        if (Pick(0, 40) == 0) own[0].shape.push_back(3);
        if (Pick(0, 60) == 0) own.back().type = static_cast<uint8_t>(DataType::kInt8);
        std::shuffle(own.begin(), own.end(), random_);
        auto& queue = queued_[static_cast<size_t>(rank)];
        queue.insert(queue.begin() + Pick(0, static_cast<int>(queue.size())), std::move(own));
      }
    }
  }

  Request Operation(int step, int index, int member, int set) {
    Request request;
    request.kind = Pick(0, 2) > 0 ? RequestKind::kAllReduce : static_cast<RequestKind>(Pick(0, 5));
    // Half of the names come back with each step.
    request.name = index % 2 == 0 ? "" : std::to_string(step) + ".";
    request.name += std::to_string(index) + "." + std::to_string(member);
    request.type = static_cast<uint8_t>(DataType::kFloat32);
    request.process_set = set;
    request.shape = {static_cast<int64_t>(sets_.at(set).size()) * Pick(1, 5)};
    return request;
  }

  void QueueSetChange() {
    Request request;
    request.kind = RequestKind::kAddProcessSet;
    request.name = "change of sets";
    if (sets_.size() > 1 && Pick(0, 1) == 0) {
      request.kind = RequestKind::kRemoveProcessSet;
      request.numbers = {std::next(sets_.begin())->first};
    } else {
      for (int rank = 0; rank < size_; ++rank) {
        if (Pick(0, 1) == 0) request.numbers.push_back(rank);
      }
      if (request.numbers.empty()) request.numbers = {0};
    }
    for (auto& queue : queued_) queue.push_back({request});
  }

  void QueueJoin() {
    const auto set = std::next(sets_.begin(), Pick(0, static_cast<int>(sets_.size()) - 1));
    for (const int rank : set->second) {
      Request request;
      request.kind = RequestKind::kJoin;
      request.name = "join";
      request.process_set = set->first;
      request.sequence = Pick(0, 100);
      queued_[static_cast<size_t>(rank)].push_back({request});
    }
  }

  void Round(bool may_leave) {
    const int leaving = may_leave && Pick(0, 5) == 0 ? Pick(0, size_ - 1) : -1;
    const bool is_cut = may_leave && Pick(0, 20) == 0;  // as a death in the middle of a message
    std::vector<std::string> messages;
    for (int rank = 0; rank < size_; ++rank) {
      const auto at = static_cast<size_t>(rank);
      std::vector<OwnRequest*> sent;
      auto& queue = queued_[at];
      for (int takes = Pick(0, 6); takes > 0 && !queue.empty(); --takes) {
        const std::vector<Request>& group = queue.front();
        const auto is_free = [&](const Request& request) {
          return !in_flight_[at].contains({request.process_set, request.name}) &&
                 sets_.contains(request.process_set);
        };
        // What submit refuses: it is dropped here.
        if (std::all_of(group.begin(), group.end(), is_free)) {
          for (const Request& request : group) {
            in_flight_[at][{request.process_set, request.name}] = request;
            if (request.kind == RequestKind::kJoin) has_joined_[at][request.process_set] = true;
            OwnRequest& own = own_[at][{request.process_set, request.name}];
            std::string encoded = Encode(request);
            if (own.encoded != encoded) own = {std::move(encoded)};
            sent.push_back(&own);
          }
        }
        queue.erase(queue.begin());
      }
      messages.push_back(ranks_[at]->MessageOf(sent, {.is_leaving = rank == leaving}));
    }
    if (is_cut) messages.back().resize(messages.back().size() / 2);
    const std::vector<std::string_view> views(messages.begin(), messages.end());
    std::vector<Result<Plan>> plans;
    for (auto& negotiator : ranks_) plans.push_back(negotiator->Round(views, {}));
    for (const Result<Plan>& plan : plans) {
      ASSERT_EQ(plan.ok(), plans[0].ok());
      ASSERT_EQ(plan.status().ToString(), plans[0].status().ToString());
      if (!plan.ok()) continue;
      ASSERT_EQ(plan->batches, plans[0]->batches);
      ASSERT_EQ(plan->end.ToString(), plans[0]->end.ToString());
    }
    if (!plans[0].ok()) {
      ASSERT_TRUE(is_cut);
      has_ended_ = true;
      return;
    }
    for (size_t i = 0; i < plans[0]->batches.size(); ++i) {
      for (size_t k = 0; k < plans[0]->batches[i].size(); ++k) {
        std::vector<const OwnRequest*> owns;
        for (const Result<Plan>& plan : plans) owns.push_back(plan->batches[i][k].own);
        Apply(plans[0]->batches[i][k], owns);
      }
    }
    has_ended_ = !plans[0]->end.ok();
    ASSERT_EQ(has_ended_, leaving >= 0);
    ExpectNothingIsLate();
    sets_ = ranks_[0]->ProcessSets();
  }

  void Apply(const PlannedOperation& operation, const std::vector<const OwnRequest*>& owns) {
    const Request& request = *operation.request;
    const Name name{request.process_set, request.name};
    const bool is_join = request.kind == RequestKind::kJoin;
    for (int rank = 0; rank < size_; ++rank) {
      const auto at = static_cast<size_t>(rank);
      const bool is_absent = std::find(operation.absent.begin(), operation.absent.end(), rank) !=
                             operation.absent.end();
      const bool is_member = std::find(sets_.at(name.first).begin(), sets_.at(name.first).end(),
                                       rank) != sets_.at(name.first).end();
      const bool has_own = is_member && !is_absent;
      ASSERT_EQ(owns[at], has_own ? &own_[at].at(name) : nullptr) << name.second;
      if (!is_member) continue;
      if (is_absent) {
        ASSERT_TRUE(!operation.error.ok() || has_joined_[at][name.first]);
      } else {
        ASSERT_EQ(in_flight_[at].erase(name), 1U) << name.second << " on rank " << rank;
      }
      if (is_join) has_joined_[at][name.first] = false;
    }
  }

  // No operation that is in no group is there on all ranks after a round.
  void ExpectNothingIsLate() {
    for (const auto& [name, request] : in_flight_[0]) {
      if (request.group_size > 0) continue;
      const std::vector<int>& members = sets_.at(name.first);
      ASSERT_FALSE(std::all_of(members.begin(), members.end(),
                               [&, &key = name](int rank) {
                                 return in_flight_[static_cast<size_t>(rank)].contains(key);
                               }))
          << name.second << " is there on all ranks and did not run";
    }
  }

  std::mt19937_64 random_;
  int size_ = 0;
  std::vector<std::unique_ptr<Negotiator>> ranks_;
  std::map<int, std::vector<int>> sets_;
  std::vector<std::vector<std::vector<Request>>> queued_;  // by rank; groups
  std::vector<std::map<Name, Request>> in_flight_;         // by rank
  std::vector<std::map<Name, OwnRequest>> own_;            // by rank
  std::vector<std::map<int, bool>> has_joined_;            // by rank and set
  bool has_ended_ = false;
};

// Ten times as slow with them.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSchedules = 1000;
#else
constexpr uint64_t kSchedules = 10000;
#endif

TEST(NegotiatorPropertyTest, RandomSchedulesGiveOnePlanAndForgetNothing) {
  for (uint64_t seed = 0; seed < kSchedules; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Schedule(seed).Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hvdray
