// SPDX-License-Identifier: Apache-2.0
// A cluster file given to a command, and the way to the machines of a cluster that runs already.
#ifndef HVDRAY_CLUSTER_ACCESS_CLUSTER_ACCESS_H_
#define HVDRAY_CLUSTER_ACCESS_CLUSTER_ACCESS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/file/cluster_spec.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_members.h"
#include "cluster/transport/foreground_process.h"
#include "cluster/transport/remote_command.h"
#include "launcher/job/options_resolver.h"
#include "launcher/plan/cluster_nodes.h"

namespace hvdray {

/// A cluster file, and the options of the command that took it.
struct ClusterAccess {
  std::string command;  ///< "exec": for messages.
  std::string path;     ///< As given.
  std::string words;    ///< The file and --cluster-name, as a user types them for other commands.
  ClusterSpec file;     ///< With the name of --cluster-name.
  JobSpec spec;         ///< How to log in, from the file and from options.
  ClusterNodes nodes;   ///< After FindNodes().
  std::optional<std::vector<RayMember>> members;  ///< After FindMembers().
};

/// Whether a word of `status`, `logs` or `stop` means a cluster file: it ends in .yaml or .yml.
bool IsClusterFile(std::string_view word);

/// Reads the file that the first argument of `command` names, prints its warnings, and sets the
/// log's level. Errors: those of ReadClusterFile().
Result<ClusterAccess> OpenClusterFile(std::string_view command, const CommandRequest& request);

// Where the machines are. The one place to ask.

/// Learns them, from the file or with one question to its provider, and with them the key that logs
/// in, if neither file nor options have one. To be called before what follows, and again for news.
/// Blocks. Errors: those of FindClusterNodes().
Status FindNodes(ClusterAccess& access);
/// The head. Errors: nodes.head_status.
Result<ClusterNode> ResolveHead(const ClusterAccess& access);
/// What is known of how Ray calls the machines: what `up` noted on the head, else the addresses
/// that their names have here. Asks once; an answer that does not come is an empty one. Blocks.
const std::vector<RayMember>& FindMembers(ClusterAccess& access);
/// The machine with this address, in the cluster's network, from outside or for Ray, with this id
/// of the cloud, or whose Ray node has this id; the head for an empty word. Blocks. Errors: also
/// kUsage.
Result<ClusterNode> ResolveNode(ClusterAccess& access, const std::string& word);

// Running commands there.

/// Whether the user sees what we print and types what we read.
bool IsAtTerminal();

/// --tmux, --screen or neither. Errors: kUsage for both.
Result<TerminalKeeper> KeeperOf(const CommandRequest& request);
/// The values of --port-forward.
std::vector<std::string> Ports(const CommandRequest& request);

/// Sets the container of --run-env, if the command runs in one. Errors: kUsage for `docker` without
/// a container in the file.
Status SetContainer(const ClusterAccess& access, const CommandRequest& request,
                    RemoteCommand* command);

/// Runs `command` on `node` with our stdin, stdout and stderr, and
/// returns its exit code; on this machine without SSH. `ports`: the values of --port-forward.
/// Blocks. Errors: kUsage for a wrong port, those of RunOverSsh().
Result<int> RunOnHost(const ClusterAccess& access, const ClusterNode& node,
                      const RemoteCommand& command, const std::vector<std::string>& ports = {});

/// Runs shell text on `node` as the request's --tmux, --screen, --run-env and --port-forward say,
/// with a terminal if we have one. Errors: those of these options and of RunOnHost().
Result<int> RunText(const ClusterAccess& access, const CommandRequest& request,
                    const ClusterNode& node, const std::string& text);

enum class PutFor : uint8_t {
  kUser,
  kJob,  ///< Directories that are made for it are private, and those of old jobs are removed.
};

/// Copies a file of this machine to `target` on `node` or in its container: whole, with its mode,
/// or not at all. `target`: absolute, or relative to the home directory there; an existing file is
/// replaced. `name_within`: its name in `target`, where that is a directory; empty: an error then.
/// Errors: kFileUnreadable, kSyncFailed with what the host said, those of
/// RunOverSshForOutput().
Status PutFile(const ClusterAccess& access, const ClusterNode& node, const RemoteCommand& place,
               const std::string& path, const std::string& target, PutFor purpose,
               const std::string& name_within = {});

/// How to reach the Ray on the head. `link` must outlive the access. Calls FindNodes(). Blocks.
/// Errors: those of FindNodes() and ResolveHead(); kHostUnreachable when no Ray answers there, with
/// what to do; those of ResolveRayAccess().
Result<RayAccess> FindRayOnHead(ClusterAccess& access, HeadLink& link);

/// Whether `node` is reached without SSH.
bool IsHere(const ClusterAccess& access, const ClusterNode& node);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_ACCESS_CLUSTER_ACCESS_H_
