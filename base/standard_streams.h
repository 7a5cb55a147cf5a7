// SPDX-License-Identifier: Apache-2.0
// Descriptors and signals that a process inherits. A closed stdin, stdout or stderr and an ignored
// signal are traps; epoll does not take every file; a forked child holds too many descriptors.
#ifndef HVDRAY_BASE_STANDARD_STREAMS_H_
#define HVDRAY_BASE_STANDARD_STREAMS_H_

#include <signal.h>

#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace hvdray {

/// Opens /dev/null as 0, 1 and 2 where they are closed. Otherwise a file of ours would get such a
/// number, and a print would go into it. Call first, before anything else opens a file. Ignores
/// errors.
void FillStandardStreams();

/// Undoes what a careless parent passes on: unblocks all signals (blocked ones can't stop us) and
/// resets SIGCHLD (while it is ignored, the kernel reaps our children, and we never learn how they
/// ended). Keeps what is ignored on purpose: SIGHUP by nohup, SIGINT and SIGQUIT by a shell's `&`.
/// Call first in every program, before it has threads.
void RestoreSignals();

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

/// Delays signals until work that must not be interrupted half-way is done: blocks the signals by
/// which a user ends a program (SIGINT, SIGTERM, SIGQUIT, SIGHUP) until it is destroyed; pending
/// ones are delivered then. Threads: blocks them in the calling thread and in those that it starts
/// meanwhile; destroy it on the same thread.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_STANDARD_STREAMS_H_
