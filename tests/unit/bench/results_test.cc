// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/results.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"

namespace hvdray {
namespace {

BenchRow Row() {
  BenchRow row;
  row.what = {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 250'000, 1'000'000};
  row.backend = "shm";
  row.out_of_place = TimingOf(row.what, 4, {100, 300, 200});
  row.out_of_place->wrong = 0;
  row.copy_gbps = 15;
  return row;
}

BenchFacts Facts() {
  BenchFacts facts;
  facts.build = "hvdray 1.2.3 (abc)";
  facts.machine = "Linux";
  facts.kernels = "avx2";
  facts.time = "2024-05-01T12:00:00Z";
  facts.size = 4;
  facts.processors = 2;
  facts.copy_bytes = 32 << 20;
  facts.copy_least_gbps = 5;
  facts.copy_most_gbps = 6.25;
  return facts;
}

TEST(ResultsTest, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllReduce, 1), 0);
  for (const Collective kind : {Collective::kAllGather, Collective::kReduceScatter,
                                Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
    EXPECT_DOUBLE_EQ(BusFactor(kind, 4), 0.75);
  }
  for (const Collective kind : {Collective::kBroadcast, Collective::kReduce, Collective::kSend}) {
    EXPECT_DOUBLE_EQ(BusFactor(kind, 4), 1);
  }
}

TEST(ResultsTest, PercentilesAreNearestRanks) {
  std::vector<double> values;
  for (int i = 1; i <= 100; ++i) values.push_back(i);
  EXPECT_EQ(Percentile(values, 0.5), 50);
  EXPECT_EQ(Percentile(values, 0.99), 99);
  EXPECT_EQ(Percentile(values, 1), 100);
  EXPECT_EQ(Percentile(values, 0), 1);
  EXPECT_EQ(Percentile(std::span(values).first(1), 0.99), 1);
  EXPECT_EQ(Percentile(std::span(values).first(10), 0.99), 10);
}

TEST(ResultsTest, FiguresFollowFromTheTimes) {
  const Timing timing = *Row().out_of_place;
  EXPECT_EQ(timing.iterations, 3U);
  EXPECT_DOUBLE_EQ(timing.mean_us, 200);
  EXPECT_EQ(timing.p50_us, 200);
  EXPECT_EQ(timing.p99_us, 300);
  EXPECT_DOUBLE_EQ(timing.algbw_gbps, 5);
  EXPECT_DOUBLE_EQ(timing.busbw_gbps, 7.5);
}

TEST(ResultsTest, TheTableHasTheColumnsOfNcclTests) {
  const std::string head = TableHead(Facts(), Collective::kAllReduce, "shm");
  for (const char* column :
       {"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "(elements)",
        "(us)", "(GB/s)", "out-of-place", "in-place", "%copy"}) {
    EXPECT_NE(head.find(column), std::string::npos) << column;
  }
  for (size_t at = 0; at < head.size(); at = head.find('\n', at) + 1) EXPECT_EQ(head[at], '#');
  const std::string line = TableLine(Facts(), Row());
  EXPECT_EQ(
      line,
      "     1000000       250000   float32      sum    -1       200.0   200.0   300.0   5.00   7.50"
      "   50.0      0        -       -       -      -      -      -      -\n");
  EXPECT_NE(TableFacts(Facts()).find("blocks of 32 MiB, each copies 5.00 to 6.25 GB/s"),
            std::string::npos);
}

TEST(ResultsTest, WithoutACommonMemoryThereIsNoShareOfIt) {
  BenchFacts facts = Facts();
  facts.hosts = 2;
  EXPECT_EQ(TableHead(facts, Collective::kAllReduce, "gloo").find("%copy"), std::string::npos);
  const std::string line = TableLine(facts, Row());
  EXPECT_EQ(std::count(line.begin(), line.end(), '-'), 7) << line << "root and six figures";
}

TEST(ResultsTest, WrongElementsAreCountedAndNamed) {
  BenchRow row = Row();
  EXPECT_EQ(WrongText(row), "");
  EXPECT_NE(TableFoot(std::vector{row}).find("all results are right"), std::string::npos);
  row.in_place = row.out_of_place;
  row.in_place->wrong = 3;
  EXPECT_EQ(WrongOf(std::vector{row, row}), 6U);
  EXPECT_EQ(WrongText(row),
            "3 wrong elements in all_reduce of 250000 float32 (sum), in place, backend shm");
  EXPECT_NE(TableFoot(std::vector{row}).find("# 3 wrong elements; average busbw 7.50 GB/s"),
            std::string::npos);
  row.in_place->wrong.reset();
  row.out_of_place->wrong.reset();
  EXPECT_NE(TableLine(Facts(), row).find("N/A"), std::string::npos);
  EXPECT_NE(TableFoot(std::vector{row}).find("not checked"), std::string::npos);
}

TEST(ResultsTest, JsonSaysAllThereIs) {
  const Result<Json> json = ParseJson(ResultsJson(Facts(), std::vector{Row()}));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["build"], "hvdray 1.2.3 (abc)");
  EXPECT_EQ((*json)["copy"]["most_gbps"], 6.25);
  const Json& row = (*json)["rows"][0];
  EXPECT_EQ(row["collective"], "all_reduce");
  EXPECT_EQ(row["op"], "sum");
  EXPECT_TRUE(row["root"].is_null());
  EXPECT_EQ(row["out_of_place"]["busbw_gbps"], 7.5);
  EXPECT_EQ(row["out_of_place"]["percent_of_copy"], 50);
  EXPECT_EQ(row["out_of_place"]["wrong"], 0);
  EXPECT_TRUE(row["in_place"].is_null());
}

TEST(ResultsTest, CsvHasALineForEachTimingBelowItsNames) {
  const std::string csv = ResultsCsv(Facts(), std::vector{Row()});
  EXPECT_EQ(csv.substr(csv.find('\n') + 1),
            "all_reduce,shm,4,1,1000000,250000,float32,sum,-1,out,3,200.000,200.000,300.000,"
            "5.000000,7.500000,50.00,0\n");
  const std::string names = csv.substr(0, csv.find('\n'));
  EXPECT_EQ(std::count(names.begin(), names.end(), ','),
            std::count(csv.begin(), csv.end(), ',') / 2);
}

}  // namespace
}  // namespace hvdray
