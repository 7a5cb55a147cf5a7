// SPDX-License-Identifier: Apache-2.0
// The state chart of elastic jobs as text, drawn from the driver's own table for docs/elastic.md.
// Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_CHART_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_CHART_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace hvdray {

/// Marker lines around the chart in a page; WithElasticChart() keeps them.
inline constexpr std::string_view kChartBegin =
    "<!-- chart: begin, from launcher/driver/elastic_states.cc by hvdray-gen-cli -->\n";
inline constexpr std::string_view kChartEnd = "<!-- chart: end -->\n";

/// ElasticTransitions() as a Mermaid state diagram in a fenced block of Markdown.
std::string ElasticChart();
/// Replaces what is between the markers of `page` by the chart. Errors: kSpecInvalid unless each
/// marker occurs exactly once, begin before end.
Result<std::string> WithElasticChart(std::string_view page);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_CHART_H_
