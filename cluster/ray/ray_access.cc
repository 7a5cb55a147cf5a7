// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_access.h"

#include <fmt/format.h>
#include <strings.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/log.h"
#include "base/scratch_directory.h"
#include "base/secret.h"
#include "base/text.h"
#include "cluster/transport/foreground_process.h"
#include "cluster/transport/this_machine.h"
#include "cluster/up/head_survey.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/spec_builder.h"
#include "launcher/plan/build_name.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"
#include "launcher/plan/job_ssh.h"

namespace hvdray {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
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
  return RayAddress{.host = host, .port = port}.Url();
}

/// By a flag, a variable or the user's own file of defaults.
bool IsSaidByUser(std::string_view command, const std::string& origin,
                  const Environment& environment) {
  const std::string own_file = UserFilePath(environment);
  // A program hands its options to serve by a pipe that has no name.
  const bool is_of_program = command == "serve" && origin.starts_with("/dev/fd/");
  return is_of_program || origin.starts_with("flag ") || origin.starts_with("env ") ||
         (!own_file.empty() && origin.starts_with(own_file + ":"));
}

/// No file but the user's own may turn that off: it would hand out the token.
bool IsPeerChecked(std::string_view command, const JobSpec& spec, const Environment& environment) {
  return *spec.is_peer_checked ||
         !IsSaidByUser(command, spec.is_peer_checked.origin(), environment);
}

/// Whether Ray answers there. kRayDenied: it does, and asks for a token.
Status ProbeWithoutToken(const std::string& url, const JobSpec& from) {
  JobSpec spec;
  spec.ray.address.Set(url, *from.cluster_file);
  spec.is_peer_checked = from.is_peer_checked;
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, ResolveRayAccess("run", spec, {}));
  access.token = {};
  access.headers = {};
  access.timeout = kProbeLimit;
  return DashboardClient(std::move(access)).Version().status();
}

/// The same through the tunnel of `link`, with the token that we have.
Status ProbeTunnel(const HeadLink& link, uint16_t port) {
  JobSpec spec;
  spec.ray.address.Set(UrlOf(kLoopback, port), "tunnel");
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, ResolveRayAccess("run", spec, link));
  access.timeout = kProbeLimit;
  return DashboardClient(std::move(access)).Version().status();
}

/// The token that the head's own Ray reads, of the user who logs in; empty: none, or no way there.
RayToken TokenOfHead(const HostSlots& head, const JobSpec& spec) {
  constexpr std::string_view kRead =
      "exec /bin/sh -c 'exec cat \"${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}\"'";
  Result<CapturedRun> said =
      RunOverSshForOutput(OpensshOptionsFor(spec, head), head.dial_name(), std::string(kRead),
                          /*input=*/"", SshConnectTimeout(spec));
  if (!said.ok()) {
    Log(LogLevel::kInfo, "ray", "token of {}: {}", head.host, said.status().message());
    return {};
  }
  RayToken token;
  if (said->exit_code == 0) {
    token = {Secret(Trimmed(said->output)),
             fmt::format("~/.ray/auth_token on {}", head.dial_name())};
  }
  ::explicit_bzero(said->output.data(), said->output.size());
  return token;
}

}  // namespace

Result<std::unique_ptr<SshTunnel>> OpenDashboardTunnel(const HostSlots& head,
                                                       const RayDashboard& place,
                                                       bool is_in_container, const JobSpec& spec) {
  HVDRAY_ASSIGN_OR_RETURN(const ScratchDirectory directory,
                          ScratchDirectory::Make("hvdray-tunnel."));
  const bool is_checked = IsPeerChecked("run", spec, Environment::FromProcess());
  return SshTunnel::Open(OpensshOptionsFor(spec, head), head.dial_name(),
                         {.socket_path = directory.path() + "/dashboard",
                          .remote_port = place.port,
                          .is_owner_checked = is_checked && !is_in_container,
                          .remote_address = place.ReachedAt()},
                         SshConnectTimeout(spec));
}

const RawOption* SaidCluster(const CommandRequest& request) {
  for (const OptionId id : {OptionId::kRay, OptionId::kRayAddress, OptionId::kCluster}) {
    const RawOption* said = request.said.Find(id);
    if (said != nullptr && request.Has(id) && !said->origin.starts_with("env ")) return said;
  }
  return nullptr;
}

Result<RayJob> JobCalled(DashboardClient& client, const std::string& id) {
  HVDRAY_ASSIGN_OR_RETURN(std::optional<RayJob> job, client.GetJob(id));
  if (job) return std::move(*job);
  return Status(ErrorCode::kUsage,
                fmt::format("{}: no job {}", client.access().address.Shown(), ShownText(id)),
                "hvdray jobs lists those of hvdray; a cluster file ends in .yaml or .yml");
}

Result<std::string> FindRayOfCluster(const ClusterHosts& cluster, const JobSpec& spec,
                                     HeadLink& link) {
  const HostSlots& head = *cluster.head;
  const std::string& name = head.dial_name();
  const bool is_here = IsHeadHere(head, spec);
  std::optional<RayDashboard> place;
  if (is_here || cluster.is_dashboard_moved) {
    HVDRAY_ASSIGN_OR_RETURN(place, FindDashboard(head, cluster.name, spec));
  }
  std::vector<std::string> hosts;
  if (is_here || !cluster.is_dashboard_hidden) hosts.push_back(name);
  // By default Ray's dashboard listens on loopback only.
  if (is_here && name != kLoopback) hosts.insert(hosts.begin(), kLoopback);
  if (place && (is_here || place->IsAtOneAddress())) {
    std::erase(hosts, place->ReachedAt());
    hosts.insert(hosts.begin(), place->ReachedAt());
  }
  const bool has_ssh = !is_here && spec.launch_agent->empty();
  std::string said;
  std::string denied;  // the URL of a Ray that requires a token
  for (const std::string& host : hosts) {
    std::string url = UrlOf(host, place ? place->port : kRayDashboardPort);
    const Status status = ProbeWithoutToken(url, spec);
    if (status.ok() || (status.code() == ErrorCode::kRayDenied && !has_ssh)) return url;
    if (status.code() == ErrorCode::kRayDenied) denied = url;
    said = status.message();
  }
  if (has_ssh) {
    if (!place) {
      HVDRAY_ASSIGN_OR_RETURN(place, FindDashboard(head, cluster.name, spec));
    }
    Result<std::unique_ptr<SshTunnel>> tunnel =
        OpenDashboardTunnel(head, *place, cluster.is_ray_in_container, spec);
    const Status opened = tunnel.status();
    if (opened.code() == ErrorCode::kRayDenied) return opened;
    if (opened.ok()) link = {.tunnel = std::move(tunnel).value(), .host = name};
    const Status status = opened.ok() ? ProbeTunnel(link, place->port) : opened;
    if (status.ok() || status.code() == ErrorCode::kRayDenied) {
      if (!status.ok()) link.token = TokenOfHead(head, spec);
      return UrlOf(kLoopback, place->port);
    }
    link = {};
    said += said.empty()  ? status.message()
            : opened.ok() ? "; nor through SSH"
                          : "; " + opened.message();
  }
  if (!denied.empty()) {
    Log(LogLevel::kWarning, "ray", "{}", said);
    return denied;
  }
  return Status(ErrorCode::kRayUnreachable, fmt::format("no Ray answers on {}: {}", name, said),
                "start Ray there, or name its dashboard with --ray-address URL");
}

Result<RayAccess> ResolveRayAccess(std::string_view command, const JobSpec& spec,
                                   const HeadLink& link) {
  const Environment environment = Environment::FromProcess();
  const RaySpec& ray = spec.ray;
  RayAccess access;
  HVDRAY_ASSIGN_OR_RETURN(access.address,
                          ResolveRayAddress(*ray.address, ray.address.origin(), environment));
  if (link.tunnel != nullptr) {
    access.address.through = link.host;
    access.address.socket_path = link.tunnel->socket_path();
  }
  // A file's address is not the user's word on who may have the token.
  access.is_clear_text_allowed = IsSaidByUser(command, access.address.origin, environment);
  access.is_peer_checked = IsPeerChecked(command, spec, environment);
  HVDRAY_ASSIGN_OR_RETURN(access.headers, ResolveRayHeaders(*ray.headers, environment));
  if (link.token.is_empty()) {
    HVDRAY_ASSIGN_OR_RETURN(access.token, FindRayToken(environment));
  } else {
    access.token = {link.token.text.Copy(), link.token.origin};
  }
  access.trust = ParseRayVerify(*ray.verify);
  HVDRAY_ASSIGN_OR_RETURN(access.proxy, FindRayProxy(access.address, environment));
  access.user_agent = UserAgent();
  if (!access.address.note.empty()) {
    Tell(LogLevel::kInfo, fmt::format("hvdray {}", command), access.address.note);
  }
  return access;
}

Result<RayAccess> FindRay(std::string_view command, JobSpec& spec, HeadLink& link) {
  RaySpec& ray = spec.ray;
  const std::string& file = *spec.cluster_file;
  const bool is_timed = !spec.timeout.is_default();
  if (is_timed && (*spec.timeout == Duration::zero() || *spec.timeout > kMaxAnswerLimit)) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{} must be above 0 and at most an hour", spec.timeout.origin()));
  }
  const bool has_address = !ray.address->empty() && !ray.address.origin().starts_with("env ");
  if (!has_address && !file.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(ClusterHosts cluster, LoadClusterHosts(file));
    if (cluster.ask_provider) cluster.ask_provider(&cluster);
    HVDRAY_RETURN_IF_ERROR(cluster.hosts_status);
    TakeLogin(cluster, &spec);
    HVDRAY_ASSIGN_OR_RETURN(std::string url, FindRayOfCluster(cluster, spec, link));
    ray.address.Set(std::move(url), file);
  }
  if (!*ray.is_wanted && ray.address->empty()) {
    return Status(ErrorCode::kUsage, "no cluster given",
                  fmt::format("hvdray {} --ray, --ray-address URL, or --cluster FILE", command));
  }
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, ResolveRayAccess(command, spec, link));
  if (is_timed) access.timeout = *spec.timeout;
  return access;
}

}  // namespace hvdray
