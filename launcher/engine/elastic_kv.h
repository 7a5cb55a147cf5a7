// The rendezvous of an elastic job: the store of the published generation, and who waits for a rank
// in the next one. Carries questions of the agents to them, and the answers back.
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

/// Threads: one. Agents by their numbers.
class ElasticKv {
 public:
  struct Handlers {
    KvWays ways;
    std::function<void(int worker)> on_rank_asked;  ///< It waits, and did not wait before.
    std::function<void(int worker)> on_registered;
    /// While the meeting is held: the addresses of that member were stored for that worker.
    std::function<void(int worker, uint32_t member)> on_met;
    /// While the meeting was held: that worker is through with the last scope of hvd.init().
    std::function<void(int worker)> on_connected;
  };
  /// Of a gang that is no Horovod job nobody waits: rank_and_size is answered at once.
  /// `is_meeting_held`: each generation's meeting waits for OpenMeeting().
  ElasticKv(ElasticMode mode, bool is_meeting_held, Handlers handlers);

  void OnRequest(int agent, Generation generation, wire::KvRequest request);
  /// The store begins anew with this assignment. KvReset to the agents is the caller's, then
  /// Release().
  void Reset(std::span<const RankInfo> ranks, Generation generation);
  void OpenMeeting() { store_.OpenMeeting(); }
  /// Answers all that wait for a rank.
  void Release();
  /// The job is over: nobody has a rank any more.
  void Close();

  /// A worker is started on that slot, or has ended there.
  void Admit(std::string_view host, int local_rank);
  void Forget(std::string_view host, int local_rank);
  void OnRoom(int agent) { sender_.OnRoom(agent); }
  void DropAgent(int agent);

  const KvStore& store() const { return store_; }
  uint64_t refused_questions() const { return store_.refused_questions() + ranks_.refused(); }

 private:
  void Send(std::vector<RankAnswer> answers);
  void TellMet(const KvQuestion& question);
  void TellConnected(const KvQuestion& question);

  const bool is_held_;
  const bool is_meeting_held_;
  Handlers handlers_;
  KvSender sender_;
  KvStore store_;
  RankService ranks_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_KV_H_
