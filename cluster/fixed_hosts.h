// Hosts that never change: -H or a host file with --min-np. Only failures cause resets then.
#ifndef HVDRAY_CLUSTER_FIXED_HOSTS_H_
#define HVDRAY_CLUSTER_FIXED_HOSTS_H_

#include <memory>
#include <vector>

#include "base/loop.h"
#include "cluster/host_source.h"

namespace hvdray {

/// Says the list once, as the final one. The loop outlives the source.
std::unique_ptr<HostSource> MakeFixedHosts(Loop& loop, std::vector<HostSlots> hosts);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_FIXED_HOSTS_H_
