// SPDX-License-Identifier: Apache-2.0
// What the NCCL communicator does with NCCL's calls: over stand-ins for CUDA and NCCL in host
// memory, ranks as threads. Not tested: NCCL itself, kernels, streams of a GPU (gpu_test.cc).
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "collective/bench/runner.h"
#include "collective/communicator.h"
#include "tests/fakes/collective_suite.h"
#include "tests/fakes/fake_gpu.h"
#include "tests/fakes/rank_threads.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

void OnOptions(int size, Duration timeout, const std::function<void(CommunicatorOptions)>& body) {
  OnRankThreads(size, timeout, [&](CommunicatorOptions options) {
    options.backend = Backend::kNccl;
    options.device = options.rank;
    body(std::move(options));
  });
}

void OnRanks(int size, Duration timeout,
             const std::function<void(std::unique_ptr<Communicator>)>& body) {
  OnOptions(size, timeout, [&](const CommunicatorOptions& options) {
    auto made = MakeCommunicator(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_EQ((*made)->backend(), "nccl");
    body(std::move(*made));
  });
}

Status Sum(Communicator& communicator, std::vector<float>& values) {
  return communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32,
                                ReduceOp::kSum);
}

class NcclCommunicatorTest : public testing::TestWithParam<int> {};

TEST_P(NcclCommunicatorTest, EveryCollectiveEqualsItsReference) {
  const std::vector<size_t> counts{0, 1, 5, 1000, 30001};
  OnRanks(GetParam(), 60s, [&](std::unique_ptr<Communicator> communicator) {
    for (const std::string& problem : CheckCollectives(*communicator, counts)) {
      ADD_FAILURE() << problem;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, NcclCommunicatorTest, testing::Values(1, 2, 3, 5));

TEST(NcclCommunicatorOneTest, SubsetsAndTheNextGenerationMeet) {
  OnOptions(4, 60s, [](CommunicatorOptions options) {
    for (const char* scope : {"one", "two"}) {
      options.scope = scope;
      const std::vector<int> members =
          options.rank % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{1, 3};
      auto made = MakeSubCommunicator(options, members);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      std::vector<float> values(100, static_cast<float>(options.rank));
      ASSERT_TRUE(Sum(**made, values).ok());
      EXPECT_EQ(values[99], options.rank % 2 == 0 ? 2 : 4);
    }
  });
}

TEST(NcclCommunicatorOneTest, CallsThatDifferAreToldInCheckingMode) {
  OnOptions(2, 60s, [](CommunicatorOptions options) {
    options.is_checking = true;
    auto made = MakeCommunicator(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    std::vector<float> values(10 + static_cast<size_t>(options.rank));
    const Status status = Sum(**made, values);
    EXPECT_EQ(status.code(), ErrorCode::kUsage);
    EXPECT_EQ(status.message(),
              "ranks differ: rank 0 calls all_reduce of 10 float32 (sum), rank 1 all_reduce of 11 "
              "float32 (sum)");
    values.resize(10, 1);
    const Tensor tensors[] = {{values.data(), 4}, {values.data() + 4, 6}};
    EXPECT_TRUE((*made)->GroupAllReduce(tensors, DataType::kFloat32, ReduceOp::kMax).ok());
  });
}

TEST(NcclCommunicatorFaultTest, ARankWithoutAGpuIsNamedByAll) {
  SetFakeGpus(0);
  OnOptions(3, 60s, [](const CommunicatorOptions& options) {
    const auto made = MakeCommunicator(options);
    EXPECT_EQ(made.status().code(), ErrorCode::kNotSupported);
    EXPECT_NE(made.status().message().find("rank 0: no GPU: no CUDA-capable device is detected"),
              std::string::npos)
        << made.status().message();
  });
  SetFakeGpus(8);
}

TEST(NcclCommunicatorFaultTest, RanksThatShareAGpuAreNamedByAll) {
  SetFakeGpus(2);
  OnOptions(3, 60s, [](const CommunicatorOptions& options) {
    const auto made = MakeCommunicator(options);
    EXPECT_EQ(made.status().code(), ErrorCode::kNotSupported);
    EXPECT_NE(made.status().message().find("ranks 0 and 2 are on the same GPU"), std::string::npos)
        << made.status().message();
  });
  SetFakeGpus(8);
}

TEST(NcclCommunicatorFaultTest, ABufferOfTheHostIsToldToAll) {
  std::vector<float> elsewhere(10);
  SetFakeHostMemory(elsewhere.data());
  std::latch all_are_there(2);
  OnRanks(2, 60s, [&](std::unique_ptr<Communicator> communicator) {
    all_are_there.arrive_and_wait();
    std::vector<float> values(10);
    const bool is_wrong = communicator->rank() == 1;
    const Status status = Sum(*communicator, is_wrong ? elsewhere : values);
    EXPECT_EQ(status.code(), is_wrong ? ErrorCode::kUsage : ErrorCode::kAborted);
    EXPECT_EQ(status.message(),
              "all_reduce: a buffer of rank 1 is in memory of the host, not of GPU 1");
    const Tensor tensors[] = {{values.data(), 10}, {elsewhere.data(), 10}};
    EXPECT_EQ(communicator->GroupAllReduce(tensors, DataType::kFloat32, ReduceOp::kSum).code(),
              ErrorCode::kAborted);
  });
  SetFakeHostMemory(nullptr);
}

TEST(NcclCommunicatorFaultTest, AnAbortEndsTheWaitsOfAllForEver) {
  std::latch all_are_there(4);
  OnRanks(4, 60s, [&](std::unique_ptr<Communicator> communicator) {
    all_are_there.arrive_and_wait();
    std::vector<float> values(1000);
    if (communicator->rank() == 2) {
      communicator->Abort();
    } else {
      const Status status = Sum(*communicator, values);
      EXPECT_EQ(status.code(), ErrorCode::kAborted);
      EXPECT_EQ(status.message(), "rank 2 of 4 gave up");
    }
    EXPECT_EQ(Sum(*communicator, values).code(), ErrorCode::kAborted);
    EXPECT_EQ(communicator->Barrier().code(), ErrorCode::kAborted);
  });
}

TEST(NcclCommunicatorFaultTest, AnAbortEndsTheWaitOfItsOwnRank) {
  std::promise<void> done;
  const std::shared_future<void> is_done = done.get_future().share();
  std::latch all_are_there(2);
  OnRanks(2, 60s, [&](std::unique_ptr<Communicator> communicator) {
    all_are_there.arrive_and_wait();
    if (communicator->rank() == 1) return is_done.wait();
    std::thread other([&] { communicator->Abort(); });
    std::vector<float> values(1000);
    EXPECT_EQ(Sum(*communicator, values).code(), ErrorCode::kAborted);
    other.join();
    done.set_value();
  });
}

TEST(NcclCommunicatorFaultTest, ARankThatIsWaitedForInVainEndsItForAll) {
  std::promise<void> done;
  const std::shared_future<void> is_done = done.get_future().share();
  OnRanks(3, 2s, [&](std::unique_ptr<Communicator> communicator) {
    std::vector<float> values(1000);
    if (communicator->rank() == 1) {
      is_done.wait();
      const Status status = Sum(*communicator, values);
      EXPECT_EQ(status.code(), ErrorCode::kAborted);
      return;
    }
    const Status status = Sum(*communicator, values);
    EXPECT_NE(status.message().find("not all of 3 ranks came within 2 s"), std::string::npos)
        << status.message();
    if (communicator->rank() == 0) done.set_value();
  });
}

TEST(NcclCommunicatorStreamTest, CallsReturnAtOnceAndSynchronizeWaits) {
  std::promise<void> queued;
  const std::shared_future<void> is_queued = queued.get_future().share();
  OnOptions(2, 60s, [&](CommunicatorOptions options) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    options.stream = stream;
    {
      auto made = MakeCommunicator(options);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      std::vector<float> values(1000, 1);
      // Rank 0's calls return while the other has called nothing.
      if (options.rank == 1) is_queued.wait();
      for (int i = 0; i < 3; ++i) ASSERT_TRUE(Sum(**made, values).ok());
      if (options.rank == 0) queued.set_value();
      const Status status = (*made)->Synchronize();
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(values[999], 8);
    }
    (void)cudaStreamDestroy(stream);
  });
}

TEST(NcclCommunicatorStreamTest, WhatIsQueuedEndsWhenARankGivesUp) {
  std::latch all_are_there(2);
  OnOptions(2, 60s, [&](CommunicatorOptions options) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    options.stream = stream;
    {
      auto made = MakeCommunicator(options);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      std::vector<float> values(1000, 1);
      all_are_there.arrive_and_wait();
      if (options.rank == 1) {
        (*made)->Abort();
      } else {
        (void)Sum(**made, values);
        const Status status = (*made)->Synchronize();
        EXPECT_EQ(status.code(), ErrorCode::kAborted);
        EXPECT_EQ(status.message(), "rank 1 of 2 gave up");
      }
    }
    // The stream is free of it: its thread ends.
    (void)cudaStreamDestroy(stream);
  });
}

TEST(NcclBenchTest, ResultsAreCheckedInTheGpusMemory) {
  OnRanks(2, 60s, [](std::unique_ptr<Communicator> communicator) {
    BenchOptions options;
    options.iterations = 2;
    auto runner = BenchRunner::Make(*communicator, options, 4096);
    ASSERT_TRUE(runner.ok()) << runner.status().ToString();
    for (const Collective kind : {Collective::kAllReduce, Collective::kAllToAll, Collective::kSend,
                                  Collective::kScatter, Collective::kBroadcast}) {
      const size_t ranks = kind == Collective::kAllToAll || kind == Collective::kScatter ? 2 : 1;
      const auto row =
          runner->Measure({kind, DataType::kFloat32, ReduceOp::kSum, 0, 1024 / ranks, 4096});
      ASSERT_TRUE(row.ok()) << row.status().ToString();
      for (const auto& timing : {row->out_of_place, row->in_place}) {
        EXPECT_EQ(timing ? timing->wrong : 0, 0) << Name(kind);
      }
    }
    EXPECT_GT(runner->MeasureCopy(4096)->least_gbps, 0);
  });
}

}  // namespace
}  // namespace hvdray
