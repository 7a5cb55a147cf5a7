// SPDX-License-Identifier: Apache-2.0
// busbw over size as a plot for a terminal and as SVG, both axes logarithmic. Pure.
#ifndef HVDRAY_COLLECTIVE_BENCH_PLOTS_H_
#define HVDRAY_COLLECTIVE_BENCH_PLOTS_H_

#include <span>
#include <string>
#include <vector>

#include "collective/bench/results.h"

namespace hvdray {

struct PlotPoint {
  double bytes = 0;
  double gbps = 0;  ///< Above 0.
};

/// One line of a plot.
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
};

/// The rows as lines: out of place where there is such a call, else in place. Their names leave out
/// what all rows have in common. Leaves out what is 0 (one rank).
std::vector<PlotSeries> Series(std::span<const BenchRow> rows);

/// About 70 columns and 20 lines, and a line for each series; letters mark the points, '*' where
/// several fall on one place. Empty without points.
std::string TerminalPlot(std::span<const PlotSeries> series);

/// A document of its own, for light and dark backgrounds.
std::string SvgPlot(std::span<const PlotSeries> series, const std::string& title);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_PLOTS_H_
