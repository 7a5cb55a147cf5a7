// SPDX-License-Identifier: Apache-2.0
// The shell program that does everything on a node of a cluster (node_script.sh), one verb a call,
// and what it prints. Pure. It runs as a command of an agent with --keep-processes (docs/adr/0020).
//
// A node keeps, below ~/.hvdray/clusters/NAME: `token`, the cluster's Ray token, and per address of
// a node ADDRESS/
//   steps        the hashes of the steps done, one a line
//   head         the head that its Ray joined
//   container    the engine of the container, its id, and the hash of what it was started with
//   lease        its end and what follows then: stay or poweroff
//   members      of a head: the nodes of its Ray, "ADDRESS RAYS_ID RAYS_ADDRESS" a line
//   lease-watch  this script, for the process that waits for that end; its pid is in `watcher`
// Every process of the node's Ray has HVDRAY_NODE=NAME/ADDRESS in its environment or descends from
// one that has: so `down` ends only this cluster's Ray.
#ifndef HVDRAY_CLUSTER_UP_NODE_SCRIPT_H_
#define HVDRAY_CLUSTER_UP_NODE_SCRIPT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// How the user's commands are run; kLogin, as Ray does: an interactive login bash, so that
/// ~/.bashrc (conda, for example) counts.
enum class ShellKind : uint8_t { kLogin, kPlain };

/// The node that a call is about.
struct ScriptPlace {
  std::string cluster;
  std::string node;  ///< Its address as the cluster file has it.
  std::string head;  ///< The address that it joins; empty for the head.
  ShellKind shell = ShellKind::kLogin;
  /// The container that its commands and its Ray run in, and the program that makes it ("docker",
  /// "podman"). Both empty: none.
  std::string engine;
  std::string container;
};

/// The command line of one call: verb and its arguments.
///   survey [claim WHO|await]  what the node has; see ParseSurvey(). claim: for an `up` of WHO,
///                       unless another one, whose agent still runs, has done so; await: only looks
///                       whether one has. Both give the agent of an up that was killed 10 s to end
///   step INDEX HASH LINE   cuts the record to INDEX hashes, runs LINE in the container if there is
///                       one, then appends HASH
///   init INDEX HASH LINE   the same on the host even with a container
///   start INDEX HASH LINE [NAME=VALUE…]   as step, with these and Ray's settings of this cluster
///                       in the environment. On a head without a container it also prints
///                       kListening, once its GCS takes connections
///   container INDEX HASH keep|force CONFIG always|missing detect|no detect|no IMAGE OPTIONS
///             SOURCE TARGET…   sees that the container runs, started with CONFIG (a hash of the
///                       rest): pulls always or a missing image, detects the NVIDIA runtime and a
///                       size of /dev/shm. OPTIONS: shell text. Mounts SOURCE (below the home) at
///                       TARGET (absolute or ~/…). force: also where it runs already
///   mark INDEX HASH [FILE…]   as init, but without a command; FILEs below the home directory are
///                       copied to the same place in the container, if there is one
///   token keep|set      reads a token from stdin and stores it; keep: unless there is one. Prints
///                       the stored one; see ParseToken()
///   versions BEFORE PROGRAM   of the Ray that PROGRAM, a word of the shell, is after the lines
///                       BEFORE, and of its Python; see ParseVersions()
///   stop                ends the node's Ray; see ParseStopped()
///   end                 and its container and its lease
///   lease END|0 stay|poweroff   lets the node end itself at END (lease.h), as `end` does, and then
///                       power off; 0: takes that back
///   nodes               on the head: all nodes that Ray has; see ParseJoinedNodes()
///   members LINE…       on the head: notes which node runs on which machine, for `survey`
///   drain SECONDS       on the head: stops all of Ray's jobs and waits until they have ended, so
///                       long at most; see ParseDrained()
std::vector<std::string> ScriptCommand(const ScriptPlace& place, std::string_view verb,
                                       const std::vector<std::string>& arguments = {});

/// A line of `start` that is not the user's.
inline constexpr std::string_view kListening = "@hvdray listening\n";

/// Where the dashboard of a head listens, by its process.
struct RayDashboard {
  std::string host;  ///< Of the head: an address, "localhost", or all of them: "0.0.0.0", "::".
  uint16_t port = 0;
  bool IsOnLoopback() const;
  bool IsEverywhere() const;
  bool IsAtOneAddress() const { return !IsOnLoopback() && !IsEverywhere(); }
  /// An address at which the head itself reaches it.
  std::string ReachedAt() const;
};

/// What `survey` found.
struct NodeSurvey {
  std::vector<std::string> record;  ///< Hashes of the steps done, in order.
  int processes = 0;                ///< Of this cluster's Ray on this node.
  int containers = 0;               ///< Of this node, running or not.
  std::string container;            ///< CONFIG of the one that the record is about, if it runs.
  bool has_gcs = false;
  std::optional<RayDashboard> dashboard;  ///< nullopt: none was found.
  bool has_no_dashboard = false;          ///< Its Ray was started without one.
  /// Of other clusters, where none of this one's was found: port -> cluster.
  std::map<uint16_t, std::string> others;
  std::string ray_node;     ///< Ray's id of its raylet; empty: none runs.
  std::string address;      ///< That raylet's address.
  std::string joined_head;  ///< The head that it was started for; empty: it is a head.
  int64_t lease = 0;        ///< Its end; 0: none.
  bool is_lease_watched = false;
  bool has_lease_ended = false;      ///< And nobody has set or taken back one since.
  std::string at_work;               ///< The other `up` that has claimed it, if asked; empty: none.
  std::vector<std::string> members;  ///< Of a head: lines that the last `up` noted.
};
NodeSurvey ParseSurvey(std::string_view output);

/// Ray's and Python's version on a node.
struct RayVersions {
  std::string ray;  ///< Empty: no Ray was found.
  std::string python;
  bool operator==(const RayVersions&) const = default;
};
/// nullopt: the answer is incomplete.
std::optional<RayVersions> ParseVersions(std::string_view output);

/// Empty: there is none in it.
std::string ParseToken(std::string_view output);

/// What `stop` did.
struct StopCount {
  int found = 0;  ///< Processes of this Ray before.
  int left = 0;   ///< That could not be ended.
};
std::optional<StopCount> ParseStopped(std::string_view output);

/// What `drain` did.
struct DrainCount {
  int jobs = 0;         ///< That ran or waited.
  int left = 0;         ///< That still do.
  std::string problem;  ///< Not empty: Ray gave no answer, and why.
};
DrainCount ParseDrained(std::string_view output);

/// What the head's Ray knows of its nodes.
struct JoinedNodes {
  std::string problem;                       ///< Not empty: it gave no answer, and why.
  bool is_without_dashboard = false;         ///< So nobody can be asked.
  std::map<std::string, std::string> alive;  ///< Ray's id of each living node, and its address.
};
JoinedNodes ParseJoinedNodes(std::string_view output);

/// Names that fit into paths and shell words: letters, digits, and . _ - inside.
bool IsPlainClusterName(std::string_view name);

// Files beside this one as of this build.

std::string_view NodeScript();      ///< node_script.sh
std::string_view DashboardCalls();  ///< dashboard_calls.py

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_NODE_SCRIPT_H_
