// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "cluster/ray/ray_answers.h"
#include "cluster/ray/ray_facts.h"

namespace hvdray {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr size_t kShownId = 12;
constexpr std::string_view kRaysSubject =
    "head";  // of the lines about changes: whether its Ray answers

bool IsMemory(const std::string& name) { return name == "memory" || name == "object_store_memory"; }

/// Resources that interest users: neither Ray's internal ones nor hardware labels.
bool IsShown(const std::string& name) {
  return !IsBookkeeping(name) && !name.starts_with("accelerator_type:") &&
         name != "object_store_memory";
}

std::string Amount(const std::string& name, double amount) {
  return IsMemory(name) ? fmt::format("{:.1f}", amount / kGib) : fmt::format("{:.10g}", amount);
}

std::string Name(const std::string& name) {
  return name == "memory" ? "GiB memory" : ShownText(name);
}

/// "0/4 CPU, 1/2 GPU, 0.0/21.8 GiB memory": used/total. `free`: the unused part of `total`;
/// nullptr: unknown.
std::string UseText(const RayAmounts& total, const RayAmounts* free) {
  std::string text;
  for (const auto& [name, amount] : total) {
    if (!IsShown(name)) continue;
    std::string used = "?";
    if (free != nullptr) {
      const auto left = free->find(name);
      used = Amount(name, left == free->end() ? 0 : amount - left->second);
    }
    text +=
        fmt::format("{}{}/{} {}", text.empty() ? "" : ", ", used, Amount(name, amount), Name(name));
  }
  return text.empty() ? "nothing" : text;
}

const RayAmounts* FreeOf(const RayNode& node) { return node.is_free_known ? &node.free : nullptr; }

std::string FreeText(const RayAmounts& free) {
  std::string text;
  for (const auto& [name, amount] : free) {
    if (!IsShown(name) || IsMemory(name)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Amount(name, amount), Name(name));
  }
  return text.empty() ? "nothing" : text;
}

void AddTo(RayAmounts& sum, const RayAmounts& amounts) {
  for (const auto& [name, amount] : amounts) sum[name] += amount;
}

/// "12 s", "5 min", "3 h", "2 days".
std::string TimeText(int64_t ms) {
  const int64_t seconds = std::max<int64_t>(ms / 1000, 0);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2L * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48L * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

using Row = std::array<std::string, 4>;

/// Aligns columns to their widest cell, without trailing blanks.
std::string Table(const std::vector<Row>& rows) {
  std::array<size_t, 4> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format(" {:<{}} ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string DemandText(const RayDemand& demand) {
  std::string bundles;
  for (const auto& [bundle, count] : demand.bundles) {
    bundles += fmt::format("{}{} x {}", bundles.empty() ? "" : " and ", count,
                           ShownText(AmountsText(bundle), 200));
  }
  if (demand.strategy.empty()) {
    return fmt::format("{} x {}", demand.count, bundles.substr(bundles.find(" x ") + 3));
  }
  return fmt::format("{} {} of {}", Count(demand.count, "placement group"),
                     ShownText(demand.strategy), bundles);
}

/// Empty when it is adding no nodes.
std::string AutoscalerText(const RayAutoscaler& autoscaler) {
  std::string text;
  const auto add = [&text](const std::string& line) { text += "  " + line + "\n"; };
  for (const auto& [type, count] : autoscaler.launching) {
    add(fmt::format("{} of type {} requested", count, ShownText(type)));
  }
  for (const RayPendingNode& node : autoscaler.pending) {
    add(fmt::format("{} ({}): {}", node.ip.empty() ? "one more" : ShownText(node.ip),
                    ShownText(node.type), ShownText(node.status)));
  }
  for (const RayPendingNode& node : autoscaler.failed) {
    add(fmt::format("{} ({}): failed", ShownText(node.ip), ShownText(node.type)));
  }
  if (text.empty()) return {};
  return "\nThe autoscaler is adding nodes:\n" + text;
}

Json AmountsJson(const RayAmounts& amounts) {
  Json json = Json::object();
  for (const auto& [name, amount] : amounts) json[name] = amount;
  return json;
}

Json NodeJson(const RayNode& node) {
  Json json = {{"id", node.id}, {"address", node.ip}, {"is_head", node.is_head}};
  Json resources = Json::object();
  for (const auto& [name, total] : node.total) {
    const auto free = node.free.find(name);
    const double left = free == node.free.end() ? total : free->second;
    resources[name] = {{"used", total - left}, {"free", left}, {"total", total}};
    if (node.is_free_known) continue;
    resources[name]["used"] = nullptr;
    resources[name]["free"] = nullptr;
  }
  json["resources"] = std::move(resources);
  Json labels = Json::object();
  for (const auto& [name, value] : node.labels) labels[name] = value;
  json["labels"] = std::move(labels);
  return json;
}

Json PendingNodesJson(const std::vector<RayPendingNode>& nodes) {
  Json list = Json::array();
  for (const RayPendingNode& node : nodes) {
    list.push_back({{"address", node.ip}, {"type", node.type}, {"status", node.status}});
  }
  return list;
}

Json AutoscalerJson(const std::optional<RayAutoscaler>& autoscaler) {
  if (!autoscaler) return nullptr;
  Json launching = Json::object();
  for (const auto& [type, count] : autoscaler->launching) launching[type] = count;
  return {{"adds_nodes", autoscaler->adds_nodes},
          {"launching", std::move(launching)},
          {"pending", PendingNodesJson(autoscaler->pending)},
          {"failed", PendingNodesJson(autoscaler->failed)}};
}

Json DemandsJson(const std::vector<RayDemand>& demands) {
  Json list = Json::array();
  for (const RayDemand& demand : demands) {
    Json bundles = Json::array();
    for (const auto& [bundle, count] : demand.bundles) {
      bundles.push_back({{"resources", AmountsJson(bundle)}, {"count", count}});
    }
    Json strategy = nullptr;
    if (!demand.strategy.empty()) strategy = demand.strategy;
    list.push_back({{"strategy", std::move(strategy)},
                    {"count", demand.count},
                    {"bundles", std::move(bundles)}});
  }
  return list;
}

/// What every document begins with.
Json HeadJson(std::string_view schema, const RayAddress& address) {
  Json json = {{"schema", schema}, {"address", address.Url()}};
  if (!address.through.empty()) json["through"] = address.through;
  return json;
}

Json HeadJson(std::string_view schema, const RaySnapshot& cluster) {
  Json json = HeadJson(schema, cluster.address);
  json["ray_version"] = cluster.version.ray;
  return json;
}

Json StatusJson(std::string_view schema, const RaySnapshot& cluster) {
  Json json = HeadJson(schema, cluster);
  json["jobs_api"] = cluster.version.jobs_api;
  json["session"] = cluster.version.session;
  json["nodes"] = Json::array();
  for (const RayNode& node : cluster.nodes) json["nodes"].push_back(NodeJson(node));
  json["waiting"] = DemandsJson(cluster.status.pending);
  json["autoscaler"] = AutoscalerJson(cluster.status.autoscaler);
  return json;
}

struct NodeSlots {
  int now = 0;
  int idle = 0;  // when nothing else runs there
};

NodeSlots SlotsOn(const RayNode& node, const RayAsk& ask) {
  RayNode idle = node;
  idle.free = node.total;
  return {.now = FreeSlotsOn(node, ask), .idle = FreeSlotsOn(idle, ask)};
}

std::string SlotsNote(const NodeSlots& slots, bool is_known) {
  if (!is_known) return fmt::format("not known yet; {} when idle", slots.idle);
  if (slots.now > 0) return {};
  return slots.idle > 0 ? fmt::format("busy: {} when idle", slots.idle)
                        : "too small, or its labels don't match";
}

// Nodes that died longer ago are history.
constexpr int64_t kRecentMs = int64_t{10} * 60 * 1000;
constexpr size_t kShownJobs = 10;

bool IsWaiting(const RayPlacementGroup& group) {
  return group.state == "PENDING" || group.state == "RESCHEDULING";
}

/// Why a placement group waits, in words.
std::string WhyWaiting(const RayPlacementGroup& group) {
  if (group.scheduling_state == "INFEASIBLE") return "no live node could ever hold it";
  if (group.scheduling_state == "NO_RESOURCES") return "it fits once others end";
  if (group.state == "RESCHEDULING") return "a node of it is gone";
  return Lower(group.scheduling_state);
}

std::string GroupText(const RayPlacementGroup& group) {
  std::map<std::string, size_t> bundles;
  for (const RayPlacementGroup::Bundle& bundle : group.bundles) {
    ++bundles[ShownText(AmountsText(bundle.resources), 200)];
  }
  std::string text;
  for (const auto& [bundle, count] : bundles) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " and ", count, bundle);
  }
  return text;
}

std::string GroupName(const RayPlacementGroup& group) {
  return ShownText(group.name.empty() ? group.id.substr(0, kShownId) : group.name);
}

std::string JobName(const RayJob& job) {
  return ShownText(job.submission_id.empty() ? job.job_id : job.submission_id);
}

std::string DeathText(const RayLostNode& node) {
  return node.why.empty() ? "Ray lost it" : ShownText(node.why, 200);
}

/// Whether it died on the machine with this address.
bool IsOf(const ClusterView& view, const RayLostNode& node, const std::string& address) {
  return node.ip == address || std::ranges::any_of(view.members, [&](const RayMember& member) {
           return member.address == address && (member.node_id == node.id || member.ip == node.ip);
         });
}

const RayLostNode* LastDeath(const ClusterView& view, const std::string& address) {
  const RayLostNode* last = nullptr;
  for (const RayLostNode& node : view.lost) {
    if (IsOf(view, node, address)) last = &node;
  }
  return last;
}

std::vector<std::string> JobLines(const ClusterView& view) {
  std::vector<const RayJob*> open;
  std::map<std::string, size_t> ended;
  for (const RayJob& job : view.jobs) {
    if (IsTerminal(job.status)) {
      ++ended[ShownText(job.status_text)];
    } else {
      open.push_back(&job);
    }
  }
  std::ranges::stable_sort(open, std::ranges::greater(), &RayJob::start_ms);
  std::vector<std::string> lines;
  for (const RayJob* job : open) {
    if (lines.size() == kShownJobs) {
      lines.push_back(fmt::format("and {} more", open.size() - kShownJobs));
      break;
    }
    lines.push_back(fmt::format("{} {} for {}: {}", JobName(*job), ShownText(job->status_text),
                                TimeText(view.now_ms - job->start_ms),
                                ShownText(job->entrypoint, 100)));
  }
  std::string counts;
  for (const auto& [status, count] : ended) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, Lower(status));
  }
  if (!counts.empty()) lines.push_back("ended: " + counts);
  return lines;
}

std::vector<std::string> WaitingLines(const ClusterView& view) {
  std::vector<std::string> lines;
  for (const RayPlacementGroup& group : view.groups) {
    if (!IsWaiting(group)) continue;
    lines.push_back(fmt::format("placement group {}: {}: {}", GroupName(group), GroupText(group),
                                WhyWaiting(group)));
  }
  for (const RayDemand& demand : view.cluster.status.pending) {
    // Without a report these are the groups above, and with one the groups have a strategy.
    if (!view.cluster.status.has_report || !demand.strategy.empty()) continue;
    lines.push_back(DemandText(demand));
  }
  return lines;
}

Json ErrorJson(const Status& error) {
  return {{"code", ErrorLabel(error.code())}, {"message", error.message()}};
}

/// "i-0abc m5.large spot, running, up-to-date; ", or nothing.
std::string CloudText(const ClusterMachine& machine) {
  if (machine.cloud == nullptr) return {};
  const CloudMachine& cloud = *machine.cloud;
  std::string text = fmt::format("{} {}{}, {}", ShownText(cloud.id), ShownText(cloud.type),
                                 cloud.is_spot ? " spot" : "", cloud.state);
  if (!cloud.status.empty()) text += ", " + ShownText(cloud.status);
  return text + (machine.node == nullptr && machine.why.empty() ? "" : "; ");
}

/// What may change, by what it is about.
std::map<std::string, std::string> Subjects(const ClusterView& view) {
  std::map<std::string, std::string> subjects;
  for (const ClusterMachine& machine : MachinesOf(view)) {
    const std::string name = fmt::format("node {}", ShownText(machine.address));
    subjects[name] =
        fmt::format("{}: {}{}", machine.state, CloudText(machine),
                    machine.node == nullptr ? machine.why
                                            : UseText(machine.node->total, FreeOf(*machine.node)));
  }
  for (const RayPlacementGroup& group : view.groups) {
    if (!IsWaiting(group)) continue;
    subjects["placement group " + GroupName(group)] =
        fmt::format("waiting: {}: {}", GroupText(group), WhyWaiting(group));
  }
  for (const RayJob& job : view.jobs) {
    subjects["job " + JobName(job)] = Lower(ShownText(job.status_text));
  }
  if (!view.ray_status.ok())
    subjects[std::string(kRaysSubject)] = ShownLine(view.ray_status.message());
  if (!view.autoscaler_words.empty()) subjects["autoscaler"] = view.autoscaler_words.back();
  return subjects;
}

void AddSection(std::vector<std::string>& lines, std::string_view title,
                const std::vector<std::string>& section) {
  if (section.empty()) return;
  lines.emplace_back();
  lines.push_back(fmt::format("{}:", title));
  for (const std::string& line : section) lines.push_back("  " + line);
}

void AddText(std::vector<std::string>& lines, std::string_view text) {
  for (const std::string_view line : LinesOf(text)) lines.emplace_back(line);
}

/// The nodes of view.machines, or of view.cloud.
std::vector<const RayNode*> NodesOf(const ClusterView& view) {
  std::vector<std::string> addresses = view.machines;
  int head = addresses.empty() ? -1 : 0;
  for (const CloudMachine& cloud : view.cloud) {
    if (cloud.is_head && cloud.is_running) head = static_cast<int>(addresses.size());
    addresses.push_back(cloud.address);
  }
  return MatchRayNodes(addresses, head, view.members, view.cluster.nodes);
}

/// What Ray knows about the machine with this address. `node`: nullptr if none lives there.
ClusterMachine MachineAt(const ClusterView& view, const std::string& address, const RayNode* node) {
  ClusterMachine machine = {.address = address};
  const RayLostNode* death = LastDeath(view, address);
  if (!view.ray_status.ok()) {
    machine.state = "unknown";
  } else if (node != nullptr) {
    machine.state = "alive";
    machine.node = node;
  } else if (death != nullptr) {
    machine.state = "dead";
    machine.why = DeathText(*death);
    machine.end_ms = death->end_ms;
  } else {
    machine.state = "absent";
    machine.why = "has not joined Ray";
  }
  return machine;
}

ClusterMachine MachineOf(const ClusterView& view, const CloudMachine& cloud, const RayNode* node) {
  ClusterMachine machine = MachineAt(view, cloud.address, node);
  if (machine.node == nullptr && !cloud.is_running) {
    machine.state = cloud.state;
    machine.why.clear();
    machine.end_ms = 0;
  }
  if (!cloud.reason.empty() && machine.node == nullptr) machine.why = ShownText(cloud.reason, 200);
  if (machine.address.empty()) machine.address = cloud.id;
  machine.is_head = cloud.is_head;
  machine.cloud = &cloud;
  return machine;
}

}  // namespace

std::string RayStatusText(const RaySnapshot& cluster) {
  RayAmounts total, free;
  bool is_known = true;
  for (const RayNode& node : cluster.nodes) {
    AddTo(total, node.total);
    AddTo(free, node.free);
    is_known &= node.is_free_known;
  }
  std::string text = fmt::format("Ray {} at {}: {}, in use {}\n", ShownText(cluster.version.ray),
                                 cluster.address.Shown(), Count(cluster.nodes.size(), "node"),
                                 UseText(total, is_known ? &free : nullptr));
  std::vector<Row> rows;
  for (const RayNode& node : cluster.nodes) {
    rows.push_back({ShownText(node.ip), node.is_head ? "head" : "",
                    ShownText(node.id).substr(0, kShownId), UseText(node.total, FreeOf(node))});
  }
  text += Table(rows);
  if (!cluster.status.pending.empty()) text += "\nWaiting for room:\n";
  for (const RayDemand& demand : cluster.status.pending) {
    text += "  " + DemandText(demand) + "\n";
  }
  if (cluster.status.autoscaler) text += AutoscalerText(*cluster.status.autoscaler);
  return text;
}

std::string RayStatusJson(const RaySnapshot& cluster) {
  return DumpJson(StatusJson("hvdray.ray_status/1", cluster), 2) + "\n";
}

std::vector<ClusterMachine> MachinesOf(const ClusterView& view) {
  std::vector<ClusterMachine> machines;
  const std::vector<RayNode>& nodes = view.cluster.nodes;
  const std::vector<const RayNode*> matched = NodesOf(view);
  for (const std::string& address : view.machines) {
    ClusterMachine& machine =
        machines.emplace_back(MachineAt(view, address, matched[machines.size()]));
    machine.is_head = machines.size() == 1;
  }
  for (const CloudMachine& cloud : view.cloud) {
    machines.push_back(MachineOf(view, cloud, matched[machines.size()]));
  }
  const size_t listed = machines.size();
  for (const RayNode& node : nodes) {
    if (std::ranges::find(matched, &node) != matched.end()) continue;
    machines.push_back(
        {.address = node.ip, .is_head = node.is_head, .state = "alive", .node = &node});
  }
  for (const RayLostNode& node : view.lost) {
    const bool is_listed = std::any_of(
        machines.begin(), machines.begin() + static_cast<std::ptrdiff_t>(listed),
        [&](const ClusterMachine& machine) { return IsOf(view, node, machine.address); });
    const bool is_replaced = std::ranges::find(nodes, node.ip, &RayNode::ip) != nodes.end();
    if (is_listed || is_replaced || view.now_ms - node.end_ms > kRecentMs) continue;
    if (&node != LastDeath(view, node.ip)) continue;
    machines.push_back({.address = node.ip,
                        .is_head = node.is_head,
                        .state = "dead",
                        .why = DeathText(node),
                        .end_ms = node.end_ms});
  }
  return machines;
}

bool NeedsMembers(const ClusterView& view) {
  const std::vector<const RayNode*> matched = NodesOf(view);
  std::set<std::string> ips;
  bool is_any_left = false;
  for (const RayNode& node : view.cluster.nodes) {
    if (!ips.insert(node.ip).second) return true;
    is_any_left |= std::ranges::find(matched, &node) == matched.end();
  }
  const std::vector<ClusterMachine> machines = MachinesOf(view);
  const bool is_any_absent = std::ranges::any_of(
      machines, [](const ClusterMachine& machine) { return machine.state == "absent"; });
  return is_any_absent && (is_any_left || !view.lost.empty());
}

std::vector<std::string> ClusterViewLines(const ClusterView& view) {
  const std::vector<ClusterMachine> machines = MachinesOf(view);
  RayAmounts total, free;
  bool is_known = true;
  std::vector<Row> rows;
  size_t alive = 0;
  for (const ClusterMachine& machine : machines) {
    std::string what = machine.why;
    if (machine.end_ms != 0) {
      what += fmt::format(", {} ago", TimeText(view.now_ms - machine.end_ms));
    }
    if (machine.node != nullptr) {
      ++alive;
      AddTo(total, machine.node->total);
      AddTo(free, machine.node->free);
      is_known &= machine.node->is_free_known;
      what = UseText(machine.node->total, FreeOf(*machine.node));
    }
    rows.push_back({ShownText(machine.address), machine.is_head ? "head" : "worker", machine.state,
                    CloudText(machine) + what});
  }
  const std::string name = fmt::format("{} ({})", ShownText(view.name), ShownText(view.file, 200));
  const std::string count = Count(machines.size(), "node");
  if (!view.ray_status.ok()) {
    std::vector<std::string> lines = {fmt::format("{}: {}, Ray does not answer", name, count)};
    AddText(lines, Table(rows));
    AddSection(lines, "Ray", {ShownLine(view.ray_status.message())});
    return lines;
  }
  std::vector<std::string> lines = {fmt::format("{}: Ray {}, {} of {} alive, in use {}", name,
                                                ShownText(view.cluster.version.ray), alive, count,
                                                UseText(total, is_known ? &free : nullptr))};
  AddText(lines, Table(rows));
  AddSection(lines, "Waiting for room", WaitingLines(view));
  AddSection(lines, "Jobs", JobLines(view));
  if (view.cluster.status.autoscaler) {
    AddText(lines, AutoscalerText(*view.cluster.status.autoscaler));
  }
  std::vector<std::string> words;
  words.reserve(view.autoscaler_words.size());
  for (const std::string& line : view.autoscaler_words) words.push_back(ShownLine(line));
  AddSection(lines, "The autoscaler said", words);
  return lines;
}

std::string ClusterViewJson(const ClusterView& view, int indent) {
  Json json = StatusJson("hvdray.cluster/1", view.cluster);
  json["name"] = view.name;
  json["file"] = view.file;
  json["time_ms"] = view.now_ms;
  json["machines"] = Json::array();
  for (const ClusterMachine& machine : MachinesOf(view)) {
    Json id = nullptr;
    if (machine.node != nullptr) id = machine.node->id;
    Json& row = json["machines"].emplace_back(Json{{"address", machine.address},
                                                   {"is_head", machine.is_head},
                                                   {"state", machine.state},
                                                   {"why", machine.why},
                                                   {"node_id", std::move(id)}});
    if (machine.cloud == nullptr) continue;
    const CloudMachine& cloud = *machine.cloud;
    row["cloud"] = {{"id", cloud.id},        {"external_address", cloud.external_address},
                    {"type", cloud.type},    {"is_spot", cloud.is_spot},
                    {"state", cloud.state},  {"status", cloud.status},
                    {"reason", cloud.reason}};
  }
  if (!view.ray_status.ok()) json["error"] = ErrorJson(view.ray_status);
  json["placement_groups"] = Json::array();
  for (const RayPlacementGroup& group : view.groups) {
    if (group.state == "REMOVED") continue;
    Json bundles = Json::array();
    for (const RayPlacementGroup::Bundle& bundle : group.bundles) {
      bundles.push_back(
          {{"resources", AmountsJson(bundle.resources)}, {"node_id", bundle.node_id}});
    }
    json["placement_groups"].push_back({{"id", group.id},
                                        {"name", group.name},
                                        {"state", group.state},
                                        {"why", IsWaiting(group) ? WhyWaiting(group) : ""},
                                        {"bundles", std::move(bundles)}});
  }
  json["jobs"] = Json::array();
  for (const RayJob& job : view.jobs) {
    json["jobs"].push_back({{"id", job.submission_id.empty() ? job.job_id : job.submission_id},
                            {"status", job.status_text},
                            {"entrypoint", job.entrypoint},
                            {"started_ms", job.start_ms}});
  }
  json["autoscaler_words"] = view.autoscaler_words;
  return DumpJson(json, indent);
}

std::string ClusterErrorJson(const std::string& file, const Status& error, int64_t now_ms) {
  const Json json = {{"schema", "hvdray.cluster/1"},
                     {"file", file},
                     {"time_ms", now_ms},
                     {"error", ErrorJson(error)}};
  return DumpJson(json);
}

std::vector<std::string> ClusterChanges(const ClusterView* before, const ClusterView& after) {
  const std::map<std::string, std::string> now = Subjects(after);
  std::map<std::string, std::string> then;
  if (before != nullptr) then = Subjects(*before);
  std::vector<std::string> lines;
  for (const auto& [subject, text] : now) {
    const auto known = then.find(subject);
    if (known != then.end() && known->second == text) continue;
    lines.push_back(fmt::format("{}: {}", subject, text));
  }
  for (const auto& [subject, text] : then) {
    if (now.contains(subject)) continue;
    lines.push_back(subject + (subject == kRaysSubject ? ": answers again" : ": gone"));
  }
  return lines;
}

std::string RaySlotsText(const RaySnapshot& cluster, const RayAsk& ask) {
  std::vector<Row> rows;
  int64_t sum = 0;
  size_t hosts = 0;
  size_t unknown = 0;
  for (const RayNode& node : cluster.nodes) {
    const NodeSlots slots = SlotsOn(node, ask);
    sum += slots.now;
    hosts += slots.now > 0 ? 1 : 0;
    unknown += node.is_free_known ? 0 : 1;
    rows.push_back({ShownText(node.ip), node.is_free_known ? Count(slots.now, "slot") : "? slots",
                    node.is_free_known ? "free: " + FreeText(node.free) : "free: ?",
                    SlotsNote(slots, node.is_free_known)});
  }
  const std::string rest =
      unknown == 0 ? "" : fmt::format(" (not known yet for {})", Count(unknown, "node"));
  return fmt::format("{} of {} free now, on {} of {} at {}{}\n", Count(sum, "slot"),
                     ShownText(AmountsText(SlotBundle(ask)), 200), hosts,
                     Count(cluster.nodes.size(), "node"), cluster.address.Shown(), rest) +
         Table(rows);
}

std::string RaySlotsJson(const RaySnapshot& cluster, const RayAsk& ask) {
  Json json = HeadJson("hvdray.ray_slots/1", cluster);
  json["slot"] = AmountsJson(SlotBundle(ask));
  Json hosts = Json::array();
  int64_t sum = 0;
  for (const RayNode& node : cluster.nodes) {
    const NodeSlots slots = SlotsOn(node, ask);
    sum += slots.now;
    hosts.push_back({{"address", node.ip},
                     {"node_id", node.id},
                     {"slots", slots.now},
                     {"slots_when_idle", slots.idle},
                     {"free", AmountsJson(node.free)}});
    if (node.is_free_known) continue;
    hosts.back()["slots"] = nullptr;
    hosts.back()["free"] = nullptr;
  }
  json["slots"] = sum;
  json["hosts"] = std::move(hosts);
  return DumpJson(json, 2) + "\n";
}

std::vector<RayJob> JobsOfOurs(std::vector<RayJob> jobs) {
  std::erase_if(jobs, [](const RayJob& job) { return !job.metadata.contains("hvdray_job_id"); });
  std::ranges::sort(jobs, [](const RayJob& a, const RayJob& b) {
    return std::tie(b.start_ms, a.submission_id) < std::tie(a.start_ms, b.submission_id);
  });
  return jobs;
}

namespace {

/// "2 h ago, took 65 s"
std::string JobTimeText(const RayJob& job, int64_t now_ms) {
  std::string text = fmt::format("{} ago", TimeText(now_ms - job.start_ms));
  if (job.end_ms != 0) text += ", took " + TimeText(job.end_ms - job.start_ms);
  return text;
}

std::string ExitText(const RayJob& job) {
  return job.driver_exit_code ? fmt::format("exit code {}", *job.driver_exit_code) : "";
}

Json JobJson(const RayJob& job) {
  Json exit_code = nullptr;
  if (job.driver_exit_code) exit_code = *job.driver_exit_code;
  Json ended = nullptr;
  if (job.end_ms != 0) ended = job.end_ms;
  const auto build = job.metadata.find("hvdray_build");
  return {{"id", job.submission_id.empty() ? job.job_id : job.submission_id},
          {"status", job.status_text},
          {"exit_code", std::move(exit_code)},
          {"started_ms", job.start_ms},
          {"ended_ms", std::move(ended)},
          {"build", build == job.metadata.end() ? "" : build->second}};
}

/// The first line and, where the reason is at the end of many, the last. A failed entrypoint's
/// message ends with its log, which `hvdray logs` shows.
std::string MessageText(const RayJob& job) {
  const std::string_view first = std::string_view(job.message).substr(0, job.message.find('\n'));
  const std::string last = LastLine(job.message);
  if (job.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR" || first == last) return ShownLine(first);
  return fmt::format("{} ... {}", ShownLine(first), ShownLine(last));
}

const RayNode* DriverNode(const RayJob& job, const std::vector<RayNode>& nodes) {
  const auto found = std::ranges::find(nodes, job.driver_node_id, &RayNode::id);
  return found == nodes.end() ? nullptr : &*found;
}

}  // namespace

std::string RayJobsText(const RayAddress& address, const std::vector<RayJob>& jobs,
                        int64_t now_ms) {
  std::vector<Row> rows;
  rows.reserve(jobs.size());
  for (const RayJob& job : jobs) {
    rows.push_back({ShownText(job.submission_id), ShownText(job.status_text), ExitText(job),
                    JobTimeText(job, now_ms)});
  }
  return fmt::format("{} at {}\n", Count(jobs.size(), "job"), address.Shown()) + Table(rows);
}

std::string RayJobsJson(const RayAddress& address, const std::vector<RayJob>& jobs) {
  Json list = Json::array();
  for (const RayJob& job : jobs) list.push_back(JobJson(job));
  Json json = HeadJson("hvdray.ray_jobs/1", address);
  json["jobs"] = std::move(list);
  return DumpJson(json, 2) + "\n";
}

std::string RayJobState(const RayJob& job) {
  const std::string exit = ExitText(job);
  return ShownText(job.status_text) + (exit.empty() ? "" : ", ") + exit;
}

std::string RayJobText(const RayAddress& address, const RayJob& job,
                       const std::vector<RayNode>& nodes, int64_t now_ms) {
  std::string text =
      fmt::format("job {} at {}: {}\n", JobName(job), address.Shown(), RayJobState(job));
  std::vector<Row> rows;
  if (job.start_ms != 0) rows.push_back({"began", JobTimeText(job, now_ms), "", ""});
  if (!job.driver_node_id.empty()) {
    const RayNode* node = DriverNode(job, nodes);
    const std::string id = ShownText(job.driver_node_id).substr(0, kShownId);
    rows.push_back({"driver on",
                    node == nullptr ? fmt::format("{}, which is not alive", id)
                                    : fmt::format("{} ({})", ShownText(node->ip), id),
                    "", ""});
  }
  if (!job.entrypoint.empty()) rows.push_back({"entrypoint", ShownLine(job.entrypoint), "", ""});
  if (!job.error_type.empty()) rows.push_back({"error", ShownText(job.error_type), "", ""});
  if (!job.message.empty()) rows.push_back({"Ray says", MessageText(job), "", ""});
  return text + Table(rows);
}

std::string RayJobJson(const RayAddress& address, const RayJob& job,
                       const std::vector<RayNode>& nodes) {
  Json json = JobJson(job);
  json["entrypoint"] = job.entrypoint;
  json["message"] = job.message;
  json["error_type"] = job.error_type;
  json["driver_node_id"] = nullptr;
  if (!job.driver_node_id.empty()) json["driver_node_id"] = job.driver_node_id;
  const RayNode* node = DriverNode(job, nodes);
  json["driver_address"] = nullptr;
  if (node != nullptr) json["driver_address"] = node->ip;
  Json whole = HeadJson("hvdray.ray_job/1", address);
  whole["job"] = std::move(json);
  return DumpJson(whole, 2) + "\n";
}

}  // namespace hvdray
