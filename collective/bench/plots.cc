// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/plots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

namespace hvdray {
namespace {

struct Tick {
  double place = 0;  ///< 0 to 1 along the axis.
  std::string text;
};

/// A logarithmic axis from the smallest to the largest value.
class Axis {
 public:
  void Include(double value) {
    low_ = is_empty_ ? value : std::min(low_, value);
    high_ = is_empty_ ? value : std::max(high_, value);
    is_empty_ = false;
  }
  /// To whole powers of `base`, and over one of them at least.
  void RoundTo(double base) {
    low_ = std::pow(base, std::floor(std::log(low_) / std::log(base) + 1e-9));
    high_ = std::pow(base, std::ceil(std::log(high_) / std::log(base) - 1e-9));
    if (high_ <= low_) high_ = low_ * base;
  }
  double low() const { return low_; }
  double high() const { return high_; }
  bool is_empty() const { return is_empty_; }
  double PlaceOf(double value) const { return std::log(value / low_) / std::log(high_ / low_); }

 private:
  double low_ = 1;
  double high_ = 1;
  bool is_empty_ = true;
};

struct Axes {
  Axis x;
  Axis y;
};

Axes AxesOf(std::span<const PlotSeries> series) {
  Axes axes;
  for (const PlotSeries& one : series) {
    for (const PlotPoint& point : one.points) {
      axes.x.Include(point.bytes);
      axes.y.Include(point.gbps);
    }
  }
  axes.x.RoundTo(2);
  axes.y.RoundTo(10);
  return axes;
}

/// Every power of two of at most `limit` of them, evenly.
std::vector<Tick> SizeTicks(const Axis& axis, size_t limit) {
  const auto powers = static_cast<size_t>(std::lround(std::log2(axis.high() / axis.low())));
  const size_t step = powers / limit + 1;
  std::vector<Tick> ticks;
  for (size_t i = 0; i <= powers; i += step) {
    const double bytes = axis.low() * std::pow(2.0, static_cast<double>(i));
    ticks.push_back({axis.PlaceOf(bytes), SizeText(static_cast<uint64_t>(bytes))});
  }
  return ticks;
}

/// Powers of ten; with at most two of those between, 2 and 5 as well.
std::vector<Tick> RateTicks(const Axis& axis) {
  const auto decades = std::lround(std::log10(axis.high() / axis.low()));
  std::vector<Tick> ticks;
  for (long i = 0; i <= decades; ++i) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && (decades > 2 || i == decades)) continue;
      const double rate = axis.low() * std::pow(10.0, static_cast<double>(i)) * factor;
      ticks.push_back({axis.PlaceOf(rate), fmt::format("{:g}", rate)});
    }
  }
  return ticks;
}

/// The parts of a series' name, in order.
std::vector<std::string> PartsOf(const BenchRow& row) {
  const BenchCase& what = row.what;
  return {std::string(BenchName(what.kind)), row.backend, std::string(Name(what.dtype)),
          IsReduction(what.kind) ? std::string(Name(what.op)) : std::string(),
          IsRooted(what.kind) ? fmt::format("root {}", what.root) : std::string()};
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Of middling lightness, so that each can be told from white and from black.
constexpr std::string_view kColors[] = {"#2a7fd4", "#d9652b", "#3a9a5c", "#b455b0",
                                        "#b08a1e", "#cc4b62", "#3a9aa8", "#8a76d6"};

}  // namespace

std::vector<PlotSeries> Series(std::span<const BenchRow> rows) {
  std::vector<std::vector<std::string>> names;
  std::map<std::vector<std::string>, std::vector<PlotPoint>> points;
  for (const BenchRow& row : rows) {
    const std::optional<Timing>& timing = row.out_of_place ? row.out_of_place : row.in_place;
    if (!timing || timing->busbw_gbps <= 0) continue;
    std::vector<std::string> name = PartsOf(row);
    if (!points.contains(name)) names.push_back(name);
    points[std::move(name)].push_back({static_cast<double>(row.what.bytes), timing->busbw_gbps});
  }
  std::vector<PlotSeries> series;
  for (const std::vector<std::string>& name : names) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < name.size(); ++i) {
      const bool is_common = std::all_of(names.begin(), names.end(),
                                         [&](const auto& other) { return other[i] == name[i]; });
      // The collective and its backend are always said.
      if (!name[i].empty() && (i < 2 || !is_common)) parts.push_back(name[i]);
    }
    series.push_back({fmt::format("{}", fmt::join(parts, ", ")), points[name]});
  }
  return series;
}

std::string TerminalPlot(std::span<const PlotSeries> series) {
  constexpr size_t kColumns = 64;
  constexpr size_t kLines = 18;
  if (series.empty()) return {};
  const Axes axes = AxesOf(series);
  std::vector<std::string> grid(kLines, std::string(kColumns, ' '));
  const auto column_of = [](double place) {
    return static_cast<size_t>(std::lround(place * (kColumns - 1)));
  };
  const auto line_of = [](double place) {
    return kLines - 1 - static_cast<size_t>(std::lround(place * (kLines - 1)));
  };
  for (size_t i = 0; i < series.size(); ++i) {
    const char mark = i < 26 ? static_cast<char>('a' + i) : '+';
    for (const PlotPoint& point : series[i].points) {
      char& cell =
          grid[line_of(axes.y.PlaceOf(point.gbps))][column_of(axes.x.PlaceOf(point.bytes))];
      cell = cell == ' ' || cell == mark ? mark : '*';
    }
  }
  std::vector<std::string> labels(kLines);
  for (const Tick& tick : RateTicks(axes.y)) labels[line_of(tick.place)] = tick.text;
  std::string text = "busbw (GB/s)\n";
  for (size_t line = 0; line < kLines; ++line) {
    const std::string& cells = grid[line];
    text += fmt::format("{:>9} {}{}", labels[line], labels[line].empty() ? '|' : '+', cells);
    text = text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  std::string axis(kColumns, '-');
  std::string names(kColumns + 16, ' ');
  for (const Tick& tick : SizeTicks(axes.x, 6)) {
    const size_t column = column_of(tick.place);
    axis[column] = '+';
    names.replace(column, tick.text.size(), tick.text);
  }
  names.erase(names.find_last_not_of(' ') + 1);
  text += fmt::format("{:>9} +{}\n{:>11}{}   size\n", "", axis, "", names);
  for (size_t i = 0; i < series.size(); ++i) {
    text += fmt::format("  {} {}\n", i < 26 ? static_cast<char>('a' + i) : '+', series[i].name);
  }
  return text;
}

std::string SvgPlot(std::span<const PlotSeries> series, const std::string& title) {
  constexpr int kWidth = 760;
  constexpr int kPlotHeight = 320;
  constexpr int kLeft = 70;
  constexpr int kTop = 40;
  constexpr int kRight = 20;
  constexpr int kLegendLine = 18;
  const int legend_top = kTop + kPlotHeight + 62;
  const int height = legend_top + kLegendLine * static_cast<int>(series.size()) + 4;
  const Axes axes = AxesOf(series);
  const auto x_of = [](double place) { return kLeft + place * (kWidth - kLeft - kRight); };
  const auto y_of = [](double place) { return kTop + (1 - place) * kPlotHeight; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n"
      "<title>{2}</title>\n"
      "<style>text {{ fill: #444 }} .grid {{ stroke: #888; stroke-opacity: 0.3 }} "
      "@media (prefers-color-scheme: dark) {{ text {{ fill: #ccc }} }}</style>\n"
      "<text x=\"{3}\" y=\"22\" font-size=\"14\">{2}</text>\n",
      kWidth, height, Escaped(title), kLeft);
  for (const Tick& tick : RateTicks(axes.y)) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>\n"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, y_of(tick.place), kWidth - kRight, y_of(tick.place), kLeft - 6, y_of(tick.place) + 4,
        tick.text);
  }
  for (const Tick& tick : SizeTicks(axes.x, 10)) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        x_of(tick.place), kTop, kTop + kPlotHeight, kTop + kPlotHeight + 18, tick.text);
  }
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">size of the buffer</text>\n"
      "<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">busbw "
      "(GB/s)</text>\n",
      x_of(0.5), kTop + kPlotHeight + 38, kTop + kPlotHeight / 2);
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string_view color = kColors[i % std::size(kColors)];
    std::string path;
    std::string marks;
    for (const PlotPoint& point : series[i].points) {
      const double x = x_of(axes.x.PlaceOf(point.bytes));
      const double y = y_of(axes.y.PlaceOf(point.gbps));
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x, y);
      marks +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>", x, y, color);
    }
    const int y = legend_top + kLegendLine * static_cast<int>(i);
    // Colors come round again with ever shorter dashes.
    const size_t round = i / std::size(kColors);
    const std::string dashes =
        round == 0 ? "" : fmt::format(" stroke-dasharray=\"{}\"", 12 / (round + 1));
    svg += fmt::format(
        "<polyline points=\"{0}\" fill=\"none\" stroke=\"{1}\" stroke-width=\"2\"{8}/>{2}\n"
        "<line x1=\"{3}\" y1=\"{5}\" x2=\"{4}\" y2=\"{5}\" stroke=\"{1}\" stroke-width=\"3\"{8}/>"
        "<text x=\"{6}\" y=\"{9}\">{7}</text>\n",
        path, color, marks, kLeft, kLeft + 24, y - 4, kLeft + 32, Escaped(series[i].name), dashes,
        y);
  }
  return svg + "</svg>\n";
}

}  // namespace hvdray
