// SPDX-License-Identifier: Apache-2.0
// Directories for files that end with this process. They are locked while in use, so that the next
// process of that prefix can tell those that a killed one has left, and removes them.
#ifndef HVDRAY_BASE_SCRATCH_DIRECTORY_H_
#define HVDRAY_BASE_SCRATCH_DIRECTORY_H_

#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace hvdray {

/// A directory below that for temporary files, for this user alone and locked while it is in use.
/// It is removed at the end; or, when this process is killed, by the next one of that prefix.
class ScratchDirectory {
 public:
  /// Errors: kFileUnwritable, kOutOfResources.
  static Result<ScratchDirectory> Make(const std::string& prefix);
  ~ScratchDirectory();
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  const std::string& path() const { return path_; }

 private:
  ScratchDirectory(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;  // Empty: given away.
  UniqueFd lock_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_SCRATCH_DIRECTORY_H_
