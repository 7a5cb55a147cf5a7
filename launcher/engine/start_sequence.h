// SPDX-License-Identifier: Apache-2.0
// The steps before the workers of a generation start: choose interfaces, copy directories (--sync),
// probe neighbours. One after the other, the last two before the first generation only.
#ifndef HVDRAY_LAUNCHER_ENGINE_START_SEQUENCE_H_
#define HVDRAY_LAUNCHER_ENGINE_START_SEQUENCE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "launcher/engine/directory_sync.h"
#include "launcher/engine/host_table.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/reach_probe.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// Runs the steps; notes their results in the host table. Threads: the loop's.
class StartSequence {
 public:
  /// Called from the loop; each may call Drop().
  class Owner {
   public:
    /// Sends a message of the current generation to the host's agent.
    virtual void SendStep(int host, wire::Body body) = 0;
    /// A step failed on that host; the owner calls Drop().
    virtual void OnStepFailed(int host, Status why) = 0;
    /// The copy begins or ends.
    virtual void OnCopying(bool is_active) = 0;
    virtual void OnSynced(int host, const SyncStats& stats) = 0;
    /// The workers may start.
    virtual void OnMayStart() = 0;

   protected:
    ~Owner() = default;
  };

  /// Loop, trace, plan, hosts and owner outlive it. `plan` is read when Begin() is called and
  /// later: hosts, spread, synced, worker_place, spec.network_interfaces and spec.start_timeout.
  /// `hosts`: one for each of plan.hosts, in that order.
  StartSequence(Loop& loop, Trace& trace, const LaunchPlan& plan, HostTable& hosts, Owner& owner)
      : loop_(loop), trace_(trace), plan_(plan), hosts_(hosts), owner_(owner) {}

  /// All hosts have reported their facts.
  void Begin(Generation generation);
  /// True: the message belongs to a present or former step and needs no other handling.
  bool OnMessage(int host, const wire::Message& message);
  /// Cancels the remaining steps. No effect when idle.
  void Drop();

 private:
  Status ChooseNics();
  void Copy(const std::vector<int>& hosts);
  void OnHostCopied(int host, const SyncStats& stats, const std::vector<std::string>& roots);
  void OnCopied();
  void Probe();
  void OnProbed(std::optional<ProbeFailure> failure);

  Loop& loop_;
  Trace& trace_;
  const LaunchPlan& plan_;
  HostTable& hosts_;
  Owner& owner_;
  Generation generation_ = 0;
  std::unique_ptr<DirectorySync> sync_;  // while it runs
  std::unique_ptr<ReachProbe> probe_;    // while it runs
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_START_SEQUENCE_H_
