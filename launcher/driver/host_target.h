// SPDX-License-Identifier: Apache-2.0
// Which hosts an elastic job wants, and the largest gang that they allow. Pure; the driver starts
// and releases their agents.
#ifndef HVDRAY_LAUNCHER_DRIVER_HOST_TARGET_H_
#define HVDRAY_LAUNCHER_DRIVER_HOST_TARGET_H_

#include <optional>
#include <vector>

#include "launcher/driver/elastic_plan.h"

namespace hvdray {

/// Always, once renewed: the plan could start now; no host is wanted and released at once, nor
/// released while a process lives there; without a change, renewing again moves no host. A value;
/// threads: one.
class HostTarget {
 public:
  struct Moves {
    std::vector<int> connect;  ///< Their agents are to be started.
    std::vector<int> release;  ///< Their agents are to go.
  };

  /// Hosts, their slots or the workers there have changed.
  void MarkChanged() { is_changed_ = true; }
  bool is_changed() const { return is_changed_; }
  /// Follows the changes; marks the moved hosts in `hosts`. `present`: the published plan, which
  /// stays as it is if it only differs in order. `connect_limit`: of hosts that connect now.
  Moves Renew(HostRegistry& hosts, const WorkerRoster& roster, const HostPlan& present,
              std::optional<int> max_np, TimePoint connect_limit);

  /// The largest gang possible at the last Renew().
  const HostPlan& plan() const { return plan_; }
  int size() const { return SizeOf(plan_); }
  /// Its size if the agents of all connecting hosts were ready.
  int potential() const { return potential_; }
  /// A host of the present plan with members will leave soon.
  bool is_urgent() const { return is_urgent_; }
  /// There are enough slots, or listed hosts may still bring them.
  bool HasInSight(int needed, const HostRegistry& hosts) const;

 private:
  static std::vector<int> Release(HostRegistry& hosts, const WorkerRoster& roster);

  HostPlan plan_;
  int potential_ = 0;
  bool is_urgent_ = false;
  bool is_changed_ = true;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_HOST_TARGET_H_
