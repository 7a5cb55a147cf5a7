// SPDX-License-Identifier: Apache-2.0
// What NCCL has not: many small copies as one, and the division of an average.
#ifndef HVDRAY_COLLECTIVE_GPU_KERNELS_H_
#define HVDRAY_COLLECTIVE_GPU_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "collective/communicator.h"

namespace hvdray {

/// Both in memory of the current device, aligned to an element. The same, or apart.
struct GpuCopy {
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;  ///< Elements.
};

/// Puts all copies into `stream`, as few launches; no two may overlap. Each element is divided by
/// `divisor` on its way: integers are rounded towards zero, 16-bit floats divided as float32. What
/// begins at multiples of 16 bytes on both sides is copied as fast as memory allows. Doesn't block;
/// `copies` may go after the call. Threads: any.
cudaError_t CopyOnGpu(std::span<const GpuCopy> copies, DataType dtype, int divisor,
                      cudaStream_t stream);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_GPU_KERNELS_H_
