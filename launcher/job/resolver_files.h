// SPDX-License-Identifier: Apache-2.0
// What reading a command line may ask of the machine and of cluster files.
#ifndef HVDRAY_LAUNCHER_JOB_RESOLVER_FILES_H_
#define HVDRAY_LAUNCHER_JOB_RESOLVER_FILES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "base/user_home.h"
#include "base/yaml.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// What a --cluster file contributes to a run.
struct ClusterHosts {
  std::vector<HostSlots> hosts;
  std::optional<YamlNode> run;  ///< Its `hvdray: {run: …}` section, a map of job file keys.
  /// How to log in to hosts other than this machine; empty: SSH's own settings. The caller has
  /// expanded "~/".
  std::string ssh_user = {}, ssh_identity_file = {}, ssh_proxy_command = {};
  /// Not ok: why `hosts` is empty. Slots from Ray need no hosts.
  Status hosts_status = {};
  std::string name = {};               ///< cluster_name
  std::optional<HostSlots> head = {};  ///< nullopt: only its provider knows it.
  /// Its start commands say something about the dashboard: the head is asked where it is.
  bool is_dashboard_moved = false;
  /// Its dashboard is reached through SSH alone; trying its address would only take time.
  bool is_dashboard_hidden = false;
  /// Its processes on the head may be of the image's user.
  bool is_ray_in_container = false;
  /// Asks the provider and fills in what it knows; hosts_status has what went wrong. Blocks. Null:
  /// all is there already.
  std::function<void(ClusterHosts* cluster)> ask_provider = {};
};

/// What the resolver may ask of the machine. Tests answer from memory. Calls may block: nothing
/// runs yet.
struct ResolverFiles {
  /// The whole file; nullopt if it does not exist. Errors: kFileUnreadable.
  std::function<Result<std::optional<std::string>>(const std::string& path)> read;
  /// A regular file that this user may execute.
  std::function<bool(const std::string& path)> is_executable;
  /// Reads and checks a cluster file. Errors: as the cluster room has them.
  std::function<Result<ClusterHosts>(const std::string& path)> load_cluster;
  /// The URL of the Ray dashboard on a cluster's head, reachable from here as long as the caller
  /// lives. `spec`: how to log in there. Null: slots never come from Ray. Errors: kRayUnreachable
  /// and others, if there is no dashboard to reach.
  std::function<Result<std::string>(const ClusterHosts& cluster, const JobSpec& spec)> find_ray;
  /// Takes the warnings when the resolver fails: they may say why, and a Status has no room for
  /// them. Null: they are dropped.
  std::function<void(const std::string& warning)> warn;
  /// Null: this user's alone, by HOME.
  HomeOf home_of;
};

/// `read` and `is_executable` on the real file system (files up to 16 MiB). The caller adds
/// `load_cluster` and `find_ray`.
ResolverFiles RealResolverFiles();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RESOLVER_FILES_H_
