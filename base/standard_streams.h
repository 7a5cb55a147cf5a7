// SPDX-License-Identifier: Apache-2.0
// Descriptors that a process inherits. A closed stdin, stdout or stderr is a trap; epoll does not
// take every file; a forked child holds too many descriptors.
#ifndef HVDRAY_BASE_STANDARD_STREAMS_H_
#define HVDRAY_BASE_STANDARD_STREAMS_H_

#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace hvdray {

/// Opens /dev/null as 0, 1 and 2 where they are closed. Otherwise a file of ours would get such a
/// number, and a print would go into it. What is written to a stdout that was closed is lost, so
/// each write there fails with EBADF, as it would without this. Call first, before anything else
/// opens a file. Ignores errors.
void FillStandardStreams();

/// Closes every descriptor from `first` on. For a forked child: async-signal-safe, allocates
/// nothing, and takes no longer if the limit is high. Without close_range(2) (Linux 5.9) and /proc,
/// closes only those below 65,536; close-on-exec covers the rest.
void CloseFrom(int first);

/// Moves stdin and stdout, for a program that speaks a protocol there: from now on 0 is /dev/null
/// and 1 is what 2 is, so a stray print cannot come in between. Errors: kOutOfResources, kSystem.
Result<std::pair<UniqueFd, UniqueFd>> TakeStdinAndStdout();

/// Whether epoll takes this descriptor. False for regular files, directories and some devices
/// (/dev/null), which are always readable, and for a closed one. Threads: any.
bool IsPollable(int fd);

}  // namespace hvdray

#endif  // HVDRAY_BASE_STANDARD_STREAMS_H_
