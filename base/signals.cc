// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

namespace hvdray {

sigset_t SignalSet(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signo : signals) ::sigaddset(&set, signo);
  return set;
}

sigset_t AllSignals() {
  sigset_t set;
  ::sigfillset(&set);
  return set;
}

HeldSignals::HeldSignals(const sigset_t& signals) {
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

HeldSignals::~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool SignalCopies::IsNew(int signo, TimePoint now) {
  for (const auto& [other, last] : last_) {
    const bool is_alike = other == signo || other == SIGHUP || signo == SIGHUP;
    if (is_alike && now - last < within_) return false;
  }
  last_[signo] = now;
  return true;
}

void UnblockSignals() {
  const sigset_t none = SignalSet({});
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

void RestoreSignals() {
  ::signal(SIGCHLD, SIG_DFL);
  UnblockSignals();
}

void ResetSignals() {
  for (int signo = 1; signo < NSIG; ++signo) ::signal(signo, SIG_DFL);
  UnblockSignals();
}

}  // namespace hvdray
