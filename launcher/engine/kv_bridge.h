// Carries KV questions of the agents from their links to the store, and the answers back.
#ifndef HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_
#define HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_

#include <deque>
#include <functional>
#include <map>
#include <span>

#include "launcher/job/placement.h"
#include "rendezvous/kv_store.h"
#include "wire/message.h"

namespace hvdray {

/// Between the link and the store.
KvQuestion QuestionOf(Generation generation, wire::KvRequest request);
/// A deflated value is inflated for an agent that does not take such.
wire::Message ReplyOf(KvAnswer answer, bool takes_deflated);

/// The ways to an agent's link.
struct KvWays {
  std::function<void(int agent, wire::Message message)> send;
  /// As AgentSet::HasControlRoom() and TakesDeflated(); unset: always.
  std::function<bool(int agent)> has_room;
  std::function<bool(int agent)> takes_deflated;
};

/// Sends answers in their order, at the pace of each agent's link: what that has no room for waits
/// here with its value shared, where in the link each agent has a copy of each. Threads: one.
class KvSender {
 public:
  explicit KvSender(KvWays ways) : ways_(std::move(ways)) {}
  void Send(int agent, KvAnswer answer);
  /// Its link has room again.
  void OnRoom(int agent);
  /// It is gone.
  void Drop(int agent) { waiting_.erase(agent); }

 private:
  bool HasRoom(int agent) const { return ways_.has_room == nullptr || ways_.has_room(agent); }
  void SendNow(int agent, KvAnswer answer);

  const KvWays ways_;
  std::map<int, std::deque<KvAnswer>> waiting_;  // only of agents for which something waits
};

/// Threads: one.
class KvBridge {
 public:
  explicit KvBridge(KvWays ways);

  /// The store begins anew with this assignment (docs/rendezvous.md). The caller sends KvReset.
  void Reset(std::span<const RankInfo> ranks, Generation generation);
  void OnRequest(int host, Generation generation, wire::KvRequest request);
  void OnRoom(int host) { sender_.OnRoom(host); }
  void DropHost(int host) {
    store_.DropRelay(host);
    sender_.Drop(host);
  }
  const KvStore& store() const { return store_; }

 private:
  KvSender sender_;
  KvStore store_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_
