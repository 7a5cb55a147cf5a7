// The hosts of an elastic job: as the source lists them, in an order that keeps the oldest first,
// with those that are left out. Pure; decides nothing about workers. Horovod spec 3.3, 3.4.
#ifndef HVDRAY_LAUNCHER_DRIVER_HOST_REGISTRY_H_
#define HVDRAY_LAUNCHER_DRIVER_HOST_REGISTRY_H_

#include <algorithm>
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

/// Horovod's HostUpdateResult: bits, as they go over the wire.
enum class UpdateCode : uint8_t { kNone = 0, kRemoved = 1, kAdded = 2, kMixed = 3 };
constexpr UpdateCode operator|(UpdateCode a, UpdateCode b) {
  return static_cast<UpdateCode>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

class HostRegistry {
 public:
  enum class Agent : uint8_t { kNone, kConnecting, kReady };
  struct Host {
    HostSlots found;          ///< As it was listed last.
    std::optional<int> cap;   ///< Fewer slots than that, until another number is listed.
    bool is_listed = false;   ///< In the last list, with slots.
    bool is_leaving = false;  ///< Has said that it goes; until a list without it.
    bool is_blacklisted = false;
    uint32_t failures = 0;  ///< Never forgotten: each doubles the next cooldown.
    std::optional<TimePoint> cooldown_ends;
    Agent agent = Agent::kNone;
    TimePoint connect_limit;    ///< While kConnecting.
    uint16_t offered_port = 0;  ///< For MASTER_PORT.
    int ready_slots = 0;        ///< Its part of HostRegistry::ready_slots().
    int slots() const { return cap ? std::min(*cap, found.slots) : found.slots; }
    bool is_available() const { return is_listed && !is_leaving && !is_blacklisted; }
  };

  HostRegistry(std::optional<CooldownRange> cooldown, uint64_t jitter_seed)
      : cooldown_(cooldown), random_(jitter_seed) {}

  /// Takes over a whole list; of a host that is listed twice, the first line counts. Says what
  /// changed: gone or fewer slots kRemoved, new or more slots kAdded. Also ends cooldowns that are
  /// over.
  UpdateCode Update(std::span<const HostSlots> listed, TimePoint now);
  /// kAdded when a listed host's cooldown is over.
  UpdateCode Expire(TimePoint now);
  /// When Expire may next have work.
  std::optional<TimePoint> NextExpiry() const;

  /// Leaves the host out until its cooldown ends: lower * 2^n + U(0,1) * lower for its n-th time,
  /// within the range; without a range for ever. No effect within a running cooldown.
  void Blacklist(int host, TimePoint now);
  /// false: it had said so before, or there is no such host.
  bool MarkLeaving(int host);
  void MoveToEnd(int host);
  void Cap(int host, int slots) { hosts_[static_cast<size_t>(host)].cap = slots; }
  /// Hosts in use come first, in this order, so that a spare one never gets rank 0.
  void PutFirst(std::span<const int> in_use);

  // Of its agent.
  void MarkConnecting(int host, TimePoint limit);
  /// Its limit is somebody else's matter from now on. false: it is not connecting.
  bool MarkCopying(int host);
  bool MarkReady(int host, uint16_t offered_port);
  /// Neither connecting nor ready any more. false: it was neither.
  bool MarkGone(int host);
  void OfferPort(int host, uint16_t port) { hosts_[static_cast<size_t>(host)].offered_port = port; }
  /// Of hosts with a ready agent, left out or not, as they were listed when it became ready.
  int ready_slots() const { return ready_slots_; }
  size_t connecting() const { return connect_limits_.size(); }
  /// The host that has been connecting for longest, and its limit.
  std::optional<std::pair<TimePoint, int>> NextConnectLimit() const;

  bool IsKnown(int host) const { return host >= 0 && host < static_cast<int>(hosts_.size()); }
  const Host& host(int host) const { return hosts_[static_cast<size_t>(host)]; }
  const std::string& name(int host) const { return hosts_[static_cast<size_t>(host)].found.host; }
  /// nullptr: never listed.
  const Host* Find(const std::string& name) const;
  int size() const { return static_cast<int>(hosts_.size()); }
  /// Hosts that are available, oldest first: old hosts keep their relative order, new ones and
  /// those that return come last.
  const std::vector<int>& order() const { return order_; }
  int CountSlots() const;

 private:
  Host& At(int host) { return hosts_[static_cast<size_t>(host)]; }
  int NumberOf(const HostSlots& listed);
  void Leave(int host);
  Duration NextCooldown(uint32_t failures);

  const std::optional<CooldownRange> cooldown_;
  std::mt19937_64 random_;
  std::vector<Host> hosts_;  // By number; never shrinks.
  std::unordered_map<std::string, int> numbers_;
  std::vector<int> listed_;  // In the last list.
  std::vector<int> order_;
  int ready_slots_ = 0;
  std::set<std::pair<TimePoint, int>> cooldowns_;
  std::set<std::pair<TimePoint, int>> connect_limits_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_HOST_REGISTRY_H_
