// SPDX-License-Identifier: Apache-2.0
// What `hvdray up` and `hvdray down` share: a cluster file, what was said beside it, and its nodes.
#ifndef HVDRAY_CLUSTER_UP_MANAGED_CLUSTER_H_
#define HVDRAY_CLUSTER_UP_MANAGED_CLUSTER_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/file/cluster_spec.h"
#include "cluster/up/cloud_work.h"
#include "cluster/up/machines.h"
#include "cluster/up/node_script.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// A cluster file, the options said beside it, and its nodes.
struct ManagedCluster {
  std::string command;  ///< "up"
  std::string path;
  std::string words;  ///< The file and what was said beside it, for other commands.
  ClusterSpec file;
  JobSpec spec;
  std::vector<HostSlots> hosts;  ///< The head first. In a cloud: those that AddHost() got.
  std::vector<ScriptPlace> places;
  std::string home;
  ShellKind shell = ShellKind::kLogin;
  std::string head;         ///< The head's address in the cluster's network.
  Duration log_in_limit{};  ///< Of all tries on a host; spec.start_timeout is that of one.
  TimePoint began{};
  std::chrono::system_clock::time_point began_wall = std::chrono::system_clock::now();

  // In a cloud.
  std::unique_ptr<CloudWork> work;
  std::vector<Machine> machines;  ///< The first ones are the hosts.
};

/// Takes what the command's options say of `file`; on-prem with its hosts. `log_in_limit`: unless
/// they say another one. Blocks.
/// Errors: kSpecInvalid; kUsage, also where only --yes allows a change and no user can be asked;
/// those of CheckHostAccess() and CloudWork::Open().
Result<ManagedCluster> OpenManagedCluster(std::string_view command, const CommandRequest& request,
                                          ClusterSpec file, Duration log_in_limit, TimePoint began);

/// Adds a node; the first one is the head.
void AddHost(ManagedCluster& cluster, HostSlots host);

/// To stdout.
void SayLine(std::string_view line);

int64_t SecondsSince1970();

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_MANAGED_CLUSTER_H_
