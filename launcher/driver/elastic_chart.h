// The state chart of elastic jobs as text, drawn from the driver's own table for docs/elastic.md.
// Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_CHART_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_CHART_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace hvdray {

/// The lines between which the chart stands in a page.
inline constexpr std::string_view kChartBegin =
    "<!-- chart: begin, from launcher/driver/elastic_states.cc by hvdray-gen-cli -->\n";
inline constexpr std::string_view kChartEnd = "<!-- chart: end -->\n";

/// ElasticTransitions() as a Mermaid state diagram in a fenced block of Markdown.
std::string ElasticChart();
/// `page` with that chart between its markers. Errors: kSpecInvalid unless each marker is there
/// once, the begin before the end.
Result<std::string> WithElasticChart(std::string_view page);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_CHART_H_
