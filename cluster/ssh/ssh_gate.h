// SPDX-License-Identifier: Apache-2.0
// Limits the concurrent logins per address: sshd drops unauthenticated connections when there are
// too many (MaxStartups). Only decides; opens nothing.
#ifndef HVDRAY_CLUSTER_SSH_SSH_GATE_H_
#define HVDRAY_CLUSTER_SSH_SSH_GATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

namespace hvdray {

/// Counts logins and queues the surplus by address. Threads: one.
class SshGate {
 public:
  explicit SshGate(int max_per_address) : max_per_address_(max_per_address) {}

  /// Calls `enter` at once if there is room for `address`, otherwise in turn, from within Leave().
  void Enter(const std::string& address, std::function<void()> enter);
  /// Call exactly once for each `enter` that was called.
  void Leave(const std::string& address);

 private:
  struct Door {
    int inside = 0;
    std::deque<std::function<void()>> waiting;
  };
  const int max_per_address_;
  std::map<std::string, Door> doors_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_GATE_H_
