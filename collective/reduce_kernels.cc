// SPDX-License-Identifier: Apache-2.0
// Plain loops that the compiler turns into vector instructions (this file is compiled with -O3):
// one always-inlined body, instantiated in functions for each instruction set.
#include "collective/reduce_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
// prfchw: a processor with AVX2 that does not know this instruction ignores it.
#define HVDRAY_AVX2 gnu::target("avx2,fma,prfchw")
#define HVDRAY_AVX512 gnu::target("avx2,fma,prfchw,avx512f,avx512bw,avx512vl,avx512dq")
#endif
#define HVDRAY_INLINE [[gnu::always_inline]] inline
// The destination is one of the sources or apart from them, so no iteration reads what another
// wrote.
#if defined(__clang__)
#define HVDRAY_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVDRAY_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hvdray {
namespace {

// ---- Elements: how a type is stored, and in which it is added up.

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  HVDRAY_INLINE static T Load(T stored) { return stored; }
  HVDRAY_INLINE static T Store(T value) { return value; }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Value = float;
  HVDRAY_INLINE static float Load(uint16_t stored) {
    return std::bit_cast<float>(static_cast<uint32_t>(stored) << 16);
  }
  // To the nearest, ties to even. Without care for it a NaN's low bits could carry into infinity.
  HVDRAY_INLINE static uint16_t Store(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40;
    return static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded);
  }
};

struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  // Moves exponent and fraction into place; the factor then corrects the exponent's bias, and makes
  // subnormal numbers normal on the way.
  HVDRAY_INLINE static float Load(uint16_t stored) {
    const uint32_t magnitude = static_cast<uint32_t>(stored & 0x7FFF) << 13;
    const auto finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    const uint32_t special = magnitude | 0x7F800000;
    const uint32_t bits = magnitude >= (0x7C00U << 13) ? special : finite;
    return std::bit_cast<float>(bits | (static_cast<uint32_t>(stored & 0x8000) << 16));
  }
  // To the nearest, ties to even. A float that is subnormal as a half is rounded by adding 0.5,
  // whose last place is the half's.
  HVDRAY_INLINE static uint16_t Store(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t normal = (magnitude - (112U << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
    const uint32_t special = magnitude > 0x7F800000 ? 0x7E00 : 0x7C00;
    uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
    half = magnitude >= 0x477FF000 ? special : half;  // 65520 and more round to infinity
    return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000));
  }
};

// ---- Operations. Integers go through their unsigned type: they wrap, as they do in the peers.

template <typename T>
using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

struct Sum {
  template <typename T>
  HVDRAY_INLINE static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <typename T>
  HVDRAY_INLINE static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
    } else {
      return a * b;
    }
  }
};

// Both return a NaN if either is one.
struct Min {
  template <typename T>
  HVDRAY_INLINE static T Of(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

struct Max {
  template <typename T>
  HVDRAY_INLINE static T Of(T a, T b) {
    return b > a || b != b ? b : a;
  }
};

struct BitAnd {
  template <typename T>
  HVDRAY_INLINE static T Of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitOr {
  template <typename T>
  HVDRAY_INLINE static T Of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitXor {
  template <typename T>
  HVDRAY_INLINE static T Of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// Only sums become averages. Loops that divide would be a third of this file's code, which is in
// three programs.
template <typename Op>
constexpr bool kIsDivided = std::is_same_v<Op, Sum>;

// ---- The loops.

// Buffers are of any alignment, which a pointer of their type may not be. memcpy of a constant size
// is a plain load or store.
template <typename T>
HVDRAY_INLINE T LoadAt(const void* base, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
HVDRAY_INLINE void StoreAt(void* base, size_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * sizeof(T), &value, sizeof(T));
}

// What averages are computed with. No processor divides vectors of integers. Those of up to 32 bits
// are multiplied by the reciprocal, in a floating type with so many more bits that the product,
// without its fraction, is the quotient: rounded up, the reciprocal never makes it too small, and
// the product exceeds it by less than 1 / divisor.
template <typename Value>
HVDRAY_INLINE auto DivisionBy(int divisor) {
  if constexpr (!std::is_integral_v<Value> || sizeof(Value) > 4) {
    return static_cast<Value>(divisor);
  } else if constexpr (sizeof(Value) == 4) {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(1 / static_cast<double>(divisor)) + 1);
  } else {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(1 / static_cast<float>(divisor)) + 1);
  }
}

template <typename Value, typename Division>
HVDRAY_INLINE Value Divided(Value value, Division by) {
  if constexpr (std::is_same_v<Value, Division>) {
    return value / by;
  } else {
    return static_cast<Value>(static_cast<int32_t>(static_cast<Division>(value) * by));
  }
}

HVDRAY_INLINE const char* At(const void* base, size_t bytes) {
  return static_cast<const char*>(base) + bytes;
}
HVDRAY_INLINE char* At(void* base, size_t bytes) { return static_cast<char*>(base) + bytes; }

constexpr size_t kFetchBytes = 2048;

// For what is read, then written: a line that another processor has written would else come twice,
// once to be read and once more to be owned. Halves the time of a large all-reduce of two ranks.
HVDRAY_INLINE void FetchToWrite(const void* place, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kCacheLine) {
    __builtin_prefetch(At(place, i), /*rw=*/1);
  }
}

// A block of partial sums stays in the first-level cache.
constexpr size_t kBlock = 2048;

// A loop for each case: what doesn't change is not asked for each element. No lambdas: what they
// capture would be loaded anew in each turn.
template <typename Element, typename Op, bool kDivides, bool kIsTwice>
HVDRAY_INLINE void PairLoop(const void* a, const void* b, void* dst, void* also, size_t count,
                            int divisor) {
  using Stored = typename Element::Stored;
  [[maybe_unused]] const auto by = DivisionBy<typename Element::Value>(divisor);
  HVDRAY_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    auto value = Op::Of(Element::Load(LoadAt<Stored>(a, i)), Element::Load(LoadAt<Stored>(b, i)));
    if constexpr (kDivides) value = Divided(value, by);
    const Stored stored = Element::Store(value);
    StoreAt<Stored>(dst, i, stored);
    if constexpr (kIsTwice) StoreAt<Stored>(also, i, stored);
  }
}

template <typename Element, typename Op>
HVDRAY_INLINE void Pair(const void* a, const void* b, void* dst, void* also, size_t count,
                        int divisor) {
  if (!kIsDivided<Op> || divisor == 1) {
    also == nullptr ? PairLoop<Element, Op, false, false>(a, b, dst, also, count, divisor)
                    : PairLoop<Element, Op, false, true>(a, b, dst, also, count, divisor);
  } else if constexpr (kIsDivided<Op>) {
    also == nullptr ? PairLoop<Element, Op, true, false>(a, b, dst, also, count, divisor)
                    : PairLoop<Element, Op, true, true>(a, b, dst, also, count, divisor);
  }
}

// The same, and what `dst` needs is on its way while the block before is reduced.
template <typename Element, typename Op>
HVDRAY_INLINE void PairInBlocks(const void* a, const void* b, void* dst, void* also, size_t count,
                                int divisor) {
  constexpr size_t kElement = sizeof(typename Element::Stored);
  const size_t bytes = count * kElement;
  if (bytes > kFetchBytes) FetchToWrite(dst, kFetchBytes);
  for (size_t i = 0; i < bytes; i += kFetchBytes) {
    const size_t length = std::min(kFetchBytes, bytes - i);
    const size_t next = i + length;
    FetchToWrite(At(dst, next), std::min(kFetchBytes, bytes - next));
    Pair<Element, Op>(At(a, i), At(b, i), At(dst, i), also == nullptr ? nullptr : At(also, i),
                      length / kElement, divisor);
  }
}

template <typename Element, typename Op>
HVDRAY_INLINE void Body(const void* const* sources, size_t source_count, void* dst, void* also,
                        size_t count, int divisor) {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  if (source_count == 2) {
    return PairInBlocks<Element, Op>(sources[0], sources[1], dst, also, count, divisor);
  }
  const auto load = [](const void* base, size_t i) __attribute__((always_inline)) {
    return Element::Load(LoadAt<Stored>(base, i));
  };
  std::array<Value, kBlock> sums;
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t end = std::min(count - start, kBlock);
    FetchToWrite(At(dst, start * sizeof(Stored)), end * sizeof(Stored));
    for (size_t i = 0; i < end; ++i) sums[i] = load(sources[0], start + i);
    for (size_t s = 1; s < source_count; ++s) {
      const void* source = sources[s];
      for (size_t i = 0; i < end; ++i) sums[i] = Op::Of(sums[i], load(source, start + i));
    }
    if constexpr (kIsDivided<Op>) {
      if (divisor != 1) {
        const auto by = DivisionBy<Value>(divisor);
        for (size_t i = 0; i < end; ++i) sums[i] = Divided(sums[i], by);
      }
    }
    for (size_t i = 0; i < end; ++i) StoreAt<Stored>(dst, start + i, Element::Store(sums[i]));
    if (also != nullptr) {
      const size_t at = start * sizeof(Stored);
      std::memcpy(static_cast<char*>(also) + at, static_cast<const char*>(dst) + at,
                  end * sizeof(Stored));
    }
  }
}

template <typename Element, typename Op>
void Baseline(const void* const* sources, size_t source_count, void* dst, void* also, size_t count,
              int divisor) {
  Body<Element, Op>(sources, source_count, dst, also, count, divisor);
}

#if defined(__x86_64__)
template <typename Element, typename Op>
[[HVDRAY_AVX2]] void Avx2(const void* const* sources, size_t source_count, void* dst, void* also,
                          size_t count, int divisor) {
  Body<Element, Op>(sources, source_count, dst, also, count, divisor);
}

template <typename Element, typename Op>
[[HVDRAY_AVX512]] void Avx512(const void* const* sources, size_t source_count, void* dst,
                              void* also, size_t count, int divisor) {
  Body<Element, Op>(sources, source_count, dst, also, count, divisor);
}
#endif

// ---- Copies.

// Whole cache lines are loaded, then stored: stores to one line should follow each other.
using Vector = uint64_t __attribute__((vector_size(32)));
struct [[gnu::packed, gnu::may_alias]] Chunk {
  Vector a, b, c, d;
};
static_assert(sizeof(Chunk) == 128 && alignof(Chunk) == 1);

HVDRAY_INLINE void CopyBody(void* dst, const void* src, size_t bytes) {
  const auto* from = static_cast<const Chunk*>(src);
  auto* to = static_cast<Chunk*>(dst);
  const size_t chunks = bytes / sizeof(Chunk);
  for (size_t i = 0; i < chunks; ++i) {
    const Vector a = from[i].a, b = from[i].b, c = from[i].c, d = from[i].d;
    to[i].a = a, to[i].b = b, to[i].c = c, to[i].d = d;
  }
  std::memcpy(to + chunks, from + chunks, bytes % sizeof(Chunk));
}

HVDRAY_INLINE void ExchangeBody(void* place, void* dst, const void* src, size_t bytes) {
  auto* shared = static_cast<Chunk*>(place);
  auto* to = static_cast<Chunk*>(dst);
  const auto* from = static_cast<const Chunk*>(src);
  const size_t chunks = bytes / sizeof(Chunk);
  constexpr size_t kAhead = kFetchBytes / sizeof(Chunk);
  for (size_t i = 0; i < chunks; ++i) {
    if (i + kAhead < chunks) FetchToWrite(shared + i + kAhead, sizeof(Chunk));
    const Vector a = shared[i].a, b = shared[i].b, c = shared[i].c, d = shared[i].d;
    const Vector e = from[i].a, f = from[i].b, g = from[i].c, h = from[i].d;
    to[i].a = a, to[i].b = b, to[i].c = c, to[i].d = d;
    shared[i].a = e, shared[i].b = f, shared[i].c = g, shared[i].d = h;
  }
  std::memcpy(to + chunks, shared + chunks, bytes % sizeof(Chunk));
  std::memcpy(shared + chunks, from + chunks, bytes % sizeof(Chunk));
}

#if defined(__x86_64__)
[[HVDRAY_AVX2]] void CopyAvx2(void* dst, const void* src, size_t bytes) {
  CopyBody(dst, src, bytes);
}

[[HVDRAY_AVX2]] void ExchangeAvx2(void* place, void* dst, const void* src, size_t bytes) {
  ExchangeBody(place, dst, src, bytes);
}
#endif

// ---- Multiples.

template <typename T>
HVDRAY_INLINE T Times(T value, double factor) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto kLowest = static_cast<double>(std::numeric_limits<T>::min());
    constexpr T kHalf = std::numeric_limits<T>::max() / 2 + 1;
    constexpr double kBeyond = static_cast<double>(kHalf) * 2;  // max() itself would be rounded
    const double product = static_cast<double>(value) * factor;
    if (!(product > kLowest)) return std::numeric_limits<T>::min();
    return product >= kBeyond ? std::numeric_limits<T>::max() : static_cast<T>(product);
  } else {
    return value * static_cast<T>(factor);
  }
}

template <typename Element>
HVDRAY_INLINE void ScaleBody(void* dst, const void* src, size_t count, double factor) {
  using Stored = typename Element::Stored;
  HVDRAY_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    StoreAt<Stored>(dst, i, Element::Store(Times(Element::Load(LoadAt<Stored>(src, i)), factor)));
  }
}

#if defined(__x86_64__)
template <typename Element>
[[HVDRAY_AVX2]] void ScaleAvx2(void* dst, const void* src, size_t count, double factor) {
  ScaleBody<Element>(dst, src, count, factor);
}
#endif

template <typename Element>
void ScaleAs(void* dst, const void* src, size_t count, double factor) {
#if defined(__x86_64__)
  if (CurrentIsa() != Isa::kBaseline) return ScaleAvx2<Element>(dst, src, count, factor);
#endif
  ScaleBody<Element>(dst, src, count, factor);
}

// ---- The choice.

Isa DetectIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kBaseline;  // NEON belongs to every aarch64 processor
}

template <typename Element, typename Op>
ReduceFunction Choose([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &Avx512<Element, Op>;
  if (isa == Isa::kAvx2) return &Avx2<Element, Op>;
#endif
  return &Baseline<Element, Op>;
}

template <typename Element>
ReduceFunction FindFor(ReduceOp op, Isa isa) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return Choose<Element, Sum>(isa);
    case ReduceOp::kMin:
      return Choose<Element, Min>(isa);
    case ReduceOp::kMax:
      return Choose<Element, Max>(isa);
    case ReduceOp::kProduct:
      return Choose<Element, Product>(isa);
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
      break;
  }
  if constexpr (std::is_integral_v<typename Element::Value>) {
    if (op == ReduceOp::kBitAnd) return Choose<Element, BitAnd>(isa);
    if (op == ReduceOp::kBitOr) return Choose<Element, BitOr>(isa);
    return Choose<Element, BitXor>(isa);
  }
  return nullptr;
}

}  // namespace

Isa CurrentIsa() {
  static const Isa isa = DetectIsa();
  return isa;
}

void CopyBytes(void* dst, const void* src, size_t bytes) {
#if defined(__x86_64__)
  if (CurrentIsa() != Isa::kBaseline) return CopyAvx2(dst, src, bytes);
#endif
  CopyBody(dst, src, bytes);
}

void ExchangeBytes(void* place, void* dst, const void* src, size_t bytes) {
#if defined(__x86_64__)
  if (CurrentIsa() != Isa::kBaseline) return ExchangeAvx2(place, dst, src, bytes);
#endif
  ExchangeBody(place, dst, src, bytes);
}

ReduceFunction FindReduce(DataType dtype, ReduceOp op, Isa isa) {
  switch (dtype) {
    case DataType::kInt8:
      return FindFor<Plain<int8_t>>(op, isa);
    case DataType::kInt16:
      return FindFor<Plain<int16_t>>(op, isa);
    case DataType::kInt32:
      return FindFor<Plain<int32_t>>(op, isa);
    case DataType::kInt64:
      return FindFor<Plain<int64_t>>(op, isa);
    case DataType::kUint8:
      return FindFor<Plain<uint8_t>>(op, isa);
    case DataType::kFloat16:
      return FindFor<Float16>(op, isa);
    case DataType::kBfloat16:
      return FindFor<Bfloat16>(op, isa);
    case DataType::kFloat32:
      return FindFor<Plain<float>>(op, isa);
    case DataType::kFloat64:
      return FindFor<Plain<double>>(op, isa);
  }
  return nullptr;
}

void Scale(void* dst, const void* src, size_t count, DataType dtype, double factor) {
  if (factor == 1) {
    if (dst != src && count > 0) std::memcpy(dst, src, count * SizeOf(dtype));
    return;
  }
  switch (dtype) {
    case DataType::kInt8:
      return ScaleAs<Plain<int8_t>>(dst, src, count, factor);
    case DataType::kInt16:
      return ScaleAs<Plain<int16_t>>(dst, src, count, factor);
    case DataType::kInt32:
      return ScaleAs<Plain<int32_t>>(dst, src, count, factor);
    case DataType::kInt64:
      return ScaleAs<Plain<int64_t>>(dst, src, count, factor);
    case DataType::kUint8:
      return ScaleAs<Plain<uint8_t>>(dst, src, count, factor);
    case DataType::kFloat16:
      return ScaleAs<Float16>(dst, src, count, factor);
    case DataType::kBfloat16:
      return ScaleAs<Bfloat16>(dst, src, count, factor);
    case DataType::kFloat32:
      return ScaleAs<Plain<float>>(dst, src, count, factor);
    case DataType::kFloat64:
      return ScaleAs<Plain<double>>(dst, src, count, factor);
  }
}

const char* KernelName() {
  switch (CurrentIsa()) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "baseline";
}

}  // namespace hvdray
