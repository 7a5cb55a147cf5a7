// SPDX-License-Identifier: Apache-2.0
// The elastic part of RayLaunch: hosts come and go with the nodes of the cluster.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/generation_start.h"
#include "launcher/job/placement.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/ray/ray_launch.h"

namespace hvdray {
namespace {

ElasticHosts WaysOfRay(const RayHosts& hosts, const std::string& own_ip) {
  return {
      .add = [](const HostSlots& /*host*/) {},
      .is_remote = [](const std::string& /*host*/) { return true; },
      .is_elsewhere =
          [&hosts, own_ip](const std::string& host) { return hosts.plan().IpOf(host) != own_ip; }};
}

}  // namespace

RayHostsOptions RayLaunch::HostsOptions() {
  RayHostsOptions options;
  options.policy.group_prefix = "hvdray-" + run_.job().job_id;
  options.policy.ask = RayAskOf(run_.spec());
  options.policy.max_slots = run_.spec().max_np->value_or(kMaxRanks);
  if (run_.job().can_grow) options.policy.wanted_slots = *run_.spec().np;
  options.policy.is_spread = *run_.spec().ray.strategy == RayStrategy::kSpread;
  options.policy.has_cooldown = run_.spec().blacklist_cooldown_range->has_value();
  for (const RayNamedHost& host : options.policy.ask.named) options.policy.only_ips.insert(host.ip);
  options.wanted_slots = *run_.spec().np;
  return options;
}

int RayLaunch::RunElastic() {
  LaunchPlan plan = run_.PlanWithoutHosts();
  const ElasticPolicy policy = ElasticPolicyOf(run_.spec(), run_.began_wall());
  if (Status status = CheckElasticPolicy(policy); !status.ok()) {
    GiveUp(std::move(status), kLaunchFailed);
    return run_.EndEarly();
  }
  RayTransportOptions transport = TransportOptions(plan.spread, /*host_count=*/1);
  transport.on_endpoint = [this](const std::string& host, bool is_live) {
    hosts_->OnEndpoint(host, is_live);
  };
  transport_ = std::make_unique<RayTransport>(loop_, *broker_, *listener_, std::move(transport));
  Launcher* running = nullptr;
  RayHostsOptions hosts = HostsOptions();
  hosts.say = [this, &running](std::string_view line) {
    run_.log().Note(line);
    if (running != nullptr && !*run_.spec().is_quiet) running->Say(line);
  };
  hosts.on_leaving = [&running](const std::string& host, Duration in) {
    if (running != nullptr) running->HostLeaves(host, in);
  };
  hosts_ = std::make_unique<RayHosts>(loop_, *broker_, *transport_, std::move(hosts));
  Trace trace(run_.began(), {}, !run_.spec().trace_file->empty());
  Result<std::unique_ptr<Launcher>> launcher =
      OpenElastic(loop_, *transport_, *hosts_, WaysOfRay(*hosts_, hello_.node_ip), trace,
                  std::move(plan), policy);
  if (!launcher.ok()) {
    GiveUp(launcher.status(), kLaunchFailed);
    return run_.EndEarly();
  }
  running = launcher->get();
  run_.OnStop([running](int signo) { running->StopBy(signo); });
  if (nodes_) hosts_->OnNodes(*nodes_);
  JobReport report = running->Run();
  run_.OnStop([](int /*signo*/) {});  // the launcher has ended
  return run_.End(trace, std::move(report),
                  [running](std::span<const std::string> lines) { running->Print(lines); });
}

}  // namespace hvdray
