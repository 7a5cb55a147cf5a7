// SPDX-License-Identifier: Apache-2.0
// What `hvdray up` copies to the nodes of a cluster.
#ifndef HVDRAY_CLUSTER_UP_NODE_FILES_H_
#define HVDRAY_CLUSTER_UP_NODE_FILES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/engine/sync_plan.h"

namespace hvdray {

/// With HashFiles() of each.
struct NodeFiles {
  std::vector<SyncedDirectory> mounts;  ///< To all.
  std::string mounts_hash;
  std::vector<SyncedDirectory> bootstrap;  ///< To a head with an autoscaler.
  std::string bootstrap_hash;              ///< Empty: nothing.
};

/// The mounts as directories to copy. A mounted file becomes a directory with that one entry. Where
/// a file's name differs there, `renamed` is a directory of ours that has it under the new name.
/// `home`: for local paths with "~". `host_mounts`: as in StepFacts (node_steps.h). Blocks. Errors:
/// kSpecInvalid for what cannot be mounted, kFileUnreadable, kFileUnwritable; each names the mount.
Result<std::vector<SyncedDirectory>> PlanMounts(const ClusterNodeSetup& setup,
                                                const std::string& home, const std::string& renamed,
                                                std::string_view host_mounts = {});

/// All that a directory of ours has, to copy to `target` (relative to the home directory there).
/// Blocks. Errors: kFileUnreadable.
Result<SyncedDirectory> PlanDirectory(const std::string& directory, const std::string& target);

/// SHA-256 over targets, names, kinds, modes and contents, not over times. Reads every file.
/// Blocks. Errors: kFileUnreadable.
Result<std::string> HashFiles(std::span<const SyncedDirectory> directories);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_NODE_FILES_H_
