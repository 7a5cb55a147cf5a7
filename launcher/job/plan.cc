#include "launcher/job/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "wire/slot_environment.h"

namespace hvdray {
namespace {

constexpr std::string_view kSchema = "hvdray.plan/1";

using Variables = std::vector<EnvironmentEntry>;

struct HostPlan {
  std::string host;
  int workers = 0;
};

/// Hosts that get workers, in rank order.
std::vector<HostPlan> HostsOf(std::span<const RankInfo> ranks) {
  std::vector<HostPlan> hosts;
  for (const RankInfo& info : ranks) {
    if (hosts.empty() || hosts.back().host != info.host) hosts.push_back({info.host, 0});
    ++hosts.back().workers;
  }
  return hosts;
}

/// One interface for all: loopback on a single host; unknown as long as no host was asked.
void AddInterfaces(const JobSpec& spec, size_t host_count, wire::StartGeneration* start) {
  if (host_count != 1 || spec.is_elastic()) return;
  start->master_address = "127.0.0.1";
  if (!spec.network_interfaces->empty()) return;
  start->gloo_interface = "lo";
  start->nccl_interfaces = "lo";
}

/// By rank, what hvdray would set: tunables, -x with a value, then the place, which wins.
std::vector<Variables> EnvironmentsOf(const JobSpec& spec, std::span<const RankInfo> ranks) {
  const Environment given = WorkerEnvironment(spec, Environment(), true);
  const size_t host_count = HostsOf(ranks).size();
  std::vector<Variables> all;
  wire::StartGeneration start;
  int host = -1;
  for (const RankInfo& info : ranks) {
    if (info.host_index != host) {
      host = info.host_index;
      start = StartOfHost(ranks, host);
      start.max_restarts = static_cast<uint32_t>(*spec.max_restarts);
      start.master_port = *spec.master_port;
      start.is_torch_environment = spec.wants_torch_env();
      AddInterfaces(spec, host_count, &start);
    }
    std::map<std::string, std::string> merged = given.values();
    for (auto& [name, value] :
         SlotEnvironment(start, start.workers[static_cast<size_t>(info.local_rank)], "", 0)) {
      merged[name] = value;
    }
    merged["HVDRAY_RANK"] = fmt::format("{}", info.rank);
    if (spec.outlives_changes()) merged["HOROVOD_ELASTIC"] = "1";
    all.emplace_back(merged.begin(), merged.end());
  }
  return all;
}

/// Names that a real start would add to `known`.
std::vector<std::string> DecidedAtStart(const JobSpec& spec, const Variables& known) {
  std::vector<std::string> names = {"HVDRAY_JOB_ID",
                                    "HVDRAY_GENERATION",
                                    "TORCHELASTIC_ERROR_FILE",
                                    "HOROVOD_GLOO_IFACE",
                                    "HOROVOD_GLOO_RENDEZVOUS_PORT",
                                    "NCCL_SOCKET_IFNAME",
                                    "GLOO_SOCKET_IFNAME"};
  if (spec.wants_torch_env()) {
    names.insert(names.end(), {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"});
  }
  std::erase_if(names, [&known](const std::string& name) {
    return std::any_of(known.begin(), known.end(),
                       [&name](const auto& entry) { return entry.first == name; });
  });
  // As they are here, with 127.0.0.1 put into them.
  names.insert(names.end(), {"no_proxy", "NO_PROXY"});
  return names;
}

/// Names that are taken over from hvdray's own environment, whatever their value is then.
std::vector<std::string> Forwarded(const JobSpec& spec) {
  std::vector<std::string> names;
  for (const std::string& entry : *spec.env) {
    if (entry.find('=') == std::string::npos) names.push_back(entry);
  }
  return names;
}

/// As a POSIX shell would take it. Source: Horovod spec 1.5.
std::string Quote(const std::string& word) {
  constexpr std::string_view kSafe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
  return quoted + "'";
}

std::string QuoteAll(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(Quote(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

std::string Table(std::span<const RankInfo> ranks) {
  size_t width = std::string_view("HOST").size();
  for (const RankInfo& info : ranks) width = std::max(width, info.host.size());
  std::string text =
      fmt::format("{:>5}  {:<{}}  {:>10}  {:>10}\n", "RANK", "HOST", width, "LOCAL", "CROSS");
  for (const RankInfo& info : ranks) {
    text += fmt::format("{:>5}  {:<{}}  {:>10}  {:>10}\n", info.rank, info.host, width,
                        fmt::format("{} of {}", info.local_rank, info.local_size),
                        fmt::format("{} of {}", info.cross_rank, info.cross_size));
  }
  return text;
}

std::string Environments(const std::vector<Variables>& all) {
  std::string shared;
  std::vector<std::string> own(all.size());
  // All workers have the same names in the same order.
  for (size_t i = 0; i < all[0].size(); ++i) {
    const bool is_shared = std::all_of(all.begin(), all.end(),
                                       [&](const Variables& one) { return one[i] == all[0][i]; });
    if (is_shared) {
      shared += fmt::format("  {}={}\n", all[0][i].first, Quote(all[0][i].second));
      continue;
    }
    for (size_t rank = 0; rank < all.size(); ++rank) {
      own[rank] += fmt::format(" {}={}", all[rank][i].first, Quote(all[rank][i].second));
    }
  }
  std::string text = fmt::format("\nEvery worker gets:\n{}", shared);
  if (all.size() == 1) return text;
  text += "\nEach worker gets:\n";
  for (size_t rank = 0; rank < all.size(); ++rank) {
    text += fmt::format("  rank {}:{}\n", rank, own[rank]);
  }
  return text;
}

}  // namespace

std::string PlanToText(const JobSpec& spec, std::span<const RankInfo> ranks) {
  if (ranks.empty()) return "no workers\n";
  std::string text = fmt::format("{} on {}\n", Count(ranks.size(), "worker"),
                                 Count(HostsOf(ranks).size(), "host"));
  if (!spec.command->empty()) text += fmt::format("command: {}\n", QuoteAll(*spec.command));
  if (!spec.working_folder->empty()) text += fmt::format("folder: {}\n", *spec.working_folder);
  text += '\n' + Table(ranks);
  const std::vector<Variables> all = EnvironmentsOf(spec, ranks);
  text += Environments(all);
  const std::vector<std::string> forwarded = Forwarded(spec);
  if (!forwarded.empty()) {
    text += fmt::format("\nTaken from hvdray's environment: {}\n", fmt::join(forwarded, ", "));
  }
  text +=
      fmt::format("\nDecided at the start: {}\n", fmt::join(DecidedAtStart(spec, all[0]), ", "));
  return text;
}

std::string PlanToJson(const JobSpec& spec, std::span<const RankInfo> ranks) {
  Json plan = {{"schema", kSchema}, {"size", ranks.size()}, {"command", *spec.command}};
  if (!spec.working_folder->empty()) plan["folder"] = *spec.working_folder;
  plan["hosts"] = Json::array();
  for (const HostPlan& host : HostsOf(ranks)) {
    plan["hosts"].push_back({{"host", host.host}, {"workers", host.workers}});
  }
  plan["workers"] = Json::array();
  const std::vector<Variables> all = EnvironmentsOf(spec, ranks);
  for (const RankInfo& info : ranks) {
    Json environment = Json::object();
    for (const auto& [name, value] : all[static_cast<size_t>(info.rank)]) environment[name] = value;
    plan["workers"].push_back({{"rank", info.rank},
                               {"host", info.host},
                               {"local_rank", info.local_rank},
                               {"local_size", info.local_size},
                               {"cross_rank", info.cross_rank},
                               {"cross_size", info.cross_size},
                               {"environment", std::move(environment)}});
  }
  plan["forwarded"] = Forwarded(spec);
  plan["decided_at_start"] =
      all.empty() ? std::vector<std::string>{} : DecidedAtStart(spec, all[0]);
  return DumpJson(plan, 2) + "\n";
}

}  // namespace hvdray
