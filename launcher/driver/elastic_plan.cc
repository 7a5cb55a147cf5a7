// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_plan.h"

#include <algorithm>
#include <map>

namespace hvdray {

using Role = WorkerRoster::Role;

int SizeOf(const HostPlan& plan) {
  int size = 0;
  for (const HostShare& share : plan) size += share.count;
  return size;
}

bool IsAnnounced(const HostRegistry& hosts, int host) {
  const HostRegistry::Host& entry = hosts.host(host);
  return entry.is_leaving || !entry.is_listed;
}

bool GoesOn(const WorkerRoster& roster, WorkerId worker) {
  const WorkerRoster::Process* process = roster.Living(worker);
  return process != nullptr && process->role == Role::kMember && !process->is_told_to_end;
}

bool HasMemberThatGoesOn(const WorkerRoster& roster, int host) {
  // A host loses its members together or from the highest local rank down, so local rank 0 decides.
  return GoesOn(roster, roster.On(host, 0));
}

HostPlan PlanOf(const HostRegistry& hosts, const WorkerRoster& roster, std::optional<int> max_np,
                Reach reach) {
  std::vector<int> order = hosts.order();
  std::stable_partition(order.begin(), order.end(),
                        [&](int host) { return HasMemberThatGoesOn(roster, host); });
  int room = std::min(max_np.value_or(kMaxRanks), kMaxRanks);
  HostPlan plan;
  for (const int host : order) {
    const bool is_reached =
        reach == Reach::kAll || hosts.host(host).agent == HostRegistry::Agent::kReady;
    const int count = std::min(room, hosts.host(host).slots());
    if (!is_reached || count <= 0) continue;
    plan.push_back({host, count});
    room -= count;
  }
  return plan;
}

std::optional<HostPlan> Survivors(const HostPlan& plan, const WorkerRoster& roster) {
  HostPlan survivors;
  for (const HostShare& share : plan) {
    int last = -1;
    int count = 0;
    for (int local_rank = 0; local_rank < share.count; ++local_rank) {
      const WorkerId worker = roster.On(share.host, local_rank);
      if (!GoesOn(roster, worker) || !roster.Of(worker).is_parked) continue;
      last = local_rank;
      ++count;
    }
    if (last + 1 != count) return std::nullopt;
    if (count > 0) survivors.push_back({share.host, count});
  }
  if (survivors.empty()) return std::nullopt;
  return survivors;
}

bool Holds(const HostPlan& plan, const HostRegistry& hosts) {
  return std::all_of(plan.begin(), plan.end(), [&](const HostShare& share) {
    const HostRegistry::Host& host = hosts.host(share.host);
    return host.is_available() && host.agent == HostRegistry::Agent::kReady &&
           host.slots() >= share.count;
  });
}

std::vector<RankInfo> RanksOf(const HostPlan& plan, const HostRegistry& hosts) {
  std::vector<HostSlots> slots;
  slots.reserve(plan.size());
  for (const HostShare& share : plan) slots.push_back({hosts.name(share.host), share.count});
  std::vector<RankInfo> ranks = AssignRanks(slots, 0, std::nullopt).value();
  for (RankInfo& info : ranks) info.host_index = plan[static_cast<size_t>(info.host_index)].host;
  return ranks;
}

std::vector<HostChange> ChangesBetween(const HostPlan& before, const HostPlan& after,
                                       const HostRegistry& hosts) {
  std::map<int, int> old;
  for (const HostShare& share : before) old[share.host] = share.count;
  std::vector<HostChange> changes;
  for (const HostShare& share : after) {
    const auto it = old.find(share.host);
    const int more = share.count - (it == old.end() ? 0 : it->second);
    if (it != old.end()) old.erase(it);
    if (more != 0) changes.push_back({hosts.name(share.host), more, ""});
  }
  for (const HostShare& share : before) {
    if (old.contains(share.host)) changes.push_back({hosts.name(share.host), -share.count, ""});
  }
  return changes;
}

}  // namespace hvdray
