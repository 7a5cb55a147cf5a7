// SPDX-License-Identifier: Apache-2.0
// What the agents of each kind of job have in common: their links, the table of their hosts, the
// store that their workers meet at, the client's objects on the way to them.
#ifndef HVDRAY_LAUNCHER_ENGINE_JOB_AGENTS_H_
#define HVDRAY_LAUNCHER_ENGINE_JOB_AGENTS_H_

#include <cstdint>
#include <set>
#include <string_view>

#include "launcher/engine/agent_set.h"
#include "launcher/engine/host_table.h"
#include "launcher/engine/kv_bridge.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/object_feed.h"

namespace hvdray {

/// The base of FixedAgents and ElasticAgents. Threads: the loop's.
class JobAgents : protected AgentSet::Owner {
 public:
  /// What is the same for each kind; called from the loop.
  class Listener {
   public:
    /// HasOutputRoom() of a link is true again.
    virtual void OnOutputRoom() = 0;
    /// A line for the user.
    virtual void OnNoise(std::string_view line) = 0;

   protected:
    ~Listener() = default;
  };

  AgentSet& links() { return agents_; }
  HostTable& hosts() { return hosts_; }
  KvBridge& kv() { return kv_; }
  /// A host gets all of them before its first worker, and what comes later in order with what else
  /// is sent to it.
  ObjectFeed& objects() { return objects_; }
  /// Pids of lost agents on this machine, for EndLeftovers(); 0: it had not said hello.
  const std::set<uint32_t>& lost_here() const { return lost_here_; }

 protected:
  /// Of a fixed job, the agents are those of plan.hosts. `hold`, `workers`: see KvBridge. Loop,
  /// transport and listener outlive it.
  JobAgents(Loop& loop, Transport& transport, const LaunchPlan& plan, ObjectFeed::Hosts kind,
            Listener& listener, KvBridge::Hold hold = KvBridge::Hold::kNothing,
            KvBridge::Listener* workers = nullptr);
  ~JobAgents() = default;

  void OnControlRoom(int agent) final { kv_.OnRoom(agent); }

  Listener& listener_;
  AgentSet agents_;
  HostTable hosts_;
  KvBridge kv_;
  ObjectFeed objects_;
  std::set<uint32_t> lost_here_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_AGENTS_H_
