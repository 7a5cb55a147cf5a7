// Restricts what agents of an elastic job may report about workers: only about their own, and only
// as much output as they have credit for. Like RankGuard, for workers that outlive generations.
#ifndef HVDRAY_LAUNCHER_ENGINE_WORKER_GUARD_H_
#define HVDRAY_LAUNCHER_ENGINE_WORKER_GUARD_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray {

/// Workers and agents are identified by their numbers, from 0. Pure. Threads: one.
class WorkerGuard {
 public:
  /// `agent` starts that worker for `generation`; its credit window is full.
  void Admit(int worker, int agent, Generation generation);
  /// The newest generation that agents may mention.
  void SetNewest(Generation generation) { newest_ = std::max(newest_, generation); }

  /// Call before acting on a message of `agent`; counts its output. Errors: kProtocolError for a
  /// worker of another agent, a generation that has not begun, or more output than granted.
  Status Check(int agent, const wire::Message& message);
  /// `bytes` of its output have been written and may be granted again.
  void OnWritten(int worker, uint32_t bytes);
  /// -1: no such worker.
  int AgentOf(int worker) const;
  /// The generation it was started for; 0: no such worker.
  Generation GenerationOf(int worker) const;

 private:
  struct Row {
    int agent = -1;
    Generation generation = 0;
    uint64_t unwritten = 0;
  };
  const Row* Find(int worker) const;

  Generation newest_ = 0;
  std::vector<Row> rows_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_WORKER_GUARD_H_
