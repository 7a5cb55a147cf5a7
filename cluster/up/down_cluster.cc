// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/down_cluster.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "cluster/cloud/cloud_hosts.h"
#include "cluster/up/down_driver.h"
#include "cluster/up/lease.h"
#include "cluster/up/managed_cluster.h"
#include "cluster/up/managed_run.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/log_options.h"

namespace hvdray {
namespace {

Status CheckDownWords(const CommandRequest& request, const ClusterSpec& file) {
  if (request.Has(OptionId::kPurge) && file.is_local()) {
    return {ErrorCode::kUsage, "--purge is for what hvdray made in a cloud: these hosts are yours"};
  }
  if (request.Has(OptionId::kExpired) &&
      (request.Has(OptionId::kWorkersOnly) || request.Has(OptionId::kKeepMinWorkers))) {
    return {ErrorCode::kUsage,
            "--expired ends the whole cluster: it excludes --workers-only and --keep-min-workers"};
  }
  return {};
}

std::string RemainsText(bool keeps_some) {
  return keeps_some ? "Only what was to stay remains." : "No nodes remaining.";
}

/// `stopped`: machines that the next `up` starts again.
std::string MachinesRemainText(const RemovePolicy& policy, const std::vector<std::string>& stopped,
                               const std::string& words) {
  if (stopped.empty()) return RemainsText(policy.keeps_head);
  return fmt::format(
      "{}{} stopped, and {} still to be paid for ({}). To terminate: hvdray down "
      "--purge {}",
      policy.keeps_head ? RemainsText(true) + " " : "No nodes running. ",
      stopped.size() == 1 ? "1 machine is" : fmt::format("{} machines are", stopped.size()),
      stopped.size() == 1 ? "its disk is" : "their disks are", fmt::join(stopped, ", "), words);
}

/// Ends the Ray of hosts: all but the first `kept`.
Result<ClusterEnd> EndRay(DownPolicy policy, ManagedCluster& cluster, size_t kept) {
  cluster.hosts.erase(cluster.hosts.begin(), cluster.hosts.begin() + static_cast<long>(kept));
  cluster.places.erase(cluster.places.begin(), cluster.places.begin() + static_cast<long>(kept));
  policy.cluster = cluster.file.cluster_name;
  policy.head = cluster.head;
  policy.log_in_limit = cluster.log_in_limit;
  std::vector<DownNode> nodes;
  nodes.reserve(cluster.hosts.size());
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    nodes.push_back({cluster.hosts[i].host, kept + i == 0});
  }
  DownDriver driver(std::move(policy), std::move(nodes));
  return RunCluster(cluster, driver, {});
}

int DownOnHosts(const CommandRequest& request, ManagedCluster& cluster) {
  DownPolicy policy;
  policy.is_confirmed = request.Has(OptionId::kYes);
  if (request.Has(OptionId::kExpired)) policy.expired_by = SecondsSince1970();
  const bool keeps_some = request.Has(OptionId::kKeepMinWorkers);
  const size_t kept_workers =
      keeps_some ? static_cast<size_t>(cluster.file.min_workers) : size_t{0};
  const bool keeps_head = keeps_some || request.Has(OptionId::kWorkersOnly);
  const size_t kept = keeps_head ? std::min(cluster.hosts.size(), 1 + kept_workers) : 0;
  policy.last_words = RemainsText(keeps_head);
  const Result<ClusterEnd> end = EndRay(std::move(policy), cluster, kept);
  return end.ok() ? end->exit_code : Fail("down", end.status());
}

std::string RemovalText(const CloudNode& node, bool is_stopped) {
  return fmt::format("{}: {} this {} ({}, {}, {})", node.id, is_stopped ? "stop" : "end",
                     KindWord(node.kind), node.node_type, node.machine_type,
                     CloudStateWord(node.state));
}

/// The latest one in the machines' tags; 0: none.
int64_t Lease(const std::vector<CloudNode>& nodes) {
  int64_t end = 0;
  for (const CloudNode& node : nodes) {
    const auto tag = node.tags.find(std::string(kTagLease));
    if (tag != node.tags.end()) end = std::max(end, ParseLeaseEnd(tag->second).value_or(0));
  }
  return end;
}

/// Stops the jobs and the autoscaler, which would start workers anew. Its own errors are told: the
/// machines end in any case. False: interrupted, with the exit code.
bool EndHead(const CloudNode& head, ManagedCluster& cluster, ClusterEnd& end) {
  AddHost(cluster, CloudHost(cluster.file, head, 1));
  const std::string key = fmt::format("{}/.ssh/{}.pem", cluster.home, head.key_name);
  if (cluster.spec.ssh_identity_file->empty() && ::access(key.c_str(), R_OK) == 0) {
    cluster.spec.ssh_identity_file.Set(key, cluster.path);
  }
  if (const Status access = CheckHostAccess(cluster.spec); !access.ok()) {
    Fail("down", access);
    return true;
  }
  DownPolicy policy;
  policy.is_confirmed = true;
  policy.last_words.clear();
  const Result<ClusterEnd> ended = EndRay(std::move(policy), cluster, 0);
  if (!ended.ok()) Fail("down", ended.status());
  if (!ended.ok() || ended->signo == 0) return true;
  end.signo = ended->signo;
  end.exit_code = ended->exit_code;
  return false;
}

/// `down` for machines of a cloud: the head's Ray first, which starts workers, then the machines.
ClusterEnd EndMachines(const CommandRequest& request, ManagedCluster& cluster) {
  RemovePolicy policy;
  policy.keeps_min_workers = request.Has(OptionId::kKeepMinWorkers);
  policy.keeps_head = policy.keeps_min_workers || request.Has(OptionId::kWorkersOnly);
  policy.is_purged = request.Has(OptionId::kPurge);
  const auto nodes = std::make_shared<std::vector<CloudNode>>();
  ClusterEnd end;
  const auto fail = [&](const Status& why) {
    end.signo = cluster.work->signo();
    if (end.signo == 0) {
      end.exit_code = Fail("down", why);
      end.failure = why;
    } else {
      Tell(LogLevel::kError, "hvdray down",
           fmt::format("interrupted; hvdray down {} goes on", cluster.words));
    }
    return end;
  };
  Status status = cluster.work->Run([nodes, policy](CloudWork::Cloud& cloud) -> Status {
    HVDRAY_ASSIGN_OR_RETURN(*nodes, cloud.machines->ListRemovable(policy));
    return {};
  });
  if (!status.ok()) return fail(status);
  if (request.Has(OptionId::kExpired)) {
    const int64_t lease = Lease(*nodes);
    if (lease == 0 || lease > SecondsSince1970()) {
      SayLine(LeaseKeptText(cluster.file.cluster_name, lease));
      return end;
    }
  }
  for (const CloudNode& node : *nodes) {
    SayLine(RemovalText(node, cluster.work->cloud().machines->IsToStop(node, policy)));
    NodeRow& row = end.nodes.emplace_back();
    row.address = node.id;
    row.is_head = node.kind == ClusterNodeKind::kHead;
    row.need = "end";
    row.state = "running";
  }
  if (policy.is_purged) SayLine("then delete its key pair, security group and instance profile");
  if (policy.keeps_head && IsAutoscaled(cluster.file)) {
    Tell(LogLevel::kWarning, "hvdray down",
         "the head's autoscaler goes on, and will recreate missing workers");
  }
  if (!request.Has(OptionId::kYes) && (!nodes->empty() || policy.is_purged)) {
    bool is_yes = false;
    status = cluster.work->Ask(fmt::format("End cluster {}? [y/N] ", cluster.file.cluster_name),
                               &is_yes);
    if (!status.ok()) return fail(status);
    if (!is_yes) {
      SayLine("nothing was changed");
      end.exit_code = kNothingDone;
      return end;
    }
  }
  const auto head = std::ranges::find_if(*nodes, [](const CloudNode& node) {
    return node.kind == ClusterNodeKind::kHead && node.state == CloudState::kRunning;
  });
  if (head != nodes->end() && !CloudAddress(cluster.file, *head).empty() &&
      !EndHead(*head, cluster, end)) {
    return end;
  }
  const auto stopped = std::make_shared<std::vector<std::string>>();
  status = cluster.work->Run([policy, stopped](CloudWork::Cloud& cloud) -> Status {
    HVDRAY_RETURN_IF_ERROR(cloud.machines->Remove(policy));
    if (policy.is_purged) return cloud.machines->Purge();
    HVDRAY_ASSIGN_OR_RETURN(*stopped, cloud.machines->ListStopped());
    return {};
  });
  if (!status.ok()) return fail(status);
  for (NodeRow& row : end.nodes) {
    const bool is_stopped = std::ranges::find(*stopped, row.address) != stopped->end();
    row.state = is_stopped ? "stopped" : "ended";
  }
  end.exit_code = PrintOut("down", MachinesRemainText(policy, *stopped, cluster.words) + "\n");
  return end;
}

}  // namespace

int DownCluster(const CommandRequest& request, ClusterSpec file, TimePoint began) {
  if (const Status words = CheckDownWords(request, file); !words.ok()) return Fail("down", words);
  Result<ManagedCluster> cluster =
      OpenManagedCluster("down", request, std::move(file), DownPolicy().log_in_limit, began);
  if (!cluster.ok()) return Fail("down", cluster.status());
  SetUpLog(cluster->spec);
  if (!cluster->work) return DownOnHosts(request, *cluster);
  // Told once, with the machines, not for the head's Ray alone.
  const JobSpec told = cluster->spec;
  cluster->spec.events_file = {};
  cluster->spec.report_file = {};
  ClusterEnd end = EndMachines(request, *cluster);
  cluster->spec.events_file = told.events_file;
  cluster->spec.report_file = told.report_file;
  return FinishReport(*cluster, std::move(end));
}

}  // namespace hvdray
