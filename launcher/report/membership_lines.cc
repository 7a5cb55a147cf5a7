#include "launcher/report/membership_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/host_list.h"

namespace hvdray {
namespace {

constexpr size_t kMaxTableRows = 20;

std::string ShowSeconds(Duration time) {
  return fmt::format("{:.2f} s", std::chrono::duration_cast<Seconds>(time).count());
}

// "-2 on node[3-4]: no heartbeat for 5 s; +1 on d": hosts that did alike are folded.
std::string ChangesText(std::span<const HostChange> changes) {
  std::vector<std::pair<HostChange, std::vector<std::string>>> groups;
  for (const HostChange& change : changes) {
    auto it = std::find_if(groups.begin(), groups.end(), [&change](const auto& group) {
      return group.first.workers == change.workers && group.first.why == change.why;
    });
    if (it == groups.end()) it = groups.insert(it, {change, {}});
    it->second.push_back(change.host);
  }
  std::string text;
  for (const auto& [change, hosts] : groups) {
    if (!text.empty()) text += "; ";
    text += change.workers == 0 ? std::string("new workers") : fmt::format("{:+}", change.workers);
    text += " on " + CompressHostList(hosts);
    if (!change.why.empty()) text += ": " + change.why;
  }
  return text;
}

std::string SumLine(std::span<const MembershipRecord> rows) {
  const auto [least, most] =
      std::minmax_element(rows.begin(), rows.end(),
                          [](const auto& one, const auto& other) { return one.size < other.size; });
  const std::string sizes = least->size == most->size
                                ? fmt::format("{}", most->size)
                                : fmt::format("{} to {}", least->size, most->size);
  return fmt::format(
      "hvdray: the gang changed {} time{}, {} worker{}; it stood still for {} in all",
      rows.size() - 1, rows.size() == 2 ? "" : "s", sizes, most->size == 1 ? "" : "s",
      ShowSeconds(TotalStandstill(rows)));
}

}  // namespace

std::vector<std::string> MembershipLines(std::span<const MembershipRecord> rows, TimePoint began,
                                         bool is_verbose) {
  std::vector<std::string> lines;
  if (rows.size() < 2) return lines;
  lines.push_back(SumLine(rows));
  if (!is_verbose) return lines;
  const size_t left_out = rows.size() - std::min(rows.size(), kMaxTableRows);
  lines.push_back(fmt::format("hvdray: {:>10}  {:>10}  {:>7}  {:>11}  {}", "generation", "after",
                              "workers", "stood still", "change"));
  if (left_out > 0) {
    lines.push_back(fmt::format("hvdray: {:>10}  {} before; --report has them", "...", left_out));
  }
  for (const MembershipRecord& row : rows.subspan(left_out)) {
    const bool has_waited = row.stood_still > Duration::zero();
    lines.push_back(fmt::format(
        "hvdray: {:>10}  {:>10}  {:>7}  {:>11}  {}", row.generation, ShowSeconds(row.when - began),
        row.size, has_waited ? ShowSeconds(row.stood_still) : "-", ChangesText(row.changes)));
  }
  return lines;
}

}  // namespace hvdray
