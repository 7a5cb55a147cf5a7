// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/fakes/collective_suite.h"

namespace hvdray {
namespace {

TEST(ReduceKernelsTest, EveryHalfSurvivesBeingCopied) {
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16}) {
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<uint16_t> copy(all.size());
    const void* sources[] = {all.data()};
    FindReduce(dtype, ReduceOp::kSum)(sources, 1, copy.data(), nullptr, all.size(), 1);
    for (size_t i = 0; i < all.size(); ++i) {
      const double value = LoadNumber(all.data(), i, dtype);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(LoadNumber(copy.data(), i, dtype))) << i;
      } else {
        ASSERT_EQ(copy[i], all[i]) << Name(dtype);
      }
    }
  }
}

TEST(ReduceKernelsTest, SumsOfHalvesAreRoundedOnceToTheNearestEven) {
  std::mt19937 random(1);
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16}) {
    constexpr size_t kCount = 20000;
    std::vector<uint16_t> a(kCount);
    std::vector<uint16_t> b(kCount);
    std::vector<uint16_t> c(kCount);
    std::vector<uint16_t> sum(kCount);
    for (auto* values : {&a, &b, &c}) {
      // Below infinity; all exponents and subnormal numbers among them.
      for (uint16_t& value : *values) value = static_cast<uint16_t>(random() & 0xBBFF);
    }
    const void* sources[] = {a.data(), b.data(), c.data()};
    FindReduce(dtype, ReduceOp::kSum)(sources, 3, sum.data(), nullptr, kCount, 1);
    for (size_t i = 0; i < kCount; ++i) {
      const auto exact = static_cast<float>(LoadNumber(a.data(), i, dtype)) +
                         static_cast<float>(LoadNumber(b.data(), i, dtype)) +
                         static_cast<float>(LoadNumber(c.data(), i, dtype));
      uint16_t expected = 0;
      StoreNumber(&expected, 0, dtype, exact);
      ASSERT_EQ(sum[i], expected) << Name(dtype) << " " << a[i] << " " << b[i] << " " << c[i];
    }
  }
}

// What a processor has is chosen at run time: a machine would test its best one only.
TEST(ReduceKernelsTest, EveryInstructionSetGivesTheSameBits) {
  std::mt19937 random(3);
  for (const DataType dtype : kDataTypes) {
    for (const ReduceOp op : kReduceOps) {
      if (FindReduce(dtype, op) == nullptr) continue;
      for (const size_t count : {1, 15, 16, 17, 63, 64, 65, 1003}) {
        const size_t bytes = count * SizeOf(dtype);
        // Odd addresses. Any bits but those of a NaN, whose payload is anybody's.
        std::vector<std::vector<char>> inputs(3, std::vector<char>(bytes + 1));
        std::vector<const void*> sources;
        for (std::vector<char>& input : inputs) {
          for (size_t i = 0; i < count; ++i) {
            StoreNumber(input.data() + 1, i, dtype,
                        std::ldexp(static_cast<double>(random() % 4096) - 2048, -5));
          }
          sources.push_back(input.data() + 1);
        }
        const int divisor = op == ReduceOp::kAverage ? 3 : 1;
        std::vector<char> expected(bytes);
        FindReduce(dtype, op, Isa::kBaseline)(sources.data(), 3, expected.data(), nullptr, count,
                                              divisor);
        for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
          if (isa > CurrentIsa()) continue;
          std::vector<char> got(bytes);
          std::vector<char> also(bytes);
          FindReduce(dtype, op, isa)(sources.data(), 3, got.data(), also.data(), count, divisor);
          ASSERT_EQ(got, expected) << Name(dtype) << " " << Name(op) << " of " << count;
          ASSERT_EQ(also, expected) << Name(dtype) << " " << Name(op) << " of " << count;
        }
      }
    }
  }
}

TEST(ReduceKernelsTest, TooLargeAHalfIsInfinity) {
  std::vector<uint16_t> large{0x7BFF};  // 65504
  uint16_t sum = 0;
  const void* sources[] = {large.data(), large.data()};
  FindReduce(DataType::kFloat16, ReduceOp::kSum)(sources, 2, &sum, nullptr, 1, 1);
  EXPECT_EQ(sum, 0x7C00);
}

TEST(ReduceKernelsTest, IntegersWrap) {
  const int8_t large = 127;
  int8_t result = 0;
  const void* sources[] = {&large, &large};
  FindReduce(DataType::kInt8, ReduceOp::kSum)(sources, 2, &result, nullptr, 1, 1);
  EXPECT_EQ(result, -2);
  const int32_t most = INT32_MAX;
  int32_t product = 0;
  const void* pair[] = {&most, &most};
  FindReduce(DataType::kInt32, ReduceOp::kProduct)(pair, 2, &product, nullptr, 1, 1);
  EXPECT_EQ(product, 1);
}

TEST(ReduceKernelsTest, AnAverageOfIntegersIsCutTowardsZero) {
  const int32_t a = -7;
  const int32_t b = 0;
  int32_t result = 0;
  const void* sources[] = {&a, &b};
  FindReduce(DataType::kInt32, ReduceOp::kAverage)(sources, 2, &result, nullptr, 1, 2);
  EXPECT_EQ(result, -3);
  // More ranks than an int8 has values.
  const int8_t one = 100;
  int8_t small = 0;
  const void* single[] = {&one};
  FindReduce(DataType::kInt8, ReduceOp::kAverage)(single, 1, &small, nullptr, 1, 200);
  EXPECT_EQ(small, 0);
}

template <typename T>
void ExpectQuotients(DataType dtype, const std::vector<T>& values, Isa isa) {
  const std::vector<T> zeros(values.size(), 0);
  std::vector<T> got(values.size());
  for (const int divisor : {2, 3, 5, 6, 7, 10, 64, 127, 200, 255, 257, 1000, 4099, 32769, 65537,
                            99991, 1 << 20, 16777213}) {
    const void* sources[] = {values.data(), zeros.data()};
    for (const size_t count : {size_t{1}, size_t{2}}) {  // of sources
      FindReduce(dtype, ReduceOp::kAverage, isa)(sources, count, got.data(), nullptr, values.size(),
                                                 divisor);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(int64_t{got[i]}, int64_t{values[i]} / divisor) << +values[i] << " / " << divisor;
      }
    }
  }
}

template <typename T>
std::vector<T> AllOf() {
  std::vector<T> values;
  for (int value = std::numeric_limits<T>::min(); value <= std::numeric_limits<T>::max(); ++value) {
    values.push_back(static_cast<T>(value));
  }
  return values;
}

TEST(ReduceKernelsTest, AveragesOfIntegersAreTheQuotients) {
  std::vector<int32_t> numbers;
  for (const int64_t near : {int64_t{0}, int64_t{1} << 16, int64_t{1} << 24, (int64_t{1} << 31) - 1,
                             int64_t{16777213} * 127, int64_t{99991} * 21477, int64_t{1} << 30}) {
    for (int64_t offset = -200; offset <= 200; ++offset) {
      const int64_t value = std::min<int64_t>(near + offset, std::numeric_limits<int32_t>::max());
      numbers.push_back(static_cast<int32_t>(value));
      numbers.push_back(static_cast<int32_t>(-value));
      numbers.push_back(static_cast<int32_t>(-value - 1));
    }
  }
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > CurrentIsa()) continue;
    ExpectQuotients(DataType::kInt8, AllOf<int8_t>(), isa);
    ExpectQuotients(DataType::kUint8, AllOf<uint8_t>(), isa);
    ExpectQuotients(DataType::kInt16, AllOf<int16_t>(), isa);
    ExpectQuotients(DataType::kInt32, numbers, isa);
  }
}

TEST(ReduceKernelsTest, AnyLengthAndAlignmentStaysInItsBuffer) {
  for (size_t count = 0; count < 200; ++count) {
    std::vector<char> a(count * 4 + 3, 0);
    std::vector<char> b(count * 4 + 1, 0);
    std::vector<char> dst(count * 4 + 8, 0x5A);
    for (size_t i = 0; i < count; ++i) {
      StoreNumber(a.data() + 3, i, DataType::kFloat32, static_cast<double>(i));
      StoreNumber(b.data() + 1, i, DataType::kFloat32, 1);
    }
    const void* sources[] = {a.data() + 3, b.data() + 1};
    FindReduce(DataType::kFloat32, ReduceOp::kSum)(sources, 2, dst.data() + 2, nullptr, count, 1);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(LoadNumber(dst.data() + 2, i, DataType::kFloat32), static_cast<double>(i + 1));
    }
    for (const size_t edge : {size_t{0}, size_t{1}, count * 4 + 2, count * 4 + 7}) {
      ASSERT_EQ(dst[edge], 0x5A) << count;
    }
  }
}

TEST(ReduceKernelsTest, TheOtherPlaceGetsTheSameBits) {
  constexpr size_t kCount = 5003;  // more than a block of sums
  for (const DataType dtype : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt64}) {
    const size_t bytes = kCount * SizeOf(dtype);
    for (const size_t ranks : {size_t{1}, size_t{2}, size_t{3}}) {
      for (const int divisor : {1, 3}) {
        std::vector<std::vector<char>> values(ranks, std::vector<char>(bytes));
        std::vector<const void*> sources;
        for (size_t rank = 0; rank < ranks; ++rank) {
          for (size_t i = 0; i < kCount; ++i) {
            StoreNumber(values[rank].data(), i, dtype, static_cast<double>(i % 97 + rank));
          }
          sources.push_back(values[rank].data());
        }
        std::vector<char> expected(bytes);
        FindReduce(dtype, ReduceOp::kSum)(sources.data(), ranks, expected.data(), nullptr, kCount,
                                          divisor);
        std::vector<char> dst(bytes);
        // In the place of a source, as the owner of a piece has it.
        FindReduce(dtype, ReduceOp::kSum)(sources.data(), ranks, dst.data(), values[0].data(),
                                          kCount, divisor);
        EXPECT_EQ(dst, expected) << Name(dtype) << " " << ranks;
        EXPECT_EQ(values[0], expected) << Name(dtype) << " " << ranks;
      }
    }
  }
}

TEST(ReduceKernelsTest, CopiesAndExchangesOfAnyLengthAndAlignment) {
  for (size_t bytes = 0; bytes < 700; ++bytes) {
    std::vector<char> source(bytes + 3);
    std::vector<char> place(bytes + 2, 0x11);
    std::vector<char> dst(bytes + 6, 0x5A);
    for (size_t i = 0; i < bytes; ++i) source[i + 3] = static_cast<char>(i * 7);
    for (size_t i = 0; i < bytes; ++i) place[i + 1] = static_cast<char>(i * 5 + 1);

    ExchangeBytes(place.data() + 1, dst.data() + 5, source.data() + 3, bytes);
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(dst[i + 5], static_cast<char>(i * 5 + 1)) << bytes;
      ASSERT_EQ(place[i + 1], static_cast<char>(i * 7)) << bytes;
    }
    CopyBytes(dst.data() + 5, source.data() + 3, bytes);
    ASSERT_EQ(std::memcmp(dst.data() + 5, source.data() + 3, bytes), 0) << bytes;
    ASSERT_EQ(place[0] + place[bytes + 1], 0x22);
    ASSERT_EQ(dst[4], 0x5A);
    ASSERT_EQ(dst[bytes + 5], 0x5A);
  }
}

TEST(ScaleTest, MultiplesOfEveryTypeInPlaceAndApart) {
  for (const DataType dtype : kDataTypes) {
    for (const double factor : {0.5, 1.0, 3.0}) {
      constexpr size_t kCount = 37;
      std::string from(kCount * SizeOf(dtype), '\0');
      for (size_t i = 0; i < kCount; ++i)
        StoreNumber(from.data(), i, dtype, static_cast<double>(i));
      std::string to(from.size(), '\7');
      Scale(to.data(), from.data(), kCount, dtype, factor);
      Scale(from.data(), from.data(), kCount, dtype, factor);
      EXPECT_EQ(from, to);
      for (size_t i = 0; i < kCount; ++i) {
        const double product = static_cast<double>(i) * factor;
        const bool is_whole = dtype <= DataType::kUint8;
        EXPECT_EQ(LoadNumber(to.data(), i, dtype), is_whole ? std::floor(product) : product)
            << Name(dtype) << " " << factor;
      }
    }
  }
}

TEST(ScaleTest, IntegersStayInTheirRange) {
  const auto scaled = [](auto value, DataType dtype, double factor) {
    Scale(&value, &value, 1, dtype, factor);
    return value;
  };
  EXPECT_EQ(scaled(int8_t{-7}, DataType::kInt8, 0.5), -3);
  EXPECT_EQ(scaled(int8_t{100}, DataType::kInt8, 2), 127);
  EXPECT_EQ(scaled(int8_t{100}, DataType::kInt8, -2), -128);
  EXPECT_EQ(scaled(uint8_t{3}, DataType::kUint8, -1), 0);
  EXPECT_EQ(scaled(INT64_MAX, DataType::kInt64, 2), INT64_MAX);
  EXPECT_EQ(scaled(INT64_MIN, DataType::kInt64, 2), INT64_MIN);
  EXPECT_EQ(scaled(INT64_MAX - 1, DataType::kInt64, 1), INT64_MAX - 1);
}

}  // namespace
}  // namespace hvdray
