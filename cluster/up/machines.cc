// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/status.h"
#include "cluster/cloud/cloud_hosts.h"
#include "cluster/up/lease.h"

namespace hvdray {
namespace {

constexpr Duration kPollPace = std::chrono::seconds(2);
constexpr Duration kRunningLimit = std::chrono::minutes(5);
constexpr Duration kRemovedLimit = std::chrono::minutes(10);
// What was just ordered may be shown as it was before, or not at all.
constexpr Duration kStaleFor = std::chrono::seconds(60);
constexpr size_t kRequestIdDigits = 32;

std::string_view RoleText(ClusterNodeKind kind) {
  return kind == ClusterNodeKind::kHead ? "head" : "workers";
}

std::vector<std::string> IdsOf(const std::vector<CloudNode>& nodes) {
  std::vector<std::string> ids;
  ids.reserve(nodes.size());
  for (const CloudNode& node : nodes) ids.push_back(node.id);
  return ids;
}

bool IsOf(const CloudNode& node, const MachineGroup& group) {
  return node.kind == group.kind && node.node_type == group.node_type;
}

/// The launch hash that a machine of the group must have; empty: any.
std::string HashFor(const ClusterSpec& spec, const MachineGroup& group,
                    const std::vector<PreparedNode>& prepared) {
  if (spec.provider.disable_launch_config_check && group.kind == ClusterNodeKind::kWorker)
    return {};
  const auto found = std::ranges::find_if(prepared, [&group](const PreparedNode& node) {
    return node.kind == group.kind && node.node_type == group.node_type;
  });
  return found == prepared.end() ? std::string() : found->launch_hash;
}

void SortIn(const CloudNode& node, const std::string& hash, size_t most, MachineGroup& group) {
  if (node.state == CloudState::kStopped || node.state == CloudState::kStopping) {
    group.stopped += hash.empty() || node.launch_hash == hash ? 1 : 0;
  } else if (!node.is_live()) {
    return;  // it is ending
  } else if (!hash.empty() && node.launch_hash != hash) {
    group.outdated.push_back(node);
  } else if (group.kept.size() >= most) {
    group.surplus.push_back(node);
  } else {
    group.kept.push_back(node);
  }
}

/// "keep 2, start 1, create 1, replace i-1 (node_config has changed)"
std::string GroupText(const MachineGroup& group) {
  std::vector<std::string> parts;
  const int started = std::min(group.missing(), group.stopped);
  const int created = group.missing() - started;
  if (!group.kept.empty()) parts.push_back(fmt::format("keep {}", group.kept.size()));
  if (started > 0) parts.push_back(fmt::format("start {}, stopped before", started));
  if (created > 0) parts.push_back(fmt::format("create {}", created));
  if (!group.outdated.empty()) {
    parts.push_back(fmt::format("terminate {}: another node_config or key",
                                fmt::join(IdsOf(group.outdated), ", ")));
  }
  if (!group.surplus.empty()) {
    parts.push_back(
        fmt::format("terminate {}: above max_workers", fmt::join(IdsOf(group.surplus), ", ")));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

bool MachinePlan::has_changes() const {
  const auto is_change = [](const ProviderStep& step) {
    return step.action != ProviderStep::Action::kKeep;
  };
  return std::ranges::any_of(steps, is_change) ||
         std::ranges::any_of(groups, [](const MachineGroup& group) {
           return group.missing() > 0 || !group.outdated.empty() || !group.surplus.empty();
         });
}

std::vector<std::string> MachinePlan::Lines() const {
  std::vector<std::string> lines;
  for (const ProviderStep& step : steps) {
    lines.push_back(fmt::format("{} {}: {}{}{}", step.what, step.name, ActionWord(step.action),
                                step.detail.empty() ? "" : ", ", step.detail));
  }
  for (const MachineGroup& group : groups) {
    lines.push_back(
        fmt::format("{} ({}): {}", RoleText(group.kind), group.node_type, GroupText(group)));
  }
  if (!autoscaled.empty()) {
    lines.push_back(fmt::format("workers of the head's autoscaler: keep {}", autoscaled.size()));
  }
  return lines;
}

Result<MachinePlan> PlanMachines(const ClusterSpec& spec, const std::vector<CloudNode>& nodes,
                                 const std::vector<PreparedNode>& prepared) {
  MachinePlan plan;
  plan.groups.push_back(
      {.kind = ClusterNodeKind::kHead, .node_type = spec.head_node_type, .wanted = 1});
  const bool is_autoscaled = IsAutoscaled(spec);
  for (const ClusterNodeType& type : spec.node_types) {
    if (is_autoscaled || type.max_workers == 0) continue;
    plan.groups.push_back({.kind = ClusterNodeKind::kWorker,
                           .node_type = type.name,
                           .wanted = static_cast<int>(type.min_workers)});
  }
  std::vector<CloudNode> heads;
  for (const CloudNode& node : nodes) {
    if (node.kind == ClusterNodeKind::kHead && node.is_live()) heads.push_back(node);
    const auto group = std::ranges::find_if(
        plan.groups, [&node](const MachineGroup& each) { return IsOf(node, each); });
    if (group != plan.groups.end()) {
      const auto type = std::ranges::find(spec.node_types, node.node_type, &ClusterNodeType::name);
      const auto most = group->kind == ClusterNodeKind::kHead
                            ? size_t{1}
                            : static_cast<size_t>(std::max<int64_t>(0, type->max_workers));
      SortIn(node, HashFor(spec, *group, prepared), most, *group);
    } else if (node.is_live() && is_autoscaled && node.kind == ClusterNodeKind::kWorker) {
      plan.autoscaled.push_back(node);
    } else if (node.is_live()) {
      // Of a type, or in a role, that the file no longer has.
      const bool is_head = node.kind == ClusterNodeKind::kHead;
      (is_head ? plan.groups.front().outdated : plan.groups.back().surplus).push_back(node);
    }
  }
  if (heads.size() > 1) {
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("cluster {} has {} heads: {}", spec.cluster_name, heads.size(),
                              fmt::join(IdsOf(heads), ", ")),
                  "terminate all but one of them, or end the cluster: hvdray down");
  }
  return plan;
}

Result<MachinePlan> Machines::Plan() {
  HVDRAY_ASSIGN_OR_RETURN(ProviderPlan shown, provider_.Plan());
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<CloudNode> nodes, provider_.List());
  const bool has_live = std::ranges::any_of(nodes, &CloudNode::is_live);
  const auto is_new_key = [](const ProviderStep& step) {
    return step.what == "key pair" && step.action == ProviderStep::Action::kCreate;
  };
  if (has_live && std::ranges::any_of(shown.steps, is_new_key)) {
    return Status(ErrorCode::kFileUnreadable,
                  fmt::format("machines of cluster {} run, but their private key is not in ~/.ssh "
                              "of this machine",
                              spec_.cluster_name),
                  "copy it from where the cluster was started, or name it in "
                  "auth.ssh_private_key; hvdray down needs no key");
  }
  const bool is_prepared = std::ranges::all_of(shown.steps, [](const ProviderStep& step) {
    return step.action == ProviderStep::Action::kKeep;
  });
  // Where nothing is to be made, preparing changes nothing, and tells the launch hashes.
  if (is_prepared) {
    HVDRAY_ASSIGN_OR_RETURN(prepared_, provider_.Prepare(nullptr));
  }
  HVDRAY_ASSIGN_OR_RETURN(MachinePlan plan, PlanMachines(spec_, nodes, prepared_.nodes));
  plan.steps = std::move(shown.steps);
  plan.warnings = std::move(shown.warnings);
  return plan;
}

Result<MachinePlan> Machines::Compare() {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<CloudNode> nodes, provider_.List());
  return PlanMachines(spec_, nodes, prepared_.nodes);
}

Result<std::vector<Machine>> Machines::Make(const ProviderTags& tags) {
  HVDRAY_ASSIGN_OR_RETURN(prepared_, provider_.Prepare([this](const ProviderStep& step) {
    edge_.say(fmt::format("{} {}: {}d", step.what, step.name, ActionWord(step.action)));
  }));
  HVDRAY_ASSIGN_OR_RETURN(const MachinePlan plan, Compare());
  HVDRAY_RETURN_IF_ERROR(Clear(plan));
  std::vector<Machine> machines;
  for (const MachineGroup& group : plan.groups) {
    for (const CloudNode& node : group.kept) machines.push_back({.node = node});
    HVDRAY_RETURN_IF_ERROR(Fill(group, tags, &machines));
  }
  HVDRAY_RETURN_IF_ERROR(Tag(machines, tags));
  HVDRAY_RETURN_IF_ERROR(AwaitRunning(&machines));
  return machines;
}

/// Ends what is outdated or surplus.
Status Machines::Clear(const MachinePlan& plan) {
  std::vector<std::string> ids;
  for (const MachineGroup& group : plan.groups) {
    std::ranges::move(IdsOf(group.outdated), std::back_inserter(ids));
    std::ranges::move(IdsOf(group.surplus), std::back_inserter(ids));
  }
  if (ids.empty()) return {};
  edge_.say(fmt::format("terminating {}", fmt::join(ids, ", ")));
  return provider_.Remove(ids, RemoveMode::kTerminate).status();
}

const PreparedNode* Machines::FindPrepared(const MachineGroup& group) const {
  const auto found = std::ranges::find_if(prepared_.nodes, [&group](const PreparedNode& node) {
    return node.kind == group.kind && node.node_type == group.node_type;
  });
  return found == prepared_.nodes.end() ? nullptr : &*found;
}

Status Machines::Tag(const std::vector<Machine>& machines, const ProviderTags& tags) {
  std::vector<std::string> ids;
  for (const Machine& machine : machines) {
    const ProviderTags& has = machine.node.tags;
    const bool has_all = std::ranges::all_of(tags, [&has](const auto& tag) {
      const auto found = has.find(tag.first);
      return found != has.end() && found->second == tag.second;
    });
    if (machine.why.ok() && !has_all) ids.push_back(machine.node.id);
  }
  return ids.empty() ? Status() : provider_.SetTags(ids, tags);
}

/// Starts and creates what the group lacks. Errors: only those of the head, and kCancelled.
Status Machines::Fill(const MachineGroup& group, const ProviderTags& tags,
                      std::vector<Machine>* machines) {
  if (group.missing() == 0) return {};
  const PreparedNode* prepared = FindPrepared(group);
  HVDRAY_CHECK(prepared != nullptr);
  // Says what was there before: the same call, made again, gets the same machines.
  std::string seed =
      fmt::format("{}\n{}\n{}", spec_.cluster_name, KindWord(group.kind), group.node_type);
  for (const CloudNode& node : group.kept) seed += "\n" + node.id;
  CreateRequest request{.node = *prepared, .count = group.missing()};
  request.tags = tags;
  request.may_be_on_demand = spec_.falls_back_to_on_demand;
  request.request_id = Hex(Sha256(seed)).substr(0, kRequestIdDigits);
  const TimePoint began = edge_.now();
  int missing = group.missing();
  Status shortfall;
  const auto take = [&](const Result<CreateOutcome>& outcome, std::string_view what) {
    if (!outcome.ok()) {
      shortfall = outcome.status();
      return;
    }
    shortfall = outcome->shortfall;
    for (const CloudNode& node : outcome->nodes) {
      edge_.say(fmt::format("{} {} {}: {} {}", what, KindWord(group.kind), node.id,
                            node.machine_type, node.zone));
      machines->push_back({.node = node, .requested = began});
      --missing;
    }
  };
  if (group.stopped > 0) {
    CreateRequest restart = request;
    restart.tags.emplace(kTagLease, FormatLeaseEnd(0));  // not the one that ended
    take(provider_.StartStopped(restart), "starting");
  }
  if (missing > 0 && shortfall.code() != ErrorCode::kCancelled) {
    request.count = missing;
    take(provider_.Create(request), "creating");
  }
  if (missing <= 0) return {};
  if (shortfall.ok()) {
    shortfall = {ErrorCode::kCloudFailed, "the cloud made fewer machines than it was asked for",
                 "call up again"};
  }
  if (group.kind == ClusterNodeKind::kHead || shortfall.code() == ErrorCode::kCancelled) {
    return Status(shortfall).WithContext(
        fmt::format("{} ({})", KindWord(group.kind), group.node_type));
  }
  for (; missing > 0; --missing) {
    Machine& lacking = machines->emplace_back();
    lacking.node.kind = group.kind;
    lacking.node.node_type = group.node_type;
    lacking.why = shortfall;
  }
  return {};
}

/// Waits until all run and can be reached, or are gone.
Status Machines::AwaitRunning(std::vector<Machine>* machines) {
  const TimePoint began = edge_.now();
  const auto is_settled = [this](const Machine& machine) {
    return !machine.why.ok() ||
           (machine.node.state == CloudState::kRunning &&
            !CloudAddress(spec_, machine.node).empty() && !machine.node.internal_address.empty());
  };
  for (;;) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<CloudNode> nodes, provider_.List());
    const bool is_late = edge_.now() - began >= kRunningLimit;
    for (Machine& machine : *machines) {
      if (!machine.why.ok()) continue;
      const bool was_settled = is_settled(machine);
      const auto seen = std::ranges::find(nodes, machine.node.id, &CloudNode::id);
      const bool is_live = seen != nodes.end() && seen->is_live();
      const bool is_ending = seen != nodes.end() && seen->state == CloudState::kEnding;
      const bool was_ordered = machine.requested != TimePoint{};
      if (!is_live && !is_ending && was_ordered && edge_.now() - began < kStaleFor) continue;
      if (seen != nodes.end()) machine.node = *seen;
      if (!is_live) {
        machine.why = {
            ErrorCode::kCloudFailed,
            fmt::format("{} is gone{}{}", machine.node.id,
                        machine.node.state_reason.empty() ? "" : ": ", machine.node.state_reason),
            machine.node.is_spot ? "the cloud took this spot machine back; call up again"
                                 : "call up again"};
      } else if (is_settled(machine)) {
        if (was_settled) continue;
        if (was_ordered) machine.boot = edge_.now() - machine.requested;
        edge_.say(
            fmt::format("{}: running at {}", machine.node.id, CloudAddress(spec_, machine.node)));
      } else if (is_late) {
        const bool is_running = machine.node.state == CloudState::kRunning;
        machine.why = {
            ErrorCode::kDeadlineExceeded,
            fmt::format("{} is {} after {:.0f} s", machine.node.id,
                        is_running ? "without a public address" : "still pending",
                        Seconds(kRunningLimit).count()),
            is_running ? "use subnets that give one, or provider: {use_internal_ips: true}" : ""};
      }
    }
    if (std::ranges::all_of(*machines, is_settled)) break;
    if (!edge_.sleep(kPollPace)) return {ErrorCode::kCancelled, "cancelled"};
  }
  const auto head = std::ranges::find_if(*machines, [](const Machine& machine) {
    return machine.node.kind == ClusterNodeKind::kHead;
  });
  return Status(head->why);
}

Result<std::vector<CloudNode>> Machines::ListRemovable(const RemovePolicy& policy) {
  HVDRAY_ASSIGN_OR_RETURN(std::vector<CloudNode> nodes, provider_.List());
  std::map<std::string, int64_t> kept;
  if (policy.keeps_min_workers) {
    for (const ClusterNodeType& type : spec_.node_types) kept[type.name] = type.min_workers;
  }
  std::erase_if(nodes, [&](const CloudNode& node) {
    if (node.state == CloudState::kStopped && KeepsStopped(policy)) return true;
    if (node.kind == ClusterNodeKind::kHead) return policy.keeps_head || policy.keeps_min_workers;
    return node.is_live() && kept[node.node_type]-- > 0;
  });
  return nodes;
}

Result<std::vector<std::string>> Machines::ListStopped() {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<CloudNode> nodes, provider_.List());
  std::vector<std::string> ids;
  for (const CloudNode& node : nodes) {
    if (node.state == CloudState::kStopped) ids.push_back(node.id);
  }
  return ids;
}

Status Machines::Remove(const RemovePolicy& policy) {
  const TimePoint began = edge_.now();
  std::vector<std::string> told;
  for (;;) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<CloudNode> left, ListRemovable(policy));
    if (left.empty()) return {};
    std::vector<std::string> ids;
    for (const CloudNode& node : left) {
      const bool is_over = node.state == CloudState::kStopping && KeepsStopped(policy);
      if (node.state != CloudState::kEnding && !is_over) ids.push_back(node.id);
    }
    if (!ids.empty()) {
      HVDRAY_ASSIGN_OR_RETURN(const std::vector<RemovedNode> removed,
                              provider_.Remove(ids, policy.is_purged ? RemoveMode::kTerminate
                                                                     : RemoveMode::kAsConfigured));
      for (const RemovedNode& node : removed) {
        if (std::ranges::find(told, node.id) != told.end()) continue;
        told.push_back(node.id);
        edge_.say(fmt::format("{}: {}", node.id, node.is_stopped ? "stopping" : "terminating"));
      }
    }
    if (edge_.now() - began >= kRemovedLimit) {
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("after {:.0f} s there is still {}", Seconds(kRemovedLimit).count(),
                          fmt::join(IdsOf(left), ", ")),
              "call down again, or look at the cloud's console"};
    }
    if (!edge_.sleep(kPollPace)) return {ErrorCode::kCancelled, "cancelled"};
  }
}

Status Machines::Purge() {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<ProviderStep> steps, provider_.Purge());
  for (const ProviderStep& step : steps) {
    edge_.say(fmt::format("{} {}: {}{}{}", step.what, step.name,
                          step.action == ProviderStep::Action::kDelete ? "deleted" : "kept",
                          step.detail.empty() ? "" : ", ", step.detail));
  }
  return {};
}

}  // namespace hvdray
