// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/memory.h"

#include <fmt/format.h>

#ifdef HVDRAY_HAS_NCCL
#include <cuda_runtime_api.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "collective/bench/sweep.h"

namespace hvdray {
namespace {

Result<std::shared_ptr<char>> AllocateOnHost(size_t bytes) {
  std::shared_ptr<char> memory;
  // A sanitizer ends the program over a size that can't be.
  if (bytes <= PTRDIFF_MAX)
    memory.reset(static_cast<char*>(std::malloc(bytes)), std::free);  // NOLINT: owned
  if (memory == nullptr && bytes > 0) {
    return Status(ErrorCode::kOutOfResources, fmt::format("no memory for {}", SizeText(bytes)));
  }
  // Takes the pages now, and not while something is measured.
  if (bytes > 0) std::memset(memory.get(), 0, bytes);
  return memory;
}

#ifdef HVDRAY_HAS_NCCL
Status CheckGpu(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return {ErrorCode::kOutOfResources, fmt::format("CUDA: {}", cudaGetErrorString(error))};
}
#endif

}  // namespace

Result<BenchMemory> BenchMemory::Allocate(int device, size_t bytes) {
  BenchMemory memory;
  memory.device_ = device;
  memory.bytes_ = bytes;
  HVDRAY_ASSIGN_OR_RETURN(memory.host_, AllocateOnHost(bytes));
  memory.data_ = memory.host_;
#ifdef HVDRAY_HAS_NCCL
  if (device >= 0) {
    void* data = nullptr;
    HVDRAY_RETURN_IF_ERROR(CheckGpu(cudaSetDevice(device)));
    HVDRAY_RETURN_IF_ERROR(CheckGpu(cudaMalloc(&data, bytes)));
    memory.data_.reset(static_cast<char*>(data), [](char* mine) { (void)cudaFree(mine); });
  }
#endif
  return memory;
}

Status BenchMemory::Clear(size_t bytes) {
  std::memset(host(), 0, bytes);
  return Upload(bytes);
}

#ifdef HVDRAY_HAS_NCCL
Status BenchMemory::Upload(size_t bytes) {
  if (device_ < 0) return {};
  return CheckGpu(cudaMemcpy(data(), host(), bytes, cudaMemcpyHostToDevice));
}

Status BenchMemory::Download(size_t bytes) {
  if (device_ < 0) return {};
  return CheckGpu(cudaMemcpy(host(), data(), bytes, cudaMemcpyDeviceToHost));
}
#else
Status BenchMemory::Upload(size_t /*bytes*/) { return {}; }
Status BenchMemory::Download(size_t /*bytes*/) { return {}; }
#endif

Status BenchMemory::CopyFrom(const BenchMemory& other, size_t bytes, size_t times) {
#ifdef HVDRAY_HAS_NCCL
  if (device_ >= 0) {
    for (size_t i = 0; i < times; ++i) {
      HVDRAY_RETURN_IF_ERROR(CheckGpu(
          cudaMemcpyAsync(data(), other.data(), bytes, cudaMemcpyDeviceToDevice, nullptr)));
    }
    return CheckGpu(cudaStreamSynchronize(nullptr));
  }
#endif
  for (size_t i = 0; i < times; ++i) {
    std::memcpy(data(), other.data(), bytes);
    // The compiler must not drop a copy that the next one overwrites.
    asm volatile("" : : "r"(data()) : "memory");
  }
  return {};
}

}  // namespace hvdray
