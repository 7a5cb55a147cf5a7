// SPDX-License-Identifier: Apache-2.0
// Memory with a descriptor that nobody can change or cut any more (memfd_create(2), F_ADD_SEALS):
// processes of one machine map it, whoever made it. Threads: any.
#ifndef HVDRAY_BASE_SEALED_MEMORY_H_
#define HVDRAY_BASE_SEALED_MEMORY_H_

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Seals a memfd for good. Returns 0 or an errno.
int SealMemory(int fd);

/// New sealed memory with these bytes, to be read from its start. `name` is for /proc/PID/maps.
/// Errors: kOutOfResources, kSystem.
Result<UniqueFd> MakeSealedMemory(const char* name, ByteView bytes);

/// The size of sealed memory. Errors: kUsage for any other descriptor.
Result<uint64_t> SealedSize(int fd);

/// Opens the sealed memory `fd` of process `pid` for reading. Needs what ptrace(2) needs to read a
/// process: the same user, machine and space of processes. Returns 0 or an errno; EINVAL: it is no
/// sealed memory.
int OpenSealedMemory(uint32_t pid, int fd, UniqueFd& memory);

/// At most `size` bytes from `offset`; fewer at its end. Errors: kSystem.
Result<std::string> ReadMemory(int fd, uint64_t offset, size_t size);

}  // namespace hvdray

#endif  // HVDRAY_BASE_SEALED_MEMORY_H_
