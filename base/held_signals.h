// Signals that wait until what must not be cut in two is done.
#ifndef HVDRAY_BASE_HELD_SIGNALS_H_
#define HVDRAY_BASE_HELD_SIGNALS_H_

#include <signal.h>

namespace hvdray {

/// Holds those back by which a user ends a program (Ctrl-C and the like) until it is destroyed;
/// what came meanwhile comes then. Threads: holds them from the calling one and from those that it
/// starts; to be destroyed on the same.
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
