// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/host_registry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/tcp_address.h"

namespace hvdray {

int HostRegistry::NumberOf(const HostSlots& listed) {
  const auto [it, is_new] = numbers_.try_emplace(HostNameKey(listed.host), size());
  if (is_new) {
    hosts_.emplace_back();
    hosts_.back().found = HostSlots{listed.host, 0, listed.address};
  }
  return it->second;
}

UpdateCode HostRegistry::Update(std::span<const HostSlots> listed, TimePoint now) {
  UpdateCode code = Expire(now);
  ++list_number_;
  std::vector<int> numbers;
  numbers.reserve(listed.size());
  numbers_.reserve(std::max(listed.size(), numbers_.size()));
  for (const HostSlots& entry : listed) {
    // A host without slots counts as not listed.
    if (entry.slots <= 0) continue;
    const int number = NumberOf(entry);
    Host& host = At(number);
    if (std::exchange(host.last_list, list_number_) == list_number_) continue;
    numbers.push_back(number);
    if (!host.is_listed) {
      code = code | UpdateCode::kAdded;
    } else if (entry.slots != host.found.slots) {
      code = code | (entry.slots > host.found.slots ? UpdateCode::kAdded : UpdateCode::kRemoved);
    }
    if (!host.is_listed || entry.slots > host.found.slots) host.listed_since = now;
    if (entry.slots != host.found.slots) host.cap.reset();
    // The first spelling stays: agents, files and workers know the host by it.
    host.found.slots = entry.slots;
    host.found.address = entry.address;
  }
  for (const int number : listed_) {
    Host& host = At(number);
    if (host.last_list == list_number_) continue;
    code = code | UpdateCode::kRemoved;
    host.is_listed = false;
    host.is_leaving = false;
    host.cap.reset();
    Leave(number);
  }
  for (const int number : numbers) {
    Host& host = At(number);
    if (host.is_listed) continue;
    host.is_listed = true;
    if (host.is_available()) order_.push_back(number);
  }
  listed_ = std::move(numbers);
  return code;
}

UpdateCode HostRegistry::Expire(TimePoint now) {
  UpdateCode code = UpdateCode::kNone;
  while (!cooldowns_.empty() && cooldowns_.begin()->first <= now) {
    const int number = cooldowns_.begin()->second;
    cooldowns_.erase(cooldowns_.begin());
    Host& host = At(number);
    host.is_blacklisted = false;
    host.cooldown_ends.reset();
    if (!host.is_available()) continue;
    order_.push_back(number);
    code = UpdateCode::kAdded;
  }
  return code;
}

std::optional<TimePoint> HostRegistry::NextExpiry() const {
  if (cooldowns_.empty()) return std::nullopt;
  return cooldowns_.begin()->first;
}

Duration HostRegistry::NextCooldown(uint32_t failures) {
  using Float = std::chrono::duration<double, Duration::period>;
  const double lower = Float(cooldown_->lower).count();
  const double upper = Float(cooldown_->upper).count();
  const double jitter = static_cast<double>(random_() >> 11) * 0x1p-53;
  const double delay =
      std::ldexp(lower, static_cast<int>(std::min(failures, 60u))) + jitter * lower;
  return Duration(static_cast<int64_t>(std::max(lower, std::min(upper, delay))));
}

void HostRegistry::Blacklist(int number, TimePoint now) {
  Host& host = At(number);
  Leave(number);
  host.is_blacklisted = true;
  if (!cooldown_ || host.cooldown_ends) return;
  host.cooldown_ends = now + NextCooldown(++host.failures);
  cooldowns_.emplace(*host.cooldown_ends, number);
}

bool HostRegistry::Pardon(int number) {
  Host& host = At(number);
  if (!std::exchange(host.is_blacklisted, false)) return false;
  if (host.cooldown_ends) {
    cooldowns_.erase({*host.cooldown_ends, number});
    host.cooldown_ends.reset();
    --host.failures;
  }
  if (host.is_available()) order_.push_back(number);
  return true;
}

bool HostRegistry::MarkLeaving(int number) {
  if (!IsKnown(number) || At(number).is_leaving) return false;
  At(number).is_leaving = true;
  Leave(number);
  return true;
}

void HostRegistry::MoveToEnd(int number) {
  const auto it = std::find(order_.begin(), order_.end(), number);
  if (it != order_.end()) std::rotate(it, it + 1, order_.end());
}

void HostRegistry::PutFirst(std::span<const int> in_use) {
  std::vector<char> is_first(hosts_.size());
  for (const int number : in_use) is_first[static_cast<size_t>(number)] = 1;
  std::vector<int> order;
  order.reserve(order_.size());
  for (const int number : in_use) {
    if (At(number).is_available()) order.push_back(number);
  }
  for (const int number : order_) {
    if (!is_first[static_cast<size_t>(number)]) order.push_back(number);
  }
  order_ = std::move(order);
}

void HostRegistry::MarkConnecting(int number, TimePoint limit) {
  Host& host = At(number);
  host.agent = Agent::kConnecting;
  host.connect_limit = limit;
  connect_limits_.emplace_hint(connect_limits_.end(), limit, number);
}

bool HostRegistry::MarkCopying(int number) {
  if (!IsKnown(number) || At(number).agent != Agent::kConnecting) return false;
  connect_limits_.erase({At(number).connect_limit, number});
  At(number).connect_limit = TimePoint::max();
  connect_limits_.emplace(TimePoint::max(), number);
  return true;
}

bool HostRegistry::MarkReady(int number, uint16_t offered_port) {
  if (!IsKnown(number) || At(number).agent != Agent::kConnecting) return false;
  Host& host = At(number);
  connect_limits_.erase({host.connect_limit, number});
  host.agent = Agent::kReady;
  host.offered_port = offered_port;
  host.ready_slots = host.found.slots;
  ready_slots_ += host.ready_slots;
  return true;
}

bool HostRegistry::MarkGone(int number) {
  if (!IsKnown(number) || At(number).agent == Agent::kNone) return false;
  Host& host = At(number);
  if (host.agent == Agent::kConnecting) connect_limits_.erase({host.connect_limit, number});
  host.agent = Agent::kNone;
  ready_slots_ -= std::exchange(host.ready_slots, 0);
  return true;
}

std::optional<std::pair<TimePoint, int>> HostRegistry::NextConnectLimit() const {
  const bool is_limited =
      !connect_limits_.empty() && connect_limits_.begin()->first != TimePoint::max();
  if (!is_limited) return std::nullopt;
  return *connect_limits_.begin();
}

const HostRegistry::Host* HostRegistry::Find(const std::string& name) const {
  const auto it = numbers_.find(HostNameKey(name));
  return it == numbers_.end() ? nullptr : &host(it->second);
}

int HostRegistry::CountSlots() const {
  int slots = 0;
  for (const int number : order_) slots += host(number).slots();
  return slots;
}

void HostRegistry::Leave(int number) { std::erase(order_, number); }

}  // namespace hvdray
