// The signals that a person sends to hvdray: stop, stop now, pause; and those meant for the
// workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_SIGNALS_H_
#define HVDRAY_LAUNCHER_ENGINE_SIGNALS_H_

#include <functional>
#include <vector>

#include "base/loop.h"

namespace hvdray {

struct SignalHandlers {
  /// SIGINT, SIGTERM, SIGQUIT or SIGHUP.
  std::function<void(int signo)> on_stop;
  /// ^Z: tell the agents, then call `stop_now`, which stops this process until SIGCONT.
  std::function<void(std::function<void()> stop_now)> on_pause;
  std::function<void()> on_resume;
  /// SIGUSR1 or SIGUSR2. Empty: these are not taken over.
  std::function<void(int signo)> on_forward;
};

/// Takes the signals over while it lives. One that was ignored when hvdray began (nohup, a shell's
/// background job) stays ignored. Threads: the loop's.
class UserSignals {
 public:
  UserSignals(Loop& loop, SignalHandlers handlers);

 private:
  void Pause();

  SignalHandlers handlers_;
  std::vector<Watch> watches_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_SIGNALS_H_
