// SPDX-License-Identifier: Apache-2.0
// The agents of an elastic job, by host of its driver: dials and greets them, copies the
// directories of --sync and the client's objects, and releases them after their last output. A host
// may have several agents, one after the other; this class keeps messages of a former one apart.
// Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_AGENTS_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_AGENTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "launcher/engine/directory_sync.h"
#include "launcher/engine/elastic_hosts.h"
#include "launcher/engine/job_agents.h"
#include "launcher/engine/launcher.h"

namespace hvdray {

/// Threads: the loop's.
/// Owns the agents, the host table and running copies.
class ElasticAgents final : public JobAgents {
 public:
  /// What they tell, from the loop, OnLeft() also from within Release().
  class Owner {
   public:
    /// The host accepts workers now.
    virtual void OnReady(int host, const wire::HostFacts& facts) = 0;
    /// The copy of the --sync directories, or of objects, to that host begins.
    virtual void OnCopying(int host) = 0;
    /// The host has its copy of the --sync directories; before OnReady().
    virtual void OnSynced(int host, const SyncStats& stats) = 0;
    /// The agent could not be started or greeted, its link is gone, or it violated the protocol.
    virtual void OnLost(int host, Status why) = 0;
    /// `agent` no longer belongs to its host: before OnLost(). Its last output may still arrive.
    virtual void OnLeft(int agent) = 0;
    /// `host`: -1 for a released agent.
    virtual void OnMessage(int agent, int host, wire::Message&& message) = 0;
    /// After EndReleases(): all releases are complete.
    virtual void OnReleased() = 0;

   protected:
    ~Owner() = default;
  };

  /// `reach`: with hosts; its hosts and transport, the plan and the others outlive it. `hold`: see
  /// KvBridge.
  ElasticAgents(Loop& loop, const JobReach& reach, const LaunchPlan& plan, KvBridge::Hold hold,
                KvBridge::Listener& workers, Listener& listener, Owner& owner);

  /// Dials the host, with a new agent, unless one is kept from a former job; answered by OnReady(),
  /// maybe at once, or OnLost().
  void Connect(int host, const HostSlots& slots);
  /// Tells the host's agent to end what is left there, waits a limited time for its output, then
  /// sends Bye. `newest`: the newest generation with workers.
  void Release(int host, Generation newest);
  /// Calls OnReleased() once all releases are complete.
  void EndReleases();
  /// The job is over, and another one may come: forgets its hosts, but keeps ready agents.
  void Keep();
  /// Of the agents that are kept, only those of these hosts are needed.
  void KeepOnly(const std::vector<HostSlots>& hosts);
  /// As AgentSet::Reject(): sends Bye, and the host counts as lost.
  void Reject(int agent, Status why) { agents_.Reject(agent, std::move(why)); }
  /// Drops the message if the host has no agent.
  void SendTo(int host, wire::Message message);

  ElasticNics& nics() { return nics_; }

 private:
  void OnReady(int agent, const wire::HostFacts& facts) override;
  void OnMessage(int agent, wire::Message&& message) override;
  void OnLost(int agent, Status why) override;
  void OnNoise(int agent, ByteView line) override;
  void OnOutputRoom(int agent) override;
  void Copy(int host);
  void CopyObjects(int host);
  void BeReady(int host);
  void EndRelease(int agent);
  void GiveUp(const JobHost& host);
  void CheckReleased();

  Loop& loop_;
  ElasticHosts& reach_;
  const LaunchPlan& plan_;
  Owner& owner_;
  ElasticNics nics_;
  std::map<int, std::unique_ptr<DirectorySync>> copies_;  // By host, while they run.
  std::map<int, Watch> released_;                         // Agents whose last output is waited for.
  std::map<std::string, JobHost> kept_;                   // By name: of a former job.
  bool is_ending_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_AGENTS_H_
