// SPDX-License-Identifier: Apache-2.0
#include "collective/gpu_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace hvdray {
namespace {

constexpr int kThreads = 256;
constexpr int kInFlight = 2;  // vectors that a thread reads before it writes one
constexpr size_t kVectorBytes = sizeof(uint4);
constexpr size_t kBlockBytes = kThreads * kInFlight * kVectorBytes;  // what a block copies

// Copies of one launch. More of them need parameters of 32,764 bytes, which CUDA and drivers have
// had since 12.1; the fewer are quicker to launch.
constexpr int kFew = 140;
constexpr int kMany = CUDART_VERSION >= 12010 ? 1000 : kFew;
constexpr int kDriverOfMany = 12010;

// A launch's parameter: nothing has to be brought to the device before it.
template <int kCopies>
struct Batch {
  int copies;
  unsigned first_block[kCopies];
  GpuCopy copy[kCopies];
};

struct Divisor {
  int number;
  float as_float;
  float reciprocal;
};
static_assert(sizeof(Batch<kFew>) + sizeof(Divisor) <= 4096);
static_assert(sizeof(Batch<kMany>) + sizeof(Divisor) <= 32764);

// The float32 quotient of a 16-bit float, rounded as a division rounds it, in a third of its time:
// a division of each element would take longer than memory does.
__device__ float Quotient(float value, Divisor divisor) {
  const float about = value * divisor.reciprocal;
  const float rest = fmaf(-about, divisor.as_float, value);
  // No rest: exact, zero, infinite, or not a number.
  return fabsf(rest) > 0 ? fmaf(rest, divisor.reciprocal, about) : about;
}

template <typename T>
__device__ T Divided(T value, Divisor divisor) {
  return static_cast<T>(value / static_cast<T>(divisor.number));
}
// So many ranks may be no int8_t.
template <>
__device__ int8_t Divided(int8_t value, Divisor divisor) {
  return static_cast<int8_t>(value / divisor.number);
}
template <>
__device__ uint8_t Divided(uint8_t value, Divisor divisor) {
  return static_cast<uint8_t>(value / divisor.number);
}
template <>
__device__ int16_t Divided(int16_t value, Divisor divisor) {
  return static_cast<int16_t>(value / divisor.number);
}
template <>
__device__ __half Divided(__half value, Divisor divisor) {
  return __float2half_rn(Quotient(__half2float(value), divisor));
}
template <>
__device__ __nv_bfloat16 Divided(__nv_bfloat16 value, Divisor divisor) {
  return __float2bfloat16_rn(Quotient(__bfloat162float(value), divisor));
}

template <typename T, bool kDivides>
__device__ void Divide(T& value, Divisor divisor) {
  if constexpr (kDivides) value = Divided(value, divisor);
}

// The blocks of the next launch of a batch may start as soon as all of this one have. A launch is
// over no sooner than the one before it, so whatever follows the last follows all.
__device__ void LetTheNextStart() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ void AwaitTheOneBefore() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

template <typename T, bool kDivides, int kCopies>
__global__ void __launch_bounds__(kThreads)
    CopyKernel(const __grid_constant__ Batch<kCopies> batch, Divisor divisor) {
  LetTheNextStart();
  int index = 0;
  for (int above = batch.copies; above - index > 1;) {
    const int middle = (index + above) / 2;
    (batch.first_block[middle] <= blockIdx.x ? index : above) = middle;
  }
  const GpuCopy& copy = batch.copy[index];
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  const size_t begin = (blockIdx.x - batch.first_block[index]) * kBlock;
  const auto count = static_cast<unsigned>(min(kBlock, copy.count - begin));
  const T* from = static_cast<const T*>(copy.from) + begin;
  T* to = static_cast<T*>(copy.to) + begin;
  unsigned done = 0;
  if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % kVectorBytes == 0) {
    constexpr unsigned kWidth = kVectorBytes / sizeof(T);
    const unsigned vectors = count / kWidth;
    const auto* vectors_from = reinterpret_cast<const uint4*>(from);
    auto* vectors_to = reinterpret_cast<uint4*>(to);
    uint4 values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const unsigned at = threadIdx.x + i * kThreads;
      if (at < vectors) values[i] = vectors_from[at];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const unsigned at = threadIdx.x + i * kThreads;
      if (at >= vectors) continue;
      T* elements = reinterpret_cast<T*>(&values[i]);
#pragma unroll
      for (unsigned j = 0; j < kWidth; ++j) Divide<T, kDivides>(elements[j], divisor);
      vectors_to[at] = values[i];
    }
    done = vectors * kWidth;
  }
  for (unsigned at = done + threadIdx.x; at < count; at += kThreads) {
    T value = from[at];
    Divide<T, kDivides>(value, divisor);
    to[at] = value;
  }
  AwaitTheOneBefore();
}

bool CanOverlapLaunches() {
  int device = 0;
  int capability = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device) ==
             cudaSuccess &&
         capability >= 9;
}

template <typename T, bool kDivides, int kCopies>
cudaError_t LaunchBatches(std::span<const GpuCopy> copies, Divisor divisor, cudaStream_t stream) {
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.blockDim = kThreads;
  config.stream = stream;
  config.attrs = &overlap;
  while (!copies.empty()) {
    Batch<kCopies> batch;
    batch.copies = 0;
    unsigned blocks = 0;
    for (; !copies.empty() && batch.copies < kCopies; copies = copies.subspan(1)) {
      const GpuCopy& copy = copies.front();
      if (copy.count == 0) continue;
      batch.copy[batch.copies] = copy;
      batch.first_block[batch.copies++] = blocks;
      blocks += static_cast<unsigned>((copy.count + kBlock - 1) / kBlock);
    }
    if (blocks == 0) continue;
    config.gridDim = blocks;
    const cudaError_t error =
        cudaLaunchKernelEx(&config, CopyKernel<T, kDivides, kCopies>, batch, divisor);
    if (error != cudaSuccess) return error;
    config.numAttrs = CanOverlapLaunches() ? 1 : 0;  // The first waits for what is in the stream.
  }
  return cudaSuccess;
}

template <typename T, bool kDivides>
cudaError_t Launch(std::span<const GpuCopy> copies, int divisor, cudaStream_t stream) {
  const auto as_float = static_cast<float>(divisor);
  const Divisor prepared{divisor, as_float, 1 / as_float};
  int driver = 0;
  const bool are_many = copies.size() > kFew && cudaDriverGetVersion(&driver) == cudaSuccess &&
                        driver >= kDriverOfMany;
  return are_many ? LaunchBatches<T, kDivides, kMany>(copies, prepared, stream)
                  : LaunchBatches<T, kDivides, kFew>(copies, prepared, stream);
}

cudaError_t Divide(std::span<const GpuCopy> copies, DataType dtype, int divisor,
                   cudaStream_t stream) {
  switch (dtype) {
    case DataType::kInt8:
      return Launch<int8_t, true>(copies, divisor, stream);
    case DataType::kInt16:
      return Launch<int16_t, true>(copies, divisor, stream);
    case DataType::kInt32:
      return Launch<int32_t, true>(copies, divisor, stream);
    case DataType::kInt64:
      return Launch<int64_t, true>(copies, divisor, stream);
    case DataType::kUint8:
      return Launch<uint8_t, true>(copies, divisor, stream);
    case DataType::kFloat16:
      return Launch<__half, true>(copies, divisor, stream);
    case DataType::kBfloat16:
      return Launch<__nv_bfloat16, true>(copies, divisor, stream);
    case DataType::kFloat32:
      return Launch<float, true>(copies, divisor, stream);
    case DataType::kFloat64:
      return Launch<double, true>(copies, divisor, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t CopyOnGpu(std::span<const GpuCopy> copies, DataType dtype, int divisor,
                      cudaStream_t stream) {
  if (divisor != 1) return Divide(copies, dtype, divisor, stream);
  switch (SizeOf(dtype)) {
    case 1:
      return Launch<uint8_t, false>(copies, 1, stream);
    case 2:
      return Launch<uint16_t, false>(copies, 1, stream);
    case 4:
      return Launch<uint32_t, false>(copies, 1, stream);
    default:
      return Launch<uint64_t, false>(copies, 1, stream);
  }
}

}  // namespace hvdray
