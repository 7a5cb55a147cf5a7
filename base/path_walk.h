// SPDX-License-Identifier: Apache-2.0
// Paths in directories that other users may write to or own: walks them part by part, each part
// relative to the directory that was just looked at, so that what was checked is what is used.
// Threads: any.
#ifndef HVDRAY_BASE_PATH_WALK_H_
#define HVDRAY_BASE_PATH_WALK_H_

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace hvdray {

/// Who else may own, and write to, directories that are trusted.
struct Trustees {
  std::vector<uint32_t> owners;
  std::vector<uint32_t> groups;
  bool is_everybody = false;  ///< May write to directories that are not sticky.
  bool operator==(const Trustees&) const = default;
};

/// Those who can change what lies at `path` here already, by the directories on the way there;
/// without this user, whose number may be another's on another machine.
Trustees TrusteesOf(const std::string& path);

/// Whether `uid` is this process's user or root, in whose power we are anyway, or a trustee.
bool IsTrustedOwner(uid_t uid, const Trustees& trustees = {});

/// Whether nobody but this user and root can change what `info` describes: it belongs to one of
/// them, and neither everybody nor a group may write to it. Private groups may: this user's (the
/// one of the same name, without other members in /etc/passwd and /etc/group) and root's.
bool IsOursAlone(const struct stat& info);

/// Why it is not, in words that the path follows: "another user owns", "other users may write to".
/// Null: it is, apart from the rights of `trustees`.
const char* DistrustOf(const struct stat& info, const Trustees& trustees = {});

/// Who may own and write to what is below `directory`, which is trusted: `above`, and everybody if
/// nobody but its owner can enter it.
Trustees TrusteesBelow(const struct stat& directory, Trustees above);

/// Why a walk ended early.
struct PathFault {
  int error = 0;          ///< errno; 0: `what` is the reason.
  const char* what = "";  ///< "open directory", "create directory"; or as DistrustOf()
  std::string path;       ///< The part that it is about, with all before it.
};

/// Converts a fault to a Status that names the path, but not `what` if there is an errno. Errors:
/// kFileUnwritable, kOutOfResources.
Status ToStatus(const PathFault& fault);

/// Where a path leads.
struct PathEnd {
  UniqueFd directory;  ///< O_PATH. The one that holds the last part; of WalkToDirectory(), itself.
  std::string name;    ///< The last part: no link, except in /proc. May not exist.
  std::string path;    ///< To the last part, without links.
  Trustees trustees;   ///< TrusteesBelow() the directory.
};

/// For a file to write: follows links, at the end too, but only those that belong to this user or
/// root, or are in a directory that IsOursAlone().
std::optional<PathEnd> WalkToFile(const std::string& path, PathFault& fault);

/// Refuses to write in place to `file`, found at `place`, if another user put it there: a file of
/// another user in a directory that everybody may write to; a regular file with further names in a
/// directory where others can make them. Errors: kFileUnwritable.
Status CheckNotPlanted(const PathEnd& place, const struct stat& file);

enum class WalkRule : uint8_t {
  kOwnLinks,  ///< For files to write: links as WalkToFile().
  /// For files to execute: moreover, everything on the way belongs to this user or root, others may
  /// not exchange any part of it (they may write to sticky directories), and the end IsOursAlone();
  /// all this apart from the rights of `trustees`.
  kOwnDirectories,
  /// For one new file to execute: the same, but the end may be a sticky directory of a trusted
  /// owner (as /tmp), where nobody else can exchange a file of ours.
  kOwnDirectoriesToSticky,
};
/// `create_mode`: of directories that are missing (umask applies); nullopt: they are a fault.
std::optional<PathEnd> WalkToDirectory(const std::string& path, WalkRule rule,
                                       std::optional<mode_t> create_mode, PathFault& fault,
                                       const Trustees& trustees = {});

}  // namespace hvdray

#endif  // HVDRAY_BASE_PATH_WALK_H_
