// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "cluster/ray/ray_facts.h"

namespace hvdray {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr size_t kShownId = 12;

bool IsMemory(const std::string& name) { return name == "memory" || name == "object_store_memory"; }

/// Resources that interest users: neither Ray's internal ones nor hardware labels.
bool IsShown(const std::string& name) {
  return !IsBookkeeping(name) && !name.starts_with("accelerator_type:") &&
         name != "object_store_memory";
}

std::string Amount(const std::string& name, double amount) {
  return IsMemory(name) ? fmt::format("{:.1f}", amount / kGib) : fmt::format("{:.10g}", amount);
}

std::string NameOf(const std::string& name) {
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
    text += fmt::format("{}{}/{} {}", text.empty() ? "" : ", ", used, Amount(name, amount),
                        NameOf(name));
  }
  return text.empty() ? "nothing" : text;
}

const RayAmounts* FreeOf(const RayNode& node) { return node.is_free_known ? &node.free : nullptr; }

std::string FreeText(const RayAmounts& free) {
  std::string text;
  for (const auto& [name, amount] : free) {
    if (!IsShown(name) || IsMemory(name)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Amount(name, amount), NameOf(name));
  }
  return text.empty() ? "nothing" : text;
}

void AddTo(RayAmounts& sum, const RayAmounts& amounts) {
  for (const auto& [name, amount] : amounts) sum[name] += amount;
}

std::string Plural(size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
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
  return fmt::format("{} {} of {}", Plural(static_cast<size_t>(demand.count), "placement group"),
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

Json HeadJson(std::string_view schema, const RaySnapshot& cluster) {
  return {{"schema", schema}, {"address", cluster.url}, {"ray_version", cluster.version.ray}};
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

}  // namespace

std::string RayStatusText(const RaySnapshot& cluster) {
  RayAmounts total, free;
  bool is_known = true;
  for (const RayNode& node : cluster.nodes) {
    AddTo(total, node.total);
    AddTo(free, node.free);
    is_known &= node.is_free_known;
  }
  std::string text =
      fmt::format("Ray {} at {}: {}, in use {}\n", ShownText(cluster.version.ray), cluster.url,
                  Plural(cluster.nodes.size(), "node"), UseText(total, is_known ? &free : nullptr));
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
  Json json = HeadJson("hvdray.ray_status/1", cluster);
  json["jobs_api"] = cluster.version.jobs_api;
  json["session"] = cluster.version.session;
  json["nodes"] = Json::array();
  for (const RayNode& node : cluster.nodes) json["nodes"].push_back(NodeJson(node));
  json["waiting"] = DemandsJson(cluster.status.pending);
  json["autoscaler"] = AutoscalerJson(cluster.status.autoscaler);
  return DumpJson(json, 2) + "\n";
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
    rows.push_back({ShownText(node.ip),
                    node.is_free_known ? Plural(static_cast<size_t>(slots.now), "slot") : "? slots",
                    node.is_free_known ? "free: " + FreeText(node.free) : "free: ?",
                    SlotsNote(slots, node.is_free_known)});
  }
  const std::string rest =
      unknown == 0 ? "" : fmt::format(" (not known yet for {})", Plural(unknown, "node"));
  return fmt::format("{} of {} free now, on {} of {} at {}{}\n",
                     Plural(static_cast<size_t>(sum), "slot"),
                     ShownText(AmountsText(SlotBundle(ask)), 200), hosts,
                     Plural(cluster.nodes.size(), "node"), cluster.url, rest) +
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

std::string RayJobsText(const std::string& url, const std::vector<RayJob>& jobs, int64_t now_ms) {
  std::vector<Row> rows;
  for (const RayJob& job : jobs) {
    const std::string exit =
        job.driver_exit_code ? fmt::format("exit code {}", *job.driver_exit_code) : "";
    const std::string since = fmt::format("{} ago", TimeText(now_ms - job.start_ms));
    const std::string took =
        job.end_ms == 0 ? "" : fmt::format(", took {}", TimeText(job.end_ms - job.start_ms));
    rows.push_back({ShownText(job.submission_id), ShownText(job.status_text), exit, since + took});
  }
  return fmt::format("{} at {}\n", Plural(jobs.size(), "job"), url) + Table(rows);
}

std::string RayJobsJson(const std::string& url, const std::vector<RayJob>& jobs) {
  Json list = Json::array();
  for (const RayJob& job : jobs) {
    Json exit_code = nullptr;
    if (job.driver_exit_code) exit_code = *job.driver_exit_code;
    Json ended = nullptr;
    if (job.end_ms != 0) ended = job.end_ms;
    const auto build = job.metadata.find("hvdray_build");
    list.push_back({{"id", job.submission_id},
                    {"status", job.status_text},
                    {"exit_code", std::move(exit_code)},
                    {"started_ms", job.start_ms},
                    {"ended_ms", std::move(ended)},
                    {"build", build == job.metadata.end() ? "" : build->second}});
  }
  const Json json = {{"schema", "hvdray.ray_jobs/1"}, {"address", url}, {"jobs", std::move(list)}};
  return DumpJson(json, 2) + "\n";
}

}  // namespace hvdray
