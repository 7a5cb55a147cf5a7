// Lets in so many at once to each address: sshd drops connections that have not authenticated yet
// when there are too many (MaxStartups). Decides only; opens nothing.
#ifndef HVDRAY_CLUSTER_SSH_SSH_GATE_H_
#define HVDRAY_CLUSTER_SSH_SSH_GATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

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

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_GATE_H_
