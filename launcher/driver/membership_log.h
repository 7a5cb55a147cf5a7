// SPDX-License-Identifier: Apache-2.0
// Why members of an elastic job leave, collected until the next generation is published. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_MEMBERSHIP_LOG_H_
#define HVDRAY_LAUNCHER_DRIVER_MEMBERSHIP_LOG_H_

#include <map>
#include <optional>
#include <string>

#include "launcher/driver/events.h"

namespace hvdray {

/// Owned by ElasticDriver. Threads: one.
class MembershipLog {
 public:
  /// Members of `host` leave or have left. The first reason per host wins.
  void NoteLeaving(const std::string& host, std::string why);
  /// Makes `host` the one that FirstReason() returns, whatever was noted before.
  void NoteCause(const std::string& host) { first_host_ = host; }
  /// The gang stands still from now on; later calls change nothing.
  void NoteStandstill(TimePoint now);
  /// "a: rank 3 on host a was killed by SIGKILL (signal 9)": the first reason, with its host.
  std::string FirstReason() const;
  /// Fills in reasons and standstill; adds hosts whose workers were replaced (change 0). Clears the
  /// log.
  effect::MembershipChanged Close(effect::MembershipChanged change, TimePoint now);

 private:
  std::map<std::string, std::string> reasons_;
  std::string first_host_;
  std::optional<TimePoint> still_since_;
};

/// "generation 3: 6 workers; host c joined with 2; host b left with 2: rank 3 on host b exited with
/// code 1; paused for 0.42 s". Hosts with the same change are folded (node[3-9]).
std::string MembershipLine(const effect::MembershipChanged& change);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_MEMBERSHIP_LOG_H_
