// SPDX-License-Identifier: Apache-2.0
// What the drivers of `hvdray up` and `hvdray down` share: facts in, effects out, the log-in with
// its retries. Pure: no I/O, no clock.
#ifndef HVDRAY_LAUNCHER_CLUSTER_CLUSTER_DRIVER_H_
#define HVDRAY_LAUNCHER_CLUSTER_CLUSTER_DRIVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/types.h"
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
  Status why;  ///< Not ok: it could not be done.
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
struct Done {
  int node = 0;
  TaskResult result;
};
/// The user's answer to effect Ask.
struct Answer {
  bool is_yes = false;
};
}  // namespace cluster_event
using ClusterEvent = std::variant<cluster_event::LoggedIn, cluster_event::Lost, cluster_event::Done,
                                  cluster_event::Answer, event::Tick>;

// Decisions.
namespace cluster_effect {
/// Start an agent there, again if need be.
struct LogIn {
  int node = 0;
};
struct Run {
  int node = 0;
  NodeTask task;
};
/// A line of text for the user, without its newline.
struct Say {
  std::string text;
};
/// The same, about something that went wrong.
struct Complain {
  Status why;
};
struct Ask {
  std::string question;
};
struct Finish {
  int exit_code = 0;
};
}  // namespace cluster_effect
using ClusterEffect =
    std::variant<cluster_effect::LogIn, cluster_effect::Run, cluster_effect::Say,
                 cluster_effect::Complain, cluster_effect::Ask, cluster_effect::Finish>;
using ClusterEffects = std::vector<ClusterEffect>;

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
};

/// When to log in to one node again. A host that is just booting refuses, is silent or has no name
/// yet; a wrong key or user stays wrong.
class LogInRetry {
 public:
  LogInRetry(TimePoint began, Duration limit) : until_(began + limit) {}
  /// A try failed for `why`. The time of the next one, or nullopt: `why` is final, or the time is
  /// up.
  std::optional<TimePoint> After(const Status& why, TimePoint now);
  /// "connection refused; trying again, 43 s left"; the reason is classified.
  static std::string Text(const Status& why, Duration left);
  TimePoint until() const { return until_; }
  int tries() const { return tries_; }

 private:
  TimePoint until_;
  int tries_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_CLUSTER_CLUSTER_DRIVER_H_
