// SPDX-License-Identifier: Apache-2.0
#include "base/held_signals.h"

#include <initializer_list>

namespace hvdray {

HeldSignals::HeldSignals() {
  sigset_t held;
  ::sigemptyset(&held);
  for (const int signo : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) ::sigaddset(&held, signo);
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace hvdray
