// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/patterns.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hvdray {
namespace {

/// Up to this bfloat16 has every whole number, and no 16-bit type has fewer of them.
constexpr int64_t kLargestWhole16 = 256;
/// So a sum of values of at most 3 stays below kLargestWhole16, whatever is added up first.
constexpr int kMostSummands = 64;

/// The largest value of an average's sum: no type may wrap or round it.
int64_t LargestSumOf(DataType dtype) {
  if (SizeOf(dtype) == 1) return 127;
  return SizeOf(dtype) == 2 ? kLargestWhole16 : int64_t{1} << 20;
}

int64_t ValueOf(ReduceOp op, DataType dtype, int64_t rank, int size, int64_t i) {
  switch (op) {
    case ReduceOp::kSum: {
      // Each element has summands of at most kMostSummands ranks, the next one of others.
      const int stride = (size + kMostSummands - 1) / kMostSummands;
      return (rank + i) % stride == 0 ? 1 + (2 * rank + i) % 3 : 0;
    }
    case ReduceOp::kAverage: {
      // One rank's share is a multiple of `size`, so the quotient is exact. With more ranks than
      // the type can count to, zeros remain.
      const int64_t most = std::min<int64_t>(3, LargestSumOf(dtype) / size);
      if (most == 0 || i % size != rank) return 0;
      return size * (1 + i % most);
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return (7 * rank + 3 * i) % 100;
    case ReduceOp::kProduct:
      // A power of two that no type overflows: at most six ranks have a 2.
      return (rank + i) % size < i % 7 ? 2 : 1;
    case ReduceOp::kBitAnd:
      return 127 - (int64_t{1} << ((rank + i) % 7));
    case ReduceOp::kBitOr:
      return rank % 7 == i % 7 ? 0 : int64_t{1} << ((rank + i) % 7);
    case ReduceOp::kBitXor:
      return (37 * rank + 11 * i) % 128;
  }
  return 0;
}

int64_t Combine(ReduceOp op, int64_t a, int64_t b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return a + b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kBitAnd:
      return a & b;
    case ReduceOp::kBitOr:
      return a | b;
    case ReduceOp::kBitXor:
      return a ^ b;
  }
  return a;
}

/// The bits of a whole number from 0 to kLargestWhole16 in binary16.
uint16_t HalfOf(int64_t value) {
  if (value == 0) return 0;
  constexpr int kFractionBits = 10;
  constexpr int kBias = 15;
  const int exponent = std::bit_width(static_cast<uint64_t>(value)) - 1;
  const auto fraction = static_cast<uint64_t>(value) << (kFractionBits - exponent);
  return static_cast<uint16_t>((exponent + kBias) << kFractionBits |
                               (fraction & ((1U << kFractionBits) - 1)));
}

}  // namespace

void Pattern::Append(DataType dtype, int64_t value) {
  const auto append = [this](auto element) {
    bytes_.append(reinterpret_cast<const char*>(&element), sizeof element);
  };
  switch (dtype) {
    case DataType::kInt8:
    case DataType::kUint8:
      return append(static_cast<uint8_t>(value));  // wraps, as the sums do
    case DataType::kInt16:
      return append(static_cast<int16_t>(value));
    case DataType::kInt32:
      return append(static_cast<int32_t>(value));
    case DataType::kInt64:
      return append(value);
    case DataType::kFloat16:
      return append(HalfOf(value));
    case DataType::kBfloat16:
      return append(
          static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    case DataType::kFloat32:
      return append(static_cast<float>(value));
    case DataType::kFloat64:
      return append(static_cast<double>(value));
  }
}

Pattern Pattern::Input(ReduceOp op, DataType dtype, int rank, int size) {
  Pattern pattern(dtype);
  for (size_t i = 0; i < kPeriod; ++i) {
    pattern.Append(dtype, ValueOf(op, dtype, rank, size, static_cast<int64_t>(i)));
  }
  return pattern;
}

Pattern Pattern::Reduced(ReduceOp op, DataType dtype, int size) {
  Pattern pattern(dtype);
  for (size_t i = 0; i < kPeriod; ++i) {
    const auto at = static_cast<int64_t>(i);
    int64_t total = ValueOf(op, dtype, 0, size, at);
    for (int rank = 1; rank < size; ++rank) {
      total = Combine(op, total, ValueOf(op, dtype, rank, size, at));
    }
    pattern.Append(dtype, op == ReduceOp::kAverage ? total / size : total);
  }
  return pattern;
}

Pattern Pattern::Letter(DataType dtype, int from, int to) {
  Pattern pattern(dtype);
  for (size_t i = 0; i < kPeriod; ++i) {
    pattern.Append(dtype, (5 * int64_t{from} + 3 * int64_t{to} + static_cast<int64_t>(i)) % 100);
  }
  return pattern;
}

template <typename Use>
void Pattern::ForEachRun(size_t first, size_t count, const Use& use) const {
  for (size_t done = 0; done < count;) {
    const size_t phase = (first + done) % kPeriod;
    const size_t run = std::min(kPeriod - phase, count - done);
    use(bytes_.data() + phase * element_bytes_, done * element_bytes_, run);
    done += run;
  }
}

void Pattern::Fill(char* to, size_t first, size_t count) const {
  ForEachRun(first, count, [&](const char* bytes, size_t offset, size_t run) {
    std::memcpy(to + offset, bytes, run * element_bytes_);
  });
}

uint64_t Pattern::CountWrong(const char* at, size_t first, size_t count) const {
  uint64_t wrong = 0;
  ForEachRun(first, count, [&](const char* bytes, size_t offset, size_t run) {
    if (std::memcmp(at + offset, bytes, run * element_bytes_) == 0) return;
    for (size_t i = 0; i < run; ++i) {
      const size_t place = i * element_bytes_;
      if (std::memcmp(at + offset + place, bytes + place, element_bytes_) != 0) ++wrong;
    }
  });
  return wrong;
}

}  // namespace hvdray
