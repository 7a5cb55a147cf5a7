// SPDX-License-Identifier: Apache-2.0
// Runs `hvdray up` and `hvdray down`: applies the decisions of their driver over the agents of the
// cluster's hosts. A command on a node is the only worker of a generation there. Decides nothing.
#ifndef HVDRAY_CLUSTER_UP_CLUSTER_RUN_H_
#define HVDRAY_CLUSTER_UP_CLUSTER_RUN_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "cluster/transport/transport.h"
#include "cluster/up/cluster_driver.h"
#include "cluster/up/cluster_events.h"
#include "cluster/up/node_display.h"
#include "cluster/up/node_script.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/driver_loop.h"
#include "launcher/engine/signals.h"
#include "launcher/engine/sync_plan.h"

namespace hvdray {

/// What a ClusterRun needs besides its driver.
struct ClusterRunOptions {
  std::vector<ScriptPlace> places;             ///< One per node, in the driver's order.
  std::span<const SyncedDirectory> files;      ///< The file mounts; outlive the run.
  std::span<const SyncedDirectory> bootstrap;  ///< For the head's autoscaler; outlive the run.
  std::string build;
  std::string job_id;
  bool is_plain = false;  ///< Commands' output is printed without colours: no terminal shows it.
  ClusterEvents* events = nullptr;  ///< --events; outlives the run. nullptr: not asked for.
  NodeDisplay* display = nullptr;   ///< Outlives the run. nullptr: no terminal shows it.
  /// Prints text, whole lines.
  std::function<void(std::string_view text)> print;
  std::function<void(const Status& why)> report_error;
  /// Asks the user without blocking the loop; calls back from the loop. Outlives the run.
  std::function<void(const std::string& question, std::function<void(bool is_yes)>)> ask;
};

/// Owns the agents. Threads: the loop's.
class ClusterRun final : private AgentSet::Owner {
 public:
  /// Loop, transport and driver outlive it. The transport starts agents with --keep-processes.
  ClusterRun(Loop& loop, Transport& transport, ClusterDriver& driver, ClusterRunOptions options);
  ~ClusterRun();

  struct Outcome {
    int exit_code = 0;
    int signo = 0;  ///< Not 0: interrupted by it. What nodes have recorded stays.
  };
  /// Runs the loop until the driver has finished and the agents are gone. Handles SIGINT, SIGTERM,
  /// SIGQUIT, SIGHUP and SIGTSTP meanwhile. Call once.
  Outcome Run();

 private:
  struct Node;
  using Driving = DriverLoop<ClusterRun, ClusterDriver, ClusterEvent, ClusterEffect>;
  friend Driving;

  // For DriverLoop.
  void OnFact(const ClusterEvent& fact, TimePoint now);
  void OnEffect(const ClusterEffect& effect, TimePoint now);
  void OnLate(const ClusterEvent& /*fact*/) {}
  void OnIdle() {}
  void Apply(const cluster_effect::LogIn& effect);
  void Apply(const cluster_effect::Run& effect);
  void Apply(const cluster_effect::Say& effect);
  void Apply(const cluster_effect::ReportError& effect);
  void Apply(const cluster_effect::Ask& effect);
  void Apply(const cluster_effect::Note& /*effect*/) {}  // for observers
  void Apply(const cluster_effect::Finish& effect);

  void OnReady(int agent, const wire::HostFacts& facts) override;
  void OnLost(int agent, Status why) override;
  void OnMessage(int agent, wire::Message&& message) override;
  void OnNoise(int agent, ByteView line) override;

  SignalHandlers MakeSignalHandlers();
  /// The node whose present agent that is; nullptr: it was given up.
  Node* NodeOf(int agent);
  void RunScript(Node& node, const NodeTask& task);
  void CopyFiles(Node& node, std::span<const SyncedDirectory> files);
  void OnOutput(Node& node, const wire::Output& output);
  void OnEnded(Node& node);
  void EndTask(Node& node, TaskResult result);
  void Close();

  Loop& loop_;
  const ClusterRunOptions options_;
  std::vector<std::unique_ptr<Node>> nodes_;
  AgentSet agents_;
  Driving driving_;
  ClusterDriver& driver_;
  Outcome outcome_;
  bool is_closing_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_CLUSTER_RUN_H_
