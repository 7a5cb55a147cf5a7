// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/option_table.h"
#include "launcher/job/ray_runtime_env.h"
#include "launcher/job/user_variables.h"
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

/// Loopback on a single host. Otherwise unknown, since no host has been asked.
void AddInterfaces(const JobSpec& spec, size_t host_count, wire::StartGeneration* start) {
  if (host_count != 1 || spec.is_elastic()) return;
  start->master_address = "127.0.0.1";
  if (!spec.network_interfaces->empty()) return;
  start->gloo_interface = "lo";
  start->nccl_interfaces = "lo";
}

/// What hvdray would set, by rank: tunables, -x with a value, then the place, which wins.
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
      start.kept_variables = KeptVariables(spec);
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
  if (*spec.has_channel) names.emplace_back("HVDRAY_CHANNEL_FD");
  const auto has_threads = [](const EnvironmentEntry& entry) {
    return entry.first == kThreadNames.front();
  };
  if (*spec.omp_threads == 0 && std::none_of(known.begin(), known.end(), has_threads)) {
    names.insert(names.end(), kThreadNames.begin(), kThreadNames.end());  // unless inherited
  }
  if (spec.wants_torch_env()) {
    names.insert(names.end(), {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"});
  }
  std::erase_if(names, [&known](const std::string& name) {
    return std::any_of(known.begin(), known.end(),
                       [&name](const auto& entry) { return entry.first == name; });
  });
  // The launcher's own, with 127.0.0.1 added.
  names.insert(names.end(), {"no_proxy", "NO_PROXY"});
  return names;
}

/// Names that are forwarded from hvdray's own environment, with the value that they have then.
std::vector<std::string> Forwarded(const JobSpec& spec) {
  std::vector<std::string> names;
  for (const std::string& entry : *spec.env) {
    if (entry.find('=') == std::string::npos) names.push_back(entry);
  }
  return names;
}

/// Quoted for a POSIX shell; what would move the cursor is left out: a file's author wrote it.
std::string Quote(const std::string& word) {
  constexpr std::string_view kSafe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
  quoted += "'";
  std::vector<std::string> lines;
  for (const std::string_view line : LinesOf(quoted)) lines.push_back(ShownLine(line));
  return fmt::format("{}", fmt::join(lines, "\n"));
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
  // All workers have the same names, in the same order.
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

struct ConfigRow {
  std::string name;
  Json value;
  std::string origin;
};

std::string WithoutSecret(const std::string& variable) {
  static constexpr std::array<std::string_view, 5> kSecretWords = {"KEY", "TOKEN", "SECRET",
                                                                   "PASSWORD", "CREDENTIAL"};
  const size_t equals = variable.find('=');
  if (equals == std::string::npos) return variable;
  std::string name = variable.substr(0, equals);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  const bool is_secret =
      std::any_of(kSecretWords.begin(), kSecretWords.end(),
                  [&name](std::string_view word) { return name.find(word) != std::string::npos; });
  return is_secret ? variable.substr(0, equals + 1) + "***" : variable;
}

Json ToJson(bool value) { return value; }
Json ToJson(int value) { return value; }
Json ToJson(uint16_t value) { return value; }
Json ToJson(double value) { return value; }
Json ToJson(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
Json ToJson(const std::string& value) { return value.empty() ? Json() : Json(value); }
Json ToJson(const std::vector<std::string>& words) { return Json(words); }
Json ToJson(Duration value) { return std::chrono::duration<double>(value).count(); }
Json ToJson(const std::optional<int>& value) { return value ? Json(*value) : Json(); }
Json ToJson(const std::pair<int, int>& range) { return Json::array({range.first, range.second}); }
Json ToJson(const std::optional<std::pair<int, int>>& range) {
  return range ? ToJson(*range) : Json();
}
Json ToJson(const std::vector<SyncWord>& words) {
  Json list = Json::array();
  for (const SyncWord& word : words) list.push_back(SyncText(word));
  return list;
}
Json ToJson(const std::vector<HostSlots>& hosts) {
  Json list = Json::array();
  for (const HostSlots& host : hosts) list.push_back(HostText(host));
  return list;
}

/// The value of a setting, without variables and headers that may be secret.
template <typename T>
Json ShownValue(const OptionRow& row, const Setting<T>& setting) {
  if constexpr (std::is_enum_v<T>) {
    return ChoicesOf(row)[static_cast<size_t>(*setting)];
  } else if constexpr (std::is_same_v<T, std::optional<PlanFormat>>) {
    return setting->has_value() ? Json(ChoicesOf(row)[static_cast<size_t>(**setting)]) : Json();
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    if (row.id != OptionId::kEnv) return ToJson(*setting);
    std::vector<std::string> variables;
    for (const std::string& variable : *setting) variables.push_back(WithoutSecret(variable));
    return ToJson(variables);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (setting->empty()) return {};
    if (row.id == OptionId::kRayHeaders) return "***";
    return row.id == OptionId::kRuntimeEnv ? ShownRuntimeEnv(*setting) : ToJson(*setting);
  } else {
    return ToJson(*setting);
  }
}

/// The command, then the options in the order and under the names of the option table.
std::vector<ConfigRow> ConfigRows(const JobSpec& spec) {
  std::vector<ConfigRow> rows = {{"command", ToJson(*spec.command), spec.command.origin()}};
  for (const OptionRow& row : OptionTable()) {
    if (row.id == OptionId::kPrintConfig) continue;
    VisitMember(row, [&](const auto& member) {
      const auto& setting = member.In(spec);
      rows.push_back({std::string(row.name), ShownValue(row, setting), setting.origin()});
    });
  }
  return rows;
}

/// 0 means unset where no value of the option is 0.
bool IsUnset(const ConfigRow& row) {
  static constexpr std::array<std::string_view, 4> kZeroIsUnset = {"master-port", "ssh-port",
                                                                   "straggler-timeout", "timeout"};
  return row.value.is_null() || (row.value.is_array() && row.value.empty()) ||
         (std::find(kZeroIsUnset.begin(), kZeroIsUnset.end(), row.name) != kZeroIsUnset.end() &&
          row.value == 0);
}

std::string Shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return DumpJson(value);
  std::string text;
  for (const Json& item : value) {
    const std::string word = item.is_string() ? item.get<std::string>() : DumpJson(item);
    const bool is_plain = !word.empty() && word.find_first_of(" \t\n\"'\\") == std::string::npos;
    text += (text.empty() ? "" : " ") + (is_plain ? word : DumpJson(word));
  }
  return text;
}

/// A value cut to fit the middle column; the JSON form has it whole.
std::string Cut(const std::string& whole) {
  constexpr size_t kMaxBytes = 60;
  std::string text = ShownLine(whole);
  if (text.size() > kMaxBytes) {
    size_t end = kMaxBytes;
    // Not in the middle of a UTF-8 character.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "...";
  }
  return text;
}

std::string ToText(const std::vector<ConfigRow>& rows) {
  std::vector<std::array<std::string, 3>> lines;
  size_t name_width = 0;
  size_t value_width = 0;
  for (const ConfigRow& row : rows) {
    const std::string value = IsUnset(row) ? "-" : Cut(Shown(row.value));
    name_width = std::max(name_width, row.name.size());
    value_width = std::max(value_width, value.size());
    lines.push_back({row.name, value, ShownLine(row.origin)});
  }
  std::string text;
  for (const auto& [name, value, origin] : lines) {
    text += fmt::format("{:<{}}  {:<{}}  {}\n", name, name_width, value, value_width, origin);
  }
  return text;
}

}  // namespace

std::string PlanToText(const JobSpec& spec, std::span<const RankInfo> ranks) {
  if (ranks.empty()) return "no workers\n";
  std::string text = fmt::format("{} on {}\n", Count(ranks.size(), "worker"),
                                 Count(HostsOf(ranks).size(), "host"));
  if (!spec.command->empty()) text += fmt::format("command: {}\n", QuoteAll(*spec.command));
  if (!spec.working_directory->empty())
    text += fmt::format("directory: {}\n", ShownLine(*spec.working_directory));
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
  if (!spec.working_directory->empty()) plan["folder"] = *spec.working_directory;
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

std::string PrintConfig(const JobSpec& spec, PlanFormat format) {
  // Text and JSON show the same rows.
  std::vector<ConfigRow> rows = ConfigRows(spec);
  if (format == PlanFormat::kText) {
    for (const auto& [name, setting] : spec.tunables)
      rows.push_back({name, *setting, setting.origin()});
    return ToText(rows);
  }
  Json settings = Json::object();
  for (const ConfigRow& row : rows) {
    settings[row.name] = {{"value", IsUnset(row) ? Json() : row.value}, {"origin", row.origin}};
  }
  Json environment = Json::object();
  for (const auto& [name, setting] : spec.tunables) {
    environment[name] = {{"value", *setting}, {"origin", setting.origin()}};
  }
  return DumpJson({{"schema", "hvdray.config/1"},
                   {"settings", std::move(settings)},
                   {"environment", std::move(environment)}},
                  2) +
         "\n";
}

}  // namespace hvdray
