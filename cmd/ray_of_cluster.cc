// SPDX-License-Identifier: Apache-2.0
#include "cmd/ray_of_cluster.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "cluster/local_transport.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/ssh/ssh_config_source.h"
#include "cmd/cluster_hosts.h"
#include "cmd/host_access.h"
#include "cmd/openssh_shell.h"
#include "cmd/ray_words.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/spec_builder.h"

namespace hvdray {
namespace {

// A dashboard answers this in milliseconds; a firewall never does.
constexpr double kProbeSeconds = 2;

std::string UrlOf(const std::string& host, uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, port)
               : fmt::format("http://{}:{}", host, port);
}

/// Whether Ray is there; one that wants a token is.
Status Probe(const std::string& url) {
  RayWords words;
  words.address = url;
  words.timeout_s = kProbeSeconds;
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, ResolveRayAccess("run", words));
  DashboardClient client(std::move(access));
  Status status = client.Version().status();
  return status.code() == ErrorCode::kRayDenied ? Status() : status;
}

Result<std::unique_ptr<SshTunnel>> Dig(const std::string& head, const JobSpec& spec) {
  const HostSlots host = MakeHostSlots(head, 1);
  const Duration limit = SshConnectTimeoutOf(spec);
  SshConfigSource configs(SshOverridesOf(spec), CurrentSshUser(Environment::FromProcess()),
                          OpensshOptions().program);
  const Result<HostKeyPolicy> policy =
      configs.HostKeys(SshTargetOf(spec, host), SshLimit::In(limit, -1));
  SshTunnelOptions options;
  options.ssh = OpensshOptionsOf(spec, host, policy.ok() ? *policy : HostKeyPolicy::kAcceptNew);
  options.host = head;
  options.remote_port = kRayDashboardPort;
  options.limit = limit;
  return SshTunnel::Open(options);
}

}  // namespace

Result<std::string> RayOfCluster::Find(const ClusterHosts& cluster, const JobSpec& spec) {
  const std::string& head = cluster.head;
  const bool is_here = AreThisMachine({head}, LookupOf(spec)).front();
  std::vector<std::string> hosts = {head};
  // Ray's dashboard listens on loopback alone unless it is told otherwise.
  if (is_here && head != "127.0.0.1") hosts.insert(hosts.begin(), "127.0.0.1");
  std::string said;
  for (const std::string& host : hosts) {
    const std::string url = UrlOf(host, kRayDashboardPort);
    const Status status = Probe(url);
    if (status.ok()) return url;
    said = status.message();
  }
  if (!is_here && spec.launch_agent->empty()) {
    Result<std::unique_ptr<SshTunnel>> tunnel = Dig(head, spec);
    if (tunnel.ok()) {
      const std::string url = UrlOf("127.0.0.1", (*tunnel)->local_port());
      const Status status = Probe(url);
      if (status.ok()) {
        tunnel_ = std::move(tunnel).value();
        return url;
      }
      said += "; nor through SSH";
    } else {
      said += "; " + tunnel.status().message();
    }
  }
  return Status(ErrorCode::kRayUnreachable, fmt::format("no Ray answers on {}: {}", head, said),
                "start it there, or name its dashboard by --ray-address URL");
}

Result<std::string> RayOfCluster::FindIn(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(const ClusterHosts cluster, LoadClusterHosts(path));
  if (cluster.head.empty()) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{}: only its provider knows where the head is", path),
                  "--ray-address URL names its Ray");
  }
  JobSpec spec;
  spec.cluster_file.Set(path, "flag --cluster");
  TakeLogin(cluster, &spec);
  return Find(cluster, spec);
}

}  // namespace hvdray
