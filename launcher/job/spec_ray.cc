// SPDX-License-Identifier: Apache-2.0
// What `--ray` changes in a spec: slots instead of hosts, and which options mean nothing there or
// only there.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/job/ray_runtime_env.h"
#include "launcher/job/setting_reader.h"
#include "launcher/job/spec_builder.h"

namespace hvdray {
namespace {

// Above what any node has; keeps sums of them exact.
constexpr double kMaxAmount = 1e15;

}  // namespace

const RawOption* SaidForThisJob(const LayerStack& job, OptionId id) {
  const RawOption* raw = job.Find(id);
  return raw != nullptr && !raw->origin.starts_with("env ") ? raw : nullptr;
}

namespace {

Setting<bool> WantsRay(const LayerStack& all, const LayerStack& job) {
  Setting<bool> is_wanted;
  for (const OptionLayer& layer : job.layers()) {
    const auto address = layer.options.find(OptionId::kRayAddress);
    if (layer.options.contains(OptionId::kRay)) break;
    if (address == layer.options.end() || address->second.origin.starts_with("env ")) continue;
    is_wanted.Set(true, address->second.origin);
    return is_wanted;
  }
  if (const RawOption* raw = all.Find(OptionId::kRay)) {
    const Result<bool> flag = FlagOf(*raw);
    is_wanted.Set(flag.ok() && *flag, raw->origin);
  }
  return is_wanted;
}

Result<double> AmountOf(const RawOption& raw, std::string_view text) {
  Result<double> amount = ParseNumber(text);
  if (!amount.ok()) {
    return Status(ErrorCode::kUsage, fmt::format("{} {}", raw.label, amount.status().message()));
  }
  if (*amount >= 0 && *amount <= kMaxAmount) return amount;
  return Status(ErrorCode::kUsage, fmt::format("{} must be from 0 to {:g}, not {}", raw.label,
                                               kMaxAmount, Quoted(text)));
}

std::string LastOf(const RawOption& raw) {
  return raw.values.empty() ? std::string() : raw.values.back();
}

/// NAME=VALUE, both not empty.
Status CheckPair(const RawOption& raw, const std::string& text, std::string_view form) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0 && equals + 1 < text.size()) return {};
  return {ErrorCode::kUsage, fmt::format("{} must be {}, not {}", raw.label, form, Quoted(text))};
}

Result<std::vector<std::string>> ResourcesOf(const RawOption& raw) {
  for (const std::string& text : raw.values) {
    HVDRAY_RETURN_IF_ERROR(ParseSlotResource(raw.label, text).status());
  }
  return raw.values;
}

Result<std::vector<std::string>> LabelsOf(const RawOption& raw) {
  for (const std::string& text : raw.values) {
    HVDRAY_RETURN_IF_ERROR(CheckPair(raw, text, "NAME=VALUE"));
  }
  return raw.values;
}

Result<std::string> HeadersOf(const RawOption& raw) {
  const auto refused = [&raw](std::string_view why) {
    // Not the text itself: it may hold a password.
    return Status(ErrorCode::kUsage,
                  fmt::format("{} must be a JSON object of texts: {}", raw.label, why),
                  R"(as in '{"X-Team": "vision"}')");
  };
  const Result<Json> headers = ParseJson(LastOf(raw));
  if (!headers.ok()) return refused(headers.status().message());
  if (!headers->is_object()) return refused("this is none");
  for (const auto& [name, value] : headers->items()) {
    const bool is_plain = name.find_first_of("\r\n: ") == std::string::npos && !name.empty();
    if (!is_plain) return refused("a name holds what none can");
    if (!value.is_string()) return refused(fmt::format("the value of {} is none", Quoted(name)));
    if (value.get<std::string>().find_first_of("\r\n") != std::string::npos) {
      return refused(fmt::format("the value of {} has more than one line", Quoted(name)));
    }
  }
  return LastOf(raw);
}

/// "64MiB" in bytes; a number alone is bytes.
Result<double> LogLimitOf(const RawOption& raw) {
  constexpr double kLeast = double{64 << 20};
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1024.0 * (1 << 30)}}};
  const std::string text = LastOf(raw);
  std::string_view number = text;
  double unit = 1;
  for (const auto& [name, bytes] : kUnits) {
    if (!number.ends_with(name)) continue;
    number.remove_suffix(name.size());
    unit = bytes;
    break;
  }
  const Result<double> amount = ParseNumber(number);
  if (amount.ok() && *amount * unit >= kLeast && *amount * unit <= kMaxAmount) {
    return *amount * unit;
  }
  return Status(ErrorCode::kUsage,
                fmt::format("{} must be a size from 64MiB, not {}", raw.label, Quoted(text)));
}

/// What it says of the working directory goes where the options of that name put it.
Result<std::string> RuntimeEnvOf(const RawOption& raw, const ResolverFiles& files, RaySpec* ray) {
  Result<RayRuntimeEnv> env = ReadRuntimeEnv(LastOf(raw), files.read);
  if (!env.ok()) return std::move(env).status().WithContext(raw.label);
  if (!env->working_dir.empty()) {
    if (!ray->working_dir->empty()) {
      return Status(ErrorCode::kUsage,
                    fmt::format("{} and {} both name a working directory", raw.label,
                                ray->working_dir.origin()),
                    "leave one of the two out");
    }
    ray->working_dir.Set(env->working_dir, raw.origin);
  }
  std::vector<std::string> excludes = *ray->excludes;
  excludes.insert(excludes.end(), env->excludes.begin(), env->excludes.end());
  if (!env->excludes.empty()) ray->excludes.Set(std::move(excludes), raw.origin);
  return RuntimeEnvText(*env);
}

/// A URI goes to Ray as it is.
Status CheckWorkingDir(const RaySpec& ray) {
  if (!ray.is_directory_remote()) return {};
  Status status = CheckRemoteDirectory(*ray.working_dir);
  return status.ok() ? status : std::move(status).WithContext(ray.working_dir.origin());
}

/// As horovod.ray checks them.
struct Stranger {
  OptionId id;
  std::string_view why;
  std::string_view hint;
};

/// These would be taken for something that they are not.
constexpr std::array kNotOnRay = {
    Stranger{OptionId::kHostfile, "Ray knows its nodes",
             "-H names nodes by address; -np N or "
             "--num-hosts N take any"},
    Stranger{OptionId::kHostDiscoveryScript, "Ray knows its nodes",
             "--min-np alone makes the job elastic"},
    Stranger{OptionId::kSlotsPerHost, "it belongs to a discovery script", "--num-slots N"},
    Stranger{OptionId::kSync, "files go to the nodes in the job's package", "--working-dir DIR"},
    Stranger{OptionId::kLaunchAgent, "Ray starts the agents", "leave it out"},
    Stranger{OptionId::kForceRemote, "Ray starts the agents", "leave it out"},
};

/// These merely have nothing to do there.
constexpr std::array kIdleOnRay = {
    OptionId::kSshPort,   OptionId::kSshIdentityFile,       OptionId::kSshTransport,
    OptionId::kSshConfig, OptionId::kStrictHostKeyChecking, OptionId::kSshConnections,
    OptionId::kRemoteDir, OptionId::kDisableCache,          OptionId::kCleanEnv};

Status RefuseStrangers(const LayerStack& job, JobSpec* spec) {
  for (const Stranger& stranger : kNotOnRay) {
    const RawOption* raw = SaidForThisJob(job, stranger.id);
    if (raw == nullptr) continue;
    return {ErrorCode::kUsage,
            fmt::format("{} has no meaning with --ray: {}", raw->label, stranger.why),
            std::string(stranger.hint)};
  }
  if (spec->stdin_rank->has_value()) {
    if (SaidForThisJob(job, OptionId::kStdin) != nullptr) {
      return {ErrorCode::kUsage,
              fmt::format("{} has no meaning with --ray: the job runs on, whoever reads along",
                          spec->stdin_rank.origin()),
              "put the input into a file of --working-dir"};
    }
    spec->stdin_rank = Setting<std::optional<int>>();
  }
  return {};
}

/// Without --ray: options that only mean something there would change nothing, silently.
Status RefuseRayOptions(const LayerStack& job) {
  for (const OptionRow& row : OptionTable()) {
    if (row.group != OptionGroup::kRay || row.id == OptionId::kRay) continue;
    if (row.id == OptionId::kBackend || row.id == OptionId::kRayAddress) continue;
    const RawOption* raw = SaidForThisJob(job, row.id);
    if (raw == nullptr) continue;
    return {ErrorCode::kUsage, fmt::format("{} has a meaning only with --ray", raw->label),
            "add --ray, or --ray-address URL"};
  }
  return {};
}

/// -H names nodes by the addresses that Ray knows them by.
Status ReadNamedHosts(const RawOption& raw, JobSpec* spec) {
  Result<std::vector<HostSlots>> hosts = ParseHostList(LastOf(raw));
  if (!hosts.ok()) return std::move(hosts).status().WithContext(raw.label);
  for (const HostSlots& host : *hosts) {
    std::array<unsigned char, 16> bytes{};
    const std::string& name = host.dial_name();
    const bool is_address = ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
                            ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
    if (is_address && !host.address.has_login()) continue;
    return {ErrorCode::kUsage,
            fmt::format("{}: {} is not the address of a Ray node", raw.label, Quoted(host.host)),
            "hvdray slots --ray lists them"};
  }
  spec->hosts.Set(std::move(hosts).value(), raw.origin);
  return {};
}

Status CheckNamedHosts(JobSpec* spec, const RawOption* np) {
  const RaySpec& ray = spec->ray;
  for (const Setting<std::optional<int>>* other : {&ray.num_hosts, &ray.num_slots}) {
    if (!other->get()) continue;
    return {ErrorCode::kUsage,
            fmt::format("{} is not allowed with {}", other->origin(), spec->hosts.origin()),
            "leave one of the two out"};
  }
  int64_t slots = 0;
  for (const HostSlots& host : *spec->hosts) slots += host.slots;
  if (np == nullptr && (slots < 1 || slots > RowOf(OptionId::kNumProc).max)) {
    return {ErrorCode::kUsage,
            fmt::format("{}: {} slots in all, and no number of workers is given",
                        spec->hosts.origin(), slots),
            "-np N"};
  }
  if (np == nullptr) {
    spec->np.Set(static_cast<int>(slots), "all slots of " + spec->hosts.origin());
    return {};
  }
  if (*spec->np <= slots) return {};
  return {ErrorCode::kNotEnoughSlots,
          fmt::format("{}: Requested more processes ({}) than there are available slots ({})",
                      spec->np.origin(), *spec->np, slots),
          fmt::format("the slots are those of {}", spec->hosts.origin())};
}

/// Of -np, --num-hosts and --num-slots any two give the third.
Status SettleNumbers(JobSpec* spec, bool has_np) {
  Setting<std::optional<int>>& hosts = spec->ray.num_hosts;
  Setting<std::optional<int>>& slots = spec->ray.num_slots;
  const auto contradiction = [&](const Setting<std::optional<int>>& other) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{} of {} can't be laid out by {} {}", spec->np.origin(), *spec->np,
                              other.origin(), **other),
                  "every node gets the same number of slots: -np is --num-hosts x --num-slots");
  };
  if (hosts->has_value() && has_np && !slots->has_value()) {
    if (*spec->np % **hosts != 0) return contradiction(hosts);
    slots.Set(*spec->np / **hosts, spec->np.origin());
  } else if (slots->has_value() && !hosts->has_value()) {
    if (!has_np) return {ErrorCode::kUsage, "how many hosts?", "--num-hosts N"};
    if (*spec->np % **slots != 0) return contradiction(slots);
    hosts.Set(*spec->np / **slots, spec->np.origin());
  }
  if (!hosts->has_value()) return {};
  const int64_t wanted = int64_t{**hosts} * slots->value_or(1);
  if (wanted > RowOf(OptionId::kNumProc).max) {
    return {ErrorCode::kUsage, fmt::format("{}: {} workers are too many, at most {}",
                                           hosts.origin(), wanted, RowOf(OptionId::kNumProc).max)};
  }
  if (has_np && *spec->np != wanted) return contradiction(hosts);
  if (!has_np) spec->np.Set(static_cast<int>(wanted), hosts.origin());
  return {};
}

Status CheckElasticRay(const JobSpec& spec) {
  const RaySpec& ray = spec.ray;
  for (const Setting<std::optional<int>>* fixed : {&ray.num_hosts, &ray.num_slots}) {
    if (!fixed->get()) continue;
    return {ErrorCode::kUsage,
            fmt::format("{} is not for elastic jobs, which take slots where there are some",
                        fixed->origin()),
            "-np N slots to start with, and --min-np, --max-np"};
  }
  const RayStrategy strategy = *ray.strategy;
  if (strategy == RayStrategy::kStrictPack || strategy == RayStrategy::kStrictSpread) {
    return {ErrorCode::kUsage,
            fmt::format("{} {} is not for elastic jobs, which take slots where there are some",
                        ray.strategy.origin(),
                        strategy == RayStrategy::kStrictPack ? "STRICT_PACK" : "STRICT_SPREAD"),
            "PACK or SPREAD"};
  }
  if (spec.hosts.is_default()) return {};
  return {ErrorCode::kUsage,
          fmt::format("{} is not for elastic jobs on Ray, which take slots where there are some",
                      spec.hosts.origin()),
          "--label-selector NAME=VALUE keeps a job to some nodes"};
}

Status CheckStrategy(const JobSpec& spec) {
  const RayStrategy strategy = *spec.ray.strategy;
  if (strategy == RayStrategy::kAuto || strategy == RayStrategy::kStrictSpread) return {};
  const bool has_named = !spec.hosts.is_default();
  if (!has_named && !spec.ray.num_hosts->has_value()) return {};
  return {ErrorCode::kUsage,
          fmt::format("{} is not allowed with {}, which means STRICT_SPREAD",
                      spec.ray.strategy.origin(),
                      has_named ? spec.hosts.origin() : spec.ray.num_hosts.origin()),
          "-np N with the strategy, or leave the strategy out"};
}

}  // namespace

Status ReadRayAsk(const LayerStack& all, const LayerStack& job, RaySpec* spec) {
  RaySpec& ray = *spec;
  ray.is_wanted = WantsRay(all, job);
  SettingReader reader(all);
  const auto amount = [](const RawOption& raw) { return AmountOf(raw, LastOf(raw)); };
  reader.Read(OptionId::kRayHeaders, &ray.headers, HeadersOf);
  reader.Read(OptionId::kCpusPerSlot, &ray.cpus_per_slot, amount);
  reader.Read(OptionId::kGpusPerSlot, &ray.gpus_per_slot,
              [&](const RawOption& raw) -> Result<std::optional<double>> {
                HVDRAY_ASSIGN_OR_RETURN(const double gpus, amount(raw));
                return std::optional<double>(gpus);
              });
  reader.Read(OptionId::kResourcesPerSlot, &ray.slot_resources, ResourcesOf);
  reader.Read(OptionId::kLabelSelector, &ray.label_selectors, LabelsOf);
  return reader.TakeStatus();
}

Status ReadRaySettings(const LayerStack& all, const LayerStack& job,
                       const std::optional<ClusterHosts>& cluster, const ResolverFiles& files,
                       JobSpec* spec, std::vector<std::string>* warnings) {
  RaySpec& ray = spec->ray;
  HVDRAY_RETURN_IF_ERROR(ReadRayAsk(all, job, &ray));
  SettingReader reader(all);
  reader.Read(OptionId::kRayLogLimit, &ray.log_limit, LogLimitOf);
  reader.Read(OptionId::kExclude, &ray.excludes,
              [](const RawOption& raw) -> Result<std::vector<std::string>> { return raw.values; });
  reader.Read(OptionId::kRuntimeEnv, &ray.runtime_env,
              [&](const RawOption& raw) { return RuntimeEnvOf(raw, files, &ray); });
  HVDRAY_RETURN_IF_ERROR(reader.TakeStatus());
  HVDRAY_RETURN_IF_ERROR(ChooseBackend(job, cluster, files, spec, warnings));
  if (!*ray.is_wanted) return RefuseRayOptions(job);
  HVDRAY_RETURN_IF_ERROR(RefuseStrangers(job, spec));
  HVDRAY_RETURN_IF_ERROR(CheckWorkingDir(ray));
  if (*ray.is_detached && *ray.stops_with_client) {
    return {ErrorCode::kUsage,
            fmt::format("{} is not allowed with {}", ray.stops_with_client.origin(),
                        ray.is_detached.origin()),
            "leave one of the two out"};
  }
  return CheckSlotGpus(ray.gpus_per_slot.origin(), *ray.gpus_per_slot, *ray.uses_gpu);
}

Status ResolveRaySlots(const LayerStack& all, const LayerStack& job, int64_t default_np,
                       JobSpec* spec) {
  const RawOption* np = all.Find(OptionId::kNumProc);
  if (np != nullptr) {
    HVDRAY_ASSIGN_OR_RETURN(const int64_t count, WholeOf(OptionId::kNumProc, *np));
    spec->np.Set(static_cast<int>(count), np->origin);
  }
  if (const RawOption* raw = SaidForThisJob(job, OptionId::kHosts)) {
    HVDRAY_RETURN_IF_ERROR(ReadNamedHosts(*raw, spec));
  }
  if (spec->is_elastic()) HVDRAY_RETURN_IF_ERROR(CheckElasticRay(*spec));
  HVDRAY_RETURN_IF_ERROR(CheckStrategy(*spec));
  if (!spec->hosts.is_default()) return CheckNamedHosts(spec, np);
  HVDRAY_RETURN_IF_ERROR(SettleNumbers(spec, np != nullptr));
  if (np != nullptr || spec->ray.num_hosts->has_value()) return {};
  if (spec->min_np->has_value()) {
    spec->np.Set(**spec->min_np, spec->min_np.origin());
    return {};
  }
  if (default_np < 1 || default_np > RowOf(OptionId::kNumProc).max) {
    return {ErrorCode::kUsage, "how many workers?", "-np N, or --num-hosts N"};
  }
  spec->np.Set(static_cast<int>(default_np), "all slots of " + *spec->cluster_file);
  return {};
}

void SettleRay(const LayerStack& job, JobSpec* spec, std::vector<std::string>* warnings) {
  if (!*spec->ray.is_wanted) return;
  // The way to the head of a cluster file may be SSH.
  const bool is_ssh_used = !spec->cluster_file->empty();
  for (const OptionId id : kIdleOnRay) {
    const RawOption* raw = SaidForThisJob(job, id);
    if (raw != nullptr && !(is_ssh_used && RowOf(id).group == OptionGroup::kNetwork))
      warnings->push_back(raw->origin + " has no effect with --ray");
  }
  if (!spec->ray.excludes->empty() && spec->ray.working_dir->empty()) {
    warnings->push_back(spec->ray.excludes.origin() + " has no effect without --working-dir");
  }
  if (!spec->ray.excludes->empty() && spec->ray.is_directory_remote()) {
    warnings->push_back(spec->ray.excludes.origin() +
                        " has no effect on a working directory that Ray fetches");
  }
}

}  // namespace hvdray
