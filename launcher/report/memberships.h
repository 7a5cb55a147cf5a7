// SPDX-License-Identifier: Apache-2.0
// The generations of an elastic job as a table: sizes, hosts that joined and left, why, and how
// long the gang stood still for it. Collected while the job runs; printed by --report and the
// closing lines.
#ifndef HVDRAY_LAUNCHER_REPORT_MEMBERSHIPS_H_
#define HVDRAY_LAUNCHER_REPORT_MEMBERSHIPS_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/types.h"
#include "launcher/driver/events.h"
#include "wire/message.h"

namespace hvdray {

/// One generation, and the change that led to it.
struct MembershipRecord {
  Generation generation = 0;
  int size = 0;  ///< Workers.
  TimePoint when{};
  Duration stood_still{};   ///< Before it; 0: the first one, or no worker waited.
  bool is_counted = false;  ///< Against the reset limit.
  std::vector<HostChange> changes;
  /// Connections between workers of the previous generation that were broken, in either way.
  uint32_t connections_shut = 0;
  uint32_t connections_refused = 0;  ///< Those that could not be broken.
  Duration break_took{};             ///< On the slowest host.
};

/// Call for every effect and every ConnectionsBroken, in order. Threads: one.
class MembershipTable {
 public:
  void OnEffect(const ElasticEffect& effect, TimePoint now);
  /// Counts for the change after `generation`, even if it arrives late.
  void OnConnectionsBroken(Generation generation, const wire::ConnectionsBroken& broken);

  /// In order, at most 10,000: the first and the latest.
  const std::vector<MembershipRecord>& rows() const { return rows_; }

 private:
  std::vector<MembershipRecord> rows_;
  MembershipRecord next_;  // Only the broken connections before it.
};

/// Sum of stood_still.
Duration TotalStandstill(std::span<const MembershipRecord> rows);

/// [{"host", "workers", "why"}]
Json ChangesJson(std::span<const HostChange> changes);
/// Rows of the report's "memberships"; times count from `began`.
Json MembershipsJson(std::span<const MembershipRecord> rows, TimePoint began);

// The closing lines about an elastic job's generations. Pure.

/// One summary line, as each change was printed when it happened; none for a job that never
/// changed. With is_verbose, a table of the last 20 generations follows; times count from `began`.
std::vector<std::string> MembershipLines(std::span<const MembershipRecord> rows, TimePoint began,
                                         bool is_verbose);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_MEMBERSHIPS_H_
