// SPDX-License-Identifier: Apache-2.0
// Lists what --sync or a package for Ray copies of a directory: all but .git and what its
// .gitignore files exclude. Only reads, and before any connection, so that a file that can't be
// copied is reported first.
#ifndef HVDRAY_LAUNCHER_ENGINE_DIRECTORY_LIST_H_
#define HVDRAY_LAUNCHER_ENGINE_DIRECTORY_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/directory.h"

namespace hvdray {

/// The entries to copy, with their totals.
struct DirectoryListing {
  std::vector<wire::DirectoryEntry> entries;  ///< A directory before its entries; by name.
  uint64_t files = 0;
  uint64_t bytes = 0;                 ///< Size of all files.
  std::vector<std::string> warnings;  ///< Links that lead nowhere or out of the directory.
};

/// How symbolic links are listed.
enum class LinkRule : uint8_t {
  kKeep,    ///< A link is an entry of its own, wherever it leads.
  kFollow,  ///< Lists the link's target in its place; never an entry of its own.
};

/// Whose patterns those of the rules are.
enum class PatternRule : uint8_t {
  kGit,    ///< As in .gitignore files; and .git itself is never listed.
  kRsync,  ///< As in --exclude and --filter='dir-merge,- NAME' of rsync.
};

/// What to exclude, and how to treat links. The defaults are those of --sync.
struct DirectoryRules {
  LinkRule links = LinkRule::kKeep;
  PatternRule patterns = PatternRule::kGit;
  /// Names of pattern files, read in every directory. What the files of one name exclude stays out,
  /// whatever those of another name say.
  std::vector<std::string> ignore_files = {".gitignore"};
  std::vector<std::string> excludes;  ///< Patterns, as in a pattern file of their own at the top.
  std::string top;   ///< "data/": how the excludes call the directory itself, if they do.
  std::string only;  ///< Not empty: the only entry of the directory to list, whatever it contains.
  std::string way_out = "leave it out by a line in .gitignore";  ///< For hints in errors.
};

/// `directory`: an existing directory. Blocks. Errors: kUsage for sockets, pipes and devices, and
/// with kFollow for links that lead nowhere or back to a directory above them; kFileUnreadable. The
/// message names the first path and the number of such paths.
Result<DirectoryListing> ListDirectory(const std::string& directory,
                                       const DirectoryRules& rules = {});

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_DIRECTORY_LIST_H_
