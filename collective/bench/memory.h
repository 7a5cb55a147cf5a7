// SPDX-License-Identifier: Apache-2.0
// A buffer to measure with, where a communicator's operations want it.
#ifndef HVDRAY_COLLECTIVE_BENCH_MEMORY_H_
#define HVDRAY_COLLECTIVE_BENCH_MEMORY_H_

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace hvdray {

/// Host memory, or memory of a GPU and as much of the host's to fill and to read it. Blocks: all
/// of it is done when a method returns.
class BenchMemory {
 public:
  /// device: Communicator::device(). Errors: kOutOfResources.
  static Result<BenchMemory> Allocate(int device, size_t bytes);

  /// What operations use.
  char* data() const { return data_.get(); }
  /// What the host fills before Upload(), and reads after Download(): data() itself in host memory.
  char* host() const { return host_.get(); }
  bool Has(const void* place) const { return place >= data_.get() && place < data_.get() + bytes_; }

  /// Sets the first `bytes` of data() to zero.
  Status Clear(size_t bytes);
  Status Upload(size_t bytes);
  Status Download(size_t bytes);
  /// Copies within the host or the GPU, `times` times over.
  Status CopyFrom(const BenchMemory& other, size_t bytes, size_t times);

 private:
  BenchMemory() = default;
  int device_ = -1;
  size_t bytes_ = 0;
  std::shared_ptr<char> data_;
  std::shared_ptr<char> host_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_MEMORY_H_
