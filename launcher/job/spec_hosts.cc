// SPDX-License-Identifier: Apache-2.0
// Who names the hosts, how many workers they get, and whether that fits.
#include <fmt/format.h>

#include <cstdint>

#include "launcher/job/allocation.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/spec_builder.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

/// The highest level that names hosts in any of the three ways; a level holds one at most.
const RawOption* FindHostSource(const LayerStack& layers, OptionId* id) {
  for (const OptionLayer& layer : layers.layers()) {
    for (const OptionId candidate :
         {OptionId::kHosts, OptionId::kHostfile, OptionId::kHostDiscoveryScript}) {
      const auto found = layer.options.find(candidate);
      if (found == layer.options.end()) continue;
      *id = candidate;
      return &found->second;
    }
  }
  return nullptr;
}

Result<std::vector<HostSlots>> ReadHosts(OptionId id, const RawOption& raw,
                                         const ResolverFiles& files) {
  const std::string& value = raw.values.front();
  if (id == OptionId::kHosts) {
    Result<std::vector<HostSlots>> hosts = ParseHostList(value);
    if (!hosts.ok()) return std::move(hosts).status().WithContext(raw.label);
    return hosts;
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<std::string> text, files.read(value));
  if (!text) {
    return Status(ErrorCode::kFileUnreadable,
                  fmt::format("{}: no file {}", raw.label, Quoted(value)));
  }
  return ParseHostfile(*text, value);
}

int64_t TotalSlots(const std::vector<HostSlots>& hosts) {
  int64_t total = 0;
  for (const HostSlots& host : hosts) total += host.slots;
  return total;
}

Status ReadLimit(const LayerStack& layers, OptionId id, Setting<std::optional<int>>* out) {
  const RawOption* raw = layers.Find(id);
  if (raw == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(const int64_t value, WholeOf(id, *raw));
  out->Set(static_cast<int>(value), raw->origin);
  return {};
}

Status CheckLimits(const JobSpec& spec) {
  const std::optional<int> min = *spec.min_np;
  const std::optional<int> max = *spec.max_np;
  if (min && max && *min > *max) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: {} is above the maximum of {} ({})", spec.min_np.origin(), *min,
                              *max, spec.max_np.origin()));
  }
  return {};
}

/// An elastic job starts with -np workers, so the limits have to leave room for that.
Status CheckStart(const JobSpec& spec) {
  if (!spec.is_elastic()) return {};
  const std::optional<int> min = *spec.min_np;
  const std::optional<int> max = *spec.max_np;
  if (min && *min > *spec.np) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: {} is above the {} workers to start with ({})",
                              spec.min_np.origin(), *min, *spec.np, spec.np.origin()),
                  "raise -np, or lower --min-np");
  }
  if (max && *max < *spec.np) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: {} is below the {} workers to start with ({})",
                              spec.max_np.origin(), *max, *spec.np, spec.np.origin()),
                  "lower -np, or raise --max-np");
  }
  return {};
}

/// -np, or what stands in for it: all slots, or the least that an elastic job needs.
Status ResolveNp(const LayerStack& layers, SpecUse use, JobSpec* spec) {
  if (const RawOption* raw = layers.Find(OptionId::kNumProc)) {
    HVDRAY_ASSIGN_OR_RETURN(const int64_t np, WholeOf(OptionId::kNumProc, *raw));
    spec->np.Set(static_cast<int>(np), raw->origin);
    return {};
  }
  if (spec->min_np->has_value()) {
    spec->np.Set(**spec->min_np, spec->min_np.origin());
    return {};
  }
  const int64_t slots = TotalSlots(*spec->hosts);
  if (spec->hosts->empty()) {
    if (use == SpecUse::kCheck) {
      spec->np = Setting<int>(1);
      return {};
    }
    return Status(ErrorCode::kUsage, "how many workers?", "-np N");
  }
  if (slots < 1 || slots > RowOf(OptionId::kNumProc).max) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: {} slots in all, and no number of workers is given",
                              spec->hosts.origin(), slots),
                  fmt::format("-np N, from 1 to {}", RowOf(OptionId::kNumProc).max));
  }
  spec->np.Set(static_cast<int>(slots), "all slots of " + spec->hosts.origin());
  return {};
}

}  // namespace

void TakeLogin(const ClusterHosts& cluster, JobSpec* spec) {
  const std::string& origin = *spec->cluster_file;
  if (!cluster.ssh_user.empty()) spec->ssh_user.Set(cluster.ssh_user, origin);
  if (!cluster.ssh_proxy_command.empty()) {
    spec->ssh_proxy_command.Set(cluster.ssh_proxy_command, origin);
  }
  // A flag, or what else names a key for this job, wins over the file.
  if (!cluster.ssh_identity_file.empty() && spec->ssh_identity_file.is_default()) {
    spec->ssh_identity_file.Set(cluster.ssh_identity_file, origin);
  }
}

Status ResolveHosts(const LayerStack& layers, const LayerStack& job,
                    const std::optional<ClusterHosts>& cluster, const Environment& environment,
                    const ResolverFiles& files, SpecUse use, JobSpec* spec) {
  HVDRAY_RETURN_IF_ERROR(ReadLimit(layers, OptionId::kMinNp, &spec->min_np));
  HVDRAY_RETURN_IF_ERROR(ReadLimit(layers, OptionId::kMaxNp, &spec->max_np));
  if (*spec->ray.is_wanted) {
    HVDRAY_RETURN_IF_ERROR(CheckLimits(*spec));
    const int64_t default_np = cluster ? TotalSlots(cluster->hosts) : 0;
    HVDRAY_RETURN_IF_ERROR(ResolveRaySlots(layers, job, default_np, spec));
    return CheckStart(*spec);
  }
  OptionId id = OptionId::kCount;
  const RawOption* source = FindHostSource(layers, &id);
  if (source != nullptr && (source->values.empty() || source->values.front().empty())) {
    return Status(ErrorCode::kUsage, fmt::format("{} must not be empty", source->label));
  }
  if (id == OptionId::kHostDiscoveryScript) {
    spec->host_discovery_script.Set(source->values.front(), source->origin);
  } else if (source != nullptr) {
    HVDRAY_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts, ReadHosts(id, *source, files));
    spec->hosts.Set(std::move(hosts), source->origin);
    if (id == OptionId::kHostfile) spec->hostfile.Set(source->values.front(), source->origin);
  } else if (cluster) {
    HVDRAY_RETURN_IF_ERROR(cluster->hosts_status);
    spec->hosts.Set(cluster->hosts, *spec->cluster_file);
    TakeLogin(*cluster, spec);
  } else {
    HVDRAY_ASSIGN_OR_RETURN(std::optional<Allocation> found,
                            FindAllocation(environment, files.read));
    if (found) spec->hosts.Set(std::move(found->hosts), "env " + found->variable);
  }
  HVDRAY_RETURN_IF_ERROR(CheckLimits(*spec));
  HVDRAY_RETURN_IF_ERROR(ResolveNp(layers, use, spec));
  HVDRAY_RETURN_IF_ERROR(CheckStart(*spec));
  if (!spec->host_discovery_script->empty()) return {};
  if (spec->hosts.is_default()) {
    spec->hosts = Setting<std::vector<HostSlots>>({{"localhost", *spec->np}});
  }
  return use == SpecUse::kRun ? CheckSlots(*spec) : Status();
}

Status CheckSlots(const JobSpec& spec) {
  const int64_t slots = TotalSlots(*spec.hosts);
  if (*spec.np <= slots || spec.may_learn_hosts()) return {};
  // Nobody asked for the hosts of a batch system, so the way back to this machine is worth a hint.
  const std::string& origin = spec.hosts.origin();
  const bool is_allocated = origin.starts_with("env ") && !origin.starts_with("env HVDRAY_");
  return Status(
      ErrorCode::kNotEnoughSlots,
      fmt::format("{}: Requested more processes ({}) than there are available slots ({})",
                  spec.np.origin(), *spec.np, slots),
      fmt::format("the slots are those of {}: name more{}, or ask for fewer workers", origin,
                  is_allocated ? fmt::format(", as in -H localhost:{}", *spec.np) : ""));
}

}  // namespace hvdray
