// SPDX-License-Identifier: Apache-2.0
// Ranks are threads that meet over a real rendezvous and reach each other over TCP on loopback;
// processes, and deaths of them, are in tests/integration/collective_test.py.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>
#include <thread>
#include <vector>

#include "collective/communicator.h"
#include "tests/fakes/collective_suite.h"
#include "tests/fakes/rank_threads.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

void OnRanks(int size, Duration timeout,
             const std::function<void(std::unique_ptr<Communicator>)>& body) {
  OnRankThreads(size, timeout, [&](CommunicatorOptions options) {
    options.backend = Backend::kGloo;
    auto made = MakeCommunicator(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    body(std::move(*made));
  });
}

Status Sum(Communicator& communicator, std::vector<float>& values) {
  return communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32,
                                ReduceOp::kSum);
}

class NetworkCommunicatorTest : public testing::TestWithParam<int> {};

TEST_P(NetworkCommunicatorTest, EveryCollectiveEqualsItsReference) {
  // By messages, by halving and doubling, and by rings of several pieces.
  const std::vector<size_t> counts{0, 1, 5, 1000, 30001, 300007};
  OnRanks(GetParam(), 60s, [&](std::unique_ptr<Communicator> communicator) {
    const size_t used = communicator->size() <= 3 ? 6 : communicator->size() <= 7 ? 5 : 4;
    for (const std::string& problem :
         CheckCollectives(*communicator, std::span(counts).first(used))) {
      ADD_FAILURE() << problem;
    }
  });
}

TEST_P(NetworkCommunicatorTest, EveryTypeAndOperationByEveryAlgorithm) {
  if (GetParam() > 5) return;  // they do as 4 and 5
  OnRanks(GetParam(), 60s, [](std::unique_ptr<Communicator> communicator) {
    constexpr uint64_t kAlways = uint64_t{1} << 40;
    AlgorithmTable doubling;
    doubling.network_doubling = kAlways;
    AlgorithmTable halving;
    halving.network_doubling = 0;
    halving.network_ring = kAlways;
    AlgorithmTable ring;
    ring.network_doubling = ring.network_ring = 0;
    for (const AlgorithmTable& table : {doubling, halving, ring}) {
      communicator->UseTable(table);
      // Reduce and reduce-scatter have a chain and a ring for more than a message.
      const size_t bytes = table == ring ? size_t{17} << 10 : 700;
      for (const std::string& problem : CheckReductions(*communicator, bytes)) {
        ADD_FAILURE() << problem;
      }
    }
  });
}

TEST_P(NetworkCommunicatorTest, ManyOperationsInARowKeepTheirMessagesApart) {
  OnRanks(GetParam(), 60s, [](std::unique_ptr<Communicator> communicator) {
    const int size = communicator->size();
    for (int round = 0; round < 150; ++round) {
      std::vector<int64_t> values(static_cast<size_t>(1 + round * 371 % 20000),
                                  communicator->rank() + round);
      const int root = round % size;
      ASSERT_TRUE(
          communicator->Broadcast(values.data(), values.size(), DataType::kInt64, root).ok());
      EXPECT_EQ(values.back(), root + round);
      const Status status = communicator->AllReduce(values.data(), values.data(), values.size(),
                                                    DataType::kInt64, ReduceOp::kSum);
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(values.back(), static_cast<int64_t>(root + round) * size);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NetworkCommunicatorTest, testing::Values(2, 3, 4, 5, 6, 7, 8, 9));

TEST(NetworkCommunicatorLargeTest, WhatIsLargerThanPartialSumsMayBeGoesInRounds) {
  OnRanks(2, 60s, [](std::unique_ptr<Communicator> communicator) {
    std::vector<float> values(size_t{9} << 20, 1.0F);
    values.back() = 2.0F;
    ASSERT_TRUE(Sum(*communicator, values).ok());
    EXPECT_EQ(values.front(), 2.0F);
    EXPECT_EQ(values.back(), 4.0F);
    std::vector<float> sums(values.size());
    const Status status = communicator->Reduce(values.data(), sums.data(), values.size(),
                                               DataType::kFloat32, ReduceOp::kMax, 1);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(sums.back(), communicator->rank() == 1 ? 4.0F : 0.0F);
  });
}

TEST(NetworkCommunicatorLargeTest, SmallAndLargeMessagesOfAPairKeepTheirOrder) {
  OnRanks(2, 60s, [](std::unique_ptr<Communicator> communicator) {
    const int peer = 1 - communicator->rank();
    for (int i = 0; i < 40; ++i) {
      std::vector<int32_t> values(i % 3 == 0 ? 200000 : 10, i);
      const bool is_sender = (i / 5 + communicator->rank()) % 2 == 0;
      const Status status =
          is_sender ? communicator->Send(values.data(), values.size(), DataType::kInt32, peer)
                    : communicator->Recv(values.data(), values.size(), DataType::kInt32, peer);
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(values.back(), i);
    }
  });
}

TEST(NetworkCommunicatorFaultTest, AnAbortEndsTheWaitsOfAllForEver) {
  std::latch all_are_there(5);
  OnRanks(5, 60s, [&](std::unique_ptr<Communicator> communicator) {
    all_are_there.arrive_and_wait();
    if (communicator->rank() == 2) {
      communicator->Abort();
    } else {
      const Status status = communicator->Barrier();
      EXPECT_EQ(status.code(), ErrorCode::kAborted);
      // Nobody blames one of those who had to end, too.
      EXPECT_NE(status.message().find("rank 2 of 5 gave up"), std::string::npos)
          << status.message();
    }
    EXPECT_EQ(communicator->Barrier().code(), ErrorCode::kAborted);
  });
}

TEST(NetworkCommunicatorFaultTest, AnAbortEndsTheWaitOfItsOwnRank) {
  std::latch all_are_there(2);
  OnRanks(2, 60s, [&](std::unique_ptr<Communicator> communicator) {
    all_are_there.arrive_and_wait();
    if (communicator->rank() == 1) {
      char none = 0;
      EXPECT_EQ(communicator->Recv(&none, 1, DataType::kUint8, 0).code(), ErrorCode::kAborted);
      return;
    }
    std::thread other([&] { communicator->Abort(); });
    std::vector<float> values(1000000);
    EXPECT_EQ(communicator->Send(values.data(), values.size(), DataType::kFloat32, 1).code(),
              ErrorCode::kAborted);
    other.join();
  });
}

TEST(NetworkCommunicatorFaultTest, ARankThatIsWaitedForInVainIsNamed) {
  std::promise<void> done;
  const std::shared_future<void> is_done = done.get_future().share();
  OnRanks(2, 2s, [&](std::unique_ptr<Communicator> communicator) {
    if (communicator->rank() == 1) return is_done.wait();
    const Status status = communicator->Barrier();
    EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(status.message(), "barrier of 2 ranks: rank 1 of 2 did not come within 2 s");
    done.set_value();
  });
}

TEST(NetworkCommunicatorFaultTest, AllNameTheRankThatHasLeft) {
  OnRanks(3, 60s, [&](std::unique_ptr<Communicator> communicator) {
    if (communicator->rank() == 1) return;
    for (int i = 0; i < 2; ++i) {
      const Status status = communicator->Barrier();
      EXPECT_EQ(status.code(), ErrorCode::kAborted);
      EXPECT_NE(status.message().find("rank 1 of 3 has left"), std::string::npos)
          << status.message();
    }
  });
}

TEST(NetworkCommunicatorFaultTest, WhatALeaverHasSentArrivesHoweverLateItIsTaken) {
  std::promise<void> left;
  const std::shared_future<void> has_left = left.get_future().share();
  OnRanks(3, 60s, [&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    std::vector<int32_t> values(3 * 50000, rank);
    if (rank == 0) {
      // Takes rank 1's block, which comes when rank 2 is gone or waits for rank 0 to be done.
      std::vector<int32_t> all(values.size());
      EXPECT_TRUE(communicator->Gather(values.data(), all.data(), 50000, DataType::kInt32, 0).ok());
      EXPECT_EQ(all[99999], 1);
      EXPECT_EQ(all.back(), 2);
      left.set_value();
    } else {
      EXPECT_TRUE(communicator->Gather(values.data(), nullptr, 50000, DataType::kInt32, 0).ok());
      if (rank == 2) return;
      has_left.wait();
    }
    EXPECT_EQ(communicator->Barrier().code(), ErrorCode::kAborted);
  });
}

TEST(NetworkCommunicatorFaultTest, AnotherLeaverDoesNotTakeAwayWhatTheFirstHasSent) {
  // Whether rank 0 is leaving when rank 2 leaves is chance.
  for (int round = 0; round < 20; ++round) {
    std::promise<void> sent;
    const std::shared_future<void> is_sent = sent.get_future().share();
    std::promise<void> left;
    const std::shared_future<void> has_left = left.get_future().share();
    OnRanks(3, 60s, [&](std::unique_ptr<Communicator> communicator) {
      std::vector<int32_t> values(1000, communicator->rank());
      if (communicator->rank() == 0) {
        for (const int peer : {1, 2}) {
          EXPECT_TRUE(communicator->Send(values.data(), 1000, DataType::kInt32, peer).ok());
        }
        sent.set_value();
      } else if (communicator->rank() == 2) {
        EXPECT_TRUE(communicator->Recv(values.data(), 1000, DataType::kInt32, 0).ok());
        is_sent.wait();
        communicator.reset();
        left.set_value();
      } else {
        has_left.wait();
        const Status status = communicator->Recv(values.data(), 1000, DataType::kInt32, 0);
        EXPECT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(values.back(), 0);
      }
    });
  }
}

TEST(NetworkCommunicatorFaultTest, DifferentCountsEndWithAnError) {
  for (const size_t other : {11, 5000, 300000}) {
    OnRanks(2, 2s, [&](std::unique_ptr<Communicator> communicator) {
      std::vector<float> values(communicator->rank() == 0 ? 10 : other, 1.0F);
      EXPECT_FALSE(Sum(*communicator, values).ok());
      EXPECT_EQ(communicator->Barrier().code(), ErrorCode::kAborted);
    });
  }
}

}  // namespace
}  // namespace hvdray
