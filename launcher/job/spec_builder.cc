// Settings that stand alone, the command, and -x. Hosts: spec_hosts.cc.
#include "launcher/job/spec_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/command_words.h"
#include "launcher/job/setting_reader.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

Result<std::optional<int>> StdinOf(const RawOption& raw) {
  const std::string text = raw.values.empty() ? std::string() : raw.values.back();
  if (text == "none") return std::optional<int>();
  const Result<int64_t> rank = ParseWhole(text, 0, 65535);
  if (rank.ok()) return std::optional<int>(static_cast<int>(*rank));
  return Status(ErrorCode::kUsage,
                fmt::format("{} must be a rank or none, not {}", raw.label, Quoted(text)));
}

Result<std::vector<std::string>> InterfacesOf(const RawOption& raw) {
  constexpr size_t kMaxNameBytes = 15;  // IFNAMSIZ less its NUL.
  std::vector<std::string> names;
  for (const std::string& list : raw.values) {
    size_t begin = 0;
    while (begin <= list.size()) {
      const size_t end = std::min(list.find(',', begin), list.size());
      const std::string name = list.substr(begin, end - begin);
      if (name.empty() || name.size() > kMaxNameBytes ||
          name.find_first_of(" \t\n/") != std::string::npos) {
        return Status(ErrorCode::kUsage, fmt::format("{} must name network interfaces, not {}",
                                                     raw.label, Quoted(name)));
      }
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      begin = end + 1;
    }
  }
  return names;
}

Result<std::vector<SyncWord>> SyncWordsOf(const RawOption& raw) {
  std::vector<SyncWord> words;
  for (const std::string& text : raw.values) {
    Result<SyncWord> word = ParseSyncWord(text);
    if (!word.ok()) {
      return Status(ErrorCode::kUsage, fmt::format("{} {}", raw.label, word.status().message()));
    }
    words.push_back(std::move(word).value());
  }
  return words;
}

bool IsExecutable(const std::string& word, const Environment& environment,
                  const ResolverFiles& files) {
  if (!files.is_executable) return false;
  if (word.find('/') != std::string::npos) return files.is_executable(word);
  const std::string path = environment.GetOr("PATH", "");
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (files.is_executable(path.substr(begin, end - begin) + "/" + word)) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

Status ReadSettings(const LayerStack& layers, JobSpec* spec) {
  SettingReader reader(layers);
  reader.Text(OptionId::kCwd, &spec->working_folder);
  reader.Read(OptionId::kSync, &spec->sync, SyncWordsOf);
  reader.Flag(OptionId::kCleanEnv, &spec->is_clean_env);
  reader.Flag(OptionId::kTorchEnv, &spec->is_torch_env);
  reader.Text(OptionId::kJobFile, &spec->job_file);
  reader.Text(OptionId::kConfigFile, &spec->config_file);
  reader.Text(OptionId::kCluster, &spec->cluster_file);
  reader.Whole(OptionId::kSlotsPerHost, &spec->slots_per_host);
  reader.Read(OptionId::kNetworkInterfaces, &spec->network_interfaces, InterfacesOf);
  reader.Time(OptionId::kStartTimeout, &spec->start_timeout);
  reader.Time(OptionId::kElasticTimeout, &spec->elastic_timeout);
  reader.Time(OptionId::kGrace, &spec->grace);
  reader.Time(OptionId::kTimeout, &spec->timeout);
  reader.Time(OptionId::kHeartbeatTimeout, &spec->heartbeat_timeout);
  reader.Time(OptionId::kKvHold, &spec->kv_hold);
  reader.Whole(OptionId::kMaxRestarts, &spec->max_restarts);
  reader.Whole(OptionId::kResetLimit, &spec->reset_limit);
  reader.Read(OptionId::kBlacklistCooldownRange, &spec->blacklist_cooldown_range,
              [](const RawOption& raw) -> Result<std::optional<std::pair<int, int>>> {
                HVDRAY_ASSIGN_OR_RETURN(auto range, PairOf(OptionId::kBlacklistCooldownRange, raw));
                if (range.first <= range.second) return std::optional<std::pair<int, int>>(range);
                return Status(ErrorCode::kUsage,
                              fmt::format("{}: the lower limit {} is above the upper limit {}",
                                          raw.label, range.first, range.second));
              });
  reader.Choice(OptionId::kElasticMode, &spec->elastic_mode);
  reader.Choice(OptionId::kJoin, &spec->join);
  reader.Choice(OptionId::kSuccess, &spec->success);
  reader.TimeAboveZero(OptionId::kDiscoveryInterval, &spec->discovery_interval);
  reader.TimeAboveZero(OptionId::kDiscoveryTimeout, &spec->discovery_timeout);
  reader.Time(OptionId::kStragglerTimeout, &spec->straggler_timeout);
  reader.Flag(OptionId::kBreakConnections, &spec->breaks_connections);
  reader.Read(OptionId::kStdin, &spec->stdin_rank, StdinOf);
  reader.Choice(OptionId::kTagOutput, &spec->tag_output);
  reader.Flag(OptionId::kPrefixTimestamp, &spec->is_timestamped);
  reader.Text(OptionId::kOutputFilename, &spec->output_folder);
  reader.Choice(OptionId::kColor, &spec->color);
  reader.Flag(OptionId::kQuiet, &spec->is_quiet);
  reader.Flag(OptionId::kVerbose, &spec->is_verbose);
  reader.Flag(OptionId::kLogJson, &spec->is_log_json);
  reader.Text(OptionId::kReport, &spec->report_file);
  reader.Text(OptionId::kEvents, &spec->events_file);
  reader.Text(OptionId::kJunit, &spec->junit_file);
  reader.Text(OptionId::kTrace, &spec->trace_file);
  reader.Text(OptionId::kRecord, &spec->record_file);
  reader.Whole(OptionId::kMasterPort, &spec->master_port);
  reader.Flag(OptionId::kPeerCheck, &spec->is_peer_checked);
  reader.Text(OptionId::kAgentPath, &spec->agent_path);
  reader.Whole(OptionId::kSshPort, &spec->ssh_port);
  reader.Text(OptionId::kSshIdentityFile, &spec->ssh_identity_file);
  reader.Choice(OptionId::kSshTransport, &spec->ssh_transport);
  reader.Text(OptionId::kSshConfig, &spec->ssh_config_file);
  reader.Choice(OptionId::kStrictHostKeyChecking, &spec->host_key_check);
  reader.Whole(OptionId::kSshConnections, &spec->ssh_connections);
  reader.Text(OptionId::kLaunchAgent, &spec->launch_agent);
  reader.Text(OptionId::kRemoteDir, &spec->remote_folder);
  reader.Flag(OptionId::kForceRemote, &spec->is_remote_forced);
  reader.Flag(OptionId::kDryRun, &spec->is_dry_run);
  reader.Format(OptionId::kPrintPlan, &spec->print_plan);
  reader.Format(OptionId::kPrintConfig, &spec->print_config);
  HVDRAY_RETURN_IF_ERROR(reader.TakeStatus());
  if (spec->heartbeat_timeout.get() < std::chrono::seconds(2)) {
    // Agents send one a second: below two intervals each hiccup would be a loss.
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: the heartbeat timeout must be at least 2 seconds",
                              spec->heartbeat_timeout.origin()));
  }
  return {};
}

Status RefuseMpi(const LayerStack& layers) {
  constexpr std::string_view kReason =
      "hvdray starts the workers itself and Horovod trains over Gloo and NCCL";
  for (const OptionId id : {OptionId::kMpi, OptionId::kJsrun}) {
    const RawOption* raw = layers.Find(id);
    if (raw == nullptr) continue;
    HVDRAY_ASSIGN_OR_RETURN(const bool is_on, FlagOf(*raw));
    if (!is_on) continue;
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{} is not supported, because {}", raw->label, kReason),
                  "leave it out");
  }
  for (const OptionId id : {OptionId::kMpiArgs, OptionId::kBindingArgs}) {
    const RawOption* raw = layers.Find(id);
    if (raw == nullptr) continue;
    return Status(
        ErrorCode::kNotSupported,
        fmt::format("{} is not supported, because {}: there is no {} to give it to", raw->label,
                    kReason, id == OptionId::kMpiArgs ? "mpirun" : "mpirun or jsrun"),
        "leave it out");
  }
  return {};
}

Status ResolveCommand(const LayerStack& layers, const Environment& environment,
                      const ResolverFiles& files, SpecUse use, JobSpec* spec) {
  for (const OptionLayer& layer : layers.layers()) {
    if (!layer.command) continue;
    spec->command = *layer.command;
    break;
  }
  if (spec->command->empty()) {
    if (use == SpecUse::kCheck || spec->is_dry_run.get() || spec->print_config->has_value())
      return {};
    return Status(ErrorCode::kUsage, "no command to run",
                  "put it after the options: hvdray run -np 4 python train.py");
  }
  const std::string& program = spec->command->front();
  if (program.empty()) return Status(ErrorCode::kUsage, "the command is an empty word");
  if (IsAssignment(program) && !IsExecutable(program, environment, files)) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{} stands where the command belongs", Quoted(program)),
                  fmt::format("-x {} sets a variable, in front of the command", program));
  }
  const bool is_yaml = program.ends_with(".yaml") || program.ends_with(".yml");
  if (is_yaml && !IsExecutable(program, environment, files)) {
    return Status(
        ErrorCode::kUsage,
        fmt::format("{} stands where the command belongs, and is no program", Quoted(program)),
        fmt::format("a job file is given as -f {0}, a cluster file as --cluster {0}", program));
  }
  return {};
}

Status ResolveEnv(const LayerStack& layers, const Environment& environment, JobSpec* spec) {
  std::vector<std::string> variables;
  std::string origin;
  const std::vector<OptionLayer>& levels = layers.layers();
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    const auto found = level->options.find(OptionId::kEnv);
    if (found == level->options.end()) continue;
    const RawOption& raw = found->second;
    for (const std::string& variable : raw.values) {
      const std::string name = variable.substr(0, variable.find('='));
      if (name.empty()) {
        return Status(ErrorCode::kUsage, fmt::format("{} must be NAME or NAME=VALUE, not {}",
                                                     raw.label, Quoted(variable)));
      }
      if (name.size() == variable.size() && !environment.Get(name)) {
        return Status(ErrorCode::kUsage,
                      fmt::format("{}: {} is not set in this environment", raw.label, Quoted(name)),
                      "give it a value: NAME=VALUE");
      }
      variables.push_back(variable);
    }
    origin = origin.empty() ? raw.origin : fmt::format("{}, {}", raw.origin, origin);
  }
  if (!origin.empty()) spec->env.Set(std::move(variables), origin);
  return {};
}

}  // namespace hvdray
