// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_gate.h"

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

}  // namespace hvdray
