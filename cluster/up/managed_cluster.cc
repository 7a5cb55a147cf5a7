// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/managed_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/environ.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cluster/transport/remote_command.h"
#include "launcher/engine/job_console.h"
#include "launcher/job/hostfile.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/job_files.h"

namespace hvdray {
namespace {

// Of one try; --start-timeout limits all of them.
constexpr Duration kConnectLimit = std::chrono::seconds(10);

Status CheckConsent(const CommandRequest& request) {
  if (request.Has(OptionId::kYes) || request.Has(OptionId::kDryRun) || IsUserAtTerminal()) {
    return {};
  }
  return {ErrorCode::kUsage, "it asks before it changes anything, but there is no terminal",
          "--yes answers for you; --dry-run only shows the plan"};
}

Status CheckFile(const ClusterSpec& file) {
  if (!IsPlainClusterName(file.cluster_name)) {
    return {ErrorCode::kSpecInvalid,
            fmt::format("cluster_name '{}' is not a valid directory name",
                        ShownText(file.cluster_name)),
            "letters, digits and . _ - inside, at most 100"};
  }
  if (!file.docker.container_name.empty() && !IsPlainClusterName(file.docker.container_name)) {
    return {ErrorCode::kSpecInvalid,
            fmt::format("docker: container_name '{}' is not a valid container name",
                        ShownText(file.docker.container_name)),
            "letters, digits and . _ - inside, at most 100"};
  }
  return {};
}

/// What up and down write must not be what they read and copy.
Status CheckFilesOf(const ManagedCluster& cluster) {
  MoreInputs inputs;
  inputs.Add("the cluster file", cluster.path);
  for (const ClusterFileMount& mount : cluster.file.file_mounts) {
    inputs.Add("file_mounts", ExpandedHome(mount.local, cluster.home));
  }
  for (const std::string& path : cluster.file.cluster_synced_files) {
    inputs.Add("cluster_synced_files", ExpandedHome(path, cluster.home));
  }
  const Environment environment = Environment::FromProcess();
  for (const auto& [variable, path] : {std::pair("AWS_SHARED_CREDENTIALS_FILE", "/credentials"),
                                       std::pair("AWS_CONFIG_FILE", "/config")}) {
    inputs.Add("AWS", environment.GetOr(variable, cluster.home + "/.aws" + path));
  }
  return CheckDistinctFiles(cluster.spec, environment, inputs);
}

}  // namespace

void AddHost(ManagedCluster& cluster, HostSlots host) {
  const bool is_head = cluster.hosts.empty();
  const HostSlots& made = cluster.hosts.emplace_back(std::move(host));
  if (is_head) cluster.head = made.host;
  ScriptPlace& place = cluster.places.emplace_back();
  place.cluster = cluster.file.cluster_name;
  place.node = made.host;
  place.shell = cluster.shell;
  place.container = cluster.file.docker.container_name;
  if (!place.container.empty()) {
    place.engine = cluster.file.docker.use_podman ? "podman" : "docker";
  }
  if (!is_head) place.head = cluster.head;
}

void SayLine(std::string_view line) {
  // Whether stdout is still read is found out by what follows.
  (void)std::fprintf(stdout, "%.*s\n", static_cast<int>(line.size()), line.data());
  (void)std::fflush(stdout);
}

Result<ManagedCluster> OpenManagedCluster(std::string_view command, const CommandRequest& request,
                                          ClusterSpec file, Duration log_in_limit,
                                          TimePoint began) {
  HVDRAY_RETURN_IF_ERROR(CheckConsent(request));
  ManagedCluster cluster;
  cluster.command = command;
  cluster.began = began;
  cluster.path = request.arguments.front();
  cluster.file = std::move(file);
  HVDRAY_RETURN_IF_ERROR(CheckFile(cluster.file));
  HVDRAY_RETURN_IF_ERROR(CheckReportPaths(request.spec));
  cluster.words = TypedWord(cluster.path);
  if (request.Has(OptionId::kClusterName)) cluster.words += " -n " + cluster.file.cluster_name;
  cluster.spec = request.spec;
  JobSpec& spec = cluster.spec;
  cluster.log_in_limit = spec.start_timeout.is_default() ? log_in_limit : *spec.start_timeout;
  spec.start_timeout.Set(std::min(cluster.log_in_limit, kConnectLimit),
                         spec.start_timeout.origin());
  cluster.home = Environment::FromProcess().GetOr("HOME", "");
  const ClusterAuth& auth = cluster.file.auth;
  if (!auth.ssh_user.empty()) spec.ssh_user.Set(auth.ssh_user, cluster.path);
  if (!auth.ssh_proxy_command.empty()) {
    spec.ssh_proxy_command.Set(auth.ssh_proxy_command, cluster.path);
  }
  if (!auth.ssh_private_key.empty() && spec.ssh_identity_file->empty()) {
    spec.ssh_identity_file.Set(ExpandedHome(auth.ssh_private_key, cluster.home), cluster.path);
  }
  HVDRAY_RETURN_IF_ERROR(CheckFilesOf(cluster));
  // The machines of a cloud end without a log-in.
  if (cluster.file.is_local() || command != "down") HVDRAY_RETURN_IF_ERROR(CheckHostAccess(spec));
  const RawOption* login = request.said.Find(OptionId::kLoginShells);
  if (login != nullptr && login->last() == "false") cluster.shell = ShellKind::kPlain;
  if (!cluster.file.is_local()) {
    HVDRAY_ASSIGN_OR_RETURN(cluster.work, CloudWork::Open(cluster.file, &SayLine));
    return cluster;
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<ClusterHost> hosts, ToClusterHosts(cluster.file, 1));
  for (const ClusterHost& host : hosts) {
    HostSlots made = MakeHostSlots(host.address, 1);
    const std::string& dialled = cluster.file.external_head_ip;
    if (cluster.hosts.empty() && !dialled.empty() && dialled != made.host) {
      made.address.name = dialled;
    }
    AddHost(cluster, std::move(made));
  }
  return cluster;
}

int64_t SecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace hvdray
