// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/up_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "cluster/cloud/cloud_hosts.h"
#include "cluster/up/lease.h"
#include "cluster/up/managed_run.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

/// "i-1, i-2"; those that could not be had have no id.
std::string IdsText(const ManagedCluster& cluster) {
  std::vector<std::string> ids;
  for (const Machine& machine : cluster.machines) {
    if (machine.why.ok()) ids.push_back(machine.node.id);
  }
  return fmt::format("{}", fmt::join(ids, ", "));
}

}  // namespace

void TellThatMachinesStay(const ManagedCluster& cluster) {
  Tell(LogLevel::kWarning, "hvdray up",
       fmt::format("{0} run on: hvdray up {1} goes on with them, hvdray down {1} ends them",
                   cluster.machines.empty() ? "machines that were made" : IdsText(cluster),
                   cluster.words));
}

int EndWith(const ManagedCluster& cluster, const Status& why) {
  int exit_code = Fail("up", why);
  if (!cluster.machines.empty()) {
    TellThatMachinesStay(cluster);
    exit_code = kHvdrayFailed;
  }
  return FinishReport(cluster, {.exit_code = exit_code, .failure = why});
}

std::optional<int> TakeMachines(const CommandRequest& request, ManagedCluster& cluster,
                                UpPolicy& policy) {
  const auto plan = std::make_shared<MachinePlan>();
  const auto fail = [&cluster](const Status& why, bool is_any_made) {
    const int signo = cluster.work->signo();
    if (signo == 0) return EndWith(cluster, why);
    Tell(LogLevel::kError, "hvdray up",
         is_any_made ? "interrupted" : "interrupted; nothing was changed");
    if (is_any_made) TellThatMachinesStay(cluster);
    return FinishReport(cluster, {.signo = signo});
  };
  Status status = cluster.work->Run([plan](CloudWork::Cloud& cloud) -> Status {
    HVDRAY_ASSIGN_OR_RETURN(*plan, cloud.machines->Plan());
    return {};
  });
  if (!status.ok()) return fail(status, false);
  for (const std::string& warning : plan->warnings) Tell(LogLevel::kWarning, "hvdray up", warning);
  for (const std::string& line : plan->Lines()) SayLine(line);
  const auto machines = std::make_shared<std::vector<Machine>>();
  if (request.Has(OptionId::kDryRun)) {
    for (const MachineGroup& group : plan->groups) {
      for (const CloudNode& node : group.kept) {
        if (node.state == CloudState::kRunning) machines->push_back({.node = node});
      }
    }
    const bool has_head = !machines->empty() && plan->groups.front().missing() == 0;
    if (!has_head || plan->has_changes()) return FinishReport(cluster, {});
  } else {
    if (plan->has_changes() && !request.Has(OptionId::kYes)) {
      bool is_yes = false;
      status = cluster.work->Ask(
          fmt::format("Do this to cluster {}? [y/N] ", cluster.file.cluster_name), &is_yes);
      if (!status.ok()) return fail(status, false);
      if (!is_yes) {
        SayLine("nothing was changed");
        return FinishReport(cluster, {.exit_code = kNothingDone});
      }
      policy.is_confirmed = true;
    }
    // First, so that no machine has an earlier end in its tags than in its record.
    ProviderTags tags;
    if (policy.lease) tags.emplace(kTagLease, FormatLeaseEnd(*policy.lease));
    status = cluster.work->Run([machines, tags](CloudWork::Cloud& cloud) -> Status {
      HVDRAY_ASSIGN_OR_RETURN(*machines, cloud.machines->Make(tags));
      return {};
    });
    if (!status.ok()) return fail(status, true);
  }
  // Those that could not be had are told at the end; they are no hosts.
  std::stable_partition(machines->begin(), machines->end(),
                        [](const Machine& machine) { return machine.why.ok(); });
  cluster.machines = std::move(*machines);
  for (const Machine& machine : cluster.machines) {
    if (!machine.why.ok()) break;
    AddHost(cluster, CloudHost(cluster.file, machine.node, 1));
  }
  const std::string& key = cluster.work->cloud().machines->prepared().private_key_path;
  if (!key.empty() && cluster.spec.ssh_identity_file->empty()) {
    cluster.spec.ssh_identity_file.Set(key, cluster.path);
  }
  return std::nullopt;
}

void TagMachines(ManagedCluster& cluster, const std::vector<NodeRow>& rows, int64_t lease) {
  const auto ids = std::make_shared<std::map<ProviderTags, std::vector<std::string>>>();
  for (size_t i = 0; i < rows.size() && i < cluster.hosts.size(); ++i) {
    const CloudNode& node = cluster.machines[i].node;
    const std::string status = rows[i].state == Name(UpState::kUp) ? "up-to-date" : "update-failed";
    ProviderTags tags;
    if (node.status != status) tags.emplace(kTagStatus, status);
    const auto has = node.tags.find(std::string(kTagLease));
    // Also where it has one that nobody keeps any more.
    if (has == node.tags.end() ? lease != 0 : has->second != FormatLeaseEnd(lease)) {
      tags.emplace(kTagLease, FormatLeaseEnd(lease));
    }
    if (!tags.empty()) (*ids)[tags].push_back(node.id);
  }
  const Status status = cluster.work->Run([ids](CloudWork::Cloud& cloud) -> Status {
    for (const auto& [tags, group] : *ids) {
      HVDRAY_RETURN_IF_ERROR(cloud.provider->SetTags(group, tags));
    }
    return {};
  });
  if (!status.ok()) Tell(LogLevel::kWarning, "hvdray up", "tag the machines: " + status.message());
}

}  // namespace hvdray
