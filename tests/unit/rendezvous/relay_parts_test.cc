// SPDX-License-Identifier: Apache-2.0
// What always holds for the parts of a relay core, over random calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/held_requests.h"
#include "rendezvous/mesh_scopes.h"
#include "rendezvous/upstream_questions.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHold{20};

// A request as the test remembers it. No `key`: it waits for no value.
struct Model {
  int worker = 0;
  std::string key;
  TimePoint deadline;
  bool is_overdue = false;
};

void ExpectSame(const HeldRequests& held, const std::map<uint64_t, Model>& models) {
  ASSERT_EQ(held.size(), models.size());
  std::map<int, std::set<uint64_t>> of_worker;
  std::map<std::string, std::set<uint64_t>> of_key;
  for (const auto& [id, model] : models) {
    const HeldRequest* request = held.Find(id);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->worker, model.worker);
    EXPECT_EQ(request->is_overdue, model.is_overdue);
    of_worker[model.worker].insert(id);
    if (!model.key.empty()) of_key[model.key].insert(id);
  }
  for (int worker = 0; worker < 4; ++worker) {
    const std::vector<uint64_t> listed = held.Of(worker);
    EXPECT_EQ(held.CountOf(worker), listed.size());
    ASSERT_EQ(std::set(listed.begin(), listed.end()), of_worker[worker]);
  }
  const std::vector<std::string> keys = held.AwaitedKeys("global");
  for (const std::string key : {"0", "1", "2"}) {
    const std::vector<uint64_t> listed = held.Waiters("global", key);
    ASSERT_EQ(std::set(listed.begin(), listed.end()), of_key[key]);
    ASSERT_EQ(std::count(keys.begin(), keys.end(), key), of_key[key].empty() ? 0 : 1);
  }
}

TEST(HeldRequestsTest, EachStandsInItsListsUntilItEndsAndIsOverdueOnce) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    HeldRequests held(kHold);
    std::map<uint64_t, Model> models;
    RelayActions out;
    TimePoint now{std::chrono::seconds(1)};
    for (uint64_t id = 1; id < 120 && !testing::Test::HasFailure(); ++id) {
      now += milliseconds(dice() % 4);
      const int worker = static_cast<int>(dice() % 4);
      const auto any = models.empty()
                           ? models.end()
                           : std::next(models.begin(), static_cast<int>(dice() % models.size()));
      const uint32_t act = dice() % 8;
      if (act < 3) {
        const std::string key = std::to_string(dice() % 3);
        const std::string target = "/global/" + key;
        held.Wait(id, worker, ParseKvRequest("GET", target, false).call, now);
        models[id] = {worker, key, now + kHold};
      } else if (act < 4) {
        held.Hold(id, {.worker = worker, .kind = HeldRequest::Kind::kAsked});
        models[id] = {worker, {}, {}};
      } else if (act < 6 && any != models.end()) {
        if (act == 4) {
          held.End(any->first);
        } else {
          held.Answer(any->first, 200, nullptr, &out);
          EXPECT_EQ(out.replies.back().request, any->first);
        }
        models.erase(any);
      } else if (act == 6) {
        while (const auto overdue = held.TakeOverdue(now)) {
          ASSERT_TRUE(models.contains(*overdue));
          EXPECT_FALSE(models[*overdue].is_overdue);
          EXPECT_LE(models[*overdue].deadline, now);
          models[*overdue].is_overdue = true;
        }
        for (const auto& [other, model] : models) {
          EXPECT_TRUE(model.key.empty() || model.is_overdue || model.deadline > now) << other;
        }
      }
      ExpectSame(held, models);
    }
    while (!models.empty()) {
      held.End(models.begin()->first);
      models.erase(models.begin());
    }
    ExpectSame(held, models);
    EXPECT_EQ(held.NextDeadline(), std::nullopt);
  }
}

TEST(UpstreamQuestionsTest, AQuestionIsOpenUntilItIsClosedAndOnlyThoseForARankOutliveAStore) {
  using Kind = UpstreamQuestion::Kind;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    RelayStats stats;
    UpstreamQuestions questions(stats);
    std::map<uint64_t, Kind> open;
    RelayActions out;
    Generation generation = 0;
    uint64_t last = 0;
    for (int step = 0; step < 100; ++step) {
      const uint32_t act = dice() % 8;
      const uint64_t some = last == 0 ? 0 : 1 + dice() % last;
      if (act < 4) {
        const auto kind = static_cast<Kind>(dice() % 4);
        const uint64_t id = questions.Ask(KvOp::kGet, 0, "global", "0", nullptr, &out);
        EXPECT_GT(id, last);
        EXPECT_EQ(out.questions.back().id, id);
        EXPECT_EQ(out.questions.back().generation, generation);
        last = id;
        if (act == 3) continue;  // its answer is ignored
        questions.Expect(id, {.kind = kind});
        open[id] = kind;
      } else if (act == 4 && open.contains(some)) {
        EXPECT_EQ(questions.Take(some).kind, open[some]);
        open.erase(some);
      } else if (act == 5) {
        questions.Drop(some);
        open.erase(some);
      } else if (act == 6 && dice() % 4 == 0) {
        questions.Begin(++generation);
        std::erase_if(open, [](const auto& entry) { return entry.second != Kind::kRankAndSize; });
      }
      for (uint64_t id = 0; id <= last; ++id) {
        ASSERT_EQ(questions.Find(id) != nullptr, open.contains(id)) << id;
      }
    }
    EXPECT_EQ(stats.upstream_questions, out.questions.size());
  }
}

// The launcher of MeshScopes: a store that answers late, in order.
class MeshScopesModel {
 public:
  explicit MeshScopesModel(uint32_t seed) : dice_(seed) {
    questions_.Begin(1);
    for (int step = 0; step < 150; ++step) Step();
    while (!asked_.empty()) AnswerNext();
    now_ += 2 * kHold;
    scopes_.OnTick(now_, &out_);
    Collect();
    EXPECT_EQ(held_.size(), 0U) << "each wait ends";
    EXPECT_EQ(waiting_.size(), 0U);
    scopes_.Clear();
    EXPECT_EQ(scopes_.cached_bytes(), 0U);
  }

 private:
  static constexpr size_t kCacheBytes = 700;  // of which a value takes 130 to 180

  void Step() {
    now_ += milliseconds(dice_() % 5);
    const std::string scope = dice_() % 2 == 0 ? "global" : "local_h";
    const std::string key = std::to_string(dice_() % 4);
    const std::string target = "/" + scope + "/" + key;
    const uint32_t act = dice_() % 16;
    if (act < 6) {
      const uint64_t id = ++last_request_;
      waiting_[id] = scope + "/" + key;
      EXPECT_TRUE(scopes_.Get(0, id, ParseKvRequest("GET", target, false).call, now_, &out_));
    } else if (act < 9) {
      const auto value = std::make_shared<const std::string>(dice_() % 50, 'v');
      const uint64_t stamp = scopes_.OnPut(ParseKvRequest("PUT", target, true).call, value);
      const uint64_t id = questions_.Ask(KvOp::kPut, 0, scope, key, value, &out_);
      questions_.Expect(id, {.stamp = stamp, .scope = scope, .key = key, .value = value});
    } else if (act == 9) {
      const KvCall call = ParseKvRequest("DELETE", target, false).call;
      scopes_.Drop(call, &out_);
      questions_.Ask(KvOp::kDelete, 0, scope, key, nullptr, &out_);
      scopes_.FollowAgain(call, now_, &out_);
    } else if (act < 12) {
      scopes_.OnTick(now_, &out_);
    } else {
      AnswerNext();
    }
    Collect();
    EXPECT_LE(scopes_.cached_bytes(), kCacheBytes);
    for (const std::string name : {"global", "local_h"}) {
      EXPECT_TRUE(held_.AwaitedKeys(name).empty() || followed_.contains(name));
    }
  }

  void Collect() {
    for (KvQuestion& question : out_.questions) {
      EXPECT_TRUE(question.op != KvOp::kFollow || followed_.insert(question.scope).second);
      if (question.op == KvOp::kUnfollow) followed_.erase(question.scope);
      asked_.push_back(std::move(question));
    }
    out_.questions.clear();
    for (const RelayReply& reply : out_.replies) {
      EXPECT_EQ(waiting_.erase(reply.request), 1U) << "each is answered once";
      EXPECT_TRUE(reply.status == 200 || reply.status == 404);
      EXPECT_EQ(held_.Find(reply.request), nullptr);
    }
    out_.replies.clear();
  }

  void AnswerNext() {
    if (asked_.empty()) return;
    const KvQuestion question = std::move(asked_.front());
    asked_.pop_front();
    auto& values = store_[question.scope];
    const auto found = values.find(question.key);
    if (question.op == KvOp::kDelete) values.clear();
    if (question.op == KvOp::kPut) {
      values[question.key] = question.value;
      // To this relay's own follow, too, as the store does.
      const auto follow = follows_.find(question.scope);
      if (follow != follows_.end()) Reach({follow->second, 1, 200, question.key, question.value});
      Reach({question.id, 1, 200, {}, nullptr});
    } else if (question.op == KvOp::kGet) {
      const bool is_there = found != values.end();
      Reach({question.id, 1, is_there ? 200 : 404, {}, is_there ? found->second : nullptr});
    } else if (question.op == KvOp::kUnfollow) {
      follows_.erase(question.scope);
    } else if (question.op == KvOp::kFollow) {
      follows_[question.scope] = question.id;
      for (const auto& [key, value] : values) Reach({question.id, 1, 200, key, value});
      Reach({question.id, 1, 404, {}, nullptr});
    }
    Collect();
  }

  void Reach(const KvAnswer& answer) {
    const UpstreamQuestion* open = questions_.Find(answer.id);
    if (open == nullptr) return;
    if (open->kind == UpstreamQuestion::Kind::kFollow) {
      return scopes_.OnFollowed(answer, open->scope, &out_);
    }
    const UpstreamQuestion question = questions_.Take(answer.id);
    if (question.kind == UpstreamQuestion::Kind::kFetch) {
      scopes_.OnFetched(question, answer, &out_);
    } else {
      scopes_.OnStored(question, &out_);
    }
  }

  std::mt19937 dice_;
  RelayStats stats_;
  HeldRequests held_{kHold};
  UpstreamQuestions questions_{stats_};
  MeshScopes scopes_{
      {.cache_bytes = kCacheBytes, .is_barrier_held = true}, held_, questions_, stats_};
  RelayActions out_;
  TimePoint now_{std::chrono::seconds(1)};
  uint64_t last_request_ = 0;
  std::map<uint64_t, std::string> waiting_;
  std::set<std::string> followed_;
  std::deque<KvQuestion> asked_;
  std::map<std::string, std::map<std::string, KvValue>> store_;
  std::map<std::string, uint64_t> follows_;
};

TEST(MeshScopesTest, TheCacheKeepsItsLimitAndWhoWaitsIsFollowedAndAnsweredOnce) {
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    MeshScopesModel model(seed);
  }
}

}  // namespace
}  // namespace hvdray
