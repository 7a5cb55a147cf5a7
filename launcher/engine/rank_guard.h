// Restricts what agents may report about workers: only about their own, and only as much output as
// they have credit for. A compromised host can harm its own ranks, and no others.
#ifndef HVDRAY_LAUNCHER_ENGINE_RANK_GUARD_H_
#define HVDRAY_LAUNCHER_ENGINE_RANK_GUARD_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/job/placement.h"
#include "wire/message.h"

namespace hvdray {

/// The error for a message that an agent may not send; `what` says why.
Status GuardViolation(const wire::Message& message, std::string_view what);

/// The worker that an agent's message is about; nullopt: no particular worker.
std::optional<int> WorkerNamedBy(const wire::Body& body);

/// The rules for a gang of fixed size. Pure. Threads: one.
class RankGuard {
 public:
  /// A generation with these workers begins, by rank; all credit windows are full again.
  void StartGeneration(Generation generation, std::span<const RankInfo> ranks);

  /// Call before acting on a message of `host`; counts its output. Errors: kProtocolError for a
  /// rank of another host, a generation that has not begun, or more output than granted. Messages
  /// of an earlier generation are ok here: see IsStale().
  Status Check(int host, const wire::Message& message);
  /// The message is of an earlier generation: drop it.
  bool IsStale(const wire::Message& message) const { return message.generation < generation_; }

  /// `bytes` of that rank's output have been written. Returns how many of them to grant again:
  /// those of this generation.
  uint32_t OnWritten(int rank, uint32_t bytes);
  /// The index of the host of `rank`; -1: no such rank.
  int HostOf(int rank) const;

 private:
  struct Rank {
    int host = -1;
    uint64_t unwritten = 0;  // of this generation: bounded by the window
    uint64_t left_over = 0;  // of earlier ones: their credit is void
  };

  Generation generation_ = 0;
  std::vector<Rank> ranks_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_RANK_GUARD_H_
