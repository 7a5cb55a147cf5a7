// SPDX-License-Identifier: Apache-2.0
// Turns the values of --sync into directories, targets and the workers' directory. Reads this
// machine's file system, and nothing else. docs/ssh.md, "A directory for all hosts".
#ifndef HVDRAY_LAUNCHER_ENGINE_SYNC_PLAN_H_
#define HVDRAY_LAUNCHER_ENGINE_SYNC_PLAN_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "launcher/engine/directory_list.h"
#include "launcher/job/value_text.h"

namespace hvdray {

/// A directory of this machine to copy to the other hosts.
struct SyncedDirectory {
  std::string directory;  ///< Absolute, without links.
  std::string target;  ///< There: absolute, or relative to the home directory; empty: that itself.
  DirectoryListing listing;
};

/// A directory within a synced one.
struct SyncedPlace {
  size_t directory = 0;  ///< Index of the synced directory.
  std::string path;      ///< Relative to it; empty: itself.
  bool operator==(const SyncedPlace&) const = default;
};

/// The default target of `directory` (absolute, without links): for a directory below our home the
/// same path below the home there, else the same absolute path. `home`: ours, absolute and without
/// links; empty: none. Pure.
std::string DefaultTarget(const std::string& directory, const std::string& home);

/// The place of `directory` in the innermost of `synced`; nullopt: in none. Pure.
std::optional<SyncedPlace> PlaceIn(std::span<const SyncedDirectory> synced,
                                   const std::string& directory);

enum class SyncScope : uint8_t { kCheckOnly, kList };  ///< kCheckOnly: no host is remote.

/// Resolves and lists the directories, by `rules`. kCheckOnly: only checks that they exist. Blocks.
/// Errors: kUsage, kFileUnreadable; each message begins with its --sync.
Result<std::vector<SyncedDirectory>> PlanSync(std::span<const SyncWord> words,
                                              const Environment& environment, SyncScope scope,
                                              const DirectoryRules& rules = {});

/// `directory` (relative to the current directory) without links; unchanged if it can't be
/// resolved.
std::string ResolvedDirectory(const std::string& directory);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_SYNC_PLAN_H_
