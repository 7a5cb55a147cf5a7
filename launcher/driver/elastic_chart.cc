// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/driver/elastic_states.h"

namespace hvdray {
namespace {

// Mermaid ends a label at a ':' or ';'.
std::string LabelOf(std::string_view why) {
  std::string label(why);
  std::replace_if(
      label.begin(), label.end(), [](char c) { return c == ':' || c == ';'; }, ',');
  return label;
}

}  // namespace

std::string ElasticChart() {
  std::string chart = "```mermaid\nstateDiagram-v2\n";
  chart += fmt::format("    [*] --> {}\n", NameOf(ElasticState::kGathering));
  for (const ElasticTransition& arrow : ElasticTransitions()) {
    chart += fmt::format("    {} --> {}: {}\n", NameOf(arrow.from), NameOf(arrow.to),
                         LabelOf(arrow.why));
  }
  chart += fmt::format("    {} --> [*]\n```\n", NameOf(ElasticState::kFinished));
  return chart;
}

Result<std::string> WithElasticChart(std::string_view page) {
  const size_t begin = page.find(kChartBegin);
  const size_t end = page.find(kChartEnd);
  const bool is_there_once = begin != std::string_view::npos && end != std::string_view::npos &&
                             begin < end && page.rfind(kChartBegin) == begin &&
                             page.rfind(kChartEnd) == end;
  if (!is_there_once) {
    return Status(
        ErrorCode::kSpecInvalid, "the page has no place for the chart, or two",
        fmt::format("put one '{}' before one '{}'", kChartBegin.substr(0, kChartBegin.size() - 1),
                    kChartEnd.substr(0, kChartEnd.size() - 1)));
  }
  return std::string(page.substr(0, begin + kChartBegin.size())) + ElasticChart() +
         std::string(page.substr(end));
}

}  // namespace hvdray
