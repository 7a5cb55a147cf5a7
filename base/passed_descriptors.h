// SPDX-License-Identifier: Apache-2.0
// Descriptors that travel over a Unix socket beside its bytes (unix(7), SCM_RIGHTS). Threads: any.
#ifndef HVDRAY_BASE_PASSED_DESCRIPTORS_H_
#define HVDRAY_BASE_PASSED_DESCRIPTORS_H_

#include <sys/types.h>

#include <span>
#include <vector>

#include "base/fd.h"
#include "base/types.h"

namespace hvdray {

/// As send(2) with MSG_NOSIGNAL: sends duplicates of `descriptors` with the first byte.
ssize_t SendWithDescriptors(int socket, ByteView bytes, std::span<const int> descriptors);

/// As recv(2): appends the descriptors that came with these bytes, close-on-exec. More than 8 of
/// one send: EMFILE.
ssize_t ReceiveWithDescriptors(int socket, char* buffer, size_t size,
                               std::vector<UniqueFd>& descriptors);

}  // namespace hvdray

#endif  // HVDRAY_BASE_PASSED_DESCRIPTORS_H_
