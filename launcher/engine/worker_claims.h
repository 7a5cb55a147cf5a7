// What agents of an elastic job may say of workers: only of those they were given, and only as much
// output as they have credit for. As AgentClaims, for workers that outlive generations.
#ifndef HVDRAY_LAUNCHER_ENGINE_WORKER_CLAIMS_H_
#define HVDRAY_LAUNCHER_ENGINE_WORKER_CLAIMS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray {

/// Pure. Threads: one. Workers and agents by their numbers, from 0.
class WorkerClaims {
 public:
  /// `agent` is told to start that worker for `generation`; its window is full.
  void Admit(int worker, int agent, Generation generation);
  /// No agent may speak of a later generation.
  void SetNewest(Generation generation) { newest_ = std::max(newest_, generation); }

  /// Before a message of `agent` is acted on; counts its output. Errors: kProtocolError for a
  /// worker of another agent, a generation that has not begun, or more output than was granted.
  Status Check(int agent, const wire::Message& message);
  /// `bytes` that it wrote have left us and may be granted anew.
  void OnWritten(int worker, uint32_t bytes);
  /// -1: there is none.
  int AgentOf(int worker) const;
  /// For which it was started; 0: there is none.
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

#endif  // HVDRAY_LAUNCHER_ENGINE_WORKER_CLAIMS_H_
