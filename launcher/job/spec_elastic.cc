// SPDX-License-Identifier: Apache-2.0
// What an elastic job changes in a spec, and which options mean nothing to which kind of job.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/command_words.h"
#include "launcher/job/spec_builder.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

/// In the order of the option table. A timeout that HOROVOD_ELASTIC_TIMEOUT sets for all jobs of a
/// site is no slip, so it is not here.
std::vector<std::string> ElasticOrigins(const JobSpec& spec) {
  std::vector<std::string> origins;
  const auto add = [&origins](const auto& setting) {
    if (!setting.is_default()) origins.push_back(setting.origin());
  };
  add(spec.max_np);
  add(spec.reset_limit);
  add(spec.blacklist_cooldown_range);
  add(spec.elastic_mode);
  add(spec.join);
  add(spec.success);
  add(spec.discovery_interval);
  add(spec.discovery_timeout);
  add(spec.straggler_timeout);
  add(spec.breaks_connections);
  add(spec.record_file);
  return origins;
}

void WarnOfOtherMode(const JobSpec& spec, std::vector<std::string>* warnings) {
  const auto warn = [warnings](const auto& setting, std::string_view why) {
    if (!setting.is_default()) {
      warnings->push_back(fmt::format("{} has no effect {}", setting.origin(), why));
    }
  };
  if (*spec.elastic_mode == ElasticMode::kHorovod) {
    // 0 is what it is anyway.
    if (*spec.max_restarts > 0) {
      warn(spec.max_restarts, "with --elastic-mode horovod: see --reset-limit");
    }
    return;
  }
  constexpr std::string_view kGang = "with --elastic-mode gang";
  warn(spec.reset_limit, fmt::format("{}: see --max-restarts", kGang));
  const std::string fresh_start = fmt::format("{}, which starts all workers anew", kGang);
  warn(spec.join, fresh_start);
  warn(spec.straggler_timeout, fresh_start);
  warn(spec.breaks_connections, fresh_start);
}

void WarnWithoutScript(const JobSpec& spec, std::vector<std::string>* warnings) {
  for (const Setting<Duration>* setting : {&spec.discovery_interval, &spec.discovery_timeout}) {
    if (setting->is_default()) continue;
    warnings->push_back(
        fmt::format("{} has no effect without --host-discovery-script", setting->origin()));
  }
}

}  // namespace

void SettleElastic(JobSpec* spec, std::vector<std::string>* warnings) {
  if (!spec->is_elastic()) {
    for (const std::string& origin : ElasticOrigins(*spec)) {
      warnings->push_back(
          fmt::format("{} has no effect without --min-np or --host-discovery-script", origin));
    }
    return;
  }
  if (spec->heartbeat_timeout.is_default()) {
    // A host lost too early costs an elastic job a reset, not its life (style 7).
    spec->heartbeat_timeout = Setting<Duration>(std::chrono::seconds(5));
  }
  WarnOfOtherMode(*spec, warnings);
  if (spec->host_discovery_script->empty()) WarnWithoutScript(*spec, warnings);
  if (spec->outlives_changes()) spec->is_torch_env.Set(false, "elastic job");
}

void WarnOfTorchScript(const ResolverFiles& files, const JobSpec& spec,
                       std::vector<std::string>* warnings) {
  // Who names the mode knows.
  if (!spec.outlives_changes() || !spec.elastic_mode.is_default() || !files.read) return;
  const size_t script = PythonScriptOf(*spec.command);
  if (script == 0) return;
  const std::string& word = (*spec.command)[script];
  const bool is_below = !word.starts_with('/') && !spec.working_directory->empty();
  const Result<std::optional<std::string>> text =
      files.read(is_below ? *spec.working_directory + "/" + word : word);
  if (!text.ok() || !text->has_value()) return;  // checked where it is to run
  const auto has = [&text](std::string_view part) {
    return (*text)->find(part) != std::string::npos;
  };
  if (has("horovod") || !(has("torch.distributed") || has("init_process_group"))) return;
  warnings->push_back(
      fmt::format("{} looks like a script of torch.distributed, which needs --elastic-mode gang: "
                  "Horovod's way of elastic jobs sets no RANK",
                  Quoted(word)));
}

}  // namespace hvdray
