// SPDX-License-Identifier: Apache-2.0
// A command must not write over what it reads, runs or copies, nor write one file twice: by all the
// names that a file may have.
#ifndef HVDRAY_BASE_DISTINCT_FILES_H_
#define HVDRAY_BASE_DISTINCT_FILES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace hvdray {

/// A file under a name that a command was given, as it was when it was looked at.
struct NamedFile {
  std::string origin;  ///< Who named it, for messages: "flag --report", "the program".
  std::string path;    ///< As it was written.
  std::string real;    ///< See FileBehind().
  /// Device and inode of a regular file that is there: a hard link has the same.
  std::optional<std::pair<uint64_t, uint64_t>> inode;
};

/// Looks at the file at `path`. Of a directory, a device, a pipe, and of an empty path, nothing is
/// known: they are no file that could be lost.
NamedFile LookAtFile(std::string origin, std::string path);

/// No two of `outputs` may be one file, and none of them one of `inputs` that is there. Inputs may
/// well be the same among themselves. Several outputs may go to one descriptor ("/dev/stdout"),
/// also if it is an input. Pure. Errors: kUsage, with both origins.
Status CheckDistinct(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs);

}  // namespace hvdray

#endif  // HVDRAY_BASE_DISTINCT_FILES_H_
