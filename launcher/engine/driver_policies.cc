// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/driver_policies.h"

#include "base/terminal.h"

namespace hvdray {

GangPolicy ToGangPolicy(const JobSpec& spec, const PlanPlace& place) {
  GangPolicy policy;
  policy.start_timeout = *spec.start_timeout;
  if (!spec.preload->empty()) policy.preload_limit = *spec.start_timeout;
  policy.grace = *spec.grace;
  policy.timeout = *spec.timeout;
  policy.max_restarts = static_cast<uint32_t>(*spec.max_restarts);
  policy.master_port = *spec.master_port;
  policy.held_up = place.held_up ? place.held_up : &TimeOfTerminalQuestions;
  return policy;
}

ElasticPolicy ToElasticPolicy(const JobSpec& spec, std::chrono::system_clock::time_point began) {
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
  // Our own hvd.init() has no barrier: its survivors meet again by themselves.
  policy.repairs_barriers =
      policy.mode == ElasticMode::kHorovod && *spec.horovod != HorovodChoice::kBuiltin;
  policy.moment = std::chrono::milliseconds(300);  // as in GangPolicy
  policy.join = *spec.join;
  policy.began_epoch_s =
      std::chrono::duration_cast<std::chrono::seconds>(began.time_since_epoch()).count();
  policy.elastic_timeout = *spec.elastic_timeout;
  policy.start_timeout = *spec.start_timeout;
  policy.straggler_timeout = *spec.straggler_timeout;
  policy.list_settle = *spec.settle;
  policy.grace = *spec.grace;
  policy.timeout = *spec.timeout;
  policy.master_port = *spec.master_port;
  return policy;
}

}  // namespace hvdray
