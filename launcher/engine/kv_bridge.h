// Carries KV questions of the agents from their links to the store, and the answers back.
#ifndef HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_
#define HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_

#include <functional>
#include <span>

#include "launcher/placement/placement.h"
#include "launcher/wire/message.h"
#include "rendezvous/kv_store.h"

namespace hvdray {

/// Between the link and the store.
KvQuestion QuestionOf(Generation generation, wire::KvRequest request);
wire::Message ReplyOf(KvAnswer answer);

/// Threads: one.
class KvBridge {
 public:
  using SendFn = std::function<void(int host, wire::Message message)>;
  explicit KvBridge(SendFn send);

  /// The store begins anew with this assignment (docs/rendezvous.md). The caller sends KvReset.
  void Reset(std::span<const RankInfo> ranks, Generation generation);
  void OnRequest(int host, Generation generation, wire::KvRequest request);
  void DropHost(int host) { store_.DropRelay(host); }
  const KvStore& store() const { return store_; }

 private:
  SendFn send_;
  KvStore store_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_
