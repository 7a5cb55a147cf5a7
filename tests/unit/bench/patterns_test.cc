// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/patterns.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

constexpr size_t kCount = 2 * Pattern::kPeriod + 5;

std::vector<DataType> DataTypes() {
  std::vector<DataType> all;
  for (uint8_t i = 0; Name(static_cast<DataType>(i)) != "?"; ++i) {
    all.push_back(static_cast<DataType>(i));
  }
  return all;
}

/// Reduces the inputs in the order of ranks or backwards, step by step in the type itself, as a
/// network does: the worst that rounding can do.
std::string ReduceInTurn(ReduceOp op, DataType dtype, int size, bool is_backwards) {
  const ReduceFunction reduce = FindReduce(dtype, op);
  std::string total(kCount * SizeOf(dtype), '\0');
  std::string next = total;
  Pattern::Input(op, dtype, is_backwards ? size - 1 : 0, size).Fill(total.data(), 0, kCount);
  for (int step = 1; step < size; ++step) {
    Pattern::Input(op, dtype, is_backwards ? size - 1 - step : step, size)
        .Fill(next.data(), 0, kCount);
    const void* sources[] = {total.data(), next.data()};
    reduce(sources, 2, total.data(), nullptr, kCount, 1);
  }
  if (op == ReduceOp::kAverage) {
    const void* sources[] = {total.data()};
    reduce(sources, 1, total.data(), nullptr, kCount, size);
  }
  return total;
}

TEST(PatternsTest, ResultsAreExactInEveryTypeAndOrder) {
  for (const DataType dtype : DataTypes()) {
    for (uint8_t i = 0; Name(static_cast<ReduceOp>(i)) != "?"; ++i) {
      const auto op = static_cast<ReduceOp>(i);
      if (FindReduce(dtype, op) == nullptr) continue;
      for (const int size : {1, 2, 3, 7, 64, 65, 300}) {
        const Pattern expected = Pattern::Reduced(op, dtype, size);
        for (const bool is_backwards : {false, true}) {
          EXPECT_EQ(
              expected.CountWrong(ReduceInTurn(op, dtype, size, is_backwards).data(), 0, kCount),
              0U)
              << Name(op) << " of " << Name(dtype) << ", " << size << " ranks";
        }
      }
    }
  }
}

TEST(PatternsTest, ResultsDifferFromTheInputsAndFromEachOther) {
  for (const DataType dtype : DataTypes()) {
    std::string mine(kCount * SizeOf(dtype), '\0');
    Pattern::Input(ReduceOp::kSum, dtype, 0, 3).Fill(mine.data(), 0, kCount);
    EXPECT_GT(Pattern::Reduced(ReduceOp::kSum, dtype, 3).CountWrong(mine.data(), 0, kCount), 50U);
    EXPECT_GT(Pattern::Reduced(ReduceOp::kSum, dtype, 3).CountWrong(mine.data(), 1, kCount), 50U);
    Pattern::Letter(dtype, 0, 1).Fill(mine.data(), 0, kCount);
    EXPECT_GT(Pattern::Letter(dtype, 1, 0).CountWrong(mine.data(), 0, kCount), 50U);
  }
}

TEST(PatternsTest, CountsTheElementsThatAreWrong) {
  std::string data(kCount * 4, '\0');
  const Pattern pattern = Pattern::Letter(DataType::kInt32, 1, 2);
  pattern.Fill(data.data(), 3, kCount);
  EXPECT_EQ(pattern.CountWrong(data.data(), 3, kCount), 0U);
  EXPECT_EQ(pattern.CountWrong(data.data(), 3 + Pattern::kPeriod, kCount), 0U);
  EXPECT_EQ(pattern.CountWrong(data.data(), 4, kCount), kCount);
  data[4 * 10 + 1] ^= 1;
  data[4 * (kCount - 1)] ^= 1;
  EXPECT_EQ(pattern.CountWrong(data.data(), 3, kCount), 2U);
}

TEST(PatternsTest, SmallNumbersHaveTheBitsOfTheirType) {
  // 11 and 10 + 1 of letter(1, 2) at 0 and 1.
  const auto bits = [](DataType dtype) {
    uint16_t values[2] = {};
    Pattern::Letter(dtype, 1, 2).Fill(reinterpret_cast<char*>(values), 0, 2);
    return std::pair(values[0], values[1]);
  };
  EXPECT_EQ(bits(DataType::kFloat16), std::pair(uint16_t{0x4980}, uint16_t{0x4A00}));
  EXPECT_EQ(bits(DataType::kBfloat16), std::pair(uint16_t{0x4130}, uint16_t{0x4140}));
  EXPECT_EQ(bits(DataType::kInt16), std::pair(uint16_t{11}, uint16_t{12}));
}

}  // namespace
}  // namespace hvdray
