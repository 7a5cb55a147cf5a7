// SPDX-License-Identifier: Apache-2.0
// The agent's side of `hvdray check`: a child process gathers the host's facts, so that a hanging
// file system or driver costs only the deadline, not the agent. docs/check.md.
#ifndef HVDRAY_AGENT_INSPECTOR_H_
#define HVDRAY_AGENT_INSPECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray {

/// Answers one Inspect, unless destroyed before. Owns the child; the destructor kills it. Threads:
/// the loop's, of a single-threaded process (it forks without exec). Does not block.
class Inspector {
 public:
  using DoneFn = std::function<void(wire::Inspection inspection)>;
  /// Calls `report` with all known facts after each step; the last report counts.
  using GatherFn = std::function<void(const wire::Inspect& inspect,
                                      const std::function<void(const wire::Inspection&)>& report)>;
  /// `on_done`: called once, at the latest after the Inspect's timeout. `gather` runs in the child;
  /// GatherInspection() except in tests.
  Inspector(Loop& loop, const wire::Inspect& inspect, DoneFn on_done, const GatherFn& gather);
  ~Inspector();
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

 private:
  void OnReadable();
  void Finish();
  void EndChild();

  DoneFn on_done_;
  uint64_t received_ns_ = 0;
  pid_t child_ = -1;
  UniqueFd pipe_;
  std::string received_;  // The child's reports, one per line: the last complete one counts.
  Watch watch_;
  Watch timer_;
};

// Runs a program of the host and captures its output. Blocks, so it is for child processes that
// gather facts (host_inspection.h), never for the agent's loop.

/// How the program ended.
struct ProgramAnswer {
  int exit_code = 0;  ///< 128 + n after signal n.
  std::string text;   ///< stdout and stderr together, at most 64 KiB.
};

/// Directory and environment of a program.
struct AskedPlace {
  std::string directory;                 ///< Empty: ours.
  std::vector<std::string> environment;  ///< "NAME=VALUE"; empty: ours.
};

/// Runs `argv`, whose first item is a path, with stdin from /dev/null. Blocks until the program has
/// ended. Errors: kDeadlineExceeded if it has not closed its output within `limit` (kills it and
/// does not wait for its death); those of posix_spawn(3).
Result<ProgramAnswer> AskProgram(const std::vector<std::string>& argv, Duration limit,
                                 const AskedPlace& place = {});

}  // namespace hvdray

#endif  // HVDRAY_AGENT_INSPECTOR_H_
