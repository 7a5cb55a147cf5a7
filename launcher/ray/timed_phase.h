// How long a phase of a command took, for --verbose.
#ifndef HVDRAY_LAUNCHER_RAY_TIMED_PHASE_H_
#define HVDRAY_LAUNCHER_RAY_TIMED_PHASE_H_

#include <chrono>
#include <string>

#include "base/log.h"

namespace hvdray {

/// From its making until Done().
class TimedPhase {
 public:
  void Done(const std::string& what) const {
    const auto took = std::chrono::steady_clock::now() - began_;
    Log(LogLevel::kInfo, "ray", "{} after={:.3f}s", what,
        std::chrono::duration<double>(took).count());
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_TIMED_PHASE_H_
