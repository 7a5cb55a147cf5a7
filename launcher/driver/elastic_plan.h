// Which slots a generation is made of, and who already stands on them. Pure functions over the
// registry and the roster.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_PLAN_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_PLAN_H_

#include <optional>
#include <vector>

#include "launcher/driver/elastic_roster.h"
#include "launcher/driver/host_registry.h"

namespace hvdray {

/// The first `count` slots of a host.
struct HostShare {
  int host = 0;
  int count = 0;
  bool operator==(const HostShare&) const = default;
};
/// In rank order; no share is empty, no host comes twice.
using HostPlan = std::vector<HostShare>;

int SizeOf(const HostPlan& plan);

/// Whose agents count: all available hosts, or only those that can start workers now.
enum class Reach : uint8_t { kAll, kReady };

/// The largest gang that the hosts give, up to `max_np`. Hosts with a member that goes on come
/// first, each kind in the registry's order, so that rank 0 is a survivor when there is one.
HostPlan PlanOf(const HostRegistry& hosts, const ElasticRoster& roster, std::optional<int> max_np,
                Reach reach);

/// What is left of `plan` when only slots are taken whose members wait for a rank. nullopt: the
/// slots of some host would have a gap, or there is nobody.
std::optional<HostPlan> SurvivorsOf(const HostPlan& plan, const ElasticRoster& roster);

/// The hosts of `plan` are available and ready and still have so many slots.
bool Holds(const HostPlan& plan, const HostRegistry& hosts);

/// One RankInfo per slot; host_index is the number in the registry.
std::vector<RankInfo> RanksOf(const HostPlan& plan, const HostRegistry& hosts);

/// What has changed between two generations, hosts of `after` first.
std::vector<HostChange> ChangesBetween(const HostPlan& before, const HostPlan& after,
                                       const HostRegistry& hosts);

/// Stays in the job: lives, a member, was not told to end.
bool GoesOn(const ElasticRoster& roster, WorkerId worker);
bool HasMemberThatGoesOn(const ElasticRoster& roster, int host);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_PLAN_H_
