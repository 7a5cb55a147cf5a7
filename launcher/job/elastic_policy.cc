// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/elastic_policy.h"

#include <fmt/format.h>

#include "launcher/job/placement.h"

namespace hvdray {
namespace {

constexpr Duration kLeastCooldown = std::chrono::seconds(1);
constexpr Duration kMostCooldown = std::chrono::seconds(3600);

Status Invalid(std::string message, std::string hint) {
  return {ErrorCode::kSpecInvalid, std::move(message), std::move(hint)};
}

int64_t WholeSeconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

}  // namespace

Status CheckElasticPolicy(const ElasticPolicy& policy) {
  if (policy.np < 1 || policy.np > kMaxRanks) {
    return Invalid(fmt::format("-np {} is not between 1 and {}", policy.np, kMaxRanks), "");
  }
  if (policy.min_np < 1 || policy.min_np > policy.np) {
    return Invalid(fmt::format("--min-np {} is not between 1 and -np {}", policy.min_np, policy.np),
                   "the job starts with -np workers and needs --min-np to continue");
  }
  if (policy.max_np && *policy.max_np < policy.min_np) {
    return Invalid(fmt::format("--min-np {} is above --max-np {}", policy.min_np, *policy.max_np),
                   "raise --max-np, or lower --min-np");
  }
  if (policy.max_np && *policy.max_np < policy.np) {
    return Invalid(fmt::format("--max-np {} is below -np {}", *policy.max_np, policy.np),
                   "raise --max-np, or lower -np");
  }
  if (!policy.cooldown) return {};
  const auto [lower, upper] = *policy.cooldown;
  if (lower > upper) {
    return Invalid(fmt::format("--blacklist-cooldown-range {} {} is reversed", WholeSeconds(lower),
                               WholeSeconds(upper)),
                   "give the shorter time first");
  }
  if (lower < kLeastCooldown || upper > kMostCooldown) {
    return Invalid(fmt::format("--blacklist-cooldown-range {} {} is out of range",
                               WholeSeconds(lower), WholeSeconds(upper)),
                   "both times must be from 1 to 3600 seconds");
  }
  return {};
}

}  // namespace hvdray
