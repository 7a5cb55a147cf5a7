// SPDX-License-Identifier: Apache-2.0
#include "collective/gpu_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace hvdray {
namespace {

constexpr int kThreads = 256;
constexpr int kInFlight = 4;  // vectors that a thread has read and not yet written
constexpr size_t kVectorBytes = sizeof(uint4);
constexpr size_t kBlockBytes = size_t{64} << 10;  // of a copy, that one block does
constexpr int kCopiesALaunch = 140;

// A launch's parameter: nothing has to be brought to the device before it.
struct Batch {
  int copies;
  unsigned first_block[kCopiesALaunch + 1];
  GpuCopy copy[kCopiesALaunch];
};
static_assert(sizeof(Batch) + sizeof(int) <= 4096, "all devices take so much");

template <typename T>
__device__ T Divided(T value, int divisor) {
  return static_cast<T>(value / static_cast<T>(divisor));
}
// So many ranks may be no int8_t.
template <>
__device__ int8_t Divided(int8_t value, int divisor) {
  return static_cast<int8_t>(value / divisor);
}
template <>
__device__ uint8_t Divided(uint8_t value, int divisor) {
  return static_cast<uint8_t>(value / divisor);
}
template <>
__device__ int16_t Divided(int16_t value, int divisor) {
  return static_cast<int16_t>(value / divisor);
}
template <>
__device__ __half Divided(__half value, int divisor) {
  return __float2half_rn(__half2float(value) / static_cast<float>(divisor));
}
template <>
__device__ __nv_bfloat16 Divided(__nv_bfloat16 value, int divisor) {
  return __float2bfloat16_rn(__bfloat162float(value) / static_cast<float>(divisor));
}

template <typename T, bool kDivides>
__device__ void Divide(T& value, int divisor) {
  if constexpr (kDivides) value = Divided(value, divisor);
}

template <typename T, bool kDivides>
__global__ void __launch_bounds__(kThreads)
    CopyKernel(const __grid_constant__ Batch batch, int divisor) {
  int index = 0;
  for (int above = batch.copies; above - index > 1;) {
    const int middle = (index + above) / 2;
    (batch.first_block[middle] <= blockIdx.x ? index : above) = middle;
  }
  const GpuCopy& copy = batch.copy[index];
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  const size_t begin = (blockIdx.x - batch.first_block[index]) * kBlock;
  const size_t count = min(kBlock, copy.count - begin);
  const T* from = static_cast<const T*>(copy.from) + begin;
  T* to = static_cast<T*>(copy.to) + begin;
  size_t done = 0;
  if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % kVectorBytes == 0) {
    constexpr size_t kWidth = kVectorBytes / sizeof(T);
    const size_t vectors = count / kWidth;
    const auto* vectors_from = reinterpret_cast<const uint4*>(from);
    auto* vectors_to = reinterpret_cast<uint4*>(to);
    for (size_t at = threadIdx.x; at < vectors; at += kThreads * kInFlight) {
      uint4 values[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (at + i * kThreads < vectors) values[i] = vectors_from[at + i * kThreads];
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (at + i * kThreads >= vectors) continue;
        T* elements = reinterpret_cast<T*>(&values[i]);
#pragma unroll
        for (size_t j = 0; j < kWidth; ++j) Divide<T, kDivides>(elements[j], divisor);
        vectors_to[at + i * kThreads] = values[i];
      }
    }
    done = vectors * kWidth;
  }
  for (size_t at = done + threadIdx.x; at < count; at += kThreads) {
    T value = from[at];
    Divide<T, kDivides>(value, divisor);
    to[at] = value;
  }
}

template <typename T, bool kDivides>
cudaError_t Launch(std::span<const GpuCopy> copies, int divisor, cudaStream_t stream) {
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  while (!copies.empty()) {
    Batch batch{};
    unsigned blocks = 0;
    for (; !copies.empty() && batch.copies < kCopiesALaunch; copies = copies.subspan(1)) {
      const GpuCopy& copy = copies.front();
      if (copy.count == 0) continue;
      batch.copy[batch.copies] = copy;
      batch.first_block[batch.copies++] = blocks;
      blocks += static_cast<unsigned>((copy.count + kBlock - 1) / kBlock);
    }
    if (blocks == 0) continue;
    CopyKernel<T, kDivides><<<blocks, kThreads, 0, stream>>>(batch, divisor);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <typename T>
cudaError_t Choose(std::span<const GpuCopy> copies, int divisor, cudaStream_t stream) {
  return divisor == 1 ? Launch<T, false>(copies, divisor, stream)
                      : Launch<T, true>(copies, divisor, stream);
}

}  // namespace

cudaError_t CopyOnGpu(std::span<const GpuCopy> copies, DataType dtype, int divisor,
                      cudaStream_t stream) {
  switch (dtype) {
    case DataType::kInt8:
      return Choose<int8_t>(copies, divisor, stream);
    case DataType::kInt16:
      return Choose<int16_t>(copies, divisor, stream);
    case DataType::kInt32:
      return Choose<int32_t>(copies, divisor, stream);
    case DataType::kInt64:
      return Choose<int64_t>(copies, divisor, stream);
    case DataType::kUint8:
      return Choose<uint8_t>(copies, divisor, stream);
    case DataType::kFloat16:
      return Choose<__half>(copies, divisor, stream);
    case DataType::kBfloat16:
      return Choose<__nv_bfloat16>(copies, divisor, stream);
    case DataType::kFloat32:
      return Choose<float>(copies, divisor, stream);
    case DataType::kFloat64:
      return Choose<double>(copies, divisor, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace hvdray
