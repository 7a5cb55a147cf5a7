// SPDX-License-Identifier: Apache-2.0
// The NCCL communicator of one rank and the kernels on a real GPU; skipped, with the reason, where
// there is none. Not tested: several ranks, which need as many GPUs (nccl_communicator_test.cc has
// them over stand-ins).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "collective/gpu_kernels.h"
#include "collective/reduce_kernels.h"
#include "tests/fakes/collective_suite.h"

#ifdef __SANITIZE_ADDRESS__
// CUDA maps memory where the sanitizer keeps a gap.
extern "C" const char* __asan_default_options() {  // NOLINT: the sanitizer's name
  return "protect_shadow_gap=0";
}
// NCCL keeps a few blocks of each communicator, and of libibverbs.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: likewise
  return "leak:libnccl\nleak:libibverbs\nleak:libcuda\n";
}
#endif

namespace hvdray {
namespace {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
        error == cudaErrorStubLibrary) {
      GTEST_SKIP() << "no GPU here: " << cudaGetErrorString(error);
    }
    ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  }
};

// The host reads and writes it, too.
std::shared_ptr<char> Managed(size_t bytes) {
  void* memory = nullptr;
  if (cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal) != cudaSuccess) return nullptr;
  return {static_cast<char*>(memory), [](char* mine) { (void)cudaFree(mine); }};
}

Result<std::unique_ptr<Communicator>> MakeOne(cudaStream_t stream) {
  CommunicatorOptions options;
  options.backend = Backend::kNccl;
  options.stream = stream;
  return MakeCommunicator(options);
}

TEST_F(GpuTest, EveryCollectiveOfOneRankEqualsItsReference) {
  auto made = MakeOne(nullptr);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const std::vector<size_t> counts{0, 1, 5, 1000, 300007};
  for (const std::string& problem : CheckCollectives(**made, counts, {16, Managed})) {
    ADD_FAILURE() << problem;
  }
}

TEST_F(GpuTest, AnAbortIsForEver) {
  auto made = MakeOne(nullptr);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  (*made)->Abort();
  const std::shared_ptr<char> memory = Managed(64);
  EXPECT_EQ(
      (*made)->AllReduce(memory.get(), memory.get(), 16, DataType::kFloat32, ReduceOp::kSum).code(),
      ErrorCode::kAborted);
  EXPECT_TRUE(MakeOne(nullptr).ok());
}

TEST_F(GpuTest, CallsOnAStreamAreInTheirOrder) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    auto made = MakeOne(stream);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    constexpr size_t kCount = 1 << 20;
    const std::shared_ptr<char> from = Managed(kCount);
    const std::shared_ptr<char> to = Managed(kCount);
    ASSERT_EQ(cudaMemsetAsync(from.get(), 7, kCount, stream), cudaSuccess);
    ASSERT_TRUE(
        (*made)->AllReduce(from.get(), to.get(), kCount, DataType::kUint8, ReduceOp::kMax).ok());
    ASSERT_EQ(cudaMemsetAsync(from.get(), 9, kCount, stream), cudaSuccess);
    ASSERT_TRUE((*made)->Synchronize().ok());
    EXPECT_EQ(to.get()[kCount - 1], 7);
    EXPECT_EQ(from.get()[kCount - 1], 9);
  }
  (void)cudaStreamDestroy(stream);
}

// Every type, aligned and not, with ends that are no whole vector, as the host divides.
TEST_F(GpuTest, CopiesAndQuotientsAreTheHosts) {
  for (const DataType dtype : kDataTypes) {
    const size_t element = SizeOf(dtype);
    for (const int divisor : {1, 3, 200}) {
      std::vector<GpuCopy> copies;
      std::vector<std::shared_ptr<char>> memory;
      // More than one launch takes; one that needs many blocks.
      for (size_t i = 0; i < 300; ++i) {
        const size_t count = i == 100 ? 1000003 : i * 7 % 90;
        const size_t skip = i % 3 == 0 ? element : 0;
        memory.push_back(Managed((count + 1) * element + skip));
        char* from = memory.back().get() + skip;
        memory.push_back(Managed((count + 1) * element + skip));
        char* to = memory.back().get() + skip;
        for (size_t j = 0; j < count; ++j) {
          StoreNumber(from, j, dtype, static_cast<double>(j * 11 % 120));
        }
        std::memset(to, 0x5A, (count + 1) * element);
        copies.push_back({from, i % 4 == 0 ? from : to, count});
      }
      std::vector<std::vector<char>> expected;
      for (const GpuCopy& copy : copies) {
        const void* sources[] = {copy.from};
        expected.emplace_back(copy.count * element);
        if (divisor == 1 && copy.count > 0) {
          std::memcpy(expected.back().data(), copy.from, expected.back().size());
        } else {
          FindReduce(dtype, ReduceOp::kAverage)(sources, 1, expected.back().data(), nullptr,
                                                copy.count, divisor);
        }
      }
      ASSERT_EQ(CopyOnGpu(copies, dtype, divisor, nullptr), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      for (size_t i = 0; i < copies.size(); ++i) {
        EXPECT_TRUE(expected[i].empty() ||
                    std::memcmp(copies[i].to, expected[i].data(), expected[i].size()) == 0)
            << Name(dtype) << " / " << divisor << ", copy " << i;
      }
    }
  }
}

// Also infinities, zeros of both signs, and what is too small for a normal number.
TEST_F(GpuTest, TheQuotientOfEvery16BitFloatIsTheHosts) {
  constexpr size_t kPatterns = 1 << 16;
  const std::shared_ptr<char> from = Managed(kPatterns * 2);
  const std::shared_ptr<char> to = Managed(kPatterns * 2);
  for (size_t i = 0; i < kPatterns; ++i) {
    const auto pattern = static_cast<uint16_t>(i);
    std::memcpy(from.get() + 2 * i, &pattern, 2);
  }
  std::vector<char> expected(kPatterns * 2);
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16}) {
    for (const int divisor :
         {2, 3, 5, 6, 7, 9, 11, 12, 13, 24, 49, 64, 100, 255, 1023, 4097, 65537, 2147483647}) {
      const GpuCopy copy{from.get(), to.get(), kPatterns};
      ASSERT_EQ(CopyOnGpu({&copy, 1}, dtype, divisor, nullptr), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      const void* sources[] = {from.get()};
      FindReduce(dtype, ReduceOp::kAverage)(sources, 1, expected.data(), nullptr, kPatterns,
                                            divisor);
      size_t differing = 0;
      for (size_t i = 0; i < kPatterns; ++i) {
        const bool is_none = std::isnan(LoadNumber(expected.data(), i, dtype));
        if (is_none ? !std::isnan(LoadNumber(to.get(), i, dtype))
                    : std::memcmp(to.get() + 2 * i, expected.data() + 2 * i, 2) != 0) {
          ++differing;
        }
      }
      EXPECT_EQ(differing, 0U) << Name(dtype) << " / " << divisor;
    }
  }
}

// Several launches for each copy of the batch, which may overlap, and the next batch needs all of
// the one before.
TEST_F(GpuTest, ABatchOfManyLaunchesIsOverBeforeTheNext) {
  constexpr size_t kTensors = 5000;
  constexpr size_t kLargest = 4 << 20;
  constexpr size_t kStep = 1024;
  constexpr size_t kBytes = kLargest + kTensors * kStep;
  char* memory[3] = {};
  for (char*& place : memory) {
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&place), kBytes), cudaSuccess);
  }
  const auto batch = [&](const char* from, char* to) {
    std::vector<GpuCopy> copies{{from, to, kLargest}};  // the first launch is the longest
    for (size_t i = 0; i < kTensors; ++i) {
      copies.push_back({from + kLargest + i * kStep, to + kLargest + i * kStep, kStep});
    }
    return CopyOnGpu(copies, DataType::kUint8, 1, nullptr);
  };
  std::vector<char> result(kBytes);
  for (int round = 1; round <= 50; ++round) {
    ASSERT_EQ(cudaMemsetAsync(memory[0], round, kBytes, nullptr), cudaSuccess);
    ASSERT_EQ(batch(memory[0], memory[1]), cudaSuccess);
    ASSERT_EQ(batch(memory[1], memory[2]), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(result.data(), memory[2], kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(std::count(result.begin(), result.end(), static_cast<char>(round)), kBytes);
  }
  for (char* place : memory) (void)cudaFree(place);
}

TEST_F(GpuTest, MemoryOfTheHostIsRefusedAndCudaGoesOn) {
  int reads_host = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&reads_host, cudaDevAttrPageableMemoryAccess, 0), cudaSuccess);
  if (reads_host != 0) GTEST_SKIP() << "this GPU reads the host's memory";
  auto made = MakeOne(nullptr);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  std::vector<float> values(16);
  const Status status = (*made)->AllReduce(values.data(), values.data(), values.size(),
                                           DataType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(status.code(), ErrorCode::kUsage);
  EXPECT_EQ(status.message(),
            "all_reduce: a buffer of rank 0 is in memory of the host, not of GPU 0");
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace hvdray
