// SPDX-License-Identifier: Apache-2.0
// Carries KV requests of the agents from their links to the store, and the answers back.
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

/// Converts a request from the wire to the store's form.
KvQuestion QuestionOf(Generation generation, wire::KvRequest request);
/// Converts an answer to its message; inflates a deflated value unless the agent takes those.
wire::Message ReplyOf(KvAnswer answer, bool takes_deflated);

/// Access to the agents' links.
struct KvWays {
  std::function<void(int agent, wire::Message message)> send;
  /// As AgentSet::HasControlRoom() and TakesDeflated(); unset: always.
  std::function<bool(int agent)> has_room;
  std::function<bool(int agent)> takes_deflated;
};

/// Sends answers in order, at the pace of each agent's link. What a link has no room for waits here
/// with its value shared among agents; inside the links each agent has its own copy. Threads: one.
class KvSender {
 public:
  explicit KvSender(KvWays ways) : ways_(std::move(ways)) {}
  void Send(int agent, KvAnswer answer);
  /// Its link has room again.
  void OnRoom(int agent);
  /// The agent is gone: drops its answers.
  void Drop(int agent) { waiting_.erase(agent); }

 private:
  bool HasRoom(int agent) const { return ways_.has_room == nullptr || ways_.has_room(agent); }
  void SendNow(int agent, KvAnswer answer);

  const KvWays ways_;
  std::map<int, std::deque<KvAnswer>> waiting_;  // only agents with waiting answers
};

/// The rendezvous of a gang of fixed size: owns its store. Threads: one.
class KvBridge {
 public:
  explicit KvBridge(KvWays ways);

  /// Clears the store for this assignment (docs/rendezvous.md, "Scopes and how they end"). The
  /// caller sends KvReset.
  void Reset(std::span<const RankInfo> ranks, Generation generation);
  /// A request of a host's agent; answered by KvWays::send, maybe later.
  void OnRequest(int host, Generation generation, wire::KvRequest request);
  void OnRoom(int host) { sender_.OnRoom(host); }
  /// The host's agent is gone: drops its requests and answers.
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
