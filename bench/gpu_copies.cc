// SPDX-License-Identifier: Apache-2.0
// What the kernels of the collective library reach of a GPU's copy bandwidth:
//   gpu_copies       microseconds for 256 MiB as a line of JSON, or why there are none
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "collective/gpu_kernels.h"

namespace hvdray {
namespace {

constexpr size_t kBytes = size_t{256} << 20;
constexpr int kCalls = 20;
constexpr int kRounds = 7;

bool IsOk(cudaError_t error) {
  if (error != cudaSuccess) fmt::print(stderr, "gpu_copies: {}\n", cudaGetErrorString(error));
  return error == cudaSuccess;
}

// Median of rounds, microseconds a call.
double Measure(const std::function<cudaError_t()>& call) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  if (!IsOk(cudaEventCreate(&begin)) || !IsOk(cudaEventCreate(&end))) return 0;
  std::vector<double> rounds;
  for (int round = 0; round <= kRounds; ++round) {
    (void)cudaEventRecord(begin, nullptr);
    for (int i = 0; i < kCalls; ++i) {
      if (!IsOk(call())) return 0;
    }
    (void)cudaEventRecord(end, nullptr);
    if (!IsOk(cudaEventSynchronize(end))) return 0;
    float milliseconds = 0;
    (void)cudaEventElapsedTime(&milliseconds, begin, end);
    if (round > 0) rounds.push_back(milliseconds * 1000 / kCalls);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

// The whole as about `count` tensors of different sizes, each beginning at a multiple of 16 bytes.
std::vector<GpuCopy> Tensors(const char* from, char* to, size_t count) {
  constexpr size_t kAlignment = 16;
  std::vector<GpuCopy> copies;
  const size_t mean = kBytes / count / kAlignment * kAlignment;
  for (size_t place = 0; place < kBytes;) {
    const size_t bytes = mean / 2 + copies.size() * 7919 % mean;
    const size_t fitting = std::min(bytes / kAlignment * kAlignment, kBytes - place);
    copies.push_back({from + place, to + place, fitting / sizeof(float)});
    place += fitting;
  }
  return copies;
}

int Main() {
  char* from = nullptr;
  char* to = nullptr;
  if (!IsOk(cudaMalloc(reinterpret_cast<void**>(&from), kBytes)) ||
      !IsOk(cudaMalloc(reinterpret_cast<void**>(&to), kBytes)) ||
      !IsOk(cudaMemset(from, 0, kBytes))) {
    return 1;
  }
  std::string line =
      fmt::format("{{\"cudaMemcpy\": {:.1f}", Measure([&] {
                    return cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, nullptr);
                  }));
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32}) {
    const GpuCopy in_place{from, from, kBytes / SizeOf(dtype)};
    line += fmt::format(", \"average {}\": {:.1f}", Name(dtype), Measure([&] {
                          return CopyOnGpu({&in_place, 1}, dtype, 3, nullptr);
                        }));
  }
  for (const size_t count : {100, 1000, 10000}) {
    const std::vector<GpuCopy> copies = Tensors(from, to, count);
    line += fmt::format(", \"pack of {} tensors\": {:.1f}", count,
                        Measure([&] { return CopyOnGpu(copies, DataType::kFloat32, 1, nullptr); }));
  }
  fmt::print("{}}}\n", line);
  return 0;
}

}  // namespace
}  // namespace hvdray

int main() { return hvdray::Main(); }
