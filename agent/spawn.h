// Starts one process: fork, groups, descriptors, exec. Knows nothing of ranks and waits for
// nothing.
#ifndef HVDRAY_AGENT_SPAWN_H_
#define HVDRAY_AGENT_SPAWN_H_

#include <sys/types.h>

#include <span>
#include <string>

#include "agent/exec_plan.h"
#include "base/fd.h"
#include "wire/message.h"

namespace hvdray {

/// What the child sends up its report pipe when it can't exec; nothing at all means that it could.
struct ExecFailure {
  wire::ExecStage stage = wire::ExecStage::kNone;
  int error = 0;  ///< errno
  bool operator==(const ExecFailure&) const = default;
};

enum class StdinKind : uint8_t { kNull, kPipe };

struct SpawnRequest {
  const ExecPlan* plan = nullptr;                   ///< With at least one path.
  std::span<const std::string> shared_environment;  ///< "NAME=VALUE", the same for all workers.
  std::span<const std::string> own_environment;     ///< This worker's; no name is in both.
  StdinKind stdin_kind = StdinKind::kNull;
  int cgroup_folder_fd = -1;  ///< The child is born in this cgroup (Linux 5.7); -1: none.
  int cgroup_procs_fd = -1;   ///< cgroup.procs of it, for kernels that can't.
  int pipe_bytes = 0;         ///< Wanted size of the output pipes; 0: as the kernel has it.
};

/// A child that leads a process group of its own and dies with this process. The caller reaps it.
struct SpawnedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd report;      ///< Non-blocking; EOF: exec worked. Else one ExecFailure (ReadReport).
  UniqueFd stdin_pipe;  ///< Invalid for StdinKind::kNull. Non-blocking, as the next two.
  UniqueFd stdout_pipe;
  UniqueFd stderr_pipe;
};

/// Does not wait for the exec. Threads: only from a single-threaded process (style 4), whose
/// descriptors 0 to 2 are open. On failure (no pipe, no process) returns the stage and errno, and
/// `child` is untouched.
ExecFailure Spawn(const SpawnRequest& request, SpawnedProcess& child);

/// Default dispositions and no signal blocked, for a child that is about to become something else.
/// Async-signal-safe.
void ResetSignals();

enum class ReportKind : uint8_t { kPending, kStarted, kFailed };

/// Reads what is in the report pipe. Does not block.
ReportKind ReadReport(int fd, ExecFailure& failure);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_SPAWN_H_
