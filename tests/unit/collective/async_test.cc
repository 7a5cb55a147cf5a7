// SPDX-License-Identifier: Apache-2.0
// async.h with ranks that are threads of one process; processes are in
// tests/integration/async_test.py.
#include "collective/async/async.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collective/async/async_handle.h"
#include "collective/hvdray.h"
#include "tests/fakes/collective_suite.h"
#include "tests/fakes/rank_threads.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

// One rank, as C has it.
class AsyncRank {
 public:
  explicit AsyncRank(const CommunicatorOptions& options, AsyncSettings settings = {})
      : rank(options.rank), size(options.size) {
    auto made = std::make_unique<hvdray_async>();
    Result<std::unique_ptr<AsyncCore>> core = AsyncCore::Make(options, settings);
    EXPECT_TRUE(core.ok()) << core.status().ToString();
    if (!core.ok()) return;
    made->core = std::move(*core);
    made->place.rank = rank;
    async = made.release();
  }
  ~AsyncRank() { hvdray_async_free(async); }

  // One that begins; -1: refused.
  int64_t Begin(const hvdray_request& request) {
    int64_t handle = -1;
    return hvdray_async_submit(async, &request, 1, &handle) == 0 ? handle : -1;
  }
  int Run(const hvdray_request& request) {
    const int64_t handle = Begin(request);
    return handle < 0 ? -1 : hvdray_async_wait(async, handle);
  }
  hvdray_result ResultOf(int64_t handle) {
    hvdray_result result{};
    EXPECT_EQ(hvdray_async_result(async, handle, &result), 0) << hvdray_error();
    return result;
  }
  int AddSet(const std::vector<int>& ranks) {
    hvdray_request request{};
    request.kind = HVDRAY_ADD_PROCESS_SET;
    request.ranks = ranks.data();
    request.rank_count = ranks.size();
    const int64_t handle = Begin(request);
    EXPECT_EQ(hvdray_async_wait(async, handle), 0) << hvdray_error();
    return ResultOf(handle).process_set;
  }

  int rank;
  int size;
  hvdray_async* async = nullptr;
};

// A tensor and the request for it.
struct Sent {
  Sent(int kind, std::string named, std::vector<int64_t> dimensions,
       hvdray_type type = HVDRAY_FLOAT32)
      : name(std::move(named)), shape(std::move(dimensions)) {
    request.kind = kind;
    request.type = type;
    request.device = -1;
    request.prescale = request.postscale = 1;
    request.context = this;
    request.allocate = [](void* context, const int64_t* dims, int count) -> void* {
      auto* sent = static_cast<Sent*>(context);
      size_t elements = 1;
      for (int i = 0; i < count; ++i) elements *= static_cast<size_t>(dims[i]);
      sent->out.resize(elements);
      return sent->out.data();
    };
  }
  // In place, of floats.
  Sent& With(std::vector<float> values) {
    in = std::move(values);
    return *this;
  }
  hvdray_request Get() {
    request.name = name.c_str();
    request.shape = shape.data();
    request.dimensions = static_cast<int>(shape.size());
    if (request.input == nullptr) request.input = in.data();
    const bool is_in_place = request.kind == HVDRAY_ALLREDUCE || request.kind == HVDRAY_BROADCAST;
    if (is_in_place && request.output == nullptr) request.output = in.data();
    return request;
  }

  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> in;
  std::vector<float> out;
  hvdray_request request{};
};

Sent SumOf(const std::string& name, std::vector<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  return std::move(Sent(HVDRAY_ALLREDUCE, name, {count}).With(std::move(values)));
}

using Floats = std::vector<float>;

TEST(AsyncTest, OneRankNeedsNoJob) {
  hvdray_async* async = nullptr;
  ASSERT_EQ(hvdray_async_init("alone", &async), 0) << hvdray_error();
  hvdray_place place{};
  hvdray_async_place(async, &place);
  EXPECT_EQ(place.size, 1);
  EXPECT_EQ(place.local_size, 1);
  Sent sum = SumOf("a", {1, 2});
  sum.request.postscale = 3;
  const hvdray_request request = sum.Get();
  int64_t handle = 0;
  ASSERT_EQ(hvdray_async_submit(async, &request, 1, &handle), 0) << hvdray_error();
  EXPECT_EQ(hvdray_async_wait(async, handle), 0) << hvdray_error();
  EXPECT_EQ(sum.in, (Floats{3, 6}));
  int64_t ended[4] = {};
  EXPECT_EQ(hvdray_async_reap(async, ended, 4), 1U);
  EXPECT_EQ(ended[0], handle);
  EXPECT_EQ(hvdray_async_reap(async, ended, 4), 0U);
  hvdray_async_release(async, handle);
  EXPECT_EQ(hvdray_async_poll(async, handle), -1);
  EXPECT_EQ(hvdray_async_wait(async, handle), 101);
  hvdray_async_shutdown(async);
  hvdray_async_shutdown(async);
  EXPECT_EQ(hvdray_async_submit(async, &request, 1, &handle), 401);
  hvdray_async_free(async);
  hvdray_async_free(nullptr);
  // Again in the same process; the handle is new.
  ASSERT_EQ(hvdray_async_init("alone", &async), 0) << hvdray_error();
  int64_t later = 0;
  ASSERT_EQ(hvdray_async_submit(async, &request, 1, &later), 0) << hvdray_error();
  EXPECT_GT(later, handle);
  hvdray_async_free(async);
}

TEST(AsyncTest, SettingsAreHorovodsVariables) {
  Environment environment;
  Result<AsyncSettings> settings = AsyncSettingsFrom(environment);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->cycle_ns, 0);
  EXPECT_EQ(settings->stall_ns, 60'000'000'000);
  EXPECT_EQ(settings->stall_shutdown_ns, 0);
  EXPECT_EQ(settings->fuses_groups, 1);
  environment.Set("HOROVOD_CYCLE_TIME", "2.5");
  environment.Set("HOROVOD_FUSION_THRESHOLD", "0");
  environment.Set("HOROVOD_DISABLE_GROUP_FUSION", "1");
  environment.Set("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "10");
  settings = AsyncSettingsFrom(environment);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->cycle_ns, 2'500'000);
  EXPECT_EQ(settings->fusion_bytes, 0U);
  EXPECT_EQ(settings->fuses_groups, 0);
  EXPECT_EQ(settings->stall_shutdown_ns, 10'000'000'000);
  environment.Set("HOROVOD_STALL_CHECK_DISABLE", "1");
  EXPECT_EQ(AsyncSettingsFrom(environment)->stall_ns, 0);
  EXPECT_EQ(AsyncSettingsFrom(environment)->stall_shutdown_ns, 0);
  for (const char* wrong : {"soon", "-1", "nan", "1e13", "1 "}) {
    environment.Set("HOROVOD_CYCLE_TIME", wrong);
    settings = AsyncSettingsFrom(environment);
    ASSERT_FALSE(settings.ok()) << wrong;
    EXPECT_EQ(settings.status().code(), ErrorCode::kSpecInvalid);
    EXPECT_NE(settings.status().message().find("HOROVOD_CYCLE_TIME"), std::string::npos);
  }
}

TEST(AsyncTest, AChildOfForkHasNone) {
  hvdray_async* async = nullptr;
  ASSERT_EQ(hvdray_async_init("fork", &async), 0) << hvdray_error();
  const pid_t child = ::fork();
  if (child == 0) {
    int64_t handle = 0;
    Sent sum = SumOf("a", {1});
    const hvdray_request request = sum.Get();
    const bool is_refused = hvdray_async_submit(async, &request, 1, &handle) == 101 &&
                            hvdray_async_status(async) == 101;
    hvdray_async_shutdown(async);
    hvdray_async_free(async);
    ::_exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  hvdray_async_free(async);
}

// Each type by each operation, with small tensors that go together and large ones that do not.
TEST(AsyncTest, EveryTypeByEveryOperationGivesTheSameBits) {
  constexpr int kRanks = 3;
  std::vector<std::vector<std::string>> results(kRanks);
  OnRankThreads(kRanks, 60s, [&](const CommunicatorOptions& options) {
    AsyncSettings settings;
    settings.small_bytes = 2000;
    AsyncRank rank(options, settings);
    struct One {
      DataType type;
      ReduceOp op;
      size_t count;
      std::string in;
      std::string out;
      int64_t handle;
    };
    std::vector<One> all;
    for (const DataType type : kDataTypes) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                                ReduceOp::kProduct}) {
        for (const size_t count : {1U, 77U, 3000U}) {
          all.push_back({type, op, count, std::string(count * SizeOf(type), '\0'),
                         std::string(count * SizeOf(type), '\7'), 0});
          for (size_t i = 0; i < count; ++i) {
            StoreNumber(all.back().in.data(), i, type,
                        static_cast<double>((i + static_cast<size_t>(options.rank)) % 4 + 1));
          }
        }
      }
    }
    std::mt19937 random(static_cast<unsigned>(options.rank));
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      One& one = all[i];
      const auto count = static_cast<int64_t>(one.count);
      const std::string name = "tensor " + std::to_string(i);
      hvdray_request request{};
      request.name = name.c_str();
      request.kind = HVDRAY_ALLREDUCE;
      request.type = static_cast<int>(one.type);
      request.op = static_cast<int>(one.op);
      request.device = -1;
      request.prescale = request.postscale = 1;
      request.dimensions = 1;
      request.shape = &count;
      request.input = one.in.data();
      request.output = one.out.data();
      one.handle = rank.Begin(request);
    }
    for (const One& one : all) {
      ASSERT_EQ(hvdray_async_wait(rank.async, one.handle), 0) << hvdray_error();
      for (size_t i = 0; i < one.count; ++i) {
        double values[kRanks];
        for (size_t r = 0; r < kRanks; ++r) values[r] = static_cast<double>((i + r) % 4 + 1);
        double expected = values[0] + values[1] + values[2];
        if (one.op == ReduceOp::kAverage) {
          expected /= kRanks;
          if (one.type <= DataType::kUint8) expected = static_cast<int>(expected);
        }
        if (one.op == ReduceOp::kMin) expected = *std::min_element(values, values + kRanks);
        if (one.op == ReduceOp::kMax) expected = *std::max_element(values, values + kRanks);
        if (one.op == ReduceOp::kProduct) expected = values[0] * values[1] * values[2];
        ASSERT_NEAR(LoadNumber(one.out.data(), i, one.type), expected, 0.02)
            << Name(one.type) << " " << Name(one.op);
      }
      results[static_cast<size_t>(options.rank)].push_back(one.out);
    }
  });
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(AsyncTest, ScalesAndBools) {
  OnRankThreads(2, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    for (const size_t count : {size_t{3}, size_t{200000}}) {
      Sent sum = SumOf("scaled", Floats(count, static_cast<float>(rank.rank + 1)));
      sum.request.prescale = 0.5;
      sum.request.postscale = 4;
      ASSERT_EQ(rank.Run(sum.Get()), 0) << hvdray_error();
      EXPECT_EQ(sum.in, Floats(count, 6));
      // Not in place: the input stays.
      Sent apart = SumOf("apart", Floats(count, static_cast<float>(rank.rank + 1)));
      apart.out.resize(count);
      apart.request.output = apart.out.data();
      apart.request.prescale = 2;
      ASSERT_EQ(rank.Run(apart.Get()), 0) << hvdray_error();
      EXPECT_EQ(apart.in, Floats(count, static_cast<float>(rank.rank + 1)));
      EXPECT_EQ(apart.out, Floats(count, 6));
    }
    int32_t number = 7;
    Sent integer(HVDRAY_ALLREDUCE, "integer", {}, HVDRAY_INT32);
    integer.request.input = integer.request.output = &number;
    integer.request.prescale = 0.5;
    ASSERT_EQ(rank.Run(integer.Get()), 0) << hvdray_error();
    EXPECT_EQ(number, 6);
    for (const auto& [op, expected] : {std::pair{HVDRAY_SUM, true},
                                       {HVDRAY_PRODUCT, false},
                                       {HVDRAY_MIN, false},
                                       {HVDRAY_MAX, true}}) {
      bool value = rank.rank == 0;
      Sent one(HVDRAY_ALLREDUCE, "bool", {1}, static_cast<hvdray_type>(HVDRAY_BOOL));
      one.request.op = op;
      one.request.input = one.request.output = &value;
      ASSERT_EQ(rank.Run(one.Get()), 0) << hvdray_error();
      EXPECT_EQ(value, expected);
    }
  });
}

TEST(AsyncTest, ResultsWhoseSizeIsKnownLateAreAllocated) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    const auto me = static_cast<float>(rank.rank);
    // 1, 2, 3 rows of 2.
    Sent gather(HVDRAY_ALLGATHER, "gather", {rank.rank + 1, 2});
    gather.With(Floats(static_cast<size_t>(rank.rank + 1) * 2, me));
    int64_t handle = rank.Begin(gather.Get());
    ASSERT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
    EXPECT_EQ(gather.out, (Floats{0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}));
    hvdray_result result = rank.ResultOf(handle);
    ASSERT_EQ(result.dimensions, 2);
    EXPECT_EQ(result.shape[0], 6);

    // Rank r sends r rows to rank 0, one to rank 1, none to rank 2.
    const std::vector<int64_t> splits{rank.rank, 1, 0};
    Sent exchange(HVDRAY_ALLTOALL, "exchange", {rank.rank + 1});
    exchange.With(Floats(static_cast<size_t>(rank.rank + 1), me));
    exchange.request.splits = splits.data();
    exchange.request.split_count = 3;
    handle = rank.Begin(exchange.Get());
    ASSERT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
    const Floats expected[] = {{1, 2, 2}, {0, 1, 2}, {}};
    EXPECT_EQ(exchange.out, expected[rank.rank]);
    result = rank.ResultOf(handle);
    ASSERT_EQ(result.received_split_count, 3U);
    EXPECT_EQ(result.received_splits[2], rank.rank == 0 ? 2 : rank.rank == 1 ? 1 : 0);

    for (const auto& [rows, scale] : {std::pair{int64_t{7}, 1.0},
                                      {int64_t{6}, 1.0},
                                      {int64_t{6}, 0.5},
                                      {int64_t{2}, 2.0},
                                      {int64_t{0}, 1.0}}) {
      Sent scatter(HVDRAY_REDUCESCATTER, "scatter", {rows, 2});
      Floats values(static_cast<size_t>(rows) * 2);
      std::iota(values.begin(), values.end(), 0.0F);
      scatter.With(values);
      scatter.request.prescale = scale;
      handle = rank.Begin(scatter.Get());
      ASSERT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
      const int64_t first = rows / 3 * rank.rank + std::min<int64_t>(rank.rank, rows % 3);
      const int64_t count = rows / 3 + (rank.rank < rows % 3 ? 1 : 0);
      Floats part;
      for (int64_t i = first * 2; i < (first + count) * 2; ++i) {
        part.push_back(static_cast<float>(static_cast<double>(i) * 3 * scale));
      }
      EXPECT_EQ(scatter.out, part) << rows;
    }
  });
}

TEST(AsyncTest, BroadcastsFromEachRank) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    for (int root = 0; root < 3; ++root) {
      Sent sent(HVDRAY_BROADCAST, "b", {2});
      sent.With({static_cast<float>(rank.rank), 5});
      sent.request.root = root;
      ASSERT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
      EXPECT_EQ(sent.in, (Floats{static_cast<float>(root), 5}));
    }
    hvdray_request barrier{};
    barrier.kind = HVDRAY_BARRIER;
    EXPECT_EQ(rank.Run(barrier), 0) << hvdray_error();
  });
}

TEST(AsyncTest, AGroupIsAllOrNothing) {
  OnRankThreads(2, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    Sent a = SumOf("a", {1});
    Sent b = SumOf("b", {2, 2});
    hvdray_request both[] = {a.Get(), b.Get()};
    int64_t handles[2] = {};
    ASSERT_EQ(hvdray_async_submit(rank.async, both, 2, handles), 0) << hvdray_error();
    for (const int64_t handle : handles) EXPECT_EQ(hvdray_async_wait(rank.async, handle), 0);
    EXPECT_EQ(b.in, (Floats{4, 4}));
    both[1].name = "a";
    EXPECT_EQ(hvdray_async_submit(rank.async, both, 2, handles), 101);
    EXPECT_NE(std::string(hvdray_error()).find("Duplicate name"), std::string::npos);
    both[1] = b.Get();
    if (rank.rank == 1) both[1].type = HVDRAY_INT32;
    ASSERT_EQ(hvdray_async_submit(rank.async, both, 2, handles), 0) << hvdray_error();
    for (const int64_t handle : handles) {
      EXPECT_EQ(hvdray_async_wait(rank.async, handle), 101);
      EXPECT_NE(std::string(hvdray_error()).find("Mismatched data types of allreduce 'b'"),
                std::string::npos)
          << hvdray_error();
    }
  });
}

TEST(AsyncTest, WhatIsWrongIsRefusedAtOnce) {
  OnRankThreads(2, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    const auto refused = [&](const std::function<void(hvdray_request&)>& spoil) {
      Sent sent = SumOf("a", {1, 2, 3});
      hvdray_request request = sent.Get();
      spoil(request);
      int64_t handle = 0;
      return hvdray_async_submit(rank.async, &request, 1, &handle);
    };
    const int64_t negative[] = {-1};
    const int64_t huge[] = {INT64_MAX, INT64_MAX};
    const int not_ascending[] = {1, 0};
    EXPECT_EQ(refused([](auto& r) { r.kind = 9; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.kind = -1; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.type = 10; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.op = 5; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.op = HVDRAY_ADASUM; }), 106);
    EXPECT_EQ(refused([](auto& r) { r.name = nullptr; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.process_set = 4; }), 101);
    EXPECT_EQ(refused([&](auto& r) { r.shape = negative; }), 101);
    EXPECT_EQ(refused([&](auto& r) { r.shape = huge, r.dimensions = 2; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.input = nullptr; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.output = nullptr; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.output = static_cast<char*>(r.output) + 4; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.device = 0; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.kind = HVDRAY_BROADCAST, r.root = 2; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.type = HVDRAY_BOOL, r.op = HVDRAY_AVERAGE; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.kind = HVDRAY_REMOVE_PROCESS_SET; }), 101);
    EXPECT_EQ(refused([](auto& r) { r.kind = HVDRAY_ADD_PROCESS_SET; }), 101);
    EXPECT_EQ(refused([&](auto& r) {
                r.kind = HVDRAY_ADD_PROCESS_SET, r.ranks = not_ascending, r.rank_count = 2;
              }),
              101);
    // Nothing of it hinders what is right.
    EXPECT_EQ(rank.Run(SumOf("a", {1}).Get()), 0) << hvdray_error();
  });
}

TEST(AsyncTest, ADuplicateNameIsRefusedWhileItIsInFlight) {
  std::latch refused(2);
  OnRankThreads(2, 60s, [&](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    Sent sent = SumOf("a", {1});
    int64_t handle = -1;
    if (rank.rank == 0) {
      handle = rank.Begin(sent.Get());
      EXPECT_EQ(rank.Begin(sent.Get()), -1);
      EXPECT_NE(std::string(hvdray_error()).find("Duplicate name 'a'"), std::string::npos);
      EXPECT_EQ(hvdray_async_poll(rank.async, handle), 0);
      EXPECT_EQ(hvdray_async_wait_for(rank.async, handle, 1), -1);
    }
    refused.arrive_and_wait();
    if (rank.rank == 1) handle = rank.Begin(sent.Get());
    EXPECT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
    EXPECT_EQ(sent.in, Floats{2});
    EXPECT_EQ(hvdray_async_wait_for(rank.async, handle, 1), 0);
    EXPECT_EQ(hvdray_async_wait_for(rank.async, 0, 1), 101);
    EXPECT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
  });
}

// Programs count on it: what they submit within a cycle is in flight until its end.
TEST(AsyncTest, AnOperationTakesACycleFromItsFirstRankOn) {
  std::chrono::steady_clock::time_point starts[2];
  std::chrono::steady_clock::time_point ends[2];
  OnRankThreads(2, 60s, [&](const CommunicatorOptions& options) {
    AsyncSettings settings;
    settings.cycle_ns = 20'000'000;
    AsyncRank rank(options, settings);
    Sent sent = SumOf("a", {1});
    starts[rank.rank] = std::chrono::steady_clock::now();
    EXPECT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
    ends[rank.rank] = std::chrono::steady_clock::now();
  });
  EXPECT_GE(std::min(ends[0], ends[1]) - std::min(starts[0], starts[1]), 20ms);
}

// What `queued` has been given goes along once it is whole, however long the program takes.
size_t TakenAlong(const std::function<void(OperationTable&, const LocalOperationPtr&)>& act) {
  OperationTable table(1h);
  const auto add = [&](std::string name) {
    auto operation = std::make_shared<LocalOperation>();
    operation->request.name = std::move(name);
    EXPECT_TRUE(table.Add({&operation, 1}, false).ok());
    return operation;
  };
  for (const char* name : {"a", "b", "c"}) add(name);
  EXPECT_EQ(table.Drain(1).requests.size(), 3U);
  const LocalOperationPtr first = add("d");
  std::thread program([&] { act(table, first); });
  table.AwaitBurst();
  const size_t taken = table.Drain(2).requests.size();
  program.join();
  table.EndAll({ErrorCode::kAborted, "over"});
  return taken;
}

TEST(AsyncTest, WhatIsSubmittedTogetherGoesTogether) {
  const auto add = [](OperationTable& table, std::string name, bool is_urgent) {
    auto operation = std::make_shared<LocalOperation>();
    operation->request.name = std::move(name);
    EXPECT_TRUE(table.Add({&operation, 1}, is_urgent).ok());
  };
  EXPECT_EQ(TakenAlong([&](OperationTable& table, const LocalOperationPtr&) {
              add(table, "e", false);
              add(table, "f", false);
            }),
            3U);
  EXPECT_EQ(TakenAlong([&](OperationTable& table, const LocalOperationPtr&) {
              add(table, "large", true);
            }),
            2U);
  EXPECT_EQ(TakenAlong([](OperationTable& table, const LocalOperationPtr& first) {
              (void)table.WaitFor(first->handle, 0s);
            }),
            1U);
  EXPECT_EQ(TakenAlong([](OperationTable& table, const LocalOperationPtr&) {
              table.Close({ErrorCode::kAborted, "it has been shut down"}, "", Leave::kInOrder);
            }),
            1U);
}

TEST(AsyncTest, ProcessSetsRunApart) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    const int evens = rank.AddSet({0, 2});
    const int last = rank.AddSet({2});
    EXPECT_EQ(evens, 1);
    EXPECT_EQ(last, 2);
    int ids[4] = {};
    EXPECT_EQ(hvdray_async_process_sets(rank.async, ids, 4), 3);
    int members[4] = {};
    EXPECT_EQ(hvdray_async_process_set_ranks(rank.async, evens, members, 4), 2);
    EXPECT_EQ(members[1], 2);
    Sent sent = SumOf("a", {static_cast<float>(rank.rank + 1)});
    sent.request.process_set = evens;
    if (rank.rank == 1) {
      EXPECT_EQ(rank.Begin(sent.Get()), -1);
    } else {
      EXPECT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
      EXPECT_EQ(sent.in, Floats{4});
      Sent root(HVDRAY_BROADCAST, "a", {1});
      root.With({static_cast<float>(rank.rank)});
      root.request.process_set = evens;
      root.request.root = 2;
      EXPECT_EQ(rank.Run(root.Get()), 0) << hvdray_error();
      EXPECT_EQ(root.in, Floats{2});
    }
    hvdray_request remove{};
    remove.kind = HVDRAY_REMOVE_PROCESS_SET;
    remove.process_set = evens;
    EXPECT_EQ(rank.Run(remove), 0) << hvdray_error();
    EXPECT_EQ(hvdray_async_process_set_ranks(rank.async, evens, members, 4), -1);
    EXPECT_EQ(rank.AddSet({0, 2}), 3);
  });
}

TEST(AsyncTest, WhoHasJoinedAddsZeros) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    hvdray_request join{};
    join.kind = HVDRAY_JOIN;
    join.sequence = 10 + rank.rank;
    if (rank.rank != 1) {
      for (const size_t count : {size_t{2}, size_t{100000}}) {
        for (int i = 0; i < 3; ++i) {
          Sent sent = SumOf("average", Floats(count, 6));
          sent.request.op = HVDRAY_AVERAGE;
          EXPECT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
          EXPECT_EQ(sent.in, Floats(count, 4));
        }
      }
      Sent sent(HVDRAY_ALLGATHER, "gather", {1});
      sent.With({1});
      EXPECT_EQ(rank.Run(sent.Get()), 101);
    }
    if (rank.rank == 2) {
      EXPECT_EQ(rank.Run(SumOf("alone", {1}).Get()), 0) << hvdray_error();
    }
    const int64_t handle = rank.Begin(join);
    ASSERT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
    EXPECT_EQ(rank.ResultOf(handle).last_rank, 2);
    EXPECT_EQ(rank.ResultOf(handle).sequence, 12);
    EXPECT_EQ(rank.Run(SumOf("after", {1}).Get()), 0) << hvdray_error();
  });
}

TEST(AsyncTest, OperationsOfDevicesRunInOneOrder) {
  std::vector<std::vector<std::string>> orders(3);
  OnRankThreads(3, 60s, [&](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    struct Called {
      std::string name;
      std::vector<std::string>* order;
      int64_t rows = 0;
    };
    std::vector<Called> all;
    all.reserve(21);
    std::vector<int64_t> handles;
    const int64_t shape[] = {rank.rank + 1};
    for (int i = 0; i < 20; ++i) {
      const int index = (i * 7 + rank.rank * 3) % 20;
      all.push_back({std::to_string(index), &orders[static_cast<size_t>(rank.rank)]});
      hvdray_request request{};
      request.name = all.back().name.c_str();
      request.kind = HVDRAY_ALLGATHER;
      request.device = 0;
      request.prescale = request.postscale = 1;
      request.shape = shape;
      request.dimensions = 1;
      request.context = &all.back();
      request.run = [](void* context, const hvdray_call* call) {
        auto* called = static_cast<Called*>(context);
        called->order->push_back(called->name);
        for (size_t k = 0; k < call->row_count; ++k) called->rows += call->rows[k];
        return 0;
      };
      handles.push_back(rank.Begin(request));
    }
    for (const int64_t handle : handles) {
      EXPECT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
    }
    for (const Called& called : all) EXPECT_EQ(called.rows, 6);
  });
  EXPECT_EQ(orders[0].size(), 20U);
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
}

TEST(AsyncTest, SmallAllreducesOfADeviceSayHowManyFollow) {
  OnRankThreads(2, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    std::vector<int> following;
    const int64_t shape[] = {4};
    std::array<hvdray_request, 3> group{};
    const std::array<const char*, 3> names{"a", "b", "c"};
    for (size_t i = 0; i < group.size(); ++i) {
      group[i].name = names[i];
      group[i].kind = HVDRAY_ALLREDUCE;
      group[i].prescale = group[i].postscale = 1;
      group[i].shape = shape;
      group[i].dimensions = 1;
      group[i].context = &following;
      group[i].run = [](void* context, const hvdray_call* call) {
        static_cast<std::vector<int>*>(context)->push_back(call->following);
        return 0;
      };
    }
    std::array<int64_t, 3> handles{};
    ASSERT_EQ(hvdray_async_submit(rank.async, group.data(), group.size(), handles.data()), 0);
    for (const int64_t handle : handles) EXPECT_EQ(hvdray_async_wait(rank.async, handle), 0);
    EXPECT_EQ(following, (std::vector<int>{2, 1, 0}));
  });
}

TEST(AsyncTest, AwaitEndTellsWhyAllEnds) {
  for (const bool has_failed : {false, true}) {
    OnRankThreads(2, 60s, [&](const CommunicatorOptions& options) {
      AsyncRank rank(options);
      if (rank.rank == 1) {
        const auto leave = has_failed ? hvdray_async_fail : hvdray_async_shutdown_because;
        leave(rank.async, "raised ValueError: no data");
        return;
      }
      EXPECT_EQ(hvdray_async_await_end(rank.async), has_failed ? 401 : 4);
      EXPECT_NE(std::string(hvdray_error()).find("rank 1 raised ValueError: no data"),
                std::string::npos)
          << hvdray_error();
      EXPECT_EQ(hvdray_async_status(rank.async), 401);
    });
  }
}

TEST(AsyncTest, ShutdownEndsWhatIsInFlightOnAllRanks) {
  std::latch begun(3);
  OnRankThreads(3, 60s, [&](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    Sent sent = SumOf("a", {1});
    int64_t handle = -1;
    if (rank.rank != 2) handle = rank.Begin(sent.Get());
    begun.arrive_and_wait();
    if (rank.rank == 2) {
      hvdray_async_shutdown(rank.async);
      return;
    }
    EXPECT_EQ(hvdray_async_wait(rank.async, handle), 401);
    EXPECT_NE(std::string(hvdray_error()).find("rank 2 has shut down"), std::string::npos)
        << hvdray_error();
    EXPECT_EQ(rank.Begin(sent.Get()), -1);
    EXPECT_EQ(hvdray_async_status(rank.async), 401);
  });
}

TEST(AsyncTest, ARankThatCantAllocateEndsAll) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    Sent gather(HVDRAY_ALLGATHER, "gather", {2});
    gather.With({1, 2});
    if (rank.rank == 1) {
      gather.request.allocate = [](void*, const int64_t*, int) -> void* { return nullptr; };
    }
    EXPECT_EQ(rank.Run(gather.Get()), rank.rank == 1 ? 3 : 401) << hvdray_error();
  });
}

TEST(AsyncTest, ManyThreadsSubmit) {
  OnRankThreads(2, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&rank, t] {
        for (int i = 0; i < 100; ++i) {
          Sent sent = SumOf("t" + std::to_string(t), Floats(static_cast<size_t>(i), 1));
          ASSERT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
          ASSERT_EQ(sent.in, Floats(static_cast<size_t>(i), 2));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

// More than a slot of the memory has room for.
// Sets of processors that are narrower than this process's, one for each thread that has one.
std::vector<cpu_set_t> NarrowerSets() {
  cpu_set_t whole;
  EXPECT_EQ(::sched_getaffinity(0, sizeof whole, &whole), 0);
  std::vector<cpu_set_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t set;
    const pid_t thread = std::stoi(entry.path().filename());
    if (::sched_getaffinity(thread, sizeof set, &set) != 0) continue;
    if (CPU_EQUAL(&set, &whole) == 0) found.push_back(set);
  }
  return found;
}

TEST(AsyncTest, RanksThreadsHaveProcessorsOfTheirOwn) {
  cpu_set_t whole;
  ASSERT_EQ(::sched_getaffinity(0, sizeof whole, &whole), 0);
  if (CPU_COUNT(&whole) < 2) GTEST_SKIP() << "one processor";
  std::latch seen(2);
  OnRankThreads(2, 60s, [&seen](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    Sent sent = SumOf("first", Floats(1, 1));
    ASSERT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
    const std::vector<cpu_set_t> sets = NarrowerSets();
    ASSERT_EQ(sets.size(), 2U);
    cpu_set_t both;
    CPU_AND(&both, sets.data(), &sets[1]);
    EXPECT_EQ(CPU_COUNT(&both), 0);
    seen.arrive_and_wait();
  });
}

TEST(AsyncTest, NamesMayBeLongAndMany) {
  OnRankThreads(2, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    std::vector<Sent> all;
    std::vector<hvdray_request> requests;
    all.reserve(40);
    requests.reserve(40);
    for (int i = 0; i < 40; ++i) {
      all.push_back(
          SumOf(std::string(60000, static_cast<char>('a' + i % 26)) + std::to_string(i), {1}));
    }
    for (Sent& sent : all) requests.push_back(sent.Get());
    std::vector<int64_t> handles(requests.size());
    ASSERT_EQ(hvdray_async_submit(rank.async, requests.data(), requests.size(), handles.data()), 0)
        << hvdray_error();
    for (const int64_t handle : handles) {
      EXPECT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
    }
  });
}

TEST(AsyncTest, RanksThatAreMissingAreNamedAndThenAllEnds) {
  testing::internal::CaptureStderr();
  std::latch ended(2);
  OnRankThreads(2, 60s, [&](const CommunicatorOptions& options) {
    AsyncSettings settings;
    settings.stall_ns = 1'000'000;
    settings.stall_shutdown_ns = 30'000'000;
    AsyncRank rank(options, settings);
    if (rank.rank == 0) {
      EXPECT_EQ(rank.Run(SumOf("lonely", {1}).Get()), 5);
    }
    while (hvdray_async_status(rank.async) == 0) std::this_thread::yield();
    EXPECT_EQ(hvdray_async_status(rank.async), 5);
    ended.arrive_and_wait();  // nobody leaves before
  });
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("Missing ranks: 1: [lonely]"), std::string::npos) << log;
}

CommunicatorOptions OverNetwork(CommunicatorOptions options) {
  options.backend = Backend::kGloo;
  return options;
}

TEST(AsyncTest, RanksOfSeveralHostsMeetOverTheNetwork) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    AsyncRank rank(OverNetwork(options));
    for (int i = 0; i < 20; ++i) {
      Sent sent = SumOf("a", Floats(static_cast<size_t>(i * i * i), 1));
      ASSERT_EQ(rank.Run(sent.Get()), 0) << hvdray_error();
      EXPECT_EQ(sent.in, Floats(static_cast<size_t>(i * i * i), 3));
    }
    // More than a connection has room for.
    std::vector<Sent> all;
    std::vector<hvdray_request> requests;
    all.reserve(100);
    requests.reserve(100);
    for (int i = 0; i < 100; ++i)
      all.push_back(SumOf(std::string(60000 + static_cast<size_t>(i), 'x'), {1}));
    for (Sent& sent : all) requests.push_back(sent.Get());
    std::vector<int64_t> handles(requests.size());
    ASSERT_EQ(hvdray_async_submit(rank.async, requests.data(), requests.size(), handles.data()), 0)
        << hvdray_error();
    for (const int64_t handle : handles) {
      EXPECT_EQ(hvdray_async_wait(rank.async, handle), 0) << hvdray_error();
    }
  });
}

TEST(AsyncTest, ARankThatGoesOnItsWayToTheRoundsIsNotWaitedFor) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    AsyncSettings settings;
    if (options.rank != 2) {
      const auto core = AsyncCore::Make(OverNetwork(options), settings);
      ASSERT_FALSE(core.ok());
      EXPECT_EQ(core.status().code(), ErrorCode::kAborted) << core.status().ToString();
      return;
    }
    const auto all = MakeCommunicator(OverNetwork(options));
    ASSERT_TRUE(all.ok()) << all.status().ToString();
    EXPECT_TRUE((*all)->Broadcast(&settings, sizeof settings, DataType::kUint8, 0).ok());
  });
}

TEST(AsyncTest, ShutdownOverTheNetworkEndsWhatIsInFlight) {
  for (const int leaving : {0, 2}) {
    std::latch begun(3);
    std::latch over(3);
    OnRankThreads(3, 60s, [&](const CommunicatorOptions& options) {
      AsyncRank rank(OverNetwork(options));
      Sent sent = SumOf("a", {1});
      int64_t handle = -1;
      if (rank.rank != leaving) handle = rank.Begin(sent.Get());
      begun.arrive_and_wait();
      if (rank.rank == leaving) {
        hvdray_async_shutdown(rank.async);
      } else {
        EXPECT_EQ(hvdray_async_wait(rank.async, handle), 401);
        EXPECT_NE(std::string(hvdray_error()).find("has shut down"), std::string::npos)
            << hvdray_error();
      }
      over.arrive_and_wait();
    });
  }
}

TEST(AsyncTest, TheTimelineHasHorovodsEvents) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/timeline.json";
  OnRankThreads(2, 60s, [&](const CommunicatorOptions& options) {
    AsyncRank rank(options);
    ASSERT_EQ(hvdray_async_timeline_start(rank.async, path.c_str(), 1), 0) << hvdray_error();
    if (rank.rank == 0) {
      EXPECT_EQ(hvdray_async_timeline_start(rank.async, path.c_str(), 1), 101);
    }
    Sent a = SumOf("allreduce.\"a\"", {1});
    Sent b = SumOf("allreduce.b", {1});
    const hvdray_request both[] = {a.Get(), b.Get()};
    int64_t handles[2] = {};
    ASSERT_EQ(hvdray_async_submit(rank.async, both, 2, handles), 0) << hvdray_error();
    for (const int64_t handle : handles) EXPECT_EQ(hvdray_async_wait(rank.async, handle), 0);
    ASSERT_EQ(hvdray_async_timeline_stop(rank.async), 0) << hvdray_error();
  });
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  for (const std::string& part :
       {std::string("start_time_since_epoch_in_micros"), std::string("NEGOTIATE_ALLREDUCE"),
        std::string("\"ALLREDUCE\""), std::string("CYCLE_START"),
        std::string("allreduce.\\\"a\\\""), std::string("MEMCPY_IN_FUSION_BUFFER"),
        std::string("MEMCPY_OUT_FUSION_BUFFER")}) {
    EXPECT_NE(text.str().find(part), std::string::npos) << part << " in " << text.str();
  }
  EXPECT_TRUE(text.str().ends_with("\n]\n"));
}

}  // namespace
}  // namespace hvdray
