// SPDX-License-Identifier: Apache-2.0
// The way to a Ray cluster: its address, what it asks for, and, for a --cluster file, the tunnel to
// the Ray on its head.
#ifndef HVDRAY_CLUSTER_RAY_RAY_ACCESS_H_
#define HVDRAY_CLUSTER_RAY_RAY_ACCESS_H_

#include <memory>
#include <string>
#include <string_view>

#include "cluster/ray/dashboard_client.h"
#include "cluster/transport/ssh_tunnel.h"
#include "cluster/up/node_script.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// What the way to a cluster file's Ray needs for as long as it is used.
struct HeadLink {
  std::unique_ptr<SshTunnel> tunnel;  ///< null: the dashboard is reached directly.
  std::string host;                   ///< Where the tunnel leads.
  /// Read from the head over SSH, for the tunnel only; empty: not needed, or not found.
  RayToken token;
};

/// A tunnel to the dashboard of `head` at `place`. `is_in_container`: what listens there may be of
/// the image's user. Blocks. Errors: those of SshTunnel::Open().
Result<std::unique_ptr<SshTunnel>> OpenDashboardTunnel(const HostSlots& head,
                                                       const RayDashboard& place,
                                                       bool is_in_container, const JobSpec& spec);

/// The URL of the Ray on the head of a cluster file, reached directly or through SSH; `link` must
/// last as long as its use; `cluster` has a head. See ResolverFiles::find_ray. Asks without a token
/// who the file's address is: a Ray that wants one gets it through SSH only, which knows the head,
/// or if it runs on this machine. If that Ray denies access, reads the head's own token over SSH.
/// Blocks, for seconds at worst. A Ray that denies access even so counts as found. Errors:
/// kRayUnreachable with what each way said.
Result<std::string> FindRayOfCluster(const ClusterHosts& cluster, const JobSpec& spec,
                                     HeadLink& link);

/// The option of the command line or a job file that names a Ray cluster; nullptr: none. Not the
/// environment's, which may be for other jobs.
const RawOption* SaidCluster(const CommandRequest& request);

/// A job of any client, by its submission id or Ray's own; blocks. Errors: kUsage if Ray knows
/// none, those of DashboardClient::GetJob().
Result<RayJob> JobCalled(DashboardClient& client, const std::string& id);

/// How to reach the Ray of `spec`, which has no --cluster file or has its Ray's address. Reports on
/// stderr, as `command`, what it assumes. Reads files. Errors: those of ResolveRayAddress(),
/// ResolveRayHeaders(), FindRayToken().
Result<RayAccess> ResolveRayAccess(std::string_view command, const JobSpec& spec,
                                   const HeadLink& link);

/// The same for a command that only looks at a cluster: --timeout limits each answer. Sets the
/// address in `spec` to that of its --cluster file, if no flag gives one; `link` must outlive the
/// access. Errors: also kUsage without any of --ray, address and cluster file, those of
/// LoadClusterHosts(), FindClusterNodes() and FindRayOfCluster().
Result<RayAccess> FindRay(std::string_view command, JobSpec& spec, HeadLink& link);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_ACCESS_H_
