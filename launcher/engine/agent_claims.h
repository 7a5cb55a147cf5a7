// What agents may say of workers: only of those they were given, and only as much output as they
// have credit for. A host that was taken over can spoil its own ranks, and nobody else's.
#ifndef HVDRAY_LAUNCHER_ENGINE_AGENT_CLAIMS_H_
#define HVDRAY_LAUNCHER_ENGINE_AGENT_CLAIMS_H_

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

/// What an agent said that it may not say.
Status ClaimViolation(const wire::Message& message, std::string_view what);

/// The worker that a message of an agent speaks of; nullopt where it speaks of none.
std::optional<int> WorkerNamedBy(const wire::Body& body);

/// Pure. Threads: one.
class AgentClaims {
 public:
  /// These are the workers of the generation that begins now, by rank; all windows are full again.
  void StartGeneration(Generation generation, std::span<const RankInfo> ranks);

  /// Before a message of `host` is acted on; counts its output. Errors: kProtocolError for a rank
  /// of another host, a generation that has not begun, or more output than was granted. What is of
  /// an earlier generation is ok here: see IsStale().
  Status Check(int host, const wire::Message& message);
  /// Of a generation that is over: to be dropped.
  bool IsStale(const wire::Message& message) const { return message.generation < generation_; }

  /// `bytes` that `rank` wrote have left us. Returns how many of them to grant anew: those that
  /// came in this generation.
  uint32_t OnWritten(int rank, uint32_t bytes);
  /// The host that has `rank`, an index; -1 for a rank that there is not.
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

#endif  // HVDRAY_LAUNCHER_ENGINE_AGENT_CLAIMS_H_
