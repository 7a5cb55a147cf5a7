// SPDX-License-Identifier: Apache-2.0
// Control groups (v2, also the hybrid mount) that hold every process of a gang: created, entered at
// birth, killed as a whole, removed. Sets no limits. Source: kernel, admin-guide/cgroup-v2.
#ifndef HVDRAY_AGENT_CGROUP_H_
#define HVDRAY_AGENT_CGROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace hvdray {

/// The directory of this process's own v2 group, from the texts of /proc/self/mountinfo and
/// /proc/self/cgroup. nullopt: no v2 hierarchy is mounted, or the mount does not contain this
/// process. Pure.
std::optional<std::string> FindCgroupDirectory(std::string_view mountinfo, std::string_view cgroup);

/// The same for this process, read from /proc.
std::optional<std::string> OwnCgroupDirectory();

/// The directory for everything that the agent `agent_pid` starts. A fixed rule, so that the keeper
/// finds it after the agent's death; the number of the PID namespace keeps containers apart.
std::string AgentCgroupDirectory(const std::string& own_directory, pid_t agent_pid);

/// The groups of agents of this PID namespace that are dead, where their keepers were killed with
/// them: in `own_directory` and in its siblings, since each login may have a group of its own. Not
/// among them: one whose agent's number another process has by now, and another user's.
std::vector<std::string> GroupsOfDeadAgents(const std::string& own_directory);

/// Kills every process in the tree and removes the tree once it is empty. True: it is gone, or did
/// not exist. False: processes are still dying; try again in some milliseconds. Does not block.
bool KillAndRemoveCgroup(const std::string& directory);

/// A group that this process created. The destructor tries once to kill and remove it.
class Cgroup {
 public:
  /// Creates `directory` and its parent; replaces a leftover of the same name. Errors: those of
  /// mkdir and open, kSystem among them; the caller then relies on the subreaper (orphans.h).
  static Result<Cgroup> Create(const std::string& directory);
  Cgroup(Cgroup&&) noexcept = default;
  Cgroup& operator=(Cgroup&&) noexcept = default;
  ~Cgroup();

  int directory_fd() const { return directory_fd_.get(); }  ///< For clone3(CLONE_INTO_CGROUP).
  int procs_fd() const { return procs_fd_.get(); }          ///< cgroup.procs, for older kernels.
  const std::string& directory() const { return directory_; }
  /// Living processes of the group and of groups below it.
  std::vector<pid_t> Members() const;
  /// Kills all members and removes the group; see KillAndRemoveCgroup.
  bool KillAndRemove() { return KillAndRemoveCgroup(directory_); }

 private:
  Cgroup() = default;
  std::string directory_;
  UniqueFd directory_fd_;
  UniqueFd procs_fd_;
};

/// Counts the kernel's out-of-memory kills in the group `directory`; if that is empty or has no
/// counter, in this process's own group (v2 memory.events, v1 memory.oom_control).
class OomWatch {
 public:
  explicit OomWatch(const std::string& directory);
  /// True: the kernel counted a kill, since construction, that no earlier call has claimed.
  bool ClaimKill();

 private:
  std::string path_;  ///< Empty: no counter to read; ClaimKill() is always false.
  uint64_t claimed_ = 0;
};

/// The number after "oom_kill " in either file's text; 0 without that line. Pure.
uint64_t ParseOomKills(std::string_view text);

/// The directory of this process's own v1 group of `controller`; as FindCgroupDirectory(). Pure.
std::optional<std::string> FindV1Directory(std::string_view controller, std::string_view mountinfo,
                                           std::string_view cgroup);

/// The CPUs whose time the group `directory` and the groups above it may use, rounded up (v2
/// cpu.max, v1 cpu.cfs_quota_us). nullopt: no limit.
std::optional<uint32_t> CpuQuota(const std::string& directory);

/// The same for this process's own groups.
std::optional<uint32_t> OwnCpuQuota();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_CGROUP_H_
