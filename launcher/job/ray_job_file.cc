// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/json_fields.h"
#include "base/text.h"
#include "launcher/job/option_table.h"
#include "launcher/job/option_value.h"
#include "launcher/job/spec_json.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

constexpr size_t kKeyDigits = 64;

bool IsKey(std::string_view key) {
  return key.size() == kKeyDigits && std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, RayJobFile> job) {
  io.Text("job_id", job.job_id, {1});
  io.Text("build", job.build);
  io.Text("key", job.key);
  io.Require("key", IsKey(job.key), "must be 64 hex digits");
  io.Flag("can_grow", job.can_grow);
}

// Pairs, since names may be any bytes as well.
template <typename Io, typename List>
void Variables(Io& io, List& variables) {
  io.List("environment", variables, kAnyCount, [](auto& item, auto& variable) {
    item.Exactly(2);
    item.Bytes(0, variable.first);
    item.Bytes(1, variable.second);
  });
}

}  // namespace

std::string RayJobFileText(const RayJobFile& job) {
  // The client's headers for the dashboard may hold a password, and no node needs them.
  JobSpec spec = job.spec;
  spec.ray.headers = Setting<std::string>();
  const auto& values = job.environment.values();
  return WriteFields([&](FieldWriter& io) {
           Fields(io, job);
           io.Raw("options", SpecToJson(spec));
           const std::vector<std::pair<std::string, std::string>> variables(values.begin(),
                                                                            values.end());
           Variables(io, variables);
         }) +
         "\n";
}

Result<RayJobFile> ParseRayJobFile(ByteView text) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseJson(text, kMaxRayJobFileBytes));
  RayJobFile job;
  std::vector<std::pair<std::string, std::string>> variables;
  HVDRAY_RETURN_IF_ERROR(
      ReadFields(json, FieldReader::Missing::kKeepsDefault, [&](FieldReader& io) {
        Fields(io, job);
        io.Require("options", io.Has("options"), "is missing");
        Variables(io, variables);
      }));
  Result<JobSpec> spec = SpecFromJson(json["options"]);
  if (!spec.ok()) {
    return std::move(spec)
        .status()
        .WithCode(ErrorCode::kProtocolMismatch)
        .WithContext(fmt::format("options written by '{}'", ShownText(job.build)));
  }
  job.spec = std::move(spec).value();
  for (auto& [name, value] : variables) job.environment.Set(std::move(name), std::move(value));
  return job;
}

Environment EnvironmentForRay(const JobSpec& spec, const Environment& client) {
  Environment result;
  for (const auto& [name, value] : client.values()) {
    const bool is_named = std::find(spec.env->begin(), spec.env->end(), name) != spec.env->end();
    if (is_named || name.starts_with("HOROVOD_") || name.starts_with("NCCL_")) {
      result.Set(name, value);
    }
  }
  return result;
}

Status CheckSlotGpus(std::string_view label, const std::optional<double>& gpus, bool uses_gpu) {
  if (!gpus || (!uses_gpu && *gpus == 0)) return {};
  if (!uses_gpu) {
    return {ErrorCode::kUsage, fmt::format("{} has no effect without --use-gpu", label),
            "add --use-gpu"};
  }
  if (*gpus >= 1 && *gpus == std::floor(*gpus)) return {};
  return {ErrorCode::kUsage,
          fmt::format("{} must be a whole number of at least 1 with --use-gpu", label)};
}

RayAsk ToRayAsk(const JobSpec& spec) {
  const RaySpec& ray = spec.ray;
  RayAsk ask;
  ask.np = *spec.np;
  ask.num_hosts = *ray.num_hosts;
  for (const HostSlots& host : *spec.hosts) ask.named.push_back({host.dial_name(), host.slots});
  ask.cpus_per_slot = *ray.cpus_per_slot;
  ask.gpus_per_slot = ray.slot_gpus();
  // The resolver has checked both lists of NAME=VALUE.
  for (const std::string& text : *ray.slot_resources) {
    const auto resource = ParseSlotResource({}, text);
    if (resource.ok()) ask.slot_resources[resource->first] = resource->second;
  }
  for (const std::string& text : *ray.label_selectors) {
    const size_t equals = text.find('=');
    ask.labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (*ray.strategy != RayStrategy::kAuto) {
    ask.strategy = ChoicesOf(RowOf(OptionId::kStrategy))[static_cast<size_t>(*ray.strategy)];
  }
  return ask;
}

}  // namespace hvdray
