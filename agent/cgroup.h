// Control groups (v2, also the hybrid mount) as a net that no process of a gang can leave: made,
// entered at birth, killed whole, removed. Sets no limits. Source: kernel, admin-guide/cgroup-v2.
#ifndef HVDRAY_AGENT_CGROUP_H_
#define HVDRAY_AGENT_CGROUP_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace hvdray {

/// The folder of this process's own v2 group, from the texts of /proc/self/mountinfo and
/// /proc/self/cgroup. nullopt: no v2 hierarchy is mounted, or this process is outside of what is
/// mounted. Pure.
std::optional<std::string> FindCgroupFolder(std::string_view mountinfo, std::string_view cgroup);

/// The same for this process, read from /proc.
std::optional<std::string> OwnCgroupFolder();

/// Folder for everything that the agent `agent_pid` starts. A fixed rule, so that the keeper finds
/// it when the agent can't tell any more; the number of the PID namespace keeps containers apart.
std::string AgentCgroupFolder(const std::string& own_folder, pid_t agent_pid);

/// Kills every process in the tree and removes it once it is empty. Returns true when it is gone; a
/// caller that gets false tries again a little later. A folder that is not there is gone.
bool KillAndRemoveCgroup(const std::string& folder);

/// One group of our own making; killed and removed (as far as that works at once) on destruction.
class Cgroup {
 public:
  /// Makes `folder` and its parent. Errors: kSystem and others of mkdir and open, when this process
  /// may not; then the subreaper has to do.
  static Result<Cgroup> Create(const std::string& folder);
  Cgroup(Cgroup&&) noexcept = default;
  Cgroup& operator=(Cgroup&&) noexcept = default;
  ~Cgroup();

  int folder_fd() const { return folder_fd_.get(); }
  int procs_fd() const { return procs_fd_.get(); }
  const std::string& folder() const { return folder_; }
  /// Living processes in it and below.
  std::vector<pid_t> Members() const;
  /// Kills all members and removes the group; see KillAndRemoveCgroup.
  bool KillAndRemove() { return KillAndRemoveCgroup(folder_); }

 private:
  Cgroup() = default;
  std::string folder_;
  UniqueFd folder_fd_;
  UniqueFd procs_fd_;
};

/// Tells whether the kernel has killed for want of memory, in the group `folder` (may be empty) or
/// in this process's own (v2 memory.events, v1 memory.oom_control).
class OomWatch {
 public:
  explicit OomWatch(const std::string& folder);
  /// true: a kill was counted that no earlier call has claimed.
  bool ClaimKill();

 private:
  std::string path_;  ///< Empty: nothing to read, nothing is ever claimed.
  uint64_t claimed_ = 0;
};

/// The number behind "oom_kill " in either file's text; 0 when it is not there. Pure.
uint64_t ParseOomKills(std::string_view text);

/// The folder of this process's own v1 memory group; as FindCgroupFolder. Pure.
std::optional<std::string> FindMemoryFolder(std::string_view mountinfo, std::string_view cgroup);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_CGROUP_H_
