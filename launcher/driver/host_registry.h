// SPDX-License-Identifier: Apache-2.0
// The hosts of an elastic job: as the source lists them, oldest first, with the blacklisted ones.
// Pure; decides nothing about workers. Rules: docs/elastic.md, "The model".
#ifndef HVDRAY_LAUNCHER_DRIVER_HOST_REGISTRY_H_
#define HVDRAY_LAUNCHER_DRIVER_HOST_REGISTRY_H_

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/types.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// Horovod's HostUpdateResult: bits, as sent to workers.
enum class UpdateCode : uint8_t { kNone = 0, kRemoved = 1, kAdded = 2, kMixed = 3 };
constexpr UpdateCode operator|(UpdateCode a, UpdateCode b) {
  return static_cast<UpdateCode>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

/// Owned by ElasticDriver. Numbers hosts from 0 and never forgets one. Threads: one.
class HostRegistry {
 public:
  enum class Agent : uint8_t { kNone, kConnecting, kReady };
  struct Host {
    HostSlots found;          ///< As last listed.
    std::optional<int> cap;   ///< Slots at most, until the source lists another number.
    bool is_listed = false;   ///< In the last list, with slots > 0.
    bool is_leaving = false;  ///< Announced that it leaves; reset by a list without it.
    bool is_blacklisted = false;
    uint64_t last_list = 0;    ///< That named it, counted from 1.
    TimePoint listed_since{};  ///< With no fewer slots than now.
    uint32_t failures = 0;     ///< Never reset: each doubles the next cooldown.
    std::optional<TimePoint> cooldown_ends;
    Agent agent = Agent::kNone;
    TimePoint connect_limit;    ///< While kConnecting.
    uint16_t offered_port = 0;  ///< For MASTER_PORT.
    int ready_slots = 0;        ///< Its share of HostRegistry::ready_slots().
    int slots() const { return cap ? std::min(*cap, found.slots) : found.slots; }
    bool is_available() const { return is_listed && !is_leaving && !is_blacklisted; }
  };

  /// `cooldown`: --blacklist-cooldown-range; nullopt: blacklisted hosts never return. `jitter_seed`
  /// makes the random part of cooldowns repeatable.
  HostRegistry(std::optional<CooldownRange> cooldown, uint64_t jitter_seed)
      : cooldown_(cooldown), random_(jitter_seed) {}

  /// Replaces the list; if a host occurs twice, its first entry counts. Returns what changed:
  /// kRemoved for gone hosts or fewer slots, kAdded for new hosts or more slots. Also ends expired
  /// cooldowns.
  UpdateCode Update(std::span<const HostSlots> listed, TimePoint now);
  /// Ends expired cooldowns; kAdded if one was a listed host's.
  UpdateCode Expire(TimePoint now);
  /// When Expire may next have work.
  std::optional<TimePoint> NextExpiry() const;

  /// Blacklists the host until its cooldown ends: lower * 2^n + U(0,1) * lower for its n-th time,
  /// clamped to the range; without a range for good. No effect during a cooldown.
  void Blacklist(int host, TimePoint now);
  /// Takes the last Blacklist() back, as it was another host's fault. False: it is not blacklisted.
  bool Pardon(int host);
  /// False: already announced, or no such host.
  bool MarkLeaving(int host);
  /// Makes the host the youngest of order().
  void MoveToEnd(int host);
  /// Uses at most that many of the host's slots; see Host::cap.
  void Cap(int host, int slots) { hosts_[static_cast<size_t>(host)].cap = slots; }
  /// Moves hosts in use to the front, in this order, so that a spare one never gets rank 0.
  void PutFirst(std::span<const int> in_use);

  // State of a host's agent.
  void MarkConnecting(int host, TimePoint limit);
  /// Drops its connect limit: the copy has its own. False: it is not connecting.
  bool MarkCopying(int host);
  /// False: it is not connecting.
  bool MarkReady(int host, uint16_t offered_port);
  /// Its agent is gone. False: it was neither connecting nor ready.
  bool MarkGone(int host);
  void OfferPort(int host, uint16_t port) { hosts_[static_cast<size_t>(host)].offered_port = port; }
  /// Slots of hosts with a ready agent, blacklisted or not, as listed when the agent became ready.
  int ready_slots() const { return ready_slots_; }
  size_t connecting() const { return connect_limits_.size(); }
  /// The earliest connect limit and its host.
  std::optional<std::pair<TimePoint, int>> NextConnectLimit() const;

  bool IsKnown(int host) const { return host >= 0 && host < static_cast<int>(hosts_.size()); }
  const Host& host(int host) const { return hosts_[static_cast<size_t>(host)]; }
  const std::string& name(int host) const { return hosts_[static_cast<size_t>(host)].found.host; }
  /// nullptr: never listed. Valid until the next Update().
  const Host* Find(const std::string& name) const;
  int size() const { return static_cast<int>(hosts_.size()); }
  /// Available hosts, oldest first: old hosts keep their relative order; new and returning ones
  /// come last.
  const std::vector<int>& order() const { return order_; }
  /// Slots of all available hosts.
  int CountSlots() const;

 private:
  Host& At(int host) { return hosts_[static_cast<size_t>(host)]; }
  int NumberOf(const HostSlots& listed);
  void Leave(int host);
  Duration NextCooldown(uint32_t failures);

  const std::optional<CooldownRange> cooldown_;
  std::mt19937_64 random_;
  std::deque<Host> hosts_;                        // By number; never shrinks.
  std::unordered_map<std::string, int> numbers_;  // by HostNameKey()
  uint64_t list_number_ = 0;
  std::vector<int> listed_;  // In the last list.
  std::vector<int> order_;
  int ready_slots_ = 0;
  std::set<std::pair<TimePoint, int>> cooldowns_;
  std::set<std::pair<TimePoint, int>> connect_limits_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_HOST_REGISTRY_H_
