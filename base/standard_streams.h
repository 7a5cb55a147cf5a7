// SPDX-License-Identifier: Apache-2.0
// What a process was given when it began: a closed stdin, stdout or stderr and an ignored signal
// are traps, not every file can be waited for, and the child of a fork has too much of it.
#ifndef HVDRAY_BASE_STANDARD_STREAMS_H_
#define HVDRAY_BASE_STANDARD_STREAMS_H_

namespace hvdray {

/// Opens /dev/null wherever 0, 1 or 2 is closed: else a descriptor of ours would get such a number,
/// and a print would go into it. To be called first, before anything else opens a file.
void FillStandardStreams();

/// Takes back what a careless parent has left to us: SIGCHLD ignored (the kernel then reaps our
/// children, and nobody learns how they ended) and blocked signals (nobody could stop us). What is
/// ignored on purpose stays so: SIGHUP by nohup, SIGINT and SIGQUIT by a shell's `&`. To be called
/// first in every program, before there are threads.
void RestoreSignals();

/// Closes every descriptor from `first` on. For the child of a fork: async-signal-safe, allocates
/// nothing, and takes no longer where more may be open. A kernel older than 5.9 without /proc
/// leaves those above 65,535 to close-on-exec.
void CloseFrom(int first);

/// Whether epoll takes this descriptor. It refuses regular files, directories and some devices
/// (/dev/null), which can be read at any time, and what is not open at all.
bool IsPollable(int fd);

}  // namespace hvdray

#endif  // HVDRAY_BASE_STANDARD_STREAMS_H_
