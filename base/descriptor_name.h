// Paths that name an open descriptor of this process, such as "/dev/stdout".
#ifndef HVDRAY_BASE_DESCRIPTOR_NAME_H_
#define HVDRAY_BASE_DESCRIPTOR_NAME_H_

#include <string>

namespace hvdray {

/// 1 for "/dev/stdout", N for "/dev/fd/N"; -1 for other paths. Opening such a path, when it leads
/// to a file, would truncate what stands there and write over it from its start: OpenForWriting()
/// and WriteFileAtomically() go on with a duplicate of the descriptor instead.
int DescriptorNamedBy(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_DESCRIPTOR_NAME_H_
