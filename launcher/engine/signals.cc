// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/signals.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

namespace hvdray {
namespace {

bool IsIgnored(int signo) {
  struct sigaction action {};
  return ::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

UserSignals::UserSignals(Loop& loop, SignalHandlers handlers) : handlers_(std::move(handlers)) {
  for (const int signo : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) {
    if (IsIgnored(signo)) continue;
    watches_.push_back(loop.OnSignal(signo, [this, &loop, signo] {
      if (copies_.IsNew(signo, loop.Now())) handlers_.on_stop(signo);
    }));
  }
  for (const int signo : {SIGUSR1, SIGUSR2}) {
    if (!handlers_.on_forward || IsIgnored(signo)) continue;
    watches_.push_back(loop.OnSignal(signo, [this, signo] { handlers_.on_forward(signo); }));
  }
  if (!IsIgnored(SIGTSTP)) watches_.push_back(loop.OnSignal(SIGTSTP, [this] { Pause(); }));
}

void UserSignals::Pause() {
  handlers_.on_pause([this] {
    // SIGSTOP, since our own handler catches SIGTSTP. The shell sees a stopped job either way.
    ::kill(::getpid(), SIGSTOP);
    handlers_.on_resume();
  });
}

}  // namespace hvdray
