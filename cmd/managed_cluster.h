// SPDX-License-Identifier: Apache-2.0
// What `hvdray up` and `hvdray down` share: the nodes of a cluster file, a driver that is run on
// them over SSH, and what is told of it.
#ifndef HVDRAY_CMD_MANAGED_CLUSTER_H_
#define HVDRAY_CMD_MANAGED_CLUSTER_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/cluster_spec.h"
#include "cmd/cloud_work.h"
#include "cmd/commands.h"
#include "launcher/cluster/cluster_driver.h"
#include "launcher/cluster/cluster_run.h"
#include "launcher/cluster/machines.h"
#include "launcher/cluster/node_script.h"
#include "launcher/job/job_spec.h"

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
  std::string head;  ///< The head's address in the cluster's network.
  TimePoint began{};
  std::chrono::system_clock::time_point began_wall = std::chrono::system_clock::now();

  // In a cloud.
  std::unique_ptr<CloudWork> work;
  std::vector<Machine> machines;  ///< The first ones are the hosts.
};

/// What is copied to nodes.
struct NodeFiles {
  std::vector<SyncedDirectory> mounts;     ///< To all.
  std::vector<SyncedDirectory> bootstrap;  ///< To a head with an autoscaler.
};

/// A run to its end.
struct ClusterEnd {
  int exit_code = 0;
  int signo = 0;                ///< Not 0: interrupted by it.
  bool is_stdout_gone = false;  ///< Nothing more can be printed.
  Status failure;  ///< Beside those of the nodes: what it prints, or a file, is not whole.
  std::vector<NodeRow> nodes;

  /// Why exit_code is not 0.
  Status error() const;
};

/// Takes what the command's options say of `file`; on-prem with its hosts. Blocks.
/// Errors: kSpecInvalid, kUsage; those of CheckHostAccess() and CloudWork::Open().
Result<ManagedCluster> OpenManagedCluster(std::string_view command, const CommandLine& line,
                                          const CommandRequest& request, ClusterSpec file);

/// Adds a node; the first one is the head.
void AddHost(ManagedCluster& cluster, HostSlots host);

/// The limit for all tries to log in; sets that of one try.
Duration TakeLogInLimit(JobSpec& spec, Duration otherwise);

/// Without a user to ask, only --yes allows a change. Errors: kUsage.
Status CheckConsent(const CommandRequest& request);

/// To stdout.
void SayLine(std::string_view line);

int64_t SecondsSince1970();

/// Runs the driver on the hosts, with the events and the report that the options ask for. Blocks.
/// Errors: nothing has been started.
Result<ClusterEnd> RunCluster(ManagedCluster& cluster, ClusterDriver& driver,
                              const NodeFiles& files);

/// Writes the events and the report of a run without a driver: a first and a last line, and `end`.
/// Returns the exit code of `end`, or that of a file that can't be written. Blocks.
int FinishReport(const ManagedCluster& cluster, ClusterEnd end);

}  // namespace hvdray

#endif  // HVDRAY_CMD_MANAGED_CLUSTER_H_
