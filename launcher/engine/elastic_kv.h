// SPDX-License-Identifier: Apache-2.0
// The rendezvous of an elastic job: the store of the published generation, and the workers that
// wait for a rank in the next one. Carries requests of the agents to both, and the answers back.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_KV_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_KV_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "launcher/engine/kv_bridge.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/placement.h"
#include "rendezvous/kv_store.h"
#include "rendezvous/rank_service.h"
#include "wire/message.h"

namespace hvdray {

/// Owns store and rank service. Agents are identified by their AgentSet numbers. Threads: one.
class ElasticKv {
 public:
  struct Handlers {
    KvWays ways;
    std::function<void(int worker)>
        on_rank_asked;  ///< The worker waits for a rank, and did not before.
    /// That worker has registered its notification address.
    std::function<void(int worker)> on_registered;
    /// While the init barrier holds values back: that worker has stored the addresses of that
    /// member.
    std::function<void(int worker, uint32_t member)> on_met;
    /// With an init barrier: that worker has finished the last scope of hvd.init().
    std::function<void(int worker)> on_connected;
  };
  /// `mode`: in gang mode no worker waits for a rank; rank_and_size is answered at once.
  /// `is_barrier_held`: each generation's init barrier stays closed until OpenBarrier().
  ElasticKv(ElasticMode mode, bool is_barrier_held, Handlers handlers);

  /// A request of an agent; answered by KvWays::send, maybe later.
  void OnRequest(int agent, Generation generation, wire::KvRequest request);
  /// Clears the store for this assignment. The caller then sends KvReset to the agents and calls
  /// Release().
  void Reset(std::span<const RankInfo> ranks, Generation generation);
  void OpenBarrier() { store_.OpenBarrier(); }
  /// Answers all workers that wait for a rank.
  void Release();
  /// The job is over: answers all waiting workers with "no rank".
  void Close();

  /// A worker was started on that slot, or has ended there.
  void Admit(std::string_view host, int local_rank);
  void Forget(std::string_view host, int local_rank);
  /// The agent's link has room again.
  void OnRoom(int agent) { sender_.OnRoom(agent); }
  /// The agent is gone: drops its requests and answers.
  void DropAgent(int agent);

  const KvStore& store() const { return store_; }
  /// Rejected requests, for the report.
  uint64_t refused_questions() const { return store_.refused_questions() + ranks_.refused(); }

 private:
  void Send(std::vector<RankAnswer> answers);
  void TellMet(const KvQuestion& question);
  void TellConnected(const KvQuestion& question);

  const bool is_held_;
  const bool is_barrier_held_;
  Handlers handlers_;
  KvSender sender_;
  KvStore store_;
  RankService ranks_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_KV_H_
