// One list of rows feeds both forms, so that text and JSON cannot tell different things.
#include "launcher/job/print_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "launcher/job/host_word.h"
#include "launcher/job/option_table.h"
#include "launcher/job/ray_runtime_env.h"

namespace hvdray {
namespace {

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

/// The rows in the table's order, under the table's names.
class RowList {
 public:
  template <typename T>
  void Add(OptionId id, const Setting<T>& setting) {
    rows_.push_back({std::string(RowOf(id).name), ToJson(*setting), setting.origin()});
  }
  template <typename Enum>
  void AddChoice(OptionId id, const Setting<Enum>& setting) {
    const auto index = static_cast<size_t>(*setting);
    rows_.push_back({std::string(RowOf(id).name), ChoicesOf(RowOf(id))[index], setting.origin()});
  }
  void AddFormat(OptionId id, const Setting<std::optional<PlanFormat>>& setting) {
    Json value;
    if (setting->has_value()) value = ChoicesOf(RowOf(id))[static_cast<size_t>(**setting)];
    rows_.push_back({std::string(RowOf(id).name), value, setting.origin()});
  }
  void AddRow(std::string name, Json value, std::string origin) {
    rows_.push_back({std::move(name), std::move(value), std::move(origin)});
  }
  std::vector<ConfigRow> Take() { return std::move(rows_); }

 private:
  std::vector<ConfigRow> rows_;
};

void AddJob(const JobSpec& spec, RowList* rows) {
  rows->AddRow("command", ToJson(*spec.command), spec.command.origin());
  rows->Add(OptionId::kJobFile, spec.job_file);
  std::vector<std::string> variables;
  for (const std::string& variable : *spec.env) variables.push_back(WithoutSecret(variable));
  rows->AddRow("env", ToJson(variables), spec.env.origin());
  rows->Add(OptionId::kCleanEnv, spec.is_clean_env);
  rows->Add(OptionId::kCwd, spec.working_folder);
  rows->Add(OptionId::kSync, spec.sync);
  rows->Add(OptionId::kTorchEnv, spec.is_torch_env);
  rows->Add(OptionId::kNumProc, spec.np);
  rows->Add(OptionId::kHosts, spec.hosts);
  rows->Add(OptionId::kHostfile, spec.hostfile);
  rows->Add(OptionId::kCluster, spec.cluster_file);
  rows->Add(OptionId::kSlotsPerHost, spec.slots_per_host);
  rows->Add(OptionId::kHostDiscoveryScript, spec.host_discovery_script);
  rows->Add(OptionId::kMinNp, spec.min_np);
  rows->Add(OptionId::kMaxNp, spec.max_np);
  rows->Add(OptionId::kElasticTimeout, spec.elastic_timeout);
  rows->Add(OptionId::kResetLimit, spec.reset_limit);
  rows->Add(OptionId::kBlacklistCooldownRange, spec.blacklist_cooldown_range);
  rows->AddChoice(OptionId::kElasticMode, spec.elastic_mode);
  rows->AddChoice(OptionId::kJoin, spec.join);
  rows->AddChoice(OptionId::kSuccess, spec.success);
  rows->Add(OptionId::kDiscoveryInterval, spec.discovery_interval);
  rows->Add(OptionId::kDiscoveryTimeout, spec.discovery_timeout);
  rows->Add(OptionId::kStragglerTimeout, spec.straggler_timeout);
  rows->Add(OptionId::kBreakConnections, spec.breaks_connections);
  rows->Add(OptionId::kMaxRestarts, spec.max_restarts);
  rows->Add(OptionId::kGrace, spec.grace);
  rows->Add(OptionId::kTimeout, spec.timeout);
  rows->Add(OptionId::kStartTimeout, spec.start_timeout);
  rows->Add(OptionId::kHeartbeatTimeout, spec.heartbeat_timeout);
}

void AddRest(const JobSpec& spec, RowList* rows) {
  rows->Add(OptionId::kOutputFilename, spec.output_folder);
  rows->Add(OptionId::kPrefixTimestamp, spec.is_timestamped);
  rows->AddChoice(OptionId::kTagOutput, spec.tag_output);
  rows->Add(OptionId::kStdin, spec.stdin_rank);
  rows->AddChoice(OptionId::kColor, spec.color);
  rows->Add(OptionId::kQuiet, spec.is_quiet);
  rows->Add(OptionId::kVerbose, spec.is_verbose);
  rows->Add(OptionId::kLogJson, spec.is_log_json);
  rows->Add(OptionId::kDryRun, spec.is_dry_run);
  rows->AddFormat(OptionId::kPrintPlan, spec.print_plan);
  rows->Add(OptionId::kReport, spec.report_file);
  rows->Add(OptionId::kEvents, spec.events_file);
  rows->Add(OptionId::kJunit, spec.junit_file);
  rows->Add(OptionId::kTrace, spec.trace_file);
  rows->Add(OptionId::kRecord, spec.record_file);
  rows->Add(OptionId::kNetworkInterfaces, spec.network_interfaces);
  rows->Add(OptionId::kMasterPort, spec.master_port);
  rows->Add(OptionId::kPeerCheck, spec.is_peer_checked);
  rows->Add(OptionId::kKvHold, spec.kv_hold);
  rows->Add(OptionId::kAgentPath, spec.agent_path);
  rows->Add(OptionId::kSshPort, spec.ssh_port);
  rows->Add(OptionId::kSshIdentityFile, spec.ssh_identity_file);
  rows->AddChoice(OptionId::kSshTransport, spec.ssh_transport);
  rows->Add(OptionId::kSshConfig, spec.ssh_config_file);
  rows->AddChoice(OptionId::kStrictHostKeyChecking, spec.host_key_check);
  rows->Add(OptionId::kSshConnections, spec.ssh_connections);
  rows->Add(OptionId::kLaunchAgent, spec.launch_agent);
  rows->Add(OptionId::kRemoteDir, spec.remote_folder);
  rows->Add(OptionId::kForceRemote, spec.is_remote_forced);
}

void AddRay(const RaySpec& ray, RowList* rows) {
  rows->Add(OptionId::kRay, ray.is_wanted);
  rows->Add(OptionId::kRayAddress, ray.address);
  rows->Add(OptionId::kRayVerify, ray.verify);
  // Their values may be passwords.
  rows->AddRow("ray-headers", ray.headers->empty() ? Json() : Json("***"), ray.headers.origin());
  rows->Add(OptionId::kRayPython, ray.python);
  rows->Add(OptionId::kKeepRayEnv, ray.keeps_ray_env);
  rows->Add(OptionId::kDetach, ray.is_detached);
  rows->Add(OptionId::kStopWithClient, ray.stops_with_client);
  rows->Add(OptionId::kRayLogLimit, ray.log_limit);
  rows->Add(OptionId::kWorkingDir, ray.working_dir);
  rows->Add(OptionId::kExclude, ray.excludes);
  // So may those of its variables.
  rows->AddRow("runtime-env", ray.runtime_env->empty() ? Json() : ShownRuntimeEnv(*ray.runtime_env),
               ray.runtime_env.origin());
  rows->Add(OptionId::kNumHosts, ray.num_hosts);
  rows->Add(OptionId::kNumSlots, ray.num_slots);
  rows->Add(OptionId::kCpusPerSlot, ray.cpus_per_slot);
  rows->Add(OptionId::kGpusPerSlot, ray.gpus_per_slot);
  rows->Add(OptionId::kUseGpu, ray.uses_gpu);
  rows->Add(OptionId::kResourcesPerSlot, ray.slot_resources);
  rows->Add(OptionId::kLabelSelector, ray.label_selectors);
  rows->AddChoice(OptionId::kStrategy, ray.strategy);
  rows->Add(OptionId::kPlacementGroupTimeout, ray.group_timeout);
  rows->AddChoice(OptionId::kGpuVisibility, ray.gpu_choice);
  rows->AddChoice(OptionId::kBackend, ray.backend);
}

/// 0 stands for "nothing was said" where no option value is 0.
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

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

/// A value of the middle column that fits a line; the JSON form has it whole.
std::string Cut(const std::string& whole) {
  constexpr size_t kMaxBytes = 60;
  std::string text = OneLine(whole);
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
    lines.push_back({row.name, value, OneLine(row.origin)});
  }
  std::string text;
  for (const auto& [name, value, origin] : lines) {
    text += fmt::format("{:<{}}  {:<{}}  {}\n", name, name_width, value, value_width, origin);
  }
  return text;
}

}  // namespace

std::string PrintConfig(const JobSpec& spec, PlanFormat format) {
  RowList list;
  AddJob(spec, &list);
  AddRest(spec, &list);
  AddRay(spec.ray, &list);
  list.Add(OptionId::kConfigFile, spec.config_file);
  std::vector<ConfigRow> rows = list.Take();
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
