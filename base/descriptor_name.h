// What a path that is to be written to leads to: an open descriptor of this process, such as
// "/dev/stdout", a file, or a trap.
#ifndef HVDRAY_BASE_DESCRIPTOR_NAME_H_
#define HVDRAY_BASE_DESCRIPTOR_NAME_H_

#include <string>

#include "base/result.h"

namespace hvdray {

/// 1 for "/dev/stdout", N for "/dev/fd/N"; -1 for other paths. Opening such a path, when it leads
/// to a file, would truncate what stands there and write over it from its start: OpenForWriting()
/// and WriteFileAtomically() go on with a duplicate of the descriptor instead.
int DescriptorNamedBy(const std::string& path);

/// Where a file named `path` stands, behind the links that lead there: `path` itself where there is
/// nothing yet. Links are followed by the kernel's rule, whatever fs.protected_symlinks says: one
/// in a folder that everybody may write to (sticky, as /tmp) has to be ours or the folder's
/// owner's. Errors: kFileUnwritable.
Result<std::string> PlaceToWrite(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_DESCRIPTOR_NAME_H_
