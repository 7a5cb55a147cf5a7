// SPDX-License-Identifier: Apache-2.0
// The agents of an elastic job, by host of its driver: dials and greets them, copies the
// directories of --sync, and releases them after their last output. A host may have several agents,
// one after the other; this class keeps messages of a former one apart. Decides nothing about
// workers.
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
#include "launcher/engine/directory_sync.h"
#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/host_table.h"

namespace hvdray {

/// All but on_left are called from the loop.
struct ElasticAgentsHandlers {
  /// The host accepts workers now.
  std::function<void(int host, const wire::HostFacts& facts)> on_ready;
  /// The copy of the --sync directories to that host begins.
  std::function<void(int host)> on_copying;
  /// The host has its copy of the --sync directories; before on_ready.
  std::function<void(int host, const SyncStats& stats)> on_synced;
  /// The agent could not be started or greeted, its link is gone, or it violated the protocol.
  std::function<void(int host, Status why)> on_lost;
  /// `agent` no longer belongs to its host: before on_lost, and from within Release(). Its last
  /// output may still arrive.
  std::function<void(int agent)> on_left;
  /// Nothing more will arrive from that agent.
  std::function<void(int agent)> on_gone;
  /// As in AgentSetHandlers.
  std::function<void(int agent)> on_control_room;
  /// `host`: -1 for a released agent.
  std::function<void(int agent, int host, wire::Message&& message)> on_message;
  /// A line for the user.
  std::function<void(std::string line)> on_noise;
  /// After EndReleases(): all releases are complete.
  std::function<void()> on_released;
};

/// Threads: the loop's.
/// Owns the agents, the host table and running copies.
class ElasticAgents {
 public:
  /// Loop, transport and plan outlive it.
  ElasticAgents(Loop& loop, Transport& transport, ElasticHosts ways, const LaunchPlan& plan,
                ElasticAgentsHandlers handlers);

  /// Dials the host, with a new agent; answered by on_ready or on_lost.
  void Connect(int host, const HostSlots& slots);
  /// Tells the host's agent to end what is left there, waits a limited time for its output, then
  /// sends Bye. `newest`: the newest generation with workers.
  void Release(int host, Generation newest);
  /// Calls on_released once all releases are complete.
  void EndReleases();
  /// As AgentSet::Reject(): sends Bye, and the host counts as lost.
  void Reject(int agent, Status why) { agents_.Reject(agent, std::move(why)); }
  /// Drops the message if the host has no agent.
  void SendTo(int host, wire::Message message);

  AgentSet& agents() { return agents_; }
  HostTable& hosts() { return hosts_; }
  ElasticNics& nics() { return nics_; }
  /// Pids of lost agents on this machine, for EndLeftovers().
  const std::set<uint32_t>& lost_here() const { return lost_here_; }

 private:
  AgentSetHandlers MakeHandlers();
  void OnHello(int agent, const wire::HostFacts& facts);
  void OnMessage(int agent, wire::Message&& message);
  void OnLost(int agent, Status why);
  void Copy(int host);
  void BeReady(int host);
  void EndRelease(int agent);
  void CheckReleased();

  Loop& loop_;
  const ElasticHosts ways_;
  const LaunchPlan& plan_;
  ElasticAgentsHandlers handlers_;
  AgentSet agents_;
  HostTable hosts_;
  ElasticNics nics_;
  std::map<int, std::unique_ptr<DirectorySync>> copies_;  // By host, while they run.
  std::map<int, Watch> released_;                         // Agents whose last output is waited for.
  std::set<uint32_t> lost_here_;
  bool is_ending_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_AGENTS_H_
