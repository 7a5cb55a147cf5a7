// Between HTTP exchanges and the relay core: keeps requests that are held, runs the actions
// in order, and its timer.
#ifndef HVDRAY_RENDEZVOUS_KV_FRONT_H_
#define HVDRAY_RENDEZVOUS_KV_FRONT_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/http_server.h"
#include "base/loop.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/relay_core.h"

namespace hvdray {

/// Threads: the loop's. `upstream` is the caller's and outlives this; it may answer within Ask().
class KvFront {
 public:
  KvFront(Loop& loop, RelayCoreOptions options, KvUpstream& upstream)
      : loop_(loop), core_(options), upstream_(upstream) {}
  KvFront(const KvFront&) = delete;
  KvFront& operator=(const KvFront&) = delete;

  /// As in RelayCore.
  void OpenWorker(int worker, std::string slot, Generation generation);
  void CloseWorker(int worker);
  void Reset(Generation generation);
  void EndMeshes(Generation generation);
  void OnAnswer(const KvAnswer& answer);

  /// A request on the listener of `worker`.
  void OnRequest(int worker, HttpExchange exchange);

  RelayStats stats() const;
  const RelayCore& core() const { return core_; }

 private:
  void Run();
  void Reply(const RelayReply& reply);
  void ArmTimer();

  Loop& loop_;
  RelayCore core_;
  KvUpstream& upstream_;
  RelayActions actions_;
  bool is_running_ = false;
  uint64_t last_request_ = 0;
  uint64_t refused_requests_ = 0;
  std::unordered_map<uint64_t, HttpExchange> exchanges_;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_KV_FRONT_H_
