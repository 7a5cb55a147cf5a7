// SPDX-License-Identifier: Apache-2.0
// The signals that a user sends to hvdray: stop, force stop, pause; and those for the workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_SIGNALS_H_
#define HVDRAY_LAUNCHER_ENGINE_SIGNALS_H_

#include <functional>
#include <vector>

#include "base/loop.h"
#include "base/signals.h"

namespace hvdray {

/// Called from the loop.
struct SignalHandlers {
  /// SIGINT, SIGTERM, SIGQUIT or SIGHUP; a copy that follows at once is none (SignalCopies).
  std::function<void(int signo)> on_stop;
  /// ^Z: tells the agents, then calls `stop_now`, which stops this process until SIGCONT.
  std::function<void(std::function<void()> stop_now)> on_pause = [](const auto& stop_now) {
    stop_now();
  };
  std::function<void()> on_resume = [] {};
  /// SIGUSR1 or SIGUSR2. Empty: these keep their default effect.
  std::function<void(int signo)> on_forward;
};

/// Handles the signals while it lives. A signal that was ignored when hvdray began (nohup, a
/// shell's background job) stays ignored. Threads: the loop's.
class UserSignals {
 public:
  UserSignals(Loop& loop, SignalHandlers handlers);

 private:
  void Pause();

  SignalHandlers handlers_;
  SignalCopies copies_;
  std::vector<Watch> watches_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_SIGNALS_H_
