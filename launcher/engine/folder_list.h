// What of a folder goes to other hosts, by --sync or in a package for Ray: all but .git and what
// its .gitignore files leave out. Only looks, and before any connection, so that what can't be
// copied is said first.
#ifndef HVDRAY_LAUNCHER_ENGINE_FOLDER_LIST_H_
#define HVDRAY_LAUNCHER_ENGINE_FOLDER_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/folder.h"

namespace hvdray {

struct FolderListing {
  std::vector<wire::FolderEntry> entries;  ///< A folder before what is in it; by name.
  uint64_t files = 0;
  uint64_t bytes = 0;                 ///< Of the files.
  std::vector<std::string> warnings;  ///< Links that lead nowhere, or out of the folder.
};

enum class LinkRule : uint8_t {
  kKeep,    ///< A link is an entry of its own, wherever it leads.
  kFollow,  ///< What it leads to stands in its place; there are no entries of links.
};

/// What else is left out, and what links mean. The default is --sync's.
struct FolderRules {
  LinkRule links = LinkRule::kKeep;
  /// Files of patterns, looked for in every folder. What those of one name leave out stays out,
  /// whatever those of another say.
  std::vector<std::string> ignore_files = {".gitignore"};
  std::vector<std::string> excludes;  ///< Patterns as in such a file at the top, on their own.
  std::string way_out = "leave it out by a line in .gitignore";  ///< For hints.
};

/// folder: exists. Blocks. Errors: kUsage for sockets, pipes and devices, and with kFollow for
/// links that lead nowhere or back into a folder above them; kFileUnreadable. The message has the
/// first place and how many there are.
Result<FolderListing> ListFolder(const std::string& folder, const FolderRules& rules = {});

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_FOLDER_LIST_H_
