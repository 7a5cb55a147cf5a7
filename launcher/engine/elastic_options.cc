#include "launcher/engine/elastic_options.h"

#include <chrono>

namespace hvdray {

ElasticPolicy ElasticPolicyOf(const JobSpec& spec, int64_t began_epoch_s) {
  ElasticPolicy policy;
  policy.mode = *spec.elastic_mode;
  policy.np = *spec.np;
  policy.min_np = spec.min_np->value_or(policy.np);
  policy.max_np = *spec.max_np;
  if (spec.reset_limit->has_value()) {
    policy.reset_limit = static_cast<uint32_t>(**spec.reset_limit);
  }
  policy.max_restarts = static_cast<uint32_t>(*spec.max_restarts);
  if (const auto& range = *spec.blacklist_cooldown_range) {
    policy.cooldown =
        CooldownRange{std::chrono::seconds(range->first), std::chrono::seconds(range->second)};
  }
  policy.success = *spec.success;
  policy.breaks_connections = *spec.breaks_connections;
  policy.repairs_meetings = policy.mode == ElasticMode::kHorovod;
  policy.moment = std::chrono::milliseconds(300);  // as GangPolicy has it
  policy.join = *spec.join;
  policy.began_epoch_s = began_epoch_s;
  policy.elastic_timeout = *spec.elastic_timeout;
  policy.start_timeout = *spec.start_timeout;
  policy.straggler_timeout = *spec.straggler_timeout;
  policy.grace = *spec.grace;
  policy.timeout = *spec.timeout;
  policy.master_port = *spec.master_port;
  return policy;
}

}  // namespace hvdray
