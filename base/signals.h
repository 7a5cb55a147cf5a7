// SPDX-License-Identifier: Apache-2.0
// Which signals are blocked, and what a process inherits of them from its parent.
#ifndef HVDRAY_BASE_SIGNALS_H_
#define HVDRAY_BASE_SIGNALS_H_

#include <signal.h>

#include <initializer_list>

namespace hvdray {

// Sets of signals. Async-signal-safe.

sigset_t SignalSet(std::initializer_list<int> signals);
sigset_t AllSignals();

/// Blocks signals until it is destroyed; pending ones are delivered then. For work that must not be
/// interrupted half-way; around fork(), so that no handler runs in the child (libevent's would
/// write to the parent's loop); around the start of a thread that is to get none. Threads: blocks
/// them in the calling thread and in those that it starts meanwhile; destroy it on the same thread.
class HeldSignals {
 public:
  explicit HeldSignals(const sigset_t& signals);
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// What was blocked before.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

/// Unblocks all signals. Async-signal-safe.
void UnblockSignals();

/// Undoes what a careless parent passes on: unblocks all signals (blocked ones can't stop us) and
/// resets SIGCHLD (while it is ignored, the kernel reaps our children, and we never learn how they
/// ended). Keeps what is ignored on purpose: SIGHUP by nohup, SIGINT and SIGQUIT by a shell's `&`.
/// Call first in every program, before it has threads.
void RestoreSignals();

/// Restores default dispositions and unblocks all signals, for a forked child. Async-signal-safe.
void ResetSignals();

}  // namespace hvdray

#endif  // HVDRAY_BASE_SIGNALS_H_
