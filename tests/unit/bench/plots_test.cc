// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/plots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace hvdray {
namespace {

BenchRow Row(Collective kind, DataType dtype, size_t bytes, double busbw_gbps) {
  BenchRow row;
  row.what = {kind, dtype, ReduceOp::kSum, 0, bytes / SizeOf(dtype), bytes};
  row.backend = "shm";
  Timing timing;
  timing.busbw_gbps = busbw_gbps;
  // A broadcast has no other.
  (kind == Collective::kBroadcast ? row.in_place : row.out_of_place) = timing;
  return row;
}

std::vector<BenchRow> TwoTypes() {
  std::vector<BenchRow> rows;
  for (const DataType dtype : {DataType::kFloat32, DataType::kInt8}) {
    for (size_t bytes = 8; bytes <= 1024; bytes *= 2) {
      rows.push_back(Row(Collective::kAllReduce, dtype, bytes,
                         static_cast<double>(bytes) / 100 * (dtype == DataType::kInt8 ? 3 : 1)));
    }
  }
  return rows;
}

TEST(PlotsTest, ASeriesIsNamedByWhatSetsItApart) {
  const std::vector<PlotSeries> two = Series(TwoTypes());
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].name, "all_reduce, shm, float32");
  EXPECT_EQ(two[1].name, "all_reduce, shm, int8");
  EXPECT_EQ(two[0].points.size(), 8U);
  const auto one = Series(std::vector{Row(Collective::kBroadcast, DataType::kInt8, 8, 1)});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].name, "broadcast, shm");
  EXPECT_TRUE(Series(std::vector{Row(Collective::kReduce, DataType::kInt8, 8, 0)}).empty())
      << "a logarithm of 0";
}

TEST(PlotsTest, TheTerminalShowsEachSeriesByItsLetter) {
  const std::string plot = TerminalPlot(Series(TwoTypes()));
  const std::string grid = plot.substr(0, plot.find("all_reduce"));
  EXPECT_EQ(std::count(grid.begin(), grid.end(), 'a') - 0, 8 + 1) << plot << "and its legend";
  EXPECT_NE(plot.find("  b all_reduce, shm, int8\n"), std::string::npos);
  EXPECT_NE(plot.find("512 B"), std::string::npos) << plot;
  std::istringstream lines(plot);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
  }
  EXPECT_EQ(TerminalPlot({}), "");
}

TEST(PlotsTest, OnePointIsAPlotToo) {
  const auto series = Series(std::vector{Row(Collective::kReduce, DataType::kInt8, 8, 1)});
  EXPECT_NE(TerminalPlot(series).find('a'), std::string::npos);
  EXPECT_EQ(SvgPlot(series, "one").find("nan"), std::string::npos);
  EXPECT_EQ(SvgPlot(series, "one").find("inf"), std::string::npos);
}

TEST(PlotsTest, TheSvgHasALineForEachSeriesAndLabelledAxes) {
  const std::string svg = SvgPlot(Series(TwoTypes()), "a < b & c");
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 2U);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_NE(svg.find("busbw (GB/s)"), std::string::npos);
  EXPECT_NE(svg.find("size of the buffer"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
  EXPECT_NE(SvgPlot({}, "nothing").find("</svg>"), std::string::npos) << "one rank has no busbw";
}

}  // namespace
}  // namespace hvdray
