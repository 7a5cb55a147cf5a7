// SPDX-License-Identifier: Apache-2.0
// The machines of a cluster file: from the file itself, or from the cloud that has made them.
#ifndef HVDRAY_LAUNCHER_PLAN_CLUSTER_NODES_H_
#define HVDRAY_LAUNCHER_PLAN_CLUSTER_NODES_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "cluster/cloud/provider.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// A machine of a cluster that can be reached.
struct ClusterNode {
  std::string address;  ///< From this machine; for users.
  HostSlots host;       ///< How SSH reaches it, and its name within the cluster.
};

/// The machines of one cluster file at one moment. Value type.
struct ClusterNodes {
  /// Not ok: why there is no head. kHostUnreachable with what to do, or what the provider said.
  Status head_status;
  ClusterNode head;
  std::vector<ClusterNode> workers;  ///< Those that have an address.
  /// All machines of a cloud, also those that do not run. Empty: the file names its hosts.
  std::vector<CloudNode> cloud;
  /// The private half of the key pair that the machines were made with, if this machine has it.
  std::string key_file;
};

/// Whether the provider of the file is asked; it then takes a second or more.
bool HasProvider(const ClusterSpec& file);

/// Asks the provider once. `command`: "exec", for what it tells while it waits; `path`: of the
/// file, for messages. Blocks. Errors: kNotSupported for a provider that only Ray knows, and for a
/// coordinator; those of MakeAwsProvider() and Provider::List().
Result<ClusterNodes> FindClusterNodes(std::string_view command, const std::string& path,
                                      const ClusterSpec& file);

/// Puts the machines into what a --cluster file contributes to a command.
void TakeNodes(const ClusterNodes& nodes, ClusterHosts* cluster);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_CLUSTER_NODES_H_
