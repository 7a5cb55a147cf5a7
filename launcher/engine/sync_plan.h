// Turns the values of --sync into directories, targets and the workers' directory. Reads this
// machine's file system, and nothing else. docs/ssh.md, "A folder for all hosts".
#ifndef HVDRAY_LAUNCHER_ENGINE_SYNC_PLAN_H_
#define HVDRAY_LAUNCHER_ENGINE_SYNC_PLAN_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "launcher/engine/folder_list.h"
#include "launcher/job/value_text.h"

namespace hvdray {

/// A directory of this machine to copy to the other hosts.
struct SyncedFolder {
  std::string folder;  ///< Absolute, without links.
  std::string target;  ///< There: absolute, or relative to the home directory; empty: that itself.
  FolderListing listing;
};

/// A directory within a synced one.
struct SyncedPlace {
  size_t folder = 0;  ///< Index of the synced directory.
  std::string path;   ///< Relative to it; empty: itself.
  bool operator==(const SyncedPlace&) const = default;
};

/// The default target of `folder` (absolute, without links): for a directory below our home the
/// same path below the home there, else the same absolute path. `home`: ours, absolute and without
/// links; empty: none. Pure.
std::string DefaultTarget(const std::string& folder, const std::string& home);

/// The place of `folder` in the innermost of `synced`; nullopt: in none. Pure.
std::optional<SyncedPlace> PlaceIn(std::span<const SyncedFolder> synced, const std::string& folder);

enum class SyncScope : uint8_t { kCheckOnly, kList };  ///< kCheckOnly: no host is remote.

/// Resolves and lists the directories. kCheckOnly: only checks that they exist. Blocks. Errors:
/// kUsage, kFileUnreadable; each message begins with its --sync.
Result<std::vector<SyncedFolder>> PlanSync(std::span<const SyncWord> words,
                                           const Environment& environment, SyncScope scope);

/// `folder` (relative to the current directory) without links; unchanged if it can't be resolved.
std::string ResolvedFolder(const std::string& folder);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_SYNC_PLAN_H_
