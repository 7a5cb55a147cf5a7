// SPDX-License-Identifier: Apache-2.0
#ifndef HVDRAY_CMD_SCRATCH_DIRECTORY_H_
#define HVDRAY_CMD_SCRATCH_DIRECTORY_H_

#include <string>

#include "base/fd.h"

namespace hvdray {

/// A directory below that for temporary files, for this user alone and locked while it is in use.
/// It is removed at the end; or, when this process is killed, by the next one of that prefix.
class ScratchDirectory {
 public:
  /// Without a place for it there is none at path(): what is put there fails.
  explicit ScratchDirectory(const std::string& prefix);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd lock_;
};

}  // namespace hvdray

#endif  // HVDRAY_CMD_SCRATCH_DIRECTORY_H_
