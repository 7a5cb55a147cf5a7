// SPDX-License-Identifier: Apache-2.0
// What a cluster file says about one node.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/file/cluster_form.h"
#include "cluster/file/cluster_spec.h"

namespace hvdray {
namespace {

/// nullopt: the commands run on the host itself.
std::optional<ClusterContainer> Container(const ClusterDocker& docker, ClusterNodeKind kind,
                                          const ClusterNodeType* type) {
  if (docker.container_name.empty()) return std::nullopt;
  const bool is_head = kind == ClusterNodeKind::kHead;
  ClusterContainer container;
  container.name = docker.container_name;
  std::string special = is_head ? docker.head_image : docker.worker_image;
  std::vector<std::string> options =
      is_head ? docker.head_run_options
              : docker.worker_run_options.value_or(std::vector<std::string>());
  container.is_pulled = docker.pull_before_run.value_or(true);
  if (!is_head && type != nullptr) {
    if (!type->docker.worker_image.empty()) special = type->docker.worker_image;
    options = type->docker.worker_run_options.value_or(options);
    container.is_pulled = type->docker.pull_before_run.value_or(container.is_pulled);
  }
  container.image = special.empty() ? docker.image : special;
  container.run_options = docker.run_options;
  container.run_options.insert(container.run_options.end(), options.begin(), options.end());
  container.detects_runtime = !docker.disable_automatic_runtime_detection;
  container.detects_shm_size = !docker.disable_shm_size_detection;
  container.is_podman = docker.use_podman;
  return container;
}

const ClusterNodeType* FindType(const ClusterSpec& spec, std::string_view name) {
  for (const ClusterNodeType& type : spec.node_types) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace

bool IsAutoscaled(const ClusterSpec& spec) {
  const bool has_option =
      std::ranges::any_of(spec.commands.head_start, [](const std::string& command) {
        return command.find("--autoscaling-config") != std::string::npos;
      });
  int64_t least = 0;
  bool has_room = false;
  for (const ClusterNodeType& type : spec.node_types) {
    least += type.min_workers;
    has_room = has_room || type.max_workers > type.min_workers;
  }
  return !spec.is_local() && has_option && has_room && spec.max_workers > least;
}

ClusterNodeSetup ToClusterNodeSetup(const ClusterSpec& spec, ClusterNodeKind kind,
                                    std::string_view type) {
  const ClusterCommands& commands = spec.commands;
  const bool is_head = kind == ClusterNodeKind::kHead;
  const ClusterNodeType* own = is_head ? nullptr : FindType(spec, type);
  ClusterNodeSetup setup;
  setup.file_mounts = spec.file_mounts;
  if (!is_head) setup.cluster_synced_files = spec.cluster_synced_files;
  setup.rsync_exclude = spec.rsync_exclude;
  setup.rsync_filter = spec.rsync_filter;
  setup.initialization_commands = commands.initialization;
  setup.container = Container(spec.docker, kind, own);
  setup.setup_commands = commands.setup;
  const std::vector<std::string>& more = is_head ? commands.head_setup : commands.worker_setup;
  setup.setup_commands.insert(setup.setup_commands.end(), more.begin(), more.end());
  setup.start_commands = is_head ? commands.head_start : commands.worker_start;
  if (own != nullptr) {
    if (own->initialization_commands) setup.initialization_commands = *own->initialization_commands;
    if (own->worker_setup_commands) setup.setup_commands = *own->worker_setup_commands;
  }
  if (IsAutoscaled(spec)) return setup;
  for (std::string& command : setup.start_commands) {
    command = WithoutAutoscaling(std::move(command));
  }
  return setup;
}

}  // namespace hvdray
