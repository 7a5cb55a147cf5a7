// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/elastic_start.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "launcher/engine/generation_start.h"
#include "launcher/job/placement.h"

namespace hvdray {
namespace {

std::vector<std::string> EnvironmentOf(const LaunchPlan& plan, bool is_remote) {
  Environment environment = WorkerEnvironment(plan.spec, plan.environment, !is_remote);
  // In gang mode a process keeps its rank for life and must not ask for another.
  if (plan.spec.outlives_changes()) environment.Set("HOROVOD_ELASTIC", "1");
  return environment.ToStrings();
}

// Compares more than counts: warm newcomers start while `ranks` are still the old gang's.
bool AreAllOf(std::span<const RankInfo> ranks, const std::vector<NewWorker>& workers) {
  return ranks.size() == workers.size() &&
         std::all_of(workers.begin(), workers.end(), [ranks](const NewWorker& worker) {
           const auto rank = static_cast<size_t>(worker.place.rank);
           return rank < ranks.size() && ranks[rank] == worker.place;
         });
}

}  // namespace

wire::Welcome ElasticWelcomeOf(const LaunchPlan& plan) {
  wire::Welcome welcome = WelcomeOf(plan);
  welcome.is_elastic = true;
  return welcome;
}

std::map<int, wire::StartGeneration> ElasticStartMessages(const LaunchPlan& plan,
                                                          const effect::StartWorkers& start,
                                                          std::span<const RankInfo> ranks,
                                                          ElasticHostTable& hosts) {
  const bool is_whole = AreAllOf(ranks, start.workers);
  std::map<int, wire::StartGeneration> messages;
  for (const NewWorker& worker : start.workers) {
    const RankInfo& place = worker.place;
    const ElasticHost& host = hosts.At(place.host_index);
    if (host.agent < 0 || !host.nic) continue;
    auto [entry, is_new] = messages.try_emplace(place.host_index);
    wire::StartGeneration& message = entry->second;
    if (is_new) {
      message = StartOfHost(is_whole ? ranks : std::span(&place, 1), place.host_index);
      message.workers.clear();
      CompleteStart(plan, {*host.nic, host.is_remote, host.worker_directory}, &message);
      message.restart_count = start.restart_count;
      message.master_port = start.master_port;
      if (is_whole) {
        const ElasticHost& first = hosts.At(ranks.front().host_index);
        if (first.nic) message.master_address = first.nic->address;
      }
      if (start.generation == 1 && is_whole)
        message.stdin_rank = plan.spec.stdin_rank->value_or(-1);
      message.environment = EnvironmentOf(plan, host.is_remote);
    }
    message.workers.push_back({.rank = place.rank,
                               .local_rank = place.local_rank,
                               .cross_rank = place.cross_rank,
                               .cross_size = place.cross_size,
                               .worker = static_cast<int32_t>(worker.worker)});
  }
  return messages;
}

ElasticPolicy ElasticPolicyOf(const JobSpec& spec, std::chrono::system_clock::time_point began) {
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
  policy.repairs_barriers = policy.mode == ElasticMode::kHorovod;
  policy.moment = std::chrono::milliseconds(300);  // as in GangPolicy
  policy.join = *spec.join;
  policy.began_epoch_s =
      std::chrono::duration_cast<std::chrono::seconds>(began.time_since_epoch()).count();
  policy.elastic_timeout = *spec.elastic_timeout;
  policy.start_timeout = *spec.start_timeout;
  policy.straggler_timeout = *spec.straggler_timeout;
  policy.grace = *spec.grace;
  policy.timeout = *spec.timeout;
  policy.master_port = *spec.master_port;
  return policy;
}

}  // namespace hvdray
