// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/host_target.h"

#include <algorithm>

namespace hvdray {
namespace {

// A different order alone is no reason to stop a gang.
bool IsSameMembership(HostPlan a, HostPlan b) {
  const auto by_host = [](const HostShare& x, const HostShare& y) { return x.host < y.host; };
  std::sort(a.begin(), a.end(), by_host);
  std::sort(b.begin(), b.end(), by_host);
  return a == b;
}

}  // namespace

HostTarget::Moves HostTarget::Renew(HostRegistry& hosts, const WorkerRoster& roster,
                                    const HostPlan& present, std::optional<int> max_np,
                                    TimePoint connect_limit) {
  is_changed_ = false;
  Moves moves;
  const HostPlan wanted = PlanOf(hosts, roster, max_np, Reach::kAll);
  potential_ = SizeOf(wanted);
  for (const HostShare& share : wanted) {
    if (hosts.host(share.host).agent != HostRegistry::Agent::kNone) continue;
    hosts.MarkConnecting(share.host, connect_limit);
    moves.connect.push_back(share.host);
  }
  plan_ = PlanOf(hosts, roster, max_np, Reach::kReady);
  if (IsSameMembership(plan_, present)) plan_ = present;
  is_urgent_ = std::any_of(present.begin(), present.end(), [&](const HostShare& share) {
    return hosts.host(share.host).is_leaving && HasMemberThatGoesOn(roster, share.host);
  });
  moves.release = Release(hosts, roster);
  return moves;
}

std::vector<int> HostTarget::Release(HostRegistry& hosts, const WorkerRoster& roster) {
  std::vector<int> released;
  for (int number = 0; number < hosts.size(); ++number) {
    const HostRegistry::Host& host = hosts.host(number);
    const bool may_return = host.is_listed && !host.is_leaving && host.cooldown_ends.has_value();
    if (host.agent == HostRegistry::Agent::kNone || host.is_available() || may_return) continue;
    if (roster.CountLivingOn(number) > 0) continue;
    hosts.MarkGone(number);
    released.push_back(number);
  }
  return released;
}

bool HostTarget::HasInSight(int needed, const HostRegistry& hosts) const {
  return size() >= needed || potential_ >= needed || hosts.connecting() > 0 ||
         hosts.NextExpiry().has_value();
}

}  // namespace hvdray
