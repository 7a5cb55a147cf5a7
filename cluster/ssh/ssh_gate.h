// Lets in so many at once to each address: sshd drops connections that have not authenticated yet
// when there are too many (MaxStartups). Decides only; opens nothing.
#ifndef HVDRAY_CLUSTER_SSH_SSH_GATE_H_
#define HVDRAY_CLUSTER_SSH_SSH_GATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "base/types.h"

namespace hvdray {

/// Threads: one.
class SshGate {
 public:
  explicit SshGate(int max_per_address) : max_per_address_(max_per_address) {}

  /// Calls `enter` now if there is room for `address`, else when it is its turn, from within
  /// Leave(). Each that has entered leaves once.
  void Enter(const std::string& address, std::function<void()> enter);
  void Leave(const std::string& address);

 private:
  struct Door {
    int inside = 0;
    std::deque<std::function<void()>> waiting;
  };
  const int max_per_address_;
  std::map<std::string, Door> doors_;
};

/// How long to wait before another try: 100 ms, doubled with each try up to 2 s, and anything
/// between half and one and a half of that, lest those that were refused together come together.
class SshBackoff {
 public:
  explicit SshBackoff(uint64_t seed) : random_(seed) {}
  /// `tries`: made so far, from 1.
  Duration Next(int tries);

 private:
  std::mt19937_64 random_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_GATE_H_
