// SPDX-License-Identifier: Apache-2.0
// Ranks are threads that map one memory; processes are in tests/integration/collective_test.py.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "collective/backends.h"
#include "tests/fakes/collective_suite.h"
#include "tests/fakes/file_size_limit.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

const std::string kToken(ShmSegment::kTokenBytes, 't');

std::vector<std::unique_ptr<Communicator>> MakeRanks(int size, Duration timeout = 60s) {
  const std::vector<pid_t> pids(static_cast<size_t>(size), ::getpid());
  Result<UniqueFd> memory = ShmSegment::Create(pids, kToken);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; memory.ok() && rank < size; ++rank) {
    auto segment = ShmSegment::Open(UniqueFd(::fcntl(memory->get(), F_DUPFD_CLOEXEC, 0)), rank,
                                    kToken, timeout);
    if (segment.ok()) ranks.push_back(MakeShmCommunicator(std::move(*segment)));
  }
  EXPECT_EQ(ranks.size(), static_cast<size_t>(size));
  return ranks;
}

// Runs body(communicator) on a thread for each rank.
void OnAll(std::vector<std::unique_ptr<Communicator>>& ranks,
           const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  for (auto& rank : ranks) threads.emplace_back([&body, &rank] { body(*rank); });
  for (std::thread& thread : threads) thread.join();
}

class ShmCommunicatorTest : public testing::TestWithParam<int> {};

TEST_P(ShmCommunicatorTest, EveryCollectiveEqualsItsReference) {
  auto ranks = MakeRanks(GetParam());
  // Of one round and of several, with a rest; less of it where many threads share the processors.
  const std::vector<size_t> all{0, 1, 5, 1000, 70001};
  const std::span<const size_t> counts = std::span(all).first(GetParam() <= 5 ? 5 : 4);
  OnAll(ranks, [&](Communicator& communicator) {
    for (const std::string& problem : CheckCollectives(communicator, counts)) {
      ADD_FAILURE() << problem;
    }
  });
}

TEST_P(ShmCommunicatorTest, ManyOperationsInARowKeepTheirSlotsApart) {
  auto ranks = MakeRanks(GetParam());
  OnAll(ranks, [&](Communicator& communicator) {
    for (int round = 0; round < 300; ++round) {
      std::vector<int64_t> values(static_cast<size_t>(1 + round * 37 % 4000),
                                  communicator.rank() + round);
      const int root = round % communicator.size();
      ASSERT_TRUE(
          communicator.Broadcast(values.data(), values.size(), DataType::kInt64, root).ok());
      EXPECT_EQ(values.back(), root + round);
      ASSERT_TRUE(communicator
                      .AllReduce(values.data(), values.data(), values.size(), DataType::kInt64,
                                 ReduceOp::kSum)
                      .ok());
      EXPECT_EQ(values.back(), static_cast<int64_t>(root + round) * communicator.size());
    }
  });
}

// What they all-reduce goes through places that change hands, beside the slots of all else.
TEST(ShmPairTest, SizesAndOperationsInAnyOrderKeepTheirPlacesApart) {
  auto ranks = MakeRanks(2);
  OnAll(ranks, [](Communicator& communicator) {
    std::mt19937 random(7);  // the same on both
    std::vector<int32_t> values(700000);
    for (int round = 0; round < 300; ++round) {
      const size_t count = std::uniform_int_distribution<size_t>(
          1, round % 20 == 0 ? values.size() : 1U << random() % 16)(random);
      AlgorithmTable table;
      if (round % 3 == 0) table.shm_direct_of_two = random() % 100000;
      communicator.UseTable(table);
      const auto at = [&](size_t i, int rank) {
        return static_cast<int32_t>(i * 3 + static_cast<size_t>(round * 5 + rank * 11));
      };
      for (size_t i = 0; i < count; ++i) values[i] = at(i, communicator.rank());
      const unsigned kind = random() % 4;
      Status status;
      if (kind == 0) {
        status = communicator.Broadcast(values.data(), count, DataType::kInt32, round % 2);
      } else {
        status = communicator.AllReduce(values.data(), values.data(), count, DataType::kInt32,
                                        ReduceOp::kSum);
      }
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(values[i], kind == 0 ? at(i, round % 2) : at(i, 0) + at(i, 1))
            << i << " of " << count;
      }
      if (kind == 1) {
        ASSERT_TRUE(communicator.Barrier().ok());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShmCommunicatorTest, testing::Values(2, 3, 4, 5, 6, 7, 8, 9));

TEST(ShmCommunicatorFaultTest, AnAbortEndsTheWaitsOfAllForEver) {
  auto ranks = MakeRanks(3);
  OnAll(ranks, [&](Communicator& communicator) {
    if (communicator.rank() == 2) return communicator.Abort();
    const Status status = communicator.Barrier();
    EXPECT_EQ(status.code(), ErrorCode::kAborted);
    EXPECT_EQ(status.message(), "rank 2 of 3 gave up");
  });
  for (auto& rank : ranks) EXPECT_EQ(rank->Barrier().code(), ErrorCode::kAborted);
}

TEST(ShmCommunicatorFaultTest, ARankThatDoesNotComeIsNamedAfterTheTimeout) {
  auto ranks = MakeRanks(2, 50ms);
  const Status status = ranks[0]->Barrier();
  EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "rank 1 of 2 did not come within 0.05 s");
  // The other finds the communicator ended.
  EXPECT_EQ(ranks[1]->Barrier().code(), ErrorCode::kAborted);
}

TEST(ShmCommunicatorFaultTest, ARankThatHasLeftIsNotWaitedFor) {
  auto ranks = MakeRanks(2);
  std::thread leaver([&] {
    EXPECT_TRUE(ranks[1]->Barrier().ok());
    ranks[1].reset();
  });
  EXPECT_TRUE(ranks[0]->Barrier().ok());
  const Status status = ranks[0]->Barrier();
  leaver.join();
  EXPECT_EQ(status.code(), ErrorCode::kAborted);
  EXPECT_EQ(status.message(), "rank 1 of 2 has left the communicator");
}

TEST(ShmCommunicatorFaultTest, DifferentCountsEndWithinTheTimeout) {
  // Undefined, but bounded: an error or meaningless values, nothing outside the buffers (asan).
  auto ranks = MakeRanks(2, 100ms);
  OnAll(ranks, [&](Communicator& communicator) {
    std::vector<float> values(communicator.rank() == 0 ? 10 : 300000, 1.0F);
    (void)communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32,
                                 ReduceOp::kSum);
    (void)communicator.Barrier();
  });
}

TEST(ShmCommunicatorFaultTest, TheCheckingModeNamesBothCalls) {
  auto ranks = MakeRanks(3);
  for (auto& rank : ranks) rank = MakeCheckingCommunicator(std::move(rank));
  OnAll(ranks, [&](Communicator& communicator) {
    std::vector<float> values(12, 1.0F);
    Status status =
        communicator.AllReduce(values.data(), values.data(), communicator.rank() == 2 ? 12 : 10,
                               DataType::kFloat32, ReduceOp::kSum);
    EXPECT_EQ(status.code(), ErrorCode::kUsage);
    EXPECT_EQ(status.message(),
              "ranks differ: rank 0 calls all_reduce of 10 float32 (sum), rank 2 all_reduce of 12 "
              "float32 (sum)");
    // Nothing has run, so all can go on.
    status = communicator.rank() == 1
                 ? communicator.Barrier()
                 : communicator.Broadcast(values.data(), 3, DataType::kInt8, 1);
    EXPECT_EQ(status.message(),
              "ranks differ: rank 0 calls broadcast of 3 int8, root 1, rank 1 barrier");
    const std::vector<size_t> counts = {1, 2, communicator.rank() == 0 ? size_t{3} : size_t{4}};
    const std::vector<float> own(4);
    status = communicator.AllGatherV(own.data(), values.data(), counts, DataType::kFloat32);
    EXPECT_EQ(status.message(),
              "ranks differ: rank 0 calls all_gather of [1, 2, 3] float32, rank 1 all_gather of "
              "[1, 2, 4] float32");
    EXPECT_TRUE(communicator.Barrier().ok());
  });
}

TEST(ShmCommunicatorFaultTest, WrongArgumentsAreRefusedBeforeAnythingHappens) {
  auto ranks = MakeRanks(2);
  Communicator& communicator = *ranks[0];
  float values[8] = {};
  const auto expect = [](const Status& status, const char* message) {
    EXPECT_EQ(status.code(), ErrorCode::kUsage);
    EXPECT_EQ(status.message(), message);
  };
  expect(communicator.Broadcast(values, 1, DataType::kFloat32, 2), "broadcast: no rank 2 of 2");
  expect(communicator.Send(values, 1, DataType::kFloat32, 0),
         "send: a rank cannot exchange with itself");
  expect(communicator.AllReduce(values, values, 1, DataType::kFloat32, ReduceOp::kBitOr),
         "all_reduce: bit_or is not defined for float32");
  expect(communicator.AllReduce(values, values + 1, 4, DataType::kFloat32, ReduceOp::kSum),
         "all_reduce: the buffers overlap and are not in place");
  expect(communicator.AllReduce(nullptr, values, 4, DataType::kFloat32, ReduceOp::kSum),
         "all_reduce: no buffer to send");
  expect(communicator.AllReduce(values, values, SIZE_MAX, DataType::kFloat32, ReduceOp::kSum),
         "all_reduce: 18446744073709551615 elements are more than memory has");
  const std::vector<size_t> counts{1, 2, 3};
  expect(communicator.AllGatherV(values, values, counts, DataType::kFloat32),
         "all_gather: 3 counts for 2 ranks");
  expect(communicator.AllToAllV(values, {}, values + 4, {}, DataType::kFloat32),
         "all_to_all: no counts");
}

TEST(ShmSegmentTest, MemoryThatIsNotThisCommunicatorsIsRefused) {
  const std::vector<pid_t> pids(2, ::getpid());
  Result<UniqueFd> memory = ShmSegment::Create(pids, kToken);
  ASSERT_TRUE(memory.ok());
  const auto open = [&](int rank, const std::string& token) {
    return ShmSegment::Open(UniqueFd(::fcntl(memory->get(), F_DUPFD_CLOEXEC, 0)), rank, token, 1s);
  };
  EXPECT_TRUE(open(1, kToken).ok());
  EXPECT_EQ(open(2, kToken).status().code(), ErrorCode::kNotSupported);
  EXPECT_EQ(open(1, std::string(ShmSegment::kTokenBytes, 'u')).status().code(),
            ErrorCode::kNotSupported);
  EXPECT_EQ(ShmSegment::Open(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)), 0, kToken, 1s)
                .status()
                .code(),
            ErrorCode::kNotSupported);
}

TEST(ShmSegmentTest, LackOfMemoryIsAnErrorAndNoSignal) {
  const std::vector<pid_t> pids(2, ::getpid());
  const FileSizeLimit limit(1 << 20);
  const Result<UniqueFd> memory = ShmSegment::Create(pids, kToken);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.status().code(), ErrorCode::kOutOfResources);
  EXPECT_NE(memory.status().hint().find("not of /dev/shm"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
