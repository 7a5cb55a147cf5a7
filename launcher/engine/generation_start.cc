// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/generation_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "launcher/job/placement.h"
#include "launcher/job/user_variables.h"
#include "wire/slot_environment.h"

namespace hvdray {
namespace {

// Compares more than counts: warm newcomers start while `ranks` are still the old gang's.
bool AreAllOf(std::span<const RankInfo> ranks, const std::vector<NewWorker>& workers) {
  return ranks.size() == workers.size() &&
         std::all_of(workers.begin(), workers.end(), [ranks](const NewWorker& worker) {
           const auto rank = static_cast<size_t>(worker.place.rank);
           return rank < ranks.size() && ranks[rank] == worker.place;
         });
}

// What is the same for all workers of a host, and independent of who they are.
void CompleteStart(const LaunchPlan& plan, const JobHost& host, wire::StartGeneration* message) {
  message->max_restarts = static_cast<uint32_t>(*plan.spec.max_restarts);
  if (host.nic) {
    message->gloo_interface = host.nic->gloo_interface;
    message->nccl_interfaces = host.nic->nccl_interfaces;
  }
  message->is_torch_environment = plan.spec.wants_torch_env();
  message->working_directory = *plan.spec.working_directory;
  if (host.is_remote && message->working_directory.empty()) {
    message->working_directory = plan.current_directory;
    // On Ray workers may start in the agent's directory, which is the job's. Ray's directories are
    // everybody's.
    message->is_directory_optional = plan.place.is_on_own_environment;
  }
  if (!host.worker_directory.empty()) {
    message->working_directory = host.worker_directory;  // a copy, in a directory of our own
  } else if (host.is_remote && !message->working_directory.empty()) {
    message->directory_trust = {!plan.place.is_on_own_environment, plan.directory_trustees};
  }
  message->has_channel = *plan.spec.has_channel;
  message->preload = *plan.spec.preload;
  message->preload_limit_ms = Milliseconds(*plan.spec.start_timeout);
  message->command = *plan.spec.command;
  message->is_on_own_environment = plan.place.is_on_own_environment;
  message->keeps_rank_variables = *plan.spec.keeps_rank_variables;
  message->kept_variables = KeptVariables(plan.spec);
  message->gpu_visibility = plan.place.gpu_visibility;
}

// The environments of workers on other hosts and on this one; made only where needed.
class Environments {
 public:
  explicit Environments(const LaunchPlan& plan) : plan_(plan) {}
  const std::vector<std::string>& Of(bool is_remote) {
    std::vector<std::string>& texts = texts_[is_remote ? 1 : 0];
    if (texts.empty()) {
      Environment environment = WorkerEnvironment(plan_.spec, plan_.environment, !is_remote);
      // In gang mode a process keeps its rank for life and must not ask for another.
      if (plan_.spec.outlives_changes()) environment.Set("HOROVOD_ELASTIC", "1");
      texts = environment.ToStrings();
      has_threads_[is_remote ? 1 : 0] = environment.Get(std::string(kThreadNames[0])).has_value();
    }
    return texts;
  }
  /// Sets the environment of `message`, whose place is known, to that of workers on `host`.
  void AddTo(wire::StartGeneration* message, const JobHost& host, int sharers) {
    message->environment = Of(host.is_remote);
    const bool is_ours = *plan_.spec.omp_threads == 0 && !*plan_.spec.ray.keeps_ray_env;
    if (!is_ours || has_threads_[host.is_remote ? 1 : 0] || host.facts.cpu_count == 0) return;
    message->threads = std::max(1U, host.facts.cpu_count / static_cast<uint32_t>(sharers));
  }

 private:
  const LaunchPlan& plan_;
  std::array<std::vector<std::string>, 2> texts_;
  std::array<bool, 2> has_threads_{};
};

// Most workers that the host may have beside each other.
int MostWorkers(const JobSpec& spec, const JobHost& host) {
  return std::max(1, std::min(host.slots.slots, spec.max_np->value_or(host.slots.slots)));
}

}  // namespace

wire::Welcome ToWelcome(const LaunchPlan& plan) {
  wire::Welcome welcome;
  welcome.job_id = plan.job_id;
  welcome.heartbeat_timeout_ms = Milliseconds(*plan.spec.heartbeat_timeout);
  welcome.grace_ms = Milliseconds(*plan.spec.grace);
  welcome.kv_hold_ms = Milliseconds(*plan.spec.kv_hold);
  welcome.is_peer_checked = *plan.spec.is_peer_checked;
  return welcome;
}

std::vector<RankInfo> RanksForWorkers(const LaunchPlan& plan, std::vector<RankInfo> ranks) {
  const std::vector<std::string>& names = plan.place.worker_host_names;
  if (names.empty()) return ranks;
  for (RankInfo& info : ranks) info.host = names[static_cast<size_t>(info.host_index)];
  return ranks;
}

wire::Warm WarmOrder(const LaunchPlan& plan, const JobHost& host) {
  wire::Warm order;
  CompleteStart(plan, host, &order.start);
  Environments(plan).AddTo(&order.start, host, MostWorkers(plan.spec, host));
  return order;
}

std::map<int, wire::StartGeneration> StartMessages(const LaunchPlan& plan,
                                                   const effect::StartWorkers& start,
                                                   std::span<const RankInfo> ranks,
                                                   HostTable& hosts) {
  const bool is_whole = AreAllOf(ranks, start.workers);
  Environments environments(plan);
  std::map<int, wire::StartGeneration> messages;
  for (const NewWorker& worker : start.workers) {
    const RankInfo& place = worker.place;
    const JobHost& host = hosts.At(place.host_index);
    if (host.agent < 0 || !host.nic) continue;
    auto [entry, is_new] = messages.try_emplace(place.host_index);
    wire::StartGeneration& message = entry->second;
    if (is_new) {
      message = StartOfHost(is_whole ? ranks : std::span(&place, 1), place.host_index);
      message.workers.clear();
      CompleteStart(plan, host, &message);
      message.restart_count = start.restart_count;
      message.master_port = start.master_port;
      if (is_whole) {
        const JobHost& first = hosts.At(ranks.front().host_index);
        if (first.nic) message.master_address = first.nic->address;
      }
      if (start.generation == 1 && is_whole)
        message.stdin_rank = plan.spec.stdin_rank->value_or(-1);
      // Workers that outlive changes share the host with those that may come.
      environments.AddTo(&message, host,
                         is_whole && !plan.spec.outlives_changes() ? std::max(1, message.local_size)
                                                                   : MostWorkers(plan.spec, host));
    }
    message.workers.push_back({.rank = place.rank,
                               .local_rank = place.local_rank,
                               .cross_rank = place.cross_rank,
                               .cross_size = place.cross_size,
                               .worker = static_cast<int32_t>(worker.worker)});
  }
  return messages;
}

std::string ThreadsNotice(const std::map<int, wire::StartGeneration>& messages) {
  uint32_t least = UINT32_MAX;
  uint32_t most = 0;
  bool is_shared = false;
  for (const auto& [host, message] : messages) {
    if (message.threads == 0) continue;
    least = std::min(least, message.threads);
    most = std::max(most, message.threads);
    is_shared = is_shared || message.workers.size() > 1;
  }
  if (!is_shared) return {};
  return fmt::format(
      "{}={} in each worker: its host's CPUs divided by the workers there "
      "(--omp-threads N, or inherit)",
      kThreadNames[0],
      least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most));
}

}  // namespace hvdray
