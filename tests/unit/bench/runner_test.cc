// SPDX-License-Identifier: Apache-2.0
// The runner over communicators of threads, and over one whose results are wrong.
#include "collective/bench/runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>

#include "collective/backends.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

std::vector<std::unique_ptr<Communicator>> MakeRanks(int size) {
  const std::string token(ShmSegment::kTokenBytes, 't');
  const std::vector<pid_t> pids(static_cast<size_t>(size), ::getpid());
  const Result<UniqueFd> memory = ShmSegment::Create(pids, token);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; memory.ok() && rank < size; ++rank) {
    auto segment =
        ShmSegment::Open(UniqueFd(::fcntl(memory->get(), F_DUPFD_CLOEXEC, 0)), rank, token, 60s);
    if (segment.ok()) ranks.push_back(MakeShmCommunicator(std::move(*segment)));
  }
  EXPECT_EQ(ranks.size(), static_cast<size_t>(size));
  return ranks;
}

/// A rank alone whose reductions add one to the first byte.
class WrongCommunicator : public Communicator {
 public:
  WrongCommunicator() : Communicator(0, 1) {}
  std::string_view backend() const override { return "wrong"; }
  void Abort() override {}
  void UseTable(const AlgorithmTable& /*table*/) override {}

 private:
  Status Execute(const Operation& operation) override {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (operation.recv != operation.send) std::memcpy(operation.recv, operation.send, bytes);
    // What the runner itself asks for is left alone.
    if (operation.dtype == DataType::kInt16) ++*static_cast<char*>(operation.recv);
    return {};
  }
};

std::vector<BenchCase> AllCases(int size) {
  SweepWords words;
  words.min_bytes = "8";
  words.max_bytes = "3000";
  words.step_factor = "19";
  words.collectives = words.dtypes = words.ops = words.roots = "all";
  const auto cases = CasesOf(*ParseSweep(words), size);
  return cases.ok() ? *cases : std::vector<BenchCase>{};
}

TEST(BenchRunnerTest, EveryCaseIsRightAndTheSameOnAllRanks) {
  for (const int size : {2, 3}) {
    auto ranks = MakeRanks(size);
    const std::vector<BenchCase> cases = AllCases(size);
    std::vector<std::vector<BenchRow>> rows(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        BenchOptions options;
        options.iterations = 2;
        options.warmup_iterations = 0;
        auto runner = BenchRunner::Make(*ranks[i], options, MaxBytes(cases));
        ASSERT_TRUE(runner.ok());
        for (const BenchCase& one : cases) {
          Result<BenchRow> row = runner->Measure(one);
          ASSERT_TRUE(row.ok()) << row.status().ToString();
          rows[i].push_back(std::move(*row));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<BenchRow>& of_rank : rows) {
      ASSERT_EQ(of_rank.size(), cases.size());
      for (size_t i = 0; i < cases.size(); ++i) {
        EXPECT_EQ(WrongText(of_rank[i]), "");
        const bool has_both =
            cases[i].kind != Collective::kBroadcast && cases[i].kind != Collective::kSend;
        EXPECT_EQ(of_rank[i].out_of_place && of_rank[i].in_place, has_both);
        EXPECT_TRUE(of_rank[i].out_of_place || of_rank[i].in_place);
        if (!has_both) continue;
        EXPECT_EQ(of_rank[i].in_place->mean_us, rows[0][i].in_place->mean_us);
      }
    }
  }
}

TEST(BenchRunnerTest, RanksAgreeOnTheIterationsThatFitTheBudget) {
  auto ranks = MakeRanks(2);
  std::vector<size_t> iterations(2);
  std::vector<BenchRunner::CopySpeed> speeds(2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      BenchOptions options;
      options.budget = i == 0 ? 0ms : 10s;  // only rank 0's counts
      auto runner = BenchRunner::Make(*ranks[i], options, 1024);
      ASSERT_TRUE(runner.ok());
      const auto row =
          runner->Measure({Collective::kAllReduce, DataType::kInt32, ReduceOp::kMax, 0, 8, 32});
      ASSERT_TRUE(row.ok());
      iterations[i] = row->in_place->iterations;
      speeds[i] = *runner->MeasureCopy(1024);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(iterations, (std::vector<size_t>{10, 10}));
  EXPECT_EQ(speeds[0].mean_gbps, speeds[1].mean_gbps);
  EXPECT_GT(speeds[0].least_gbps, 0);
  EXPECT_LE(speeds[0].least_gbps, speeds[0].mean_gbps);
  EXPECT_LE(speeds[0].mean_gbps, speeds[0].most_gbps);
}

TEST(BenchRunnerTest, AWrongElementIsFound) {
  WrongCommunicator communicator;
  BenchOptions options;
  options.iterations = 1;
  auto runner = BenchRunner::Make(communicator, options, 1000);
  ASSERT_TRUE(runner.ok());
  const BenchCase what{Collective::kAllReduce, DataType::kInt16, ReduceOp::kSum, 0, 500, 1000};
  const auto row = runner->Measure(what);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->out_of_place->wrong, 1U);
  EXPECT_EQ(row->in_place->wrong, 1U);
}

TEST(BenchRunnerTest, BuffersThatDoNotFitAreAnErrorBeforeTheyAreTaken) {
  WrongCommunicator communicator;
  EXPECT_TRUE(
      CheckMemory(communicator, {.available_bytes = 8 << 20, .local_size = 2}, 2 << 20).ok());
  const Status status =
      CheckMemory(communicator, {.available_bytes = 8 << 20, .local_size = 2}, (2 << 20) + 1);
  EXPECT_EQ(status.code(), ErrorCode::kUsage);
  EXPECT_NE(status.ToString().find(
                "4 buffers of 2.0 MiB each do not fit the 8 MiB of memory that the host of "
                "rank 0 has left"),
            std::string::npos)
      << status.ToString();
  EXPECT_NE(status.ToString().find("take --maxbytes 2048K or less"), std::string::npos);
  EXPECT_FALSE(BenchRunner::Make(communicator, {}, SIZE_MAX / 2 + 1).ok());
}

TEST(BenchRunnerTest, AvailableMemoryIsTheSmallerOfMachineAndContainer) {
  const std::string meminfo = "MemTotal:  4000 kB\nMemFree: 10 kB\nMemAvailable:   3000 kB\n";
  EXPECT_EQ(AvailableMemory(meminfo, "max\n"), 3000U << 10);
  EXPECT_EQ(AvailableMemory(meminfo, "1048576\n"), 1U << 20);
  EXPECT_EQ(AvailableMemory("", ""), UINT64_MAX);
  EXPECT_EQ(AvailableMemory("MemAvailable:\n", "4096"), 4096U);
}

}  // namespace
}  // namespace hvdray
