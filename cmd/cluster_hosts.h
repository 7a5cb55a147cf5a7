// SPDX-License-Identifier: Apache-2.0
// The hosts that a --cluster file names, as options_resolver.h takes them.
#ifndef HVDRAY_CMD_CLUSTER_HOSTS_H_
#define HVDRAY_CMD_CLUSTER_HOSTS_H_

#include <string>

#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Reads the file and prints its warnings to stderr. Slots: hvdray.slots_per_host of the file, else
/// the CPUs of this machine. hosts_status has the errors of ClusterHostsOf(). Errors: those of
/// LoadClusterSpec().
Result<ClusterHosts> LoadClusterHosts(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_CMD_CLUSTER_HOSTS_H_
