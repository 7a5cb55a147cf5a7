// SPDX-License-Identifier: Apache-2.0
// Which signals are blocked, and what a process inherits of them from its parent.
#ifndef HVDRAY_BASE_SIGNALS_H_
#define HVDRAY_BASE_SIGNALS_H_

#include <signal.h>

#include <chrono>
#include <initializer_list>
#include <map>

#include "base/types.h"

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

/// Two equal signals that come so close together are one: timeout(1) and many wrappers signal their
/// child and then its whole process group, and a terminal signals the group that a wrapper passes
/// its own copy on to. No user repeats a signal that fast. SIGHUP is the copy of any other, and any
/// other of SIGHUP: no user sends it by a key, and what ends a login sends it beside another
/// (systemd's SendSIGHUP=, beside SIGTERM).
constexpr Duration kSignalCopy = std::chrono::milliseconds(100);

/// Tells signals from their copies. Pure.
class SignalCopies {
 public:
  explicit SignalCopies(Duration within = kSignalCopy) : within_(within) {}
  /// False: a copy of the last one that was new. `now` never goes back.
  bool IsNew(int signo, TimePoint now);

 private:
  const Duration within_;
  std::map<int, TimePoint> last_;
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
