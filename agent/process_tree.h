// Who belongs to a worker: what it has started, and what is in its process group. Only reads /proc.
#ifndef HVDRAY_AGENT_PROCESS_TREE_H_
#define HVDRAY_AGENT_PROCESS_TREE_H_

#include <sys/types.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hvdray {

struct ProcessKin {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  bool operator==(const ProcessKin&) const = default;
};

/// From the text of /proc/PID/stat, whose second field may hold anything. nullopt: malformed. Pure.
std::optional<ProcessKin> ParseKin(std::string_view stat);

/// All processes that can be seen. Blocks: some 10 us a process.
std::vector<ProcessKin> ScanProcesses();

/// Descendants of `leader`, members of the process group that it leads (also those whose parent has
/// ended), and their descendants; not itself. Sorted. Pure.
std::vector<pid_t> RelativesOf(std::span<const ProcessKin> processes, pid_t leader);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_PROCESS_TREE_H_
