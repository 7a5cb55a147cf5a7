// The agent's side of `hvdray check`: has a child gather what the host is like, so that a file
// system or a driver that hangs costs the deadline and not the agent.
#ifndef HVDRAY_AGENT_INSPECTOR_H_
#define HVDRAY_AGENT_INSPECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/fd.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Answers one Inspect. Destroyed before that: never answers. Threads: the loop's, of a process
/// that has no others (it forks without exec); does not block.
class Inspector {
 public:
  using DoneFn = std::function<void(wire::Inspection inspection)>;
  using GatherFn = std::function<void(const wire::Inspect& inspect,
                                      const std::function<void(const wire::Inspection&)>& report)>;
  /// `on_done`: once, from the loop, at the latest after the inspect's timeout; may destroy the
  /// inspector. gather: runs in the child; GatherInspection() but in tests.
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
  std::string received_;  // Reports of the child, a line each: the last whole one counts.
  Watch watch_;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_INSPECTOR_H_
