// SPDX-License-Identifier: Apache-2.0
// Where a path to write to leads: to an open descriptor of this process, such as "/dev/stdout", to
// a file, or to a link that another user planted.
#ifndef HVDRAY_BASE_DESCRIPTOR_NAME_H_
#define HVDRAY_BASE_DESCRIPTOR_NAME_H_

#include <string>

#include "base/result.h"

namespace hvdray {

/// 1 for "/dev/stdout", 2 for "/dev/stderr", N for "/dev/fd/N" and "/proc/self/fd/N"; -1 for other
/// paths. Pure: does not check that the descriptor is open. If such a descriptor is a file, opening
/// the path would truncate the file and overwrite it from its start: OpenForWriting() and
/// WriteFileAtomically() write to a duplicate of the descriptor instead.
int DescriptorNamedBy(const std::string& path);

/// Resolves the links of `path` and returns the path of the file itself; a file that does not exist
/// yet is fine. Follows links by the rule of fs.protected_symlinks (proc(5)), whether the kernel
/// enforces it or not: a link in a sticky directory that everybody may write to (as /tmp) must
/// belong to this process's user or to the directory's owner. Errors: kFileUnwritable,
/// kOutOfResources.
Result<std::string> PlaceToWrite(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_DESCRIPTOR_NAME_H_
