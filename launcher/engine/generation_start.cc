// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/generation_start.h"

#include <utility>

#include "base/terminal.h"
#include "launcher/job/placement.h"

namespace hvdray {
GangPolicy GangPolicyOf(const JobSpec& spec, const PlanPlace& place) {
  GangPolicy policy;
  policy.start_timeout = *spec.start_timeout;
  policy.grace = *spec.grace;
  policy.timeout = *spec.timeout;
  policy.max_restarts = static_cast<uint32_t>(*spec.max_restarts);
  policy.master_port = *spec.master_port;
  policy.held_up = place.held_up ? place.held_up : &TimeOfTerminalQuestions;
  return policy;
}

wire::Welcome WelcomeOf(const LaunchPlan& plan) {
  const auto ms = [](Duration d) {
    return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
  };
  wire::Welcome welcome;
  welcome.job_id = plan.job_id;
  welcome.heartbeat_timeout_ms = ms(*plan.spec.heartbeat_timeout);
  welcome.grace_ms = ms(*plan.spec.grace);
  welcome.kv_hold_ms = ms(*plan.spec.kv_hold);
  welcome.is_peer_checked = *plan.spec.is_peer_checked;
  return welcome;
}

Result<std::vector<NicChoice>> ChooseNics(const LaunchPlan& plan,
                                          std::span<const wire::HostFacts> facts) {
  std::vector<HostNics> hosts;
  for (size_t i = 0; i < facts.size(); ++i) {
    hosts.push_back({plan.hosts[i].host, facts[i].interfaces});
  }
  return SelectNics(hosts, *plan.spec.network_interfaces, plan.spread);
}

void CompleteStart(const LaunchPlan& plan, const StartSite& site, wire::StartGeneration* message) {
  message->max_restarts = static_cast<uint32_t>(*plan.spec.max_restarts);
  message->gloo_interface = site.nic.gloo_interface;
  message->nccl_interfaces = site.nic.nccl_interfaces;
  message->is_torch_environment = plan.spec.wants_torch_env();
  message->working_directory = *plan.spec.working_directory;
  if (site.is_remote && message->working_directory.empty() && !plan.current_directory.empty()) {
    message->working_directory = plan.current_directory;
    message->is_directory_optional = true;
  }
  if (!site.worker_directory.empty()) message->working_directory = site.worker_directory;
  message->command = *plan.spec.command;
  message->is_on_own_environment = plan.place.is_on_own_environment;
  message->gpu_visibility = plan.place.gpu_visibility;
}

std::vector<RankInfo> RanksForWorkers(const LaunchPlan& plan, std::vector<RankInfo> ranks) {
  const std::vector<std::string>& names = plan.place.worker_host_names;
  if (names.empty()) return ranks;
  for (RankInfo& info : ranks) info.host = names[static_cast<size_t>(info.host_index)];
  return ranks;
}

std::vector<wire::StartGeneration> MakeStartMessages(
    const LaunchPlan& plan, const effect::StartGeneration& start, std::span<const NicChoice> nics,
    std::span<const std::string> worker_directories) {
  const int first_host = start.ranks.front().host_index;
  const auto environment_of = [&plan](bool is_local) {
    return WorkerEnvironment(plan.spec, plan.environment, is_local).ToStrings();
  };
  const std::vector<std::string> local = environment_of(true);
  const std::vector<std::string> remote = environment_of(false);
  const std::vector<RankInfo> ranks = RanksForWorkers(plan, start.ranks);
  std::vector<wire::StartGeneration> messages;
  for (size_t host = 0; host < plan.hosts.size(); ++host) {
    wire::StartGeneration message = StartOfHost(ranks, static_cast<int>(host));
    CompleteStart(plan, {nics[host], plan.is_remote[host], worker_directories[host]}, &message);
    message.restart_count = start.restart_count;
    message.master_address = nics[static_cast<size_t>(first_host)].address;
    message.master_port = start.master_port;
    message.stdin_rank = plan.spec.stdin_rank->value_or(-1);
    message.environment = plan.is_remote[host] ? remote : local;
    messages.push_back(std::move(message));
  }
  return messages;
}

std::vector<ProbedHost> ProbedHostsOf(const LaunchPlan& plan, std::span<const NicChoice> nics,
                                      std::span<const wire::HostFacts> facts) {
  std::vector<ProbedHost> hosts;
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    hosts.push_back(
        {plan.hosts[i].host, nics[i].gloo_interface, nics[i].address, facts[i].probe_port});
  }
  return hosts;
}

}  // namespace hvdray
