// SPDX-License-Identifier: Apache-2.0
#include "collective/async/negotiator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "collective/communicator.h"

namespace hvdray {
namespace {

Request AllReduceOf(const std::string& name, std::vector<int64_t> shape = {4}) {
  Request request;
  request.kind = RequestKind::kAllReduce;
  request.type = static_cast<uint8_t>(DataType::kFloat32);
  request.name = name;
  request.shape = std::move(shape);
  return request;
}

Request JoinOf(int64_t sequence = 0, bool is_on_device = false) {
  Request request;
  request.kind = RequestKind::kJoin;
  request.name = "join";
  request.sequence = sequence;
  request.is_on_device = is_on_device;
  return request;
}

// The negotiators of all ranks, fed alike.
class Ranks {
 public:
  explicit Ranks(int size, NegotiationSettings settings = {}) {
    for (int rank = 0; rank < size; ++rank) {
      all_.push_back(std::make_unique<Negotiator>(rank, size, settings));
    }
  }

  // One round; requests by rank. Ranks that come to different plans fail the test.
  Plan Round(const std::vector<std::vector<Request>>& requests, TimePoint now = {},
             int leaving = -1, int stalled = -1) {
    std::vector<std::string> messages;
    for (size_t rank = 0; rank < all_.size(); ++rank) {
      std::vector<OwnRequest*> sent;
      if (rank < requests.size()) {
        for (const Request& request : requests[rank]) {
          sent.push_back(&own_.emplace_back(OwnRequest{Encode(request)}));
        }
      }
      messages.push_back(
          all_[rank]->MessageOf(sent, {.is_leaving = static_cast<int>(rank) == leaving,
                                       .has_stalled = static_cast<int>(rank) == stalled}));
    }
    bytes = 0;
    for (const std::string& message : messages) bytes += message.size();
    const std::vector<std::string_view> views(messages.begin(), messages.end());
    std::vector<Plan> plans;
    for (auto& negotiator : all_) {
      Result<Plan> plan = negotiator->Round(views, now);
      EXPECT_TRUE(plan.ok()) << plan.status().ToString();
      plans.push_back(plan.ok() ? *plan : Plan());
      EXPECT_EQ(plans.back().batches, plans.front().batches);
      EXPECT_EQ(plans.back().end.ToString(), plans.front().end.ToString());
    }
    return plans.front();
  }

  Negotiator& operator[](size_t rank) { return *all_[rank]; }
  size_t bytes = 0;  // of the last round's messages

 private:
  std::vector<std::unique_ptr<Negotiator>> all_;
  std::deque<OwnRequest> own_;
};

std::vector<std::string> PlanNames(const Plan& plan) {
  std::vector<std::string> names;
  for (const Batch& batch : plan.batches) {
    for (const PlannedOperation& operation : batch) names.push_back(operation.request->name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(NegotiatorTest, AnOperationRunsWhenItIsThereOnAllRanksInAnyOrder) {
  Ranks ranks(2);
  EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf("a"), AllReduceOf("b")}, {AllReduceOf("c")}})),
            Names{});
  EXPECT_EQ(PlanNames(ranks.Round({{}, {AllReduceOf("b")}})), Names{"b"});
  EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf("c")}, {AllReduceOf("a")}})), (Names{"a", "c"}));
}

TEST(NegotiatorTest, KnownRequestsAreBits) {
  Ranks ranks(2);
  std::vector<Request> step;
  step.reserve(161);
  for (int i = 0; i < 161; ++i)
    step.push_back(AllReduceOf("gradient of layer " + std::to_string(i)));
  EXPECT_EQ(PlanNames(ranks.Round({step, step})).size(), 161U);
  EXPECT_GT(ranks.bytes, 10000U);
  EXPECT_EQ(PlanNames(ranks.Round({step, step})).size(), 161U);
  EXPECT_LT(ranks.bytes, 100U);
  step[7].shape = {5};
  EXPECT_EQ(PlanNames(ranks.Round({step, step})).size(), 161U);
  EXPECT_LT(ranks.bytes, 400U);
}

TEST(NegotiatorTest, NamesThatNeverRepeatAreForgotten) {
  Ranks ranks(2);
  for (int i = 0; i < 5000; ++i) {
    const Request request = AllReduceOf("noname." + std::to_string(i));
    ASSERT_EQ(
        PlanNames(ranks.Round({{request, AllReduceOf("same")}, {AllReduceOf("same"), request}}))
            .size(),
        2U);
  }
}

TEST(NegotiatorTest, WhatDiffersIsNamedWithItsRanks) {
  const auto error_of = [](const Request& one, const Request& other) {
    Ranks ranks(2);
    const Plan plan = ranks.Round({{one}, {other}});
    EXPECT_EQ(PlanNames(plan), Names{one.name});
    // The name can be used again.
    EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf(one.name)}, {AllReduceOf(one.name)}})),
              Names{one.name});
    EXPECT_EQ(plan.batches[0][0].error.code(), ErrorCode::kUsage);
    return plan.batches[0][0].error.message();
  };
  const Request plain = AllReduceOf("x");
  Request other = plain;
  other.shape = {2, 2};
  EXPECT_EQ(error_of(plain, other),
            "Mismatched shapes of allreduce 'x': rank 0 has [4], rank 1 has [2, 2]");
  other = plain;
  other.type = static_cast<uint8_t>(DataType::kBfloat16);
  EXPECT_EQ(error_of(plain, other),
            "Mismatched data types of allreduce 'x': rank 0 has float32, rank 1 has bfloat16");
  other = plain;
  other.op = static_cast<uint8_t>(ReduceOp::kMax);
  EXPECT_EQ(error_of(plain, other),
            "Mismatched reduction operations of allreduce 'x': rank 0 has sum, rank 1 has max");
  other = plain;
  other.kind = RequestKind::kBroadcast;
  EXPECT_EQ(error_of(plain, other),
            "Mismatched operations of allreduce 'x': rank 0 has allreduce, rank 1 has broadcast");
  other = plain;
  other.is_on_device = true;
  EXPECT_EQ(error_of(plain, other),
            "Mismatched devices of allreduce 'x': rank 0 has CPU, rank 1 has GPU");
  other = plain;
  other.postscale = 0.5;
  EXPECT_NE(error_of(plain, other).find("Mismatched scales"), std::string::npos);
  Request root = plain;
  root.kind = RequestKind::kBroadcast;
  other = root;
  other.root = 1;
  EXPECT_EQ(error_of(root, other),
            "Mismatched root ranks of broadcast 'x': rank 0 has 0, rank 1 has 1");
}

TEST(NegotiatorTest, RowsOfAllRanksAreInThePlan) {
  Ranks ranks(2);
  Request gather = AllReduceOf("g", {2, 3});
  gather.kind = RequestKind::kAllGather;
  Request more = gather;
  more.shape = {5, 3};
  Plan plan = ranks.Round({{gather}, {more}});
  EXPECT_EQ(plan.batches[0][0].rows, (std::vector<int64_t>{2, 5}));
  more.shape = {5, 4};
  EXPECT_FALSE(ranks.Round({{gather}, {more}}).batches[0][0].error.ok());

  gather.kind = more.kind = RequestKind::kAllToAll;
  more.shape = {3, 3};
  more.numbers = {1, 2};
  plan = ranks.Round({{gather}, {more}});
  EXPECT_EQ(plan.batches[0][0].rows, (std::vector<int64_t>{1, 1, 1, 2}));
  for (const std::vector<int64_t>& wrong :
       {std::vector<int64_t>{4, 0}, {1}, {-1, 2}, {INT64_MAX, INT64_MAX}}) {
    more.numbers = wrong;
    EXPECT_EQ(ranks.Round({{gather}, {more}}).batches[0][0].error.code(), ErrorCode::kUsage);
  }
}

TEST(NegotiatorTest, ANumberHasNoRows) {
  Ranks ranks(3);
  for (const RequestKind kind : {RequestKind::kAllGather, RequestKind::kAllToAll}) {
    Request number = AllReduceOf("a", {});
    number.kind = kind;
    Request vector = number;
    vector.shape = {3};
    const Plan plan = ranks.Round({{number}, {number}, {number}});
    EXPECT_NE(plan.batches[0][0].error.ToString().find("has no dimension"), std::string::npos);
    const Plan mixed = ranks.Round({{number}, {vector}, {number}});
    EXPECT_NE(mixed.batches[0][0].error.ToString().find("Mismatched shapes"), std::string::npos);
  }
}

TEST(NegotiatorTest, AGroupRunsOnceItIsWhole) {
  Ranks ranks(2);
  Request a = AllReduceOf("a");
  Request b = AllReduceOf("b");
  a.group = b.group = GroupOf({"a", "b"});
  a.group_size = b.group_size = 2;
  EXPECT_EQ(PlanNames(ranks.Round({{a, b}, {a}})), Names{});
  EXPECT_EQ(PlanNames(ranks.Round({{}, {b}})), (Names{"a", "b"}));
  EXPECT_EQ(PlanNames(ranks.Round({{b, a}, {a, b}})), (Names{"a", "b"}));
  EXPECT_EQ(GroupOf({"a", "b"}), GroupOf({"b", "a"}));
}

TEST(NegotiatorTest, AGroupFailsAsAWhole) {
  Ranks ranks(2);
  Request a = AllReduceOf("a");
  Request b = AllReduceOf("b");
  a.group = b.group = GroupOf({"a", "b"});
  a.group_size = b.group_size = 2;
  Request wrong = b;
  wrong.shape = {9};
  Plan plan = ranks.Round({{a, b}, {a, wrong}});
  ASSERT_EQ(PlanNames(plan), (Names{"a", "b"}));
  EXPECT_FALSE(plan.batches[0][0].error.ok());
  EXPECT_FALSE(plan.batches[1][0].error.ok());
  // A group on one rank only.
  plan = ranks.Round({{a, b}, {AllReduceOf("a")}});
  ASSERT_EQ(PlanNames(plan), (Names{"a", "b"}));
  EXPECT_NE(plan.batches[1][0].error.message().find("Mismatched groups of allreduce 'a'"),
            std::string::npos);
}

TEST(NegotiatorTest, SmallTensorsGoTogether) {
  NegotiationSettings settings;
  settings.small_bytes = 1000;
  settings.fusion_bytes = 64;
  Ranks ranks(2, settings);
  Request average = AllReduceOf("average");
  average.op = static_cast<uint8_t>(ReduceOp::kAverage);
  std::vector<Request> step{AllReduceOf("a"), AllReduceOf("large", {400}), average,
                            AllReduceOf("b", {8}), AllReduceOf("c", {8})};
  for (const char* name : {"of a GPU", "of a GPU, too"}) {
    step.push_back(AllReduceOf(name, {4}));
    step.back().is_on_device = true;
  }
  const Plan plan = ranks.Round({step, step});
  ASSERT_EQ(plan.batches.size(), 5U);
  EXPECT_EQ(plan.batches[4].size(), 2U);
  EXPECT_EQ(plan.batches[0].size(), 2U);  // a, b: 48 bytes, c would be too many
  EXPECT_EQ(plan.batches[0][1].request->name, "b");
  EXPECT_EQ(plan.batches[1][0].request->name, "large");
  EXPECT_EQ(plan.batches[3][0].request->name, "c");
}

TEST(NegotiatorTest, WhoHasJoinedAddsZerosAndTheLastIsNamed) {
  Ranks ranks(3);
  EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf("a")}, {JoinOf(7)}, {}})), Names{});
  Plan plan = ranks.Round({{}, {}, {AllReduceOf("a")}});
  ASSERT_EQ(PlanNames(plan), Names{"a"});
  EXPECT_EQ(plan.batches[0][0].absent, std::vector<int>{1});
  Request gather = AllReduceOf("g");
  gather.kind = RequestKind::kAllGather;
  plan = ranks.Round({{gather}, {}, {gather}});
  EXPECT_EQ(plan.batches[0][0].error.message(),
            "allgather 'g': only an allreduce can run after rank 1 has joined");
  Request on_device = AllReduceOf("d");
  on_device.is_on_device = true;
  EXPECT_FALSE(ranks.Round({{on_device}, {}, {on_device}}).batches[0][0].error.ok());
  // A late one frees what waited.
  EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf("b")}, {}, {}})), Names{});
  EXPECT_EQ(PlanNames(ranks.Round({{}, {}, {JoinOf(3)}})), Names{"b"});
  plan = ranks.Round({{JoinOf(5)}, {}, {}});
  ASSERT_EQ(PlanNames(plan), Names{"join"});
  EXPECT_EQ(plan.batches[0][0].last_rank, 0);
  EXPECT_EQ(plan.batches[0][0].sequence, 7);
  EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf("a")}, {}, {AllReduceOf("a")}})), Names{});
}

TEST(NegotiatorTest, WhatCameBeforeABarrierEndsBeforeIt) {
  Ranks ranks(2);
  Request barrier;
  barrier.name = "barrier";
  // Known requests are in front of new ones in a message.
  EXPECT_EQ(PlanNames(ranks.Round({{barrier}, {barrier}})), Names{"barrier"});
  const std::vector<Request> both = {AllReduceOf("new"), barrier};
  EXPECT_EQ(PlanNames(ranks.Round({both, both})), (Names{"new", "barrier"}));
  EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf("late"), barrier}, {}})), Names{});
  EXPECT_EQ(PlanNames(ranks.Round({{}, {AllReduceOf("late"), barrier}})),
            (Names{"late", "barrier"}));
}

TEST(NegotiatorTest, ProcessSetsComeAndGo) {
  Ranks ranks(3);
  Request add = AllReduceOf("add", {});
  add.kind = RequestKind::kAddProcessSet;
  add.numbers = {0, 2};
  Plan plan = ranks.Round({{add}, {add}, {add}});
  EXPECT_EQ(plan.batches[0][0].process_set, 1);
  EXPECT_EQ(ranks[1].ProcessSets().at(1), (std::vector<int>{0, 2}));
  // Two of one name, each in its set.
  Request inner = AllReduceOf("a");
  inner.process_set = 1;
  EXPECT_EQ(PlanNames(ranks.Round({{AllReduceOf("a"), inner}, {AllReduceOf("a")}, {inner}})),
            Names{"a"});
  EXPECT_EQ(PlanNames(ranks.Round({{}, {}, {AllReduceOf("a")}})), Names{"a"});
  EXPECT_FALSE(ranks.Round({{add}, {add}, {add}}).batches[0][0].error.ok());  // it is there
  Request differs = add;
  differs.numbers = {0, 1};
  EXPECT_NE(ranks.Round({{add}, {add}, {differs}}).batches[0][0].error.message().find("Mismatched"),
            std::string::npos);

  Request remove = add;
  remove.kind = RequestKind::kRemoveProcessSet;
  remove.numbers = {1};
  Request join = JoinOf();
  join.process_set = 1;
  plan = ranks.Round({{remove, inner, join}, {remove}, {remove}});
  ASSERT_EQ(PlanNames(plan), (Names{"a", "add", "join"}));
  EXPECT_FALSE(plan.batches[0][0].error.ok());
  EXPECT_TRUE(plan.batches[1][0].error.ok());
  EXPECT_FALSE(plan.batches[2][0].error.ok());
  plan = ranks.Round({{inner}, {}, {inner}});
  ASSERT_EQ(plan.batches.size(), 2U);
  EXPECT_FALSE(plan.batches[0][0].error.ok());
  EXPECT_FALSE(ranks.Round({{remove}, {remove}, {remove}}).batches[0][0].error.ok());
  EXPECT_EQ(ranks[0].ProcessSets().size(), 1U);
}

TEST(NegotiatorTest, WhatComesWithTheEndOfItsProcessSetIsRefused) {
  Ranks ranks(2);
  Request add = AllReduceOf("add", {});
  add.kind = RequestKind::kAddProcessSet;
  add.numbers = {0};
  EXPECT_EQ(ranks.Round({{add}, {add}}).batches[0][0].process_set, 1);
  Request remove = add;
  remove.kind = RequestKind::kRemoveProcessSet;
  remove.numbers = {1};
  Request inner = AllReduceOf("a");
  inner.process_set = 1;
  EXPECT_EQ(PlanNames(ranks.Round({{remove}, {}})), Names{});
  const Plan plan = ranks.Round({{inner}, {remove}});
  ASSERT_EQ(PlanNames(plan), (Names{"a", "add"}));
  EXPECT_NE(plan.batches[0][0].error.message().find("has been removed"), std::string::npos);
}

TEST(NegotiatorTest, WhatWaitsIsNamedWithTheRanksThatAreMissing) {
  using std::chrono::seconds;
  Ranks ranks(3);
  EXPECT_EQ(ranks[0].OldestSince(), TimePoint::max());
  (void)ranks.Round({{AllReduceOf("a")}, {}, {}}, TimePoint(seconds(1)));
  (void)ranks.Round({{AllReduceOf("b")}, {AllReduceOf("a")}, {JoinOf()}}, TimePoint(seconds(2)));
  const std::vector<WaitingOperation> waiting = ranks[2].Waiting();
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].name, "b");
  EXPECT_EQ(waiting[0].missing, std::vector<int>{1});
  EXPECT_EQ(ranks[1].OldestSince(), TimePoint(seconds(2)));
}

TEST(NegotiatorTest, TheEndHasItsReason) {
  Ranks ranks(2);
  const std::vector<std::string> messages = {
      ranks[0].MessageOf({}, {.is_leaving = true, .why = "raised ValueError: the batch\nis empty"}),
      ranks[1].MessageOf({}, {})};
  const std::vector<std::string_view> views(messages.begin(), messages.end());
  const Result<Plan> plan = ranks[1].Round(views, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->end.message(),
            "rank 0 raised ValueError: the batch\\x0ais empty, and has shut down");

  Ranks others(3);
  others.Round({{AllReduceOf("a"), AllReduceOf("b")}, {AllReduceOf("a")}});
  EXPECT_EQ(others.Round({}, {}, -1, 0).end.message(),
            "a waited too long for rank 2, which never submitted it");
}

TEST(NegotiatorTest, AllEndsAfterWhatIsThere) {
  Ranks ranks(2);
  Plan plan = ranks.Round({{AllReduceOf("a"), AllReduceOf("b")}, {AllReduceOf("a")}}, {}, 1);
  EXPECT_EQ(PlanNames(plan), Names{"a"});
  EXPECT_EQ(plan.end.code(), ErrorCode::kAborted);
  EXPECT_EQ(plan.end.message(), "rank 1 has shut down");
  Ranks others(2);
  EXPECT_EQ(others.Round({}, {}, -1, 0).end.code(), ErrorCode::kDeadlineExceeded);
}

TEST(NegotiatorTest, WhatNoRankCanSendEndsIt) {
  const auto round = [](const std::string& message) {
    Negotiator negotiator(0, 2, {});
    const std::vector<std::string_view> messages{message, message};
    const Status status = negotiator.Round(messages, {}).status();
    const bool is_other = !message.empty() && message[0] == 9;
    EXPECT_EQ(status.message() == "ranks have different versions of libhvdray", is_other);
    return status.code();
  };
  const std::string good = Encode(RoundMessage{});
  EXPECT_EQ(round(""), ErrorCode::kAborted);
  std::string other_version = good;
  other_version[0] = 9;
  EXPECT_EQ(round(other_version), ErrorCode::kAborted);
  RoundMessage unknown;
  unknown.known = {1};
  EXPECT_EQ(round(Encode(unknown)), ErrorCode::kAborted);
  const std::string request = Encode(AllReduceOf("a"));
  RoundMessage twice;
  twice.fresh = {request, request};
  EXPECT_EQ(round(Encode(twice)), ErrorCode::kAborted);
  RoundMessage once;
  once.fresh = {request};
  const std::string whole = Encode(once);
  for (size_t size = 0; size + request.size() < whole.size(); ++size) {
    EXPECT_EQ(round(whole.substr(0, size)), ErrorCode::kAborted) << size;
  }
  for (size_t size = 0; size < 40; ++size) {
    RoundMessage cut;
    cut.fresh = {std::string_view(request).substr(0, size)};
    EXPECT_EQ(round(Encode(cut)), ErrorCode::kAborted) << size;
  }
}

}  // namespace
}  // namespace hvdray
