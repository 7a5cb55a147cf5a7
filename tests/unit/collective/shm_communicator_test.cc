// SPDX-License-Identifier: Apache-2.0
// Ranks are threads that map one memory; processes are in tests/integration/collective_test.py.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <latch>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "collective/backends.h"
#include "tests/fakes/collective_suite.h"
#include "tests/fakes/file_size_limit.h"
#include "tests/fakes/refused_call.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

const std::string kToken(ShmSegment::kTokenBytes, 't');

Result<UniqueFd> MakeMemory(int size) {
  const std::vector<pid_t> pids(static_cast<size_t>(size), ::getpid());
  return ShmSegment::Create(pids, kToken);
}

std::vector<std::unique_ptr<Communicator>> MakeRanksIn(const UniqueFd& memory, int size,
                                                       Duration timeout = 60s,
                                                       uint32_t joined = 1) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    auto segment = ShmSegment::Open(UniqueFd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0)), rank,
                                    kToken, timeout);
    if (segment.ok()) ranks.push_back(MakeShmCommunicator(std::move(*segment), joined));
  }
  EXPECT_EQ(ranks.size(), static_cast<size_t>(size));
  return ranks;
}

std::vector<std::unique_ptr<Communicator>> MakeRanks(int size, Duration timeout = 60s,
                                                     uint32_t joined = 1) {
  const Result<UniqueFd> memory = MakeMemory(size);
  EXPECT_TRUE(memory.ok());
  return MakeRanksIn(*memory, size, timeout, joined);
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

TEST_P(ShmCommunicatorTest, EveryTypeAndOperationByEveryAlgorithm) {
  auto ranks = MakeRanks(GetParam());
  if (ranks.size() > 4) return;  // they do as four
  OnAll(ranks, [&](Communicator& communicator) {
    for (const uint64_t direct : {uint64_t{0}, uint64_t{1} << 20}) {
      AlgorithmTable table;
      table.shm_direct = table.shm_direct_of_two = direct;
      communicator.UseTable(table);
      for (const std::string& problem : CheckReductions(communicator, 2500)) {
        ADD_FAILURE() << problem;
      }
    }
  });
}

// Counters say how far a rank is modulo 2^31, and not all operations post all of them.
TEST_P(ShmCommunicatorTest, StepsMayWrapAndCountersMayStandStill) {
  if (GetParam() > 4) return;
  constexpr uint32_t kHalf = ShmSegment::kMostBehind;
  for (const uint32_t joined : {kHalf + 100, 2 * kHalf - 50, uint32_t{0} - 50}) {
    auto ranks = MakeRanks(GetParam(), 60s, joined);
    OnAll(ranks, [&](Communicator& communicator) {
      ASSERT_TRUE(communicator.Barrier().ok());
      for (int round = 0; round < 10; ++round) {
        std::vector<int64_t> values(100000, communicator.rank() + round);
        ASSERT_TRUE(communicator.Broadcast(values.data(), values.size(), DataType::kInt64, 1).ok());
        const std::vector<int64_t> expected(values.size(), 1 + round);
        ASSERT_EQ(values, expected) << "step " << joined << ", round " << round;
        ASSERT_TRUE(communicator
                        .AllReduce(values.data(), values.data(), values.size(), DataType::kInt64,
                                   ReduceOp::kSum)
                        .ok());
        const std::vector<int64_t> sums(values.size(), (1 + round) * communicator.size());
        ASSERT_EQ(values, sums) << "step " << joined << ", round " << round;
      }
    });
  }
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

// Pages of rank 1's buffer that are slow to come, as where others use its processor.
constexpr size_t kPage = 4096;

void ComeSlowly(int /*signo*/, siginfo_t* info, void* /*context*/) {
  constexpr timespec kTime{0, 2'000'000};
  (void)::nanosleep(&kTime, nullptr);
  auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(info->si_addr) & ~(kPage - 1));
  if (::mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) ::abort();
}

// Rounds become larger, for which more memory is taken, and smaller again.
class ShmPairOfWhomOneIsSlowTest : public testing::TestWithParam<bool> {};

TEST_P(ShmPairOfWhomOneIsSlowTest, RoundsGrowIfThereIsMemoryAndResultsAreRight) {
  const bool has_memory = GetParam();
  struct sigaction slow {};
  slow.sa_sigaction = &ComeSlowly;
  slow.sa_flags = SA_SIGINFO;
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGSEGV, &slow, &before), 0);
  const Result<UniqueFd> memory = MakeMemory(2);
  ASSERT_TRUE(memory.ok());
  auto ranks = MakeRanksIn(*memory, 2);
  OnAll(ranks, [&](Communicator& communicator) {
    ASSERT_TRUE(has_memory || RefuseCall(SYS_fallocate, ENOMEM));
    constexpr size_t kCount = 1'000'001;
    constexpr size_t kBytes = kCount * sizeof(int32_t);
    void* mapped =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    auto* values = static_cast<int32_t*>(mapped);
    for (int32_t round = 0; round < 8; ++round) {
      for (size_t i = 0; i < kCount; ++i) {
        values[i] = static_cast<int32_t>(i) + round * (communicator.rank() + 1);
      }
      for (size_t at = 0; communicator.rank() == 1 && round < 5 && at < kBytes; at += 64 * kPage) {
        ASSERT_EQ(::mprotect(static_cast<char*>(mapped) + at, kPage, PROT_NONE), 0);
      }
      ASSERT_TRUE(
          communicator.AllReduce(values, values, kCount, DataType::kInt32, ReduceOp::kSum).ok());
      bool are_right = true;
      for (size_t i = 0; i < kCount; ++i) {
        are_right = are_right && values[i] == 2 * static_cast<int32_t>(i) + 3 * round;
      }
      EXPECT_TRUE(are_right) << round;
    }
    EXPECT_EQ(::munmap(mapped, kBytes), 0);
  });
  struct stat info {};
  ASSERT_EQ(::fstat(memory->get(), &info), 0);
  EXPECT_EQ(static_cast<size_t>(info.st_blocks) * 512 > 2 * ShmSegment::kMostPlaceBytes,
            has_memory);
  EXPECT_EQ(::sigaction(SIGSEGV, &before, nullptr), 0);
}

INSTANTIATE_TEST_SUITE_P(Memory, ShmPairOfWhomOneIsSlowTest, testing::Bool());

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

TEST(ShmCommunicatorFaultTest, AllNameTheRankThatHasLeftOrDidNotCome) {
  for (const bool has_left : {true, false}) {
    auto ranks = MakeRanks(3, has_left ? Duration(60s) : 500ms);
    if (has_left) ranks[1].reset();
    std::latch both_are_there(2);
    const auto wait = [&](size_t rank) {
      both_are_there.arrive_and_wait();
      const Status status = ranks[rank]->Barrier();
      const char* what = has_left ? "rank 1 of 3 has left" : "rank 1 of 3 did not come";
      EXPECT_TRUE(status.message().starts_with(what)) << rank << ": " << status.ToString();
    };
    std::thread other([&] { wait(2); });
    wait(0);
    other.join();
    if (!has_left) {
      EXPECT_EQ(ranks[1]->Barrier().code(), ErrorCode::kAborted);
    }
  }
}

TEST(ShmCommunicatorFaultTest, DifferentCountsEndWithinTheTimeout) {
  // Undefined, but bounded: an error or meaningless values, nothing outside the buffers (asan).
  auto ranks = MakeRanks(2, 100ms);
  std::atomic<int> failed = 0;
  OnAll(ranks, [&](Communicator& communicator) {
    std::vector<float> values(communicator.rank() == 0 ? 10 : 300000, 1.0F);
    const Status status = communicator.AllReduce(values.data(), values.data(), values.size(),
                                                 DataType::kFloat32, ReduceOp::kSum);
    if (!status.ok() || !communicator.Barrier().ok()) ++failed;
  });
  // One takes many steps, the other two.
  EXPECT_EQ(failed, 2);
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

TEST(ShmCommunicatorFaultTest, TheCheckingModeNamesBothTypesOperationsAndRoots) {
  auto ranks = MakeRanks(2);
  for (auto& rank : ranks) rank = MakeCheckingCommunicator(std::move(rank));
  OnAll(ranks, [&](Communicator& communicator) {
    std::vector<float> in(12);
    std::vector<float> out(12);
    const bool is_first = communicator.rank() == 0;
    EXPECT_EQ(communicator
                  .AllReduce(in.data(), out.data(), 3,
                             is_first ? DataType::kFloat32 : DataType::kInt32, ReduceOp::kSum)
                  .message(),
              "ranks differ: rank 0 calls all_reduce of 3 float32 (sum), rank 1 all_reduce of 3 "
              "int32 (sum)");
    EXPECT_EQ(communicator
                  .AllReduce(in.data(), out.data(), 3, DataType::kInt32,
                             is_first ? ReduceOp::kMin : ReduceOp::kMax)
                  .message(),
              "ranks differ: rank 0 calls all_reduce of 3 int32 (min), rank 1 all_reduce of 3 "
              "int32 (max)");
    EXPECT_EQ(communicator.Broadcast(in.data(), 3, DataType::kInt32, is_first ? 0 : 1).message(),
              "ranks differ: rank 0 calls broadcast of 3 int32, root 0, rank 1 broadcast of 3 "
              "int32, root 1");
    EXPECT_TRUE(communicator.Barrier().ok());
  });
}

TEST(ShmCommunicatorFaultTest, TheCheckingModeComparesWhatTwoRanksExchange) {
  auto ranks = MakeRanks(3);
  for (auto& rank : ranks) rank = MakeCheckingCommunicator(std::move(rank));
  OnAll(ranks, [&](Communicator& communicator) {
    const int me = communicator.rank();
    std::vector<float> in(12, static_cast<float>(me));
    std::vector<float> out(12);
    // Rank 0 sends rank 2 what that one does not receive.
    const std::vector<size_t> sent{1, 1, me == 0 ? size_t{2} : size_t{1}};
    const std::vector<size_t> received{1, 1, 1};
    EXPECT_EQ(
        communicator.AllToAllV(in.data(), sent, out.data(), received, DataType::kFloat32).message(),
        "ranks differ: rank 0 calls all_to_all and sends rank 2 2 float32, rank 2 receives 1");
    if (me == 0) {
      EXPECT_EQ(communicator.Send(in.data(), 12, DataType::kFloat32, 1).message(),
                "ranks differ: rank 0 sends 12 float32, rank 1 receives 10 float32");
    } else if (me == 1) {
      EXPECT_EQ(communicator.Recv(out.data(), 10, DataType::kFloat32, 0).message(),
                "ranks differ: rank 0 sends 12 float32, rank 1 receives 10 float32");
    }
    std::vector<Tensor> tensors{{in.data(), me == 0 ? size_t{3} : size_t{2}},
                                {in.data() + 6, me == 0 ? size_t{2} : size_t{3}}};
    EXPECT_EQ(communicator.GroupAllReduce(tensors, DataType::kFloat32, ReduceOp::kSum).message(),
              "ranks differ: rank 0 calls all_reduce of 5 float32 (sum) in 2 tensors, rank 1 "
              "all_reduce of 5 float32 (sum) in 2 tensors of other sizes");
    // And where they agree, everything works as usual.
    for (const std::string& problem : CheckCollectives(communicator, std::vector<size_t>{3})) {
      ADD_FAILURE() << problem;
    }
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
  std::vector<Tensor> tensors{{values, 3}, {values + 4, SIZE_MAX / 4}};
  expect(communicator.GroupAllReduce(tensors, DataType::kFloat32, ReduceOp::kSum),
         "all_reduce: 4611686018427387903 elements are more than memory has");
  const std::vector<size_t> counts{1, 2, 3};
  expect(communicator.AllGatherV(values, values, counts, DataType::kFloat32),
         "all_gather: 3 counts for 2 ranks");
  expect(communicator.AllToAllV(values, {}, values + 4, {}, DataType::kFloat32),
         "all_to_all: no counts");
  expect(communicator.AllGatherV(values, values, {}, DataType::kFloat32), "all_gather: no counts");
  const std::vector<size_t> sent{1, 2};
  const std::vector<size_t> received{2, 2};
  expect(communicator.AllToAllV(values, sent, values + 4, received, DataType::kFloat32),
         "all_to_all: rank 0 sends itself 1 elements and receives 2");
}

TEST(SingleCommunicatorTest, ChecksArgumentsAsTheOthers) {
  const auto single = MakeSingleCommunicator();
  std::vector<float> in(1000, 1.0F);
  std::vector<float> out(1000);
  const std::vector<size_t> one{1};
  const std::vector<size_t> many{1000};
  EXPECT_EQ(single->AllToAllV(in.data(), one, out.data(), many, DataType::kFloat32).code(),
            ErrorCode::kUsage);
  EXPECT_TRUE(single->AllToAllV(in.data(), many, out.data(), many, DataType::kFloat32).ok());
  EXPECT_EQ(out, in);
  // Together 4 elements, modulo 2^64.
  const std::vector<Tensor> group{{in.data(), 10}, {in.data(), SIZE_MAX - 5}};
  EXPECT_EQ(single->GroupAllReduce(group, DataType::kFloat32, ReduceOp::kSum).code(),
            ErrorCode::kUsage);
  const auto none = static_cast<DataType>(77);
  EXPECT_EQ(single->GroupAllReduce(group, none, ReduceOp::kSum).code(), ErrorCode::kUsage);
  EXPECT_EQ(single->Broadcast(in.data(), 1, none, 0).code(), ErrorCode::kUsage);
  single->Abort();
  EXPECT_EQ(single->Barrier().code(), ErrorCode::kAborted);
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

TEST(ShmSegmentTest, LackOfMemoryForAFirstMessageEndsBothRanks) {
  auto ranks = MakeRanks(2);
  OnAll(ranks, [](Communicator& communicator) {
    const bool is_sender = communicator.rank() == 0;
    ASSERT_TRUE(communicator.Barrier().ok());
    ASSERT_TRUE(!is_sender || RefuseCall(SYS_fallocate, ENOMEM));
    char byte = 1;
    const Status status = is_sender ? communicator.Send(&byte, 1, DataType::kUint8, 1)
                                    : communicator.Recv(&byte, 1, DataType::kUint8, 0);
    EXPECT_EQ(status.code(), is_sender ? ErrorCode::kOutOfResources : ErrorCode::kAborted);
    EXPECT_EQ(communicator.Barrier().code(), ErrorCode::kAborted);
  });
}

}  // namespace
}  // namespace hvdray
