// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/sweep.h"

#include <gtest/gtest.h>

#include <functional>

namespace hvdray {
namespace {

using Sizes = std::vector<uint64_t>;

Sizes SizesOf(const std::string& least, const std::string& most, const std::string& factor = "2",
              const std::string& step = "") {
  SweepWords words;
  words.min_bytes = least;
  words.max_bytes = most;
  words.step_factor = factor;
  words.step_bytes = step;
  const Result<Sweep> sweep = ParseSweep(words);
  return sweep.ok() ? sweep->sizes : Sizes{};
}

std::vector<BenchCase> CasesFor(const SweepWords& words, int size) {
  const Result<Sweep> sweep = ParseSweep(words);
  if (!sweep.ok()) return {};
  const auto cases = CasesOf(*sweep, size);
  return cases.ok() ? *cases : std::vector<BenchCase>{};
}

/// What ParseSweep() says after `change`, or else CasesOf().
std::string ErrorAfter(const std::function<void(SweepWords&)>& change, int size = 2) {
  SweepWords words;
  change(words);
  const Result<Sweep> sweep = ParseSweep(words);
  const Status status = sweep.ok() ? CasesOf(*sweep, size).status() : sweep.status();
  EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kUsage) << status.ToString();
  return status.ToString();
}

TEST(SweepTest, SizesGrowByAFactorOrAStep) {
  EXPECT_EQ(SizesOf("8", "64"), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(SizesOf("8", "100", "3"), (Sizes{8, 24, 72}));
  EXPECT_EQ(SizesOf("1K", "1k"), (Sizes{1024}));
  EXPECT_EQ(SizesOf("1M", "4m", "2", "1M"), (Sizes{1 << 20, 2 << 20, 3 << 20, 4 << 20}));
  EXPECT_EQ(SizesOf("1", "10", "2", "4"), (Sizes{1, 5, 9}));
  EXPECT_EQ(SizesOf("1G", "1G").front(), uint64_t{1} << 30);
  EXPECT_EQ(SizesOf("8", "32M").size(), 23U) << "the default";
  EXPECT_EQ(SizesOf("1", "10", "18446744073709551615"), Sizes{1}) << "no overflow";
}

TEST(SweepTest, WrongSizesAreNamed) {
  for (const char* text : {"", "0", "-8", "8X", "K", "1.5M", "8 ", "99999999999999999999"}) {
    const std::string error = ErrorAfter([&](SweepWords& words) { words.min_bytes = text; });
    EXPECT_NE(error.find("--minbytes"), std::string::npos) << text << ": " << error;
  }
  EXPECT_NE(ErrorAfter([](SweepWords& words) {
              words.min_bytes = "64M";
            }).find("--minbytes: 64M is more than the 32M of --maxbytes"),
            std::string::npos);
  EXPECT_NE(ErrorAfter([](SweepWords& words) {
              words.max_bytes = "9999999G";
            }).find("more than memory has"),
            std::string::npos);
  EXPECT_NE(ErrorAfter([](SweepWords& words) { words.step_factor = "1"; }).find("--stepfactor"),
            std::string::npos);
  EXPECT_NE(ErrorAfter([](SweepWords& words) { words.step_bytes = "1"; }).find("--stepbytes"),
            std::string::npos)
      << "32 million rows";
}

TEST(SweepTest, AnUnknownNameListsThePossibleOnes) {
  const std::string collective =
      ErrorAfter([](SweepWords& words) { words.collectives = "all_reduce,allreduce"; });
  EXPECT_NE(collective.find("--collective: unknown name 'allreduce'"), std::string::npos);
  EXPECT_NE(collective.find("all, all_reduce, all_gather"), std::string::npos) << collective;
  EXPECT_NE(collective.find("send_recv"), std::string::npos);
  const std::string dtype = ErrorAfter([](SweepWords& words) { words.dtypes = "float"; });
  EXPECT_NE(dtype.find("--datatype: unknown name 'float'"), std::string::npos);
  for (const char* name : {"int8", "bfloat16", "float64"}) {
    EXPECT_NE(dtype.find(name), std::string::npos) << dtype;
  }
  EXPECT_NE(ErrorAfter([](SweepWords& words) { words.ops = "avg"; }).find("average"),
            std::string::npos);
  EXPECT_NE(ErrorAfter([](SweepWords& words) { words.ops = ","; }).find("--op: the list is empty"),
            std::string::npos);
}

TEST(SweepTest, ARootMustBeARank) {
  const auto with_root = [](const char* text) {
    return [text](SweepWords& words) {
      words.collectives = "broadcast";
      words.roots = text;
    };
  };
  EXPECT_EQ(ErrorAfter(with_root("1")), "ok");
  EXPECT_EQ(ErrorAfter(with_root("all")), "ok");
  EXPECT_NE(ErrorAfter(with_root("2")).find("--root: no rank 2 of 2 ranks"), std::string::npos);
  EXPECT_NE(ErrorAfter(with_root("-1")).find("--root: '-1'"), std::string::npos);
  EXPECT_NE(ErrorAfter(with_root("one")).find("--root: 'one'"), std::string::npos);
}

TEST(SweepTest, ARowHasTheBytesOfTheLargerBuffer) {
  SweepWords words;
  words.min_bytes = words.max_bytes = "100";
  words.dtypes = "float64";
  words.collectives = "all_reduce,all_gather";
  const std::vector<BenchCase> cases = CasesFor(words, 3);
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].count, 12U);
  EXPECT_EQ(cases[0].bytes, 96U);
  EXPECT_EQ(cases[1].count, 4U) << "of one rank";
  EXPECT_EQ(cases[1].bytes, 96U);
  EXPECT_EQ(MaxBytes(cases), 96U);
}

TEST(SweepTest, ASizeBelowOneElementIsOneElementAndIsMeasuredOnce) {
  SweepWords words;
  words.min_bytes = "1";
  words.max_bytes = "32";
  words.dtypes = "float64";
  words.collectives = "all_gather";
  const std::vector<BenchCase> cases = CasesFor(words, 2);
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].bytes, 16U);
  EXPECT_EQ(cases[1].bytes, 32U);
}

TEST(SweepTest, LeavesOutWhatThereIsNot) {
  SweepWords words;
  words.min_bytes = words.max_bytes = "8";
  words.ops = "sum,bit_and";
  words.dtypes = "float32,int32";
  words.collectives = "all_reduce,send_recv";
  EXPECT_EQ(CasesFor(words, 2).size(), 5U) << "no bit_and of floats, one send_recv for each type";
  EXPECT_EQ(CasesFor(words, 1).size(), 3U) << "no send_recv of one rank";
  words.ops = "bit_and";
  words.dtypes = "float32";
  words.collectives = "all_reduce";
  const auto none = CasesOf(*ParseSweep(words), 2);
  EXPECT_NE(none.status().ToString().find("nothing to measure"), std::string::npos);
}

TEST(SweepTest, AllIsEveryCollectiveTypeReductionAndRoot) {
  SweepWords words;
  words.min_bytes = words.max_bytes = "8";
  words.collectives = words.dtypes = words.ops = words.roots = "all";
  // 3 reductions of 5 integers with 8 and 4 floats with 5 operations; reduce has a root, as have
  // 3 more; 3 have neither.
  const size_t reductions = 5 * 8 + 4 * 5;
  EXPECT_EQ(CasesFor(words, 2).size(), 2 * reductions + 2 * reductions + 3 * 9 * 2 + 3 * 9);
}

TEST(SweepTest, SizesAreShownInTheLargestUnit) {
  EXPECT_EQ(SizeText(8), "8 B");
  EXPECT_EQ(SizeText(1536), "1.5 KiB");
  EXPECT_EQ(SizeText(32 << 20), "32 MiB");
  EXPECT_EQ(SizeText(uint64_t{3} << 40), "3 TiB");
}

}  // namespace
}  // namespace hvdray
