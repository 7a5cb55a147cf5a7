// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/json_fields.h"
#include "base/shown_text.h"
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

std::string StrategyName(RayStrategy strategy) {
  switch (strategy) {
    case RayStrategy::kAuto:
      return {};
    case RayStrategy::kPack:
      return "PACK";
    case RayStrategy::kSpread:
      return "SPREAD";
    case RayStrategy::kStrictPack:
      return "STRICT_PACK";
    case RayStrategy::kStrictSpread:
      return "STRICT_SPREAD";
  }
  return {};
}

constexpr double kMaxAmount = 1e15;

/// "1.5GiB" in bytes; a number as it is.
Result<double> ParseBytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {
      {{"KiB", 1024.0},
       {"MiB", 1024.0 * 1024},
       {"GiB", 1024.0 * 1024 * 1024},
       {"TiB", 1024.0 * 1024 * 1024 * 1024},
       {"KB", 1e3},
       {"MB", 1e6},
       {"GB", 1e9},
       {"TB", 1e12},
       {"B", 1}}};
  for (const auto& [unit, bytes] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const Result<double> number = ParseNumber(text.substr(0, text.size() - unit.size()));
    if (number.ok()) return std::ceil(*number * bytes);
    break;
  }
  Result<double> number = ParseNumber(text);
  if (number.ok()) return number;
  return Status(ErrorCode::kUsage,
                fmt::format("must be a number of bytes or as 1GiB, not {}", Quoted(text)));
}

}  // namespace

std::string RayJobFileText(const RayJobFile& job) {
  // For the client's own way to the dashboard, and maybe a password: nobody on the nodes needs it.
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
        .WithContext(fmt::format("options that '{}' wrote", ShownText(job.build)));
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

Result<std::pair<std::string, double>> ParseSlotResource(std::string_view label,
                                                         std::string_view text) {
  const auto wrong = [label](std::string_view how, std::string hint = {}) {
    return Status(ErrorCode::kUsage, fmt::format("{} {}", label, how), std::move(hint));
  };
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return wrong(fmt::format("must be NAME=AMOUNT, not {}", Quoted(text)));
  }
  const std::string name(text.substr(0, equals));
  if (name == "CPU" || name == "GPU") {
    return wrong(fmt::format("must not name {}", name),
                 name == "CPU" ? "--cpus-per-slot N" : "--use-gpu --gpus-per-slot N");
  }
  const std::string_view value = text.substr(equals + 1);
  const bool is_bytes = name == "memory" || name == "object_store_memory";
  const Result<double> amount = is_bytes ? ParseBytes(value) : ParseNumber(value);
  if (!amount.ok()) return wrong(amount.status().message());
  if (*amount < 0 || *amount > kMaxAmount) {
    return wrong(fmt::format("must be from 0 to {:g}, not {}", kMaxAmount, Quoted(value)));
  }
  if (*amount == 0) return wrong(fmt::format("must ask for more than 0 of {}", Quoted(name)));
  return std::pair(name, *amount);
}

Status CheckSlotGpus(std::string_view label, const std::optional<double>& gpus, bool uses_gpu) {
  if (!gpus || (!uses_gpu && *gpus == 0)) return {};
  if (!uses_gpu) {
    return {ErrorCode::kUsage, fmt::format("{} has no effect without --use-gpu", label),
            "add --use-gpu"};
  }
  if (*gpus >= 1 && *gpus == std::floor(*gpus)) return {};
  return {ErrorCode::kUsage,
          fmt::format("{} must be a whole number from 1, with --use-gpu", label)};
}

RayAsk RayAskOf(const JobSpec& spec) {
  const RaySpec& ray = spec.ray;
  RayAsk ask;
  ask.np = *spec.np;
  ask.num_hosts = *ray.num_hosts;
  for (const HostSlots& host : *spec.hosts) ask.named.push_back({host.dial_name(), host.slots});
  ask.cpus_per_slot = *ray.cpus_per_slot;
  ask.gpus_per_slot = ray.slot_gpus();
  // Both are lists of NAME=VALUE that the resolver has checked.
  for (const std::string& text : *ray.slot_resources) {
    const auto resource = ParseSlotResource({}, text);
    if (resource.ok()) ask.slot_resources[resource->first] = resource->second;
  }
  for (const std::string& text : *ray.label_selectors) {
    const size_t equals = text.find('=');
    ask.labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
  ask.strategy = StrategyName(*ray.strategy);
  return ask;
}

}  // namespace hvdray
