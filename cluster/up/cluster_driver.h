// SPDX-License-Identifier: Apache-2.0
// What the drivers of `hvdray up` and `hvdray down` share: facts in, effects out, the log-in with
// its retries, and what they tell of each node. Pure: no I/O, no clock.
#ifndef HVDRAY_CLUSTER_UP_CLUSTER_DRIVER_H_
#define HVDRAY_CLUSTER_UP_CLUSTER_DRIVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "cluster/up/node_script.h"
#include "cluster/up/node_steps.h"
#include "launcher/driver/events.h"

namespace hvdray {

/// Something to do on a node. A node does one at a time.
struct NodeTask {
  enum class Kind : uint8_t {
    kScript,     ///< A call of the node script (node_script.h); its answer comes back.
    kFiles,      ///< Copy the file mounts: changed files only.
    kBootstrap,  ///< The same with the files of the head's autoscaler.
  };
  Kind kind = Kind::kScript;
  std::string verb;
  std::vector<std::string> arguments;
  std::string input;      ///< For its stdin. May be secret.
  bool is_shown = false;  ///< A user's command: its output is shown as it comes.
  bool operator==(const NodeTask&) const = default;
};

/// How a task ended.
struct TaskResult {
  int exit_code = 0;   ///< 128+n after signal n.
  std::string output;  ///< stdout of a task that is not shown.
  std::vector<std::string> last_lines;
  std::optional<SyncStats> copied;  ///< By a task kFiles.
  Status why;                       ///< Not ok: it could not be done.
  bool is_success() const { return why.ok() && exit_code == 0; }
};

/// "exit code 3", "killed by signal 9", or why it could not be done.
std::string EndText(const TaskResult& result);
/// "1 process", "3 processes".
std::string ProcessesText(int count);
/// The error of a task of our own, which says on stderr what went wrong.
Status FailureOf(std::string_view what, const TaskResult& result);

// Facts.
namespace cluster_event {
/// The node's agent is there.
struct LoggedIn {
  int node = 0;
};
/// It did not start, or its link is lost. A task in progress has ended with it.
struct Lost {
  int node = 0;
  Status why;
};
/// The node's task, of effect Run, has ended.
struct Done {
  int node = 0;
  TaskResult result;
};
/// The GCS that its start command starts takes connections; the command goes on.
struct Listening {
  int node = 0;
};
/// The user's answer to effect Ask.
struct Answer {
  bool is_yes = false;
};
}  // namespace cluster_event
using ClusterEvent = std::variant<cluster_event::LoggedIn, cluster_event::Lost, cluster_event::Done,
                                  cluster_event::Listening, cluster_event::Answer, event::Tick>;

/// How a step of a node ended.
struct StepOutcome {
  StepKind kind = StepKind::kSetup;
  int number = 1;  ///< As in NodeStep.
  int count = 1;
  std::string hash;
  int exit_code = 0;  ///< Of its command. 0 with a `why`: it did not run, or its end is not known.
  Status why;         ///< Why it failed.
  Duration took{};
  std::optional<SyncStats> copied;  ///< Of kFiles.
};

/// What a driver found that a node needs.
struct NodePlan {
  int node = 0;
  std::string_view need;        ///< "keep", "create", "change", "end"
  int steps = 0;                ///< Of the set-up that will run.
  bool is_ray_started = false;  ///< Ray will be started there, its former one ended before.
  int processes = 0;            ///< Of this cluster's Ray that run there now.
};

// Notes for --events, besides facts and decisions; no action follows.
namespace cluster_note {
/// The log-in failed for now; it is tried again for `left`.
struct Waiting {
  int node = 0;
  Status why;
  Duration left{};
};
/// All nodes that could be looked at.
struct Planned {
  std::vector<NodePlan> nodes;
};
/// A step of its set-up begins.
struct StepStarted {
  int node = 0;
  NodeStep step;
};
/// The step that began last has ended, well or not.
struct StepDone {
  int node = 0;
  StepOutcome outcome;
};
/// The processes of its Ray were ended.
struct RayStopped {
  int node = 0;
  int processes = 0;
};
/// Its start commands have ended, and a raylet runs.
struct RayStarted {
  int node = 0;
};
/// It is part of the cluster, the head as Ray's head. `is_started`: by this run.
struct NodeUp {
  int node = 0;
  bool is_started = false;
};
/// Nothing of the cluster is left on it.
struct NodeEnded {
  int node = 0;
};
/// The driver has given the node up.
struct NodeFailed {
  int node = 0;
  Status why;
};
}  // namespace cluster_note
using ClusterNote =
    std::variant<cluster_note::Waiting, cluster_note::Planned, cluster_note::StepStarted,
                 cluster_note::StepDone, cluster_note::RayStopped, cluster_note::RayStarted,
                 cluster_note::NodeUp, cluster_note::NodeEnded, cluster_note::NodeFailed>;

// Decisions.
namespace cluster_effect {
/// Start an agent there, again if need be.
struct LogIn {
  int node = 0;
};
/// Run a task there; answered by Done, or Lost.
struct Run {
  int node = 0;
  NodeTask task;
};
/// A line of text for the user, without its newline.
struct Say {
  std::string text;
  bool is_step = false;  ///< What a board of the nodes (node_board.h) shows, too.
};
/// The same, about something that went wrong.
struct ReportError {
  Status why;
};
/// Ask the user; answered by Answer.
struct Ask {
  std::string question;  ///< "End cluster test? [y/N] "
};
/// Something for --events and the board of the nodes.
struct Note {
  ClusterNote what;
};
/// The last effect: close all links to nodes and end with `exit_code`.
struct Finish {
  int exit_code = 0;
};
}  // namespace cluster_effect
using ClusterEffect = std::variant<cluster_effect::LogIn, cluster_effect::Run, cluster_effect::Say,
                                   cluster_effect::ReportError, cluster_effect::Ask,
                                   cluster_effect::Note, cluster_effect::Finish>;
using ClusterEffects = std::vector<ClusterEffect>;

/// In the order in which a user wants to see nodes.
enum class NodePhase : uint8_t { kAtWork, kFailed, kWaiting, kDone };

/// What became of a node and what it cost: a row of the table that ends `up`, and of --report.
struct NodeRow {
  std::string address;
  bool is_head = false;
  std::string_view need;  ///< As in NodePlan; empty before the plan.
  std::string_view state;
  NodePhase phase = NodePhase::kAtWork;
  int processes = 0;             ///< Of the cluster's Ray, when it was looked at.
  std::optional<Duration> boot;  ///< From the order of the machine until it runs; on-prem: none.
  std::optional<Duration> log_in;
  std::optional<Duration> set_up;
  std::optional<Duration> join;    ///< From the end of the set-up, waiting for the head included.
  std::optional<Duration> end;     ///< `down`: from the order until nothing is left.
  std::vector<StepOutcome> steps;  ///< Those that ran.
  std::optional<SyncStats> copied;
  std::optional<RayVersions> versions;
  Status why;  ///< Not ok: it failed.
};

/// Decides what `up` or `down` does next. Threads: one.
class ClusterDriver {
 public:
  virtual ~ClusterDriver() = default;
  /// Call once, first.
  virtual ClusterEffects Begin(TimePoint now) = 0;
  /// Feeds one fact. `now` never goes back. Nothing follows effect Finish.
  virtual ClusterEffects Handle(const ClusterEvent& event, TimePoint now) = 0;
  /// Earliest moment at which a Tick may have work; nullopt: only a new fact changes anything.
  virtual std::optional<TimePoint> NextDeadline() const = 0;
  /// It has begun to change something.
  virtual bool is_working() const = 0;
  /// One for each node, in order, as of the last fact.
  virtual std::vector<NodeRow> Rows() const = 0;
};

/// Adds the effects of one node.
class NodeEffects {
 public:
  /// `effects` outlives it.
  NodeEffects(ClusterEffects& effects, int node, std::string address)
      : effects_(&effects), node_(node), address_(std::move(address)) {}
  int node() const { return node_; }
  const std::string& address() const { return address_; }
  void LogIn() { effects_->emplace_back(cluster_effect::LogIn{node_}); }
  void Run(NodeTask task);
  void Call(std::string verb, std::vector<std::string> arguments = {});
  void Say(std::string_view text) { SayLine(text, /*is_step=*/false); }
  /// As Say, of what a board of the nodes shows, too.
  void SayStep(std::string_view text) { SayLine(text, /*is_step=*/true); }
  void ReportError(const Status& why);
  void Note(ClusterNote what) { effects_->emplace_back(cluster_effect::Note{std::move(what)}); }

 private:
  void SayLine(std::string_view text, bool is_step);

  ClusterEffects* effects_;
  int node_;
  std::string address_;
};

/// Logs in to one node, and again as long as that may help: a host that is just booting refuses, is
/// silent or has no name yet; a wrong key or user stays wrong.
class NodeLogIn {
 public:
  void Begin(NodeEffects& effects, TimePoint now, Duration limit);
  /// A try failed for `why`. False: that is final, or the time is up.
  bool OnFailed(NodeEffects& effects, const Status& why, TimePoint now);
  void OnTick(NodeEffects& effects, TimePoint now);
  /// Of the next try, while one is due.
  const std::optional<TimePoint>& next() const { return next_; }
  /// How many failed for a reason that may pass.
  int tries() const { return tries_; }

 private:
  TimePoint until_{};
  std::optional<TimePoint> next_;
  int tries_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_CLUSTER_DRIVER_H_
