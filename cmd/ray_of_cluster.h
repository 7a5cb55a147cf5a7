// SPDX-License-Identifier: Apache-2.0
// The Ray that runs on the cluster of a --cluster file: on its head, directly or through SSH.
#ifndef HVDRAY_CMD_RAY_OF_CLUSTER_H_
#define HVDRAY_CMD_RAY_OF_CLUSTER_H_

#include <memory>
#include <string>

#include "cluster/ssh_tunnel.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Holds the way there open for as long as it lives.
class RayOfCluster {
 public:
  /// See ResolverFiles::find_ray. Blocks, seconds at worst. A Ray that does not let us in has
  /// answered. Errors: kRayUnreachable with what each way said.
  Result<std::string> Find(const ClusterHosts& cluster, const JobSpec& spec);
  /// The same for a file, when nothing else says how to log in. Errors: also those of
  /// LoadClusterHosts(); kNotSupported when only its provider knows the head.
  Result<std::string> FindIn(const std::string& path);

 private:
  std::unique_ptr<SshTunnel> tunnel_;
};

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_OF_CLUSTER_H_
