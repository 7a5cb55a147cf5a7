// What of a folder --sync copies: all but .git and what its .gitignore files leave out. Only looks,
// and before any connection, so that what can't be copied is said first.
#ifndef HVDRAY_LAUNCHER_ENGINE_FOLDER_LIST_H_
#define HVDRAY_LAUNCHER_ENGINE_FOLDER_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/wire/folder.h"

namespace hvdray {

struct FolderListing {
  std::vector<wire::FolderEntry> entries;  ///< A folder before what is in it; by name.
  uint64_t files = 0;
  uint64_t bytes = 0;                 ///< Of the files.
  std::vector<std::string> warnings;  ///< Links that lead nowhere, or out of the folder.
};

/// folder: exists. Blocks. Errors: kUsage for sockets, pipes and devices, kFileUnreadable; the
/// message has the first place and how many there are.
Result<FolderListing> ListFolder(const std::string& folder);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_FOLDER_LIST_H_
