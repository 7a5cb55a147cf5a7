// SPDX-License-Identifier: Apache-2.0
// Carries KV requests of the agents from their links to the store, and the answers back; in an
// elastic job also to the workers that wait for a rank.
#ifndef HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_
#define HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_

#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "launcher/engine/agent_set.h"
#include "launcher/job/placement.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_store.h"
#include "rendezvous/rank_service.h"
#include "wire/message.h"

namespace hvdray {

/// Converts a request from the wire to the store's form.
KvQuestion QuestionOf(Generation generation, wire::KvRequest request);
/// Converts an answer to its message; inflates a deflated value unless the agent takes those.
wire::Message ReplyOf(KvAnswer answer, bool takes_deflated);

/// The rendezvous: the store of the current generation and, in an elastic job, the workers that
/// wait for a rank in the next one. Owns both. Answers each agent in order, at the pace of its
/// link: what a link has no room for waits here with its value shared among agents; inside the
/// links each agent has its own copy. Threads: one.
class KvBridge final : private KvStore::Owner {
 public:
  /// What workers must wait for.
  enum class Hold : uint8_t {
    kNothing,          ///< rank_and_size is answered at once.
    kRanks,            ///< A rank, until a generation is published.
    kRanksAndBarrier,  ///< And the addresses of the others, until OpenBarrier().
  };
  /// Who hears news of workers in an elastic job; never with Hold::kNothing.
  class Listener {
   public:
    /// The worker waits for a rank, and did not before.
    virtual void OnRankAsked(int worker) = 0;
    /// That worker has registered its notification address.
    virtual void OnRegistered(int worker) = 0;
    /// While the init barrier holds values back: that worker has stored the addresses of that
    /// member.
    virtual void OnMet(int worker, uint32_t member) = 0;
    /// With an init barrier: that worker has finished the last scope of hvd.init().
    virtual void OnConnected(int worker) = 0;

   protected:
    ~Listener() = default;
  };
  /// `links` and `listener`, if there is one, outlive it.
  explicit KvBridge(AgentLinks& links, Hold hold = Hold::kNothing, Listener* listener = nullptr);

  /// A request of an agent; answered through its link, maybe later.
  void OnRequest(int agent, Generation generation, wire::KvRequest request);
  /// Clears the store for this assignment (docs/rendezvous.md, "Scopes and how they end"). The
  /// caller then sends KvReset to the agents, and calls Release() in an elastic job.
  void Reset(std::span<const RankInfo> ranks, Generation generation);
  void OpenBarrier() { store_.OpenBarrier(); }
  /// Answers all workers that wait for a rank.
  void Release() { Send(ranks_.Publish(store_.assignment())); }
  /// The job is over: answers all waiting workers with "no rank".
  void Close() { Send(ranks_.Close()); }
  /// Another job begins.
  void Open() { ranks_.Open(); }

  /// A worker was started on that slot, or has ended there.
  void Admit(std::string_view host, int local_rank) { ranks_.Admit(JoinSlot(host, local_rank)); }
  void Forget(std::string_view host, int local_rank) { ranks_.Forget(JoinSlot(host, local_rank)); }
  /// The agent's link has room again.
  void OnRoom(int agent);
  /// The agent is gone: drops its requests and answers.
  void DropAgent(int agent);

  const KvStore& store() const { return store_; }
  /// Rejected requests, for the report.
  uint64_t refused_questions() const { return store_.refused_questions() + ranks_.refused(); }

 private:
  void Answer(int agent, KvAnswer answer) override;
  void Send(std::vector<RankAnswer> answers);
  void TellMet(const KvQuestion& question);
  void TellConnected(const KvQuestion& question);

  const Hold hold_;
  Listener* const listener_;  // null with Hold::kNothing
  AgentLinks& links_;
  std::map<int, std::deque<KvAnswer>> waiting_;  // only agents with waiting answers
  KvStore store_;
  RankService ranks_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_KV_BRIDGE_H_
