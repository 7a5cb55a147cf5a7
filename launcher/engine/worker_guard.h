// SPDX-License-Identifier: Apache-2.0
// Restricts what agents may report about workers: only about their own, and only as much output and
// bytes of channels as they have credit for. A compromised host can harm its own workers, and no
// others.
#ifndef HVDRAY_LAUNCHER_ENGINE_WORKER_GUARD_H_
#define HVDRAY_LAUNCHER_ENGINE_WORKER_GUARD_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray {

/// Workers and agents are identified by their numbers, from 0: in a job of fixed size, the rank and
/// the index of the host. Pure. Threads: one.
class WorkerGuard {
 public:
  /// `agent` starts that worker for `generation`; its credit window is full. Of a worker that is
  /// admitted once more, only the output of the new generation counts.
  void Admit(int worker, int agent, Generation generation);
  /// The newest generation that agents may mention.
  void SetNewest(Generation generation) { newest_ = std::max(newest_, generation); }

  /// Call before acting on a message of `agent`; counts its output. Errors: kProtocolError for a
  /// worker of another agent, a generation that has not begun, or more output than granted.
  /// Messages of an earlier generation of the worker are ok here: see IsStale().
  Status Check(int agent, const wire::Message& message);
  /// The message is of a generation before the one its worker was last admitted for: drop it.
  bool IsStale(const wire::Message& message) const;

  /// `bytes` of its output have been written. Returns how many of them to grant again: those of the
  /// worker's generation.
  uint32_t OnWritten(int worker, uint32_t bytes);
  /// `bytes` of its channel, of its generation, have been read: they may be granted again.
  void OnChannelRead(int worker, uint32_t bytes);
  /// -1: no such worker.
  int AgentOf(int worker) const;
  /// The generation it was started for; 0: no such worker.
  Generation GenerationOf(int worker) const;

 private:
  struct Row {
    int agent = -1;
    Generation generation = 0;
    uint64_t unwritten = 0;  // Of this generation: bounded by the window.
    uint64_t left_over = 0;  // Of earlier ones: their credit is void.
    uint64_t unread = 0;     // Of this generation's channel.
  };
  const Row* Find(int worker) const;

  Generation newest_ = 0;
  std::vector<Row> rows_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_WORKER_GUARD_H_
