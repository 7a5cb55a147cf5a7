// How long to wait before a host that was busy is tried again: longer each time, and each host its
// own time, so that many that were sent away together do not come back together. Pure.
#ifndef HVDRAY_CLUSTER_RETRY_PAUSES_H_
#define HVDRAY_CLUSTER_RETRY_PAUSES_H_

#include <cstdint>
#include <random>

#include "base/types.h"

namespace hvdray {

struct RetryPolicy {
  int max_retries = 3;  ///< After the first try.
  Duration shortest = std::chrono::milliseconds(100);
  Duration longest = std::chrono::seconds(1);  ///< Not below `shortest`.
  uint64_t seed = 0;                           ///< Of the jitter.
};

class RetryPauses {
 public:
  explicit RetryPauses(const RetryPolicy& policy) : policy_(policy), random_(policy.seed) {}

  /// The next pause of a host that has had `retries` retries, 0 <= retries < max_retries. The range
  /// from shortest to longest is cut, by equal factors, into one part for each retry; the pause is
  /// drawn evenly from its part.
  Duration Next(int retries);

 private:
  const RetryPolicy policy_;
  std::mt19937_64 random_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RETRY_PAUSES_H_
