#include "launcher/report/memberships.h"

#include <algorithm>
#include <utility>

#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

// A job on machines that come and go for weeks must not fill the memory.
constexpr size_t kMaxRows = 10'000;

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
  // Numbers of generations have gaps: the next one is the first above.
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

}  // namespace hvdray
