// SPDX-License-Identifier: Apache-2.0
// Starts one process: fork, groups, descriptors, exec. Knows no ranks and does not wait for the
// child.
#ifndef HVDRAY_AGENT_SPAWN_H_
#define HVDRAY_AGENT_SPAWN_H_

#include <sys/types.h>

#include <span>
#include <string>

#include "agent/exec_plan.h"
#include "base/fd.h"
#include "wire/message.h"

namespace hvdray {

/// The child writes this to its report pipe if it can't exec; EOF without it means success.
struct ExecFailure {
  wire::ExecStage stage = wire::ExecStage::kNone;
  int error = 0;  ///< errno
  bool operator==(const ExecFailure&) const = default;
};

/// The child's stdin: /dev/null, or a pipe from the agent.
enum class StdinKind : uint8_t { kNull, kPipe };

/// The child's end of its channel, where it has one.
inline constexpr int kChannelFd = 4;

/// What to start. All pointers and descriptors remain the caller's.
struct SpawnRequest {
  const ExecPlan* plan = nullptr;                   ///< With at least one path.
  std::span<const std::string> shared_environment;  ///< "NAME=VALUE", the same for all workers.
  std::span<const std::string> own_environment;     ///< This worker's; shares no name with those.
  StdinKind stdin_kind = StdinKind::kNull;
  int stdin_fd = -1;             ///< The child's stdin in place of stdin_kind's; -1: none.
  bool has_channel = false;      ///< A connected stream socket as descriptor kChannelFd.
  int cgroup_directory_fd = -1;  ///< The cgroup to start the child in (Linux 5.7); -1: none.
  int cgroup_procs_fd = -1;      ///< Its cgroup.procs, for older kernels.
  int pipe_bytes = 0;            ///< Requested size of the output pipes; 0: the kernel's default.
};

/// A child that leads its own process group and is killed when this process dies. The caller reaps
/// it and owns the descriptors.
struct SpawnedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd report;      ///< Non-blocking; for ReadReport().
  UniqueFd stdin_pipe;  ///< Write end; invalid for StdinKind::kNull. Non-blocking, as the next two.
  UniqueFd stdout_pipe;
  UniqueFd stderr_pipe;
  UniqueFd channel;  ///< Our end; invalid without one.
};

/// What a future child gets of its own. Close-on-exec.
struct ChildEnds {
  UniqueFd stdin_fd;  ///< Invalid: SpawnRequest::stdin_fd.
  UniqueFd stdout_pipe;
  UniqueFd stderr_pipe;
  UniqueFd report;
  UniqueFd channel;  ///< Above kChannelFd; invalid without one.
};

/// Makes the pipes and sockets of a child: its ends, and ours in `child`. On failure, returns the
/// stage and errno.
ExecFailure OpenEnds(const SpawnRequest& request, ChildEnds& ends, SpawnedProcess& child);

/// Takes over a child of this process that another one forked, in a group of its own. Returns the
/// errno if it can't be watched; it is killed then. 0: done.
int Adopt(pid_t pid, SpawnedProcess& child);

/// Starts the child; does not wait for its exec. Call only from a single-threaded process, since
/// the child runs on before exec, with descriptors 0 to 2 open. If no pipe or process can be
/// created, returns the stage and errno and leaves `child` untouched.
ExecFailure Spawn(const SpawnRequest& request, SpawnedProcess& child);

enum class ReportKind : uint8_t { kPending, kStarted, kFailed };

/// Reads the report pipe; sets `failure` for kFailed. Does not block.
ReportKind ReadReport(int fd, ExecFailure& failure);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_SPAWN_H_
