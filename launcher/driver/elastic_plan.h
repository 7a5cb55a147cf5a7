// SPDX-License-Identifier: Apache-2.0
// Which slots form a generation, and which workers already run on them. Pure functions over the
// registry and the roster.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_PLAN_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_PLAN_H_

#include <optional>
#include <vector>

#include "launcher/driver/events.h"
#include "launcher/driver/host_registry.h"
#include "launcher/driver/worker_roster.h"

namespace hvdray {

/// The first `count` slots of a host.
struct HostShare {
  int host = 0;
  int count = 0;
  bool operator==(const HostShare&) const = default;
};
/// In rank order; no share is empty, no host comes twice.
using HostPlan = std::vector<HostShare>;

/// Number of workers in the plan.
int SizeOf(const HostPlan& plan);

/// Which hosts count: all available ones, or only those whose agents can start workers now.
enum class Reach : uint8_t { kAll, kReady };

/// The largest gang that the hosts allow, up to `max_np` (nullopt: no limit). Hosts with a
/// continuing member come first, then the others, each in the registry's order, so that rank 0 is a
/// survivor whenever there is one.
HostPlan PlanOf(const HostRegistry& hosts, const WorkerRoster& roster, std::optional<int> max_np,
                Reach reach);

/// The part of `plan` whose slots have members that wait for a rank. nullopt: a host's slots would
/// have a gap, or no member waits.
std::optional<HostPlan> Survivors(const HostPlan& plan, const WorkerRoster& roster);

/// True if all hosts of `plan` are available, ready, and still have that many slots.
bool Holds(const HostPlan& plan, const HostRegistry& hosts);

/// One RankInfo per slot, by rank; host_index is the number in the registry.
std::vector<RankInfo> RanksOf(const HostPlan& plan, const HostRegistry& hosts);

/// Changes per host between two generations, hosts of `after` first; `why` is left empty.
std::vector<HostChange> ChangesBetween(const HostPlan& before, const HostPlan& after,
                                       const HostRegistry& hosts);

/// It was said that the host goes: what ends there is no failure.
bool IsAnnounced(const HostRegistry& hosts, int host);

/// The worker stays in the job: it lives, is a member and was not told to end.
bool GoesOn(const WorkerRoster& roster, WorkerId worker);
/// The host has at least one worker for which GoesOn() holds.
bool HasMemberThatGoesOn(const WorkerRoster& roster, int host);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_PLAN_H_
