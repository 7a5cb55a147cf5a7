// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/up_plan.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "cluster/up/bootstrap_config.h"

namespace hvdray {
namespace {

/// What the head's autoscaler reads, as a directory to copy.
Result<std::vector<SyncedDirectory>> PlanBootstrap(const ManagedCluster& cluster,
                                                   const std::string& scratch) {
  std::vector<SyncedDirectory> files;
  if (cluster.work == nullptr || !IsAutoscaled(cluster.file)) return files;
  const PreparedCluster& prepared = cluster.work->cloud().machines->prepared();
  constexpr mode_t kSecret = 0600;
  const std::string directory = scratch + "/bootstrap";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return ErrnoStatus(directory, error.value()).WithCode(ErrorCode::kFileUnwritable);
  const std::string config = BootstrapConfig(cluster.file, prepared);
  HVDRAY_RETURN_IF_ERROR(
      WriteFileAtomically(fmt::format("{}/{}", directory, kBootstrapConfigName), config, kSecret));
  if (!prepared.private_key_path.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(const std::string key, ReadFile(prepared.private_key_path));
    HVDRAY_RETURN_IF_ERROR(
        WriteFileAtomically(fmt::format("{}/{}", directory, kBootstrapKeyName), key, kSecret));
  }
  HVDRAY_ASSIGN_OR_RETURN(SyncedDirectory made, PlanDirectory(directory, ""));
  files.push_back(std::move(made));
  return files;
}

}  // namespace

Status PlanFiles(const ManagedCluster& cluster, const std::string& scratch, StepFacts& facts,
                 NodeFiles& files) {
  if (!cluster.file.docker.container_name.empty()) {
    facts.host_mounts = HostMounts(cluster.file.cluster_name);
  }
  const ClusterNodeSetup setup = ToClusterNodeSetup(cluster.file, ClusterNodeKind::kHead, "");
  HVDRAY_ASSIGN_OR_RETURN(files.mounts,
                          PlanMounts(setup, cluster.home, scratch, facts.host_mounts));
  HVDRAY_ASSIGN_OR_RETURN(facts.files_hash, HashFiles(files.mounts));
  return {};
}

Status PlanNodes(const ManagedCluster& cluster, const std::string& scratch, StepFacts facts,
                 std::vector<UpNode>& nodes, NodeFiles& files) {
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    const bool is_head = i == 0;
    const CloudNode* machine = cluster.work ? &cluster.machines[i].node : nullptr;
    const ClusterNodeSetup setup = ToClusterNodeSetup(
        cluster.file, is_head ? ClusterNodeKind::kHead : ClusterNodeKind::kWorker,
        machine == nullptr ? "" : machine->node_type);
    if (is_head) {
      HVDRAY_ASSIGN_OR_RETURN(files.bootstrap, PlanBootstrap(cluster, scratch));
    }
    if (!is_head && !setup.cluster_synced_files.empty() && i == 1) {
      Tell(LogLevel::kWarning, "hvdray up",
           "cluster_synced_files are not copied: name them in file_mounts");
    }
    facts.bootstrap_hash.clear();
    if (is_head && !files.bootstrap.empty()) {
      HVDRAY_ASSIGN_OR_RETURN(facts.bootstrap_hash, HashFiles(files.bootstrap));
    }
    facts.head = is_head ? "" : cluster.head;
    if (machine != nullptr) {
      facts.exports =
          RayExports(cluster.file, cluster.work->cloud().machines->prepared(), *machine);
    }
    UpNode& node = nodes.emplace_back();
    node.address = cluster.hosts[i].host;
    node.steps = StepsOf(setup, facts);
    node.exports = facts.exports;
    if (machine != nullptr) node.boot = cluster.machines[i].boot;
  }
  for (size_t i = cluster.hosts.size(); i < cluster.machines.size(); ++i) {
    const Machine& lacking = cluster.machines[i];
    UpNode& node = nodes.emplace_back();
    node.address = lacking.node.id.empty() ? lacking.node.node_type : lacking.node.id;
    node.why = lacking.why;
  }
  return {};
}

}  // namespace hvdray
