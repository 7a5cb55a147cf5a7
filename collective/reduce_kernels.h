// SPDX-License-Identifier: Apache-2.0
// Copies and element-wise reductions of host memory, compiled for several instruction sets and
// chosen once at run time. Pure. Threads: any.
#ifndef HVDRAY_COLLECTIVE_REDUCE_KERNELS_H_
#define HVDRAY_COLLECTIVE_REDUCE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "collective/operation.h"

namespace hvdray {

/// Bytes; of all processors that hvdray knows.
inline constexpr size_t kCacheLine = 64;

/// dst[i] = sources[0][i] op sources[1][i] op …, in that order, then divided by `divisor`. The
/// 16-bit floats are added up as float32 and rounded once. also: another place for the result, or
/// nullptr. count: elements. divisor: 1, or the number of ranks for an average. dst and also may
/// each be one of the sources, but may not overlap one otherwise.
using ReduceFunction = void (*)(const void* const* sources, size_t source_count, void* dst,
                                void* also, size_t count, int divisor);

/// What kernels are compiled for. kBaseline: what every processor of the architecture has (on
/// aarch64 with NEON).
enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };

/// The best one of this processor, which has those before it, too.
Isa CurrentIsa();

/// nullptr where `op` is not defined for `dtype`: the bitwise ones of floats. kAverage is kSum's
/// function, the only one that divides. `isa`: at most CurrentIsa(); all give the same bits.
ReduceFunction FindReduce(DataType dtype, ReduceOp op, Isa isa = CurrentIsa());

/// memcpy in plain vector instructions. glibc's is `rep movsb` from 2 KB on where the processor
/// says that it is fast, which takes 1.2 times as long where the lines are in another one's cache.
void CopyBytes(void* dst, const void* src, size_t bytes);

/// dst = place, then place = src: each line of `place` is fetched once. The three are apart.
void ExchangeBytes(void* place, void* dst, const void* src, size_t bytes);

/// dst[i] = src[i] * factor; `dst` is `src` or apart from it. The 16-bit floats are multiplied as
/// float32; products of integers are rounded towards zero and stay in the type's range.
void Scale(void* dst, const void* src, size_t count, DataType dtype, double factor);

/// Of the processor: "avx512", "avx2", "baseline".
const char* KernelName();

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_REDUCE_KERNELS_H_
