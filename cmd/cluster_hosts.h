// SPDX-License-Identifier: Apache-2.0
// The hosts that a --cluster file names, as `hvdray run` wants them.
#ifndef HVDRAY_CMD_CLUSTER_HOSTS_H_
#define HVDRAY_CMD_CLUSTER_HOSTS_H_

#include <string>

#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Reads the file, prints its warnings to stderr. Slots: hvdray.slots_per_host of the file, else
/// the CPUs of this machine; what ClusterHostsOf() refuses is in hosts_status. Errors: as
/// LoadClusterSpec().
Result<ClusterHosts> LoadClusterHosts(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_CMD_CLUSTER_HOSTS_H_
