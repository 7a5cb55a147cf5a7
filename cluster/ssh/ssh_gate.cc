#include "cluster/ssh/ssh_gate.h"

#include <algorithm>
#include <utility>

namespace hvdray {

void SshGate::Enter(const std::string& address, std::function<void()> enter) {
  Door& door = doors_[address];
  if (door.inside >= max_per_address_) return door.waiting.push_back(std::move(enter));
  ++door.inside;
  enter();
}

void SshGate::Leave(const std::string& address) {
  const auto found = doors_.find(address);
  if (found == doors_.end()) return;
  Door& door = found->second;
  if (door.waiting.empty()) {
    if (--door.inside == 0) doors_.erase(found);
    return;
  }
  const std::function<void()> next = std::move(door.waiting.front());
  door.waiting.pop_front();
  next();
}

Duration SshBackoff::Next(int tries) {
  using std::chrono::milliseconds;
  const int64_t full_ms = std::min<int64_t>(int64_t{100} << std::clamp(tries - 1, 0, 5), 2000);
  std::uniform_int_distribution<int64_t> spread(full_ms / 2, full_ms + full_ms / 2);
  return milliseconds(spread(random_));
}

}  // namespace hvdray
