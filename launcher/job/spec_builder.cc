// SPDX-License-Identifier: Apache-2.0
// Settings that stand alone, the command, and -x. Hosts: spec_hosts.cc.
#include "launcher/job/spec_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <type_traits>

#include "base/command_words.h"
#include "launcher/job/setting_reader.h"
#include "launcher/job/spec_fields.h"
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

/// Read in spec_hosts.cc and spec_ray.cc, though their types are plain.
bool HasOwnReader(OptionId id) {
  constexpr std::array<OptionId, 8> kOnes = {OptionId::kNumProc,    OptionId::kMinNp,
                                             OptionId::kMaxNp,      OptionId::kHostfile,
                                             OptionId::kRay,        OptionId::kHostDiscoveryScript,
                                             OptionId::kRayHeaders, OptionId::kRuntimeEnv};
  return std::find(kOnes.begin(), kOnes.end(), id) != kOnes.end();
}

using Tunables = std::map<std::string, Setting<std::string>>;

}  // namespace

Status ReadSettings(const LayerStack& layers, JobSpec* spec) {
  SettingReader reader(layers);
  ForEachSpecField(*spec, [&reader](const char* /*name*/, OptionId id, auto& field) {
    if constexpr (!std::is_same_v<decltype(field), Tunables&>) {
      if (id != OptionId::kCount && !HasOwnReader(id)) reader.ByType(id, &field);
    }
  });
  reader.Read(OptionId::kSync, &spec->sync, SyncWordsOf);
  reader.Read(OptionId::kNetworkInterfaces, &spec->network_interfaces, InterfacesOf);
  reader.Read(OptionId::kBlacklistCooldownRange, &spec->blacklist_cooldown_range,
              [](const RawOption& raw) -> Result<std::optional<std::pair<int, int>>> {
                HVDRAY_ASSIGN_OR_RETURN(auto range, PairOf(OptionId::kBlacklistCooldownRange, raw));
                if (range.first <= range.second) return std::optional<std::pair<int, int>>(range);
                return Status(ErrorCode::kUsage,
                              fmt::format("{}: the lower limit {} is above the upper limit {}",
                                          raw.label, range.first, range.second));
              });
  reader.Read(OptionId::kStdin, &spec->stdin_rank, StdinOf);
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
