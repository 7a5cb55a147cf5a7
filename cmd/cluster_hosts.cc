// SPDX-License-Identifier: Apache-2.0
#include "cmd/cluster_hosts.h"

#include <unistd.h>

#include <algorithm>

#include "base/environ.h"
#include "base/log.h"
#include "cluster/cluster_spec.h"
#include "launcher/job/hostfile.h"

namespace hvdray {

Result<ClusterHosts> LoadClusterHosts(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(const ClusterSpec spec, LoadClusterSpec(path));
  for (const std::string& warning : spec.warnings) {
    Tell(LogLevel::kWarning, "hvdray run", warning);
  }
  const int cpus = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  ClusterHosts result;
  const Result<std::vector<ClusterHost>> hosts = ClusterHostsOf(spec, cpus);
  result.hosts_status = hosts.status();
  if (hosts.ok()) {
    for (const ClusterHost& host : *hosts) {
      result.hosts.push_back(MakeHostSlots(host.address, host.slots));
    }
  }
  result.head = spec.external_head_ip.empty() ? spec.head_ip : spec.external_head_ip;
  result.ssh_user = spec.auth.ssh_user;
  result.ssh_proxy_command = spec.auth.ssh_proxy_command;
  result.ssh_identity_file = spec.auth.ssh_private_key;
  if (result.ssh_identity_file.starts_with("~/")) {
    // As Ray does.
    const std::string home = Environment::FromProcess().GetOr("HOME", "");
    if (!home.empty()) result.ssh_identity_file.replace(0, 1, home);
  }
  result.run = spec.run;
  return result;
}

}  // namespace hvdray
