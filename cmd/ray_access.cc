// SPDX-License-Identifier: Apache-2.0
#include "cmd/ray_access.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/log.h"
#include "cluster/local_transport.h"
#include "cluster/ssh/ssh_config_source.h"
#include "cmd/commands.h"
#include "cmd/host_access.h"
#include "cmd/host_sources.h"
#include "cmd/job_ssh.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/spec_builder.h"

namespace hvdray {
namespace {

// A dashboard answers in milliseconds; behind a firewall nothing ever does.
constexpr Duration kProbeLimit = std::chrono::seconds(2);
constexpr Duration kMaxAnswerLimit = std::chrono::hours(1);

/// "hvdray/0.1.0" of "hvdray 0.1.0 (abc1234)".
std::string UserAgent() {
  const std::string name = BuildName();
  const size_t begin = name.find(' ') + 1;
  return "hvdray/" + name.substr(begin, name.find(' ', begin) - begin);
}

std::string UrlOf(const std::string& host, uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, port)
               : fmt::format("http://{}:{}", host, port);
}

/// Whether Ray answers there, with or without asking for a token.
Status Probe(const std::string& url) {
  JobSpec spec;
  spec.ray.address.Set(url, "flag --ray-address");
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, ResolveRayAccess("run", spec));
  access.timeout = kProbeLimit;
  DashboardClient client(std::move(access));
  Status status = client.Version().status();
  return status.code() == ErrorCode::kRayDenied ? Status() : status;
}

Result<std::unique_ptr<SshTunnel>> OpenTunnel(const std::string& head, const JobSpec& spec) {
  const HostSlots host = MakeHostSlots(head, 1);
  const Duration limit = SshConnectTimeoutOf(spec);
  SshConfigSource configs(SshOverridesOf(spec), CurrentSshUser(Environment::FromProcess()),
                          OpensshOptions().program);
  const Result<HostKeyPolicy> policy =
      configs.HostKeys(SshTargetOf(spec, host), SshLimit::In(limit, -1));
  const OpensshOptions ssh =
      OpensshOptionsOf(spec, host, policy.ok() ? *policy : HostKeyPolicy::kAcceptNew);
  return SshTunnel::Open(ssh, head, kRayDashboardPort, limit);
}

}  // namespace

Result<std::string> FindRayOfCluster(const ClusterHosts& cluster, const JobSpec& spec,
                                     std::unique_ptr<SshTunnel>& tunnel) {
  const std::string& head = cluster.head;
  const bool is_here = AreThisMachine({head}, LookupOf(spec)).front();
  std::vector<std::string> hosts = {head};
  // By default Ray's dashboard listens on loopback only.
  if (is_here && head != "127.0.0.1") hosts.insert(hosts.begin(), "127.0.0.1");
  std::string said;
  for (const std::string& host : hosts) {
    const std::string url = UrlOf(host, kRayDashboardPort);
    const Status status = Probe(url);
    if (status.ok()) return url;
    said = status.message();
  }
  if (!is_here && spec.launch_agent->empty()) {
    Result<std::unique_ptr<SshTunnel>> opened = OpenTunnel(head, spec);
    if (opened.ok()) {
      const std::string url = UrlOf("127.0.0.1", (*opened)->local_port());
      const Status status = Probe(url);
      if (status.ok()) {
        tunnel = std::move(opened).value();
        return url;
      }
      said += "; nor through SSH";
    } else {
      said += "; " + opened.status().message();
    }
  }
  return Status(ErrorCode::kRayUnreachable, fmt::format("no Ray answers on {}: {}", head, said),
                "start Ray there, or name its dashboard with --ray-address URL");
}

Result<RayAccess> ResolveRayAccess(std::string_view command, const JobSpec& spec) {
  const Environment environment = Environment::FromProcess();
  const RaySpec& ray = spec.ray;
  RayAccess access;
  HVDRAY_ASSIGN_OR_RETURN(access.address,
                          ResolveRayAddress(*ray.address, ray.address.origin(), environment));
  HVDRAY_ASSIGN_OR_RETURN(access.headers, ResolveRayHeaders(*ray.headers, environment));
  HVDRAY_ASSIGN_OR_RETURN(access.token, FindRayToken(environment));
  access.trust = ParseRayVerify(*ray.verify);
  HVDRAY_ASSIGN_OR_RETURN(access.proxy, FindRayProxy(access.address, environment));
  access.user_agent = UserAgent();
  if (!access.address.note.empty()) {
    Tell(LogLevel::kInfo, fmt::format("hvdray {}", command), access.address.note);
  }
  return access;
}

Result<RayAccess> FindRay(std::string_view command, JobSpec& spec,
                          std::unique_ptr<SshTunnel>& tunnel) {
  RaySpec& ray = spec.ray;
  const std::string& file = *spec.cluster_file;
  const bool is_timed = !spec.timeout.is_default();
  if (is_timed && (*spec.timeout == Duration::zero() || *spec.timeout > kMaxAnswerLimit)) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{} must be above 0 and at most an hour", spec.timeout.origin()));
  }
  const bool has_address = !ray.address->empty() && !ray.address.origin().starts_with("env ");
  if (!has_address && !file.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(const ClusterHosts cluster, LoadClusterHosts(file));
    if (cluster.head.empty()) {
      return Status(ErrorCode::kNotSupported,
                    fmt::format("{}: only its provider knows where the head is", file),
                    "--ray-address URL names its Ray");
    }
    TakeLogin(cluster, &spec);
    HVDRAY_ASSIGN_OR_RETURN(std::string url, FindRayOfCluster(cluster, spec, tunnel));
    ray.address.Set(std::move(url), file);
  }
  if (!*ray.is_wanted && ray.address->empty()) {
    return Status(ErrorCode::kUsage, "no cluster given",
                  fmt::format("hvdray {} --ray, --ray-address URL, or --cluster FILE", command));
  }
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, ResolveRayAccess(command, spec));
  if (is_timed) access.timeout = *spec.timeout;
  return access;
}

}  // namespace hvdray
