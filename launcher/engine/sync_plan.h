// From the words of --sync to what is copied where, and where workers then start. Looks at the
// file system of this machine, and at nothing else.
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
#include "launcher/job/sync_word.h"

namespace hvdray {

/// A folder of this machine that is to be on the other hosts, too.
struct SyncedFolder {
  std::string folder;  ///< Absolute, without links.
  std::string target;  ///< There: absolute, or in the home folder; empty: that itself.
  FolderListing listing;
};

/// A folder within a synced one.
struct SyncedPlace {
  size_t folder = 0;  ///< Index of the synced one.
  std::string path;   ///< In it; empty: itself.
  bool operator==(const SyncedPlace&) const = default;
};

/// Where the copy of `folder` (absolute, without links) belongs when nobody has said so: at the
/// same place in the home folder for what lies in ours, else at the same absolute path. `home`:
/// ours, absolute and without links; empty: none. Pure.
std::string DefaultTarget(const std::string& folder, const std::string& home);

/// Where `folder` lies: in the innermost of `synced`; nullopt: in none. Pure.
std::optional<SyncedPlace> PlaceIn(std::span<const SyncedFolder> synced, const std::string& folder);

enum class SyncScope : uint8_t { kCheckOnly, kList };  ///< No host is remote; some is.

/// Blocks. kCheckOnly: only looks whether the folders are there. Errors: kUsage, kFileUnreadable,
/// each with its --sync in front.
Result<std::vector<SyncedFolder>> PlanSync(std::span<const SyncWord> words,
                                           const Environment& environment, SyncScope scope);

/// `folder` (relative: from the current one) without links; as it is where it can't be resolved.
std::string ResolvedFolder(const std::string& folder);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_SYNC_PLAN_H_
