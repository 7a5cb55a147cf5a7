// The generations of an elastic job as a table: sizes, who came and went, why, and how long the
// gang stood still for it. Collected while the job runs; shown by --report and the closing lines.
#ifndef HVDRAY_LAUNCHER_REPORT_MEMBERSHIPS_H_
#define HVDRAY_LAUNCHER_REPORT_MEMBERSHIPS_H_

#include <map>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/types.h"
#include "launcher/driver/elastic_events.h"
#include "wire/message.h"

namespace hvdray {

/// One generation, and the change that led to it.
struct MembershipRecord {
  Generation generation = 0;
  int size = 0;  ///< Workers.
  TimePoint when{};
  Duration stood_still{};   ///< Before it; 0: the first one, or nobody had to wait.
  bool is_counted = false;  ///< Against the reset limit.
  std::vector<HostChange> changes;
  /// Connections between the workers of the generation before that were broken, by either way.
  uint32_t connections_shut = 0;
  uint32_t connections_refused = 0;  ///< That could not be broken.
  Duration break_took{};             ///< Of the slowest host.
};

/// Threads: one. Feed every effect and every answer of an agent, in order.
class MembershipTable {
 public:
  void OnEffect(const ElasticEffect& effect, TimePoint now);
  /// Counts for the change after `generation`, also when it comes late.
  void OnConnectionsBroken(Generation generation, const wire::ConnectionsBroken& broken);

  /// In order. Beyond 10,000 the oldest but the first are left out.
  const std::vector<MembershipRecord>& rows() const { return rows_; }

 private:
  std::vector<MembershipRecord> rows_;
  MembershipRecord next_;  // Only what was broken on the way to it.
};

Duration TotalStandstill(std::span<const MembershipRecord> rows);

/// [{"host", "workers", "why"}]
Json ChangesJson(std::span<const HostChange> changes);
/// Rows of the report's "memberships"; times count from `began`.
Json MembershipsJson(std::span<const MembershipRecord> rows, TimePoint began);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_MEMBERSHIPS_H_
