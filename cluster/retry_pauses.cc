#include "cluster/retry_pauses.h"

#include <cmath>

namespace hvdray {

Duration RetryPauses::Next(int retries) {
  const double span = Seconds(policy_.longest) / Seconds(policy_.shortest);
  const double part = std::uniform_real_distribution<double>(0, 1)(random_);
  const double factor = std::pow(span, 1.0 / policy_.max_retries);
  const double low = std::pow(factor, retries);
  const double pause = low + part * (low * factor - low);
  return std::chrono::duration_cast<Duration>(Seconds(policy_.shortest) * pause);
}

}  // namespace hvdray
