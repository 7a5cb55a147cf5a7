// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/memberships.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/job/hostfile.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

// Bounds memory for jobs whose hosts come and go for weeks.
constexpr size_t kMaxRows = 10'000;

constexpr size_t kMaxTableRows = 20;

std::string ShowSeconds(Duration time) {
  return fmt::format("{:.2f} s", std::chrono::duration_cast<Seconds>(time).count());
}

// "-2 on node[3-4]: no heartbeat for 5 s; +1 on d": hosts with the same change are folded.
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
  return fmt::format("hvdray: the gang changed {} time{}, {} worker{}; it paused for {} in all",
                     rows.size() - 1, rows.size() == 2 ? "" : "s", sizes,
                     most->size == 1 ? "" : "s", ShowSeconds(TotalStandstill(rows)));
}

}  // namespace

void MembershipTable::OnEffect(const ElasticEffect& effect, TimePoint now) {
  const auto* change = std::get_if<effect::MembershipChanged>(&effect);
  if (change == nullptr) return;
  MembershipRecord row = std::exchange(next_, {});
  row.generation = change->generation;
  row.size = change->size;
  row.when = now;
  row.stood_still = change->stood_still;
  row.is_counted = change->is_counted;
  row.changes = change->changes;
  if (rows_.size() >= kMaxRows) rows_.erase(rows_.begin() + 1);
  rows_.push_back(std::move(row));
}

void MembershipTable::OnConnectionsBroken(Generation generation,
                                          const wire::ConnectionsBroken& broken) {
  // Generation numbers have gaps: the next row is the first with a higher one.
  const auto after = std::find_if(
      rows_.begin(), rows_.end(),
      [generation](const MembershipRecord& row) { return row.generation > generation; });
  MembershipRecord& row = after != rows_.end() ? *after : next_;
  row.connections_shut += broken.shut + broken.destroyed;
  row.connections_refused += broken.refused;
  row.break_took = std::max<Duration>(row.break_took, std::chrono::microseconds(broken.took_us));
}

Duration TotalStandstill(std::span<const MembershipRecord> rows) {
  Duration total{};
  for (const MembershipRecord& row : rows) total += row.stood_still;
  return total;
}

Json ChangesJson(std::span<const HostChange> changes) {
  Json json = Json::array();
  for (const HostChange& change : changes) {
    Json row;
    row["host"] = change.host;
    row["workers"] = change.workers;
    row["why"] = change.why;
    json.push_back(std::move(row));
  }
  return json;
}

Json MembershipsJson(std::span<const MembershipRecord> rows, TimePoint began) {
  Json json = Json::array();
  for (const MembershipRecord& row : rows) {
    Json one;
    one["generation"] = row.generation;
    one["size"] = row.size;
    one["began_s"] = Offset(began, row.when);
    one["stood_still_s"] = RoundedSeconds(row.stood_still);
    one["counted"] = row.is_counted;
    one["changes"] = ChangesJson(row.changes);
    one["connections_shut"] = row.connections_shut;
    one["connections_refused"] = row.connections_refused;
    one["break_s"] = RoundedSeconds(row.break_took);
    json.push_back(std::move(one));
  }
  return json;
}

std::vector<std::string> MembershipLines(std::span<const MembershipRecord> rows, TimePoint began,
                                         bool is_verbose) {
  std::vector<std::string> lines;
  if (rows.size() < 2) return lines;
  lines.push_back(SumLine(rows));
  if (!is_verbose) return lines;
  const size_t left_out = rows.size() - std::min(rows.size(), kMaxTableRows);
  lines.push_back(fmt::format("hvdray: {:>10}  {:>10}  {:>7}  {:>11}  {}", "generation", "after",
                              "workers", "paused", "change"));
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
