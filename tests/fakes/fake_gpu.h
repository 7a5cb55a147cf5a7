// SPDX-License-Identifier: Apache-2.0
// GPUs, CUDA and NCCL that are not there: a test that links fake_gpu.cc calls it instead of them.
#ifndef HVDRAY_TESTS_FAKES_FAKE_GPU_H_
#define HVDRAY_TESTS_FAKES_FAKE_GPU_H_

#include <cuda_runtime_api.h>

#include <functional>

namespace hvdray {

/// How many this process sees; 8 unless set. Threads: any.
void SetFakeGpus(int count);

/// What is at `address` is the host's; all other memory is the asking thread's GPU's. Threads: any.
void SetFakeHostMemory(const void* address);

/// Runs behind what is in the stream.
void PutIntoFakeStream(cudaStream_t stream, std::function<void()> work);

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_GPU_H_
