// SPDX-License-Identifier: Apache-2.0
// Finds the processes of a worker: its descendants and the members of its process group. Only reads
// /proc.
#ifndef HVDRAY_AGENT_PROCESS_TREE_H_
#define HVDRAY_AGENT_PROCESS_TREE_H_

#include <sys/types.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hvdray {

/// A process and its relations.
struct ProcessKin {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  bool operator==(const ProcessKin&) const = default;
};

/// From the text of /proc/PID/stat, whose second field may contain anything. nullopt: malformed.
/// Pure.
std::optional<ProcessKin> ParseKin(std::string_view stat);

/// All visible processes, in no order; not a snapshot of one moment. Blocks: some 10 us each.
std::vector<ProcessKin> ScanProcesses();

/// Descendants of `leader`, members of its process group (even if their parent has ended), and
/// their descendants; without `leader`. Sorted. Pure.
std::vector<pid_t> Relatives(std::span<const ProcessKin> processes, pid_t leader);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_PROCESS_TREE_H_
