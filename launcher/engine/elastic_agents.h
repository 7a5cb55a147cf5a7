// The agents of an elastic job, by the hosts of its driver: dialled, greeted, given the folders of
// --sync, and released with their last output. A host may have one agent after the other; what
// comes from a former one is told apart here. Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_AGENTS_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_AGENTS_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/loop.h"
#include "cluster/transport.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/elastic_host_table.h"
#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/folder_sync.h"

namespace hvdray {

/// Called from the loop, but on_left.
struct ElasticAgentsHandlers {
  /// It takes workers now.
  std::function<void(int host, const wire::HostFacts& facts)> on_ready;
  /// It begins to take a copy of the folders of --sync.
  std::function<void(int host)> on_copying;
  /// It has its copy of the folders of --sync; before on_ready.
  std::function<void(int host, const SyncStats& stats)> on_synced;
  /// It could not be started or greeted, its link is gone, or it broke the rules.
  std::function<void(int host, Status why)> on_lost;
  /// The host's agent `agent` is not its agent any more: before on_lost, and within Release(). Its
  /// last output may still come.
  std::function<void(int agent)> on_left;
  /// Nothing comes from that agent any more.
  std::function<void(int agent)> on_gone;
  /// As in AgentSetHandlers.
  std::function<void(int agent)> on_control_room;
  /// host: -1 for an agent that was released.
  std::function<void(int agent, int host, wire::Message&& message)> on_message;
  /// A line for the person.
  std::function<void(std::string line)> on_noise;
  /// Nothing is waited for any more, after EndReleases().
  std::function<void()> on_released;
};

/// Threads: the loop's.
class ElasticAgents {
 public:
  /// All outlive it.
  ElasticAgents(Loop& loop, Transport& transport, ElasticHosts ways, const LaunchPlan& plan,
                ElasticAgentsHandlers handlers);

  /// Dials the host anew; answered by on_ready or on_lost.
  void Connect(int host, const HostSlots& slots);
  /// Its agent is told to end what is left there; its output is waited for, a while; then Bye.
  void Release(int host, Generation newest);
  /// Calls on_released once all releases are through.
  void EndReleases();
  /// As AgentSet: Bye, and the host counts as lost.
  void Reject(int agent, Status why) { agents_.Reject(agent, std::move(why)); }
  /// Dropped where the host has no agent.
  void SendTo(int host, wire::Message message);

  AgentSet& agents() { return agents_; }
  ElasticHostTable& hosts() { return hosts_; }
  ElasticNics& nics() { return nics_; }
  /// Of agents of this machine that were lost.
  const std::set<uint32_t>& lost_here() const { return lost_here_; }

 private:
  AgentSetHandlers MakeHandlers();
  void OnHello(int agent, const wire::HostFacts& facts);
  void OnMessage(int agent, wire::Message&& message);
  void OnLost(int agent, Status why);
  void Copy(int host);
  bool OnCopyMessage(int host, const wire::Message& message);
  void BeReady(int host);
  void EndRelease(int agent);
  void CheckReleased();

  Loop& loop_;
  const ElasticHosts ways_;
  const LaunchPlan& plan_;
  ElasticAgentsHandlers handlers_;
  AgentSet agents_;
  ElasticHostTable hosts_;
  ElasticNics nics_;
  std::map<int, std::unique_ptr<FolderSync>> copies_;  // By host, while they run.
  std::map<int, Watch> released_;                      // Agents whose last output is waited for.
  std::set<uint32_t> lost_here_;
  bool is_ending_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_AGENTS_H_
