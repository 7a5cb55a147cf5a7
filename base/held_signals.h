// SPDX-License-Identifier: Apache-2.0
// Delays signals until work that must not be interrupted half-way is done.
#ifndef HVDRAY_BASE_HELD_SIGNALS_H_
#define HVDRAY_BASE_HELD_SIGNALS_H_

#include <signal.h>

namespace hvdray {

/// Blocks the signals by which a user ends a program (SIGINT, SIGTERM, SIGQUIT, SIGHUP) until it is
/// destroyed; pending ones are delivered then. Threads: blocks them in the calling thread and in
/// those that it starts meanwhile; destroy it on the same thread.
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

#endif  // HVDRAY_BASE_HELD_SIGNALS_H_
