// SPDX-License-Identifier: Apache-2.0
// Files and directories to write, by path. Where a path leads is looked at first: to an
// open descriptor of this process, to a file, or to a link that another user planted. Threads: any.
#ifndef HVDRAY_BASE_FILE_H_
#define HVDRAY_BASE_FILE_H_

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Opens `path` for writing and truncates it; creates it with mode 0644 (umask applies). For the
/// name of a descriptor ("/dev/stdout"), returns a duplicate, not truncated. Refuses another user's
/// links (see PlaceToWrite()), another user's file in a directory that everybody may write to (as
/// /tmp), and hard links in a directory where others can make them. Errors: kFileUnwritable,
/// kOutOfResources.
Result<UniqueFd> OpenForWriting(const std::string& path);

/// Replaces `path` whole or not at all (temporary file in the same directory, fsync, rename). If
/// `path` is a link, replaces its target. A file that exists keeps its mode; a new one gets `mode`
/// (umask applies). Writes in place to what is not a regular file (a device, a pipe). Blocks.
/// Errors: kFileUnwritable, kOutOfResources, kSystem.
Status WriteFileAtomically(const std::string& path, ByteView bytes, mode_t mode = 0644);

/// A directory, or a link to one.
bool IsDirectory(const std::string& path);

/// Makes the directory and its parents (mode 0755, umask applies); succeeds if it exists already.
/// Follows links as PlaceToWrite(). Errors: kFileUnwritable, kOutOfResources.
Status MakeDirs(const std::string& path);

/// 1 for "/dev/stdout", 2 for "/dev/stderr", N for "/dev/fd/N" and "/proc/self/fd/N"; -1 for other
/// paths. Pure: does not check that the descriptor is open. If such a descriptor is a file, opening
/// the path would truncate the file and overwrite it from its start: OpenForWriting() and
/// WriteFileAtomically() write to a duplicate of the descriptor instead.
int DescriptorNamedBy(const std::string& path);

/// Resolves the links of `path` and returns the path of the file itself; a file that does not exist
/// yet is fine. Follows only links of this user's and root's, and those in directories that nobody
/// else can write to: see WalkToFile(). Errors: kFileUnwritable, kOutOfResources.
Result<std::string> PlaceToWrite(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_FILE_H_
