// SPDX-License-Identifier: Apache-2.0
// Settings that stand alone first; then the job's backend, which decides whether Ray or a list of
// hosts provides the slots; then what depends on the kind of job.
#include "launcher/job/spec_builder.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/command_words.h"
#include "base/json.h"
#include "base/text.h"
#include "launcher/job/allocation.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/ray_address.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/job/ray_runtime_env.h"
#include "launcher/job/user_variables.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

using Warnings = std::vector<std::string>;

constexpr const char* kLeaveOneOut = "leave one of them out";
constexpr const char* kAskForNp = "the number of workers is not given";

Status Refused(std::string message, std::string hint = {}) {
  return {ErrorCode::kUsage, std::move(message), std::move(hint)};
}

/// The option as this job's flags or files say it; null if they do not. A variable does not count:
/// it may be set for all jobs, whatever starts them.
const RawOption* SaidForThisJob(const LayerStack& job, OptionId id) {
  const RawOption* raw = job.Find(id);
  return raw != nullptr && !raw->origin.starts_with("env ") ? raw : nullptr;
}

// --- Settings that stand alone

/// By the type of the member that the option sets.
template <typename T>
Result<T> ReadAs(const OptionRow& row, const RawOption& raw) {
  if constexpr (std::is_same_v<T, bool>) {
    return FlagOf(raw);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!raw.last().empty()) return raw.last();
    return Refused(fmt::format("{} must not be empty", raw.label));
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return raw.values;
  } else if constexpr (std::is_same_v<T, Duration>) {
    return ToDuration(row.id, raw);
  } else if constexpr (std::is_same_v<T, std::optional<PlanFormat>>) {
    HVDRAY_ASSIGN_OR_RETURN(const std::optional<size_t> choice, OptionalChoice(row.id, raw));
    return choice ? T(static_cast<PlanFormat>(*choice)) : T();
  } else if constexpr (std::is_enum_v<T>) {
    HVDRAY_ASSIGN_OR_RETURN(const size_t choice, ChoiceOf(row.id, raw));
    return static_cast<T>(choice);
  } else if constexpr (std::is_same_v<T, std::optional<std::pair<int, int>>>) {
    HVDRAY_ASSIGN_OR_RETURN(const auto range, PairOf(row.id, raw));
    if (range.first <= range.second) return T(range);
    return Refused(fmt::format("{}: the lower limit {} is above the upper limit {}", raw.label,
                               range.first, range.second));
  } else if constexpr (std::is_convertible_v<int, T> && !std::is_same_v<T, double>) {
    HVDRAY_ASSIGN_OR_RETURN(const int64_t value, WholeOf(row.id, raw));
    return T(static_cast<int>(value));
  } else {
    return Status(ErrorCode::kInternal, "the row says how it is read");
  }
}

Status ReadSettings(const LayerStack& layers, JobSpec* spec) {
  for (const OptionRow& row : OptionTable()) {
    const RawOption* raw = layers.Find(row.id);
    if (raw == nullptr || row.is_settled_later) continue;
    Status status;
    VisitMember(row, [&]<typename T>(const SpecMember<T>& member) {
      Result<T> value = member.read() != nullptr ? member.read()(*raw) : ReadAs<T>(row, *raw);
      status = value.status();
      if (status.ok()) member.In(*spec).Set(std::move(value).value(), raw->origin);
    });
    HVDRAY_RETURN_IF_ERROR(status);
  }
  if (spec->heartbeat_timeout.get() < std::chrono::seconds(2)) {
    // Agents send one a second: below two intervals every hiccup would count as a lost host.
    return Refused(fmt::format("{}: the heartbeat timeout must be at least 2 seconds",
                               spec->heartbeat_timeout.origin()));
  }
  return {};
}

Status RefuseMpi(const LayerStack& layers) {
  constexpr std::string_view kReason = "hvdray starts the workers, and Horovod uses Gloo and NCCL";
  for (const OptionId id : {OptionId::kMpi, OptionId::kJsrun}) {
    const RawOption* raw = layers.Find(id);
    if (raw == nullptr) continue;
    HVDRAY_ASSIGN_OR_RETURN(const bool is_on, FlagOf(*raw));
    if (!is_on) continue;
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{} is not supported: {}", raw->label, kReason), "leave it out");
  }
  for (const OptionId id : {OptionId::kMpiArgs, OptionId::kBindingArgs}) {
    const RawOption* raw = layers.Find(id);
    if (raw == nullptr) continue;
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{} is not supported: there is no {}; {}", raw->label,
                              id == OptionId::kMpiArgs ? "mpirun" : "mpirun or jsrun", kReason),
                  "leave it out");
  }
  return {};
}

// --- Ray: its settings, and whether the slots come from it

/// Whether the job asks for Ray. An address implies it, unless a level above says otherwise.
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

/// A working directory and excludes in the runtime environment go where their own options put them.
Result<std::string> RuntimeEnv(const RawOption& raw, const ResolverFiles& files, RaySpec* ray) {
  const auto at_home = [&files](const std::string& path) { return AtHome(path, files.home_of); };
  Result<RayRuntimeEnv> env = ReadRuntimeEnv(
      raw.last(), [&](const std::string& path) { return files.read(at_home(path)); });
  if (!env.ok()) return std::move(env).status().WithContext(raw.label);
  env->working_dir = at_home(env->working_dir);
  std::ranges::transform(env->py_modules, env->py_modules.begin(), at_home);
  if (!env->working_dir.empty()) {
    if (!ray->working_dir->empty()) {
      return Refused(fmt::format("{} and {} both name a working directory", raw.label,
                                 ray->working_dir.origin()),
                     kLeaveOneOut);
    }
    ray->working_dir.Set(env->working_dir, raw.origin);
  }
  std::vector<std::string> excludes = *ray->excludes;
  excludes.insert(excludes.end(), env->excludes.begin(), env->excludes.end());
  if (!env->excludes.empty()) ray->excludes.Set(std::move(excludes), raw.origin);
  return RuntimeEnvText(*env);
}

/// Ray takes a URI as it is.
Status CheckWorkingDir(const RaySpec& ray) {
  if (!ray.is_directory_remote()) return {};
  Status status = CheckRemoteDirectory(*ray.working_dir);
  return status.ok() ? status : std::move(status).WithContext(ray.working_dir.origin());
}

/// An option that does not apply to Ray, and what to use instead.
struct NotOnRay {
  OptionId id;
  std::string_view why;
  std::string_view hint;
};

/// Ignored, these would leave a job that is not the one asked for.
constexpr std::array kNotOnRay = {
    NotOnRay{OptionId::kHostfile, "Ray knows its nodes",
             "-H names nodes by address; -np N or --num-hosts N takes any"},
    NotOnRay{OptionId::kHostDiscoveryScript, "Ray knows its nodes",
             "--min-np alone makes the job elastic"},
    NotOnRay{OptionId::kSlotsPerHost, "it is for host lists", "--num-slots N"},
    NotOnRay{OptionId::kSync, "files reach the nodes in the job's package", "--working-dir DIR"},
    NotOnRay{OptionId::kLaunchAgent, "Ray starts the agents", "leave it out"},
};

/// Ignored, these change nothing that matters.
constexpr std::array kIdleOnRay = {OptionId::kSshPort,
                                   OptionId::kSshIdentityFile,
                                   OptionId::kSshTransport,
                                   OptionId::kSshConfig,
                                   OptionId::kStrictHostKeyChecking,
                                   OptionId::kRemoteDir,
                                   OptionId::kDisableCache,
                                   OptionId::kCleanEnv};

/// With --ray: refuses the options that do not apply to it.
Status RefuseOtherOptions(const LayerStack& job, JobSpec* spec) {
  for (const NotOnRay& row : kNotOnRay) {
    const RawOption* raw = SaidForThisJob(job, row.id);
    if (raw == nullptr) continue;
    return Refused(fmt::format("{} cannot be used with --ray: {}", raw->label, row.why),
                   std::string(row.hint));
  }
  if (!spec->stdin_rank->has_value()) return {};
  if (SaidForThisJob(job, OptionId::kStdin) != nullptr) {
    return Refused(fmt::format("{} cannot be used with --ray: the job runs on without its client",
                               spec->stdin_rank.origin()),
                   "put the input in a file under --working-dir");
  }
  spec->stdin_rank = Setting<std::optional<int>>();
  return {};
}

/// Without --ray: refuses its options, which would silently change nothing.
Status RefuseRayOptions(const LayerStack& job) {
  for (const OptionRow& row : OptionTable()) {
    if (row.group != OptionGroup::kRay || row.id == OptionId::kRay) continue;
    if (row.id == OptionId::kBackend || row.id == OptionId::kRayAddress) continue;
    const RawOption* raw = SaidForThisJob(job, row.id);
    if (raw == nullptr) continue;
    return Refused(fmt::format("{} applies only with --ray", raw->label),
                   "add --ray, or --ray-address URL");
  }
  return {};
}

Status RefuseBackendAlone(const LayerStack& job, const JobSpec& spec) {
  const RawOption* backend = SaidForThisJob(job, OptionId::kBackend);
  if (backend == nullptr || *spec.ray.backend == JobBackend::kSsh || *spec.ray.is_wanted) return {};
  return Refused(fmt::format("{} applies only with --cluster", backend->label),
                 "without a cluster file, --ray-address URL names the Ray cluster");
}

bool NamesOtherHosts(const LayerStack& job) {
  return SaidForThisJob(job, OptionId::kHosts) != nullptr ||
         SaidForThisJob(job, OptionId::kHostfile) != nullptr ||
         SaidForThisJob(job, OptionId::kHostDiscoveryScript) != nullptr;
}

/// The dashboard of the cluster file's Ray.
Result<std::string> FindRay(const ClusterHosts& cluster, const ResolverFiles& files,
                            const JobSpec& spec) {
  if (!cluster.head && !cluster.hosts_status.ok()) {
    const Status& why = cluster.hosts_status;
    if (why.code() != ErrorCode::kNotSupported) return why;
    return Status(why.code(), why.message(),
                  "name its Ray with --ray-address URL, or list its hosts: provider: {type: local, "
                  "head_ip: ..., worker_ips: [...]}, or -H");
  }
  if (!cluster.head) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{}: only its provider knows where the head is", *spec.cluster_file),
                  "name its Ray with --ray-address URL");
  }
  JobSpec login = spec;
  TakeLogin(cluster, &login);
  return files.find_ray(cluster, login);
}

/// With a cluster file: looks for its Ray, unless the options leave no choice. If there is one, the
/// job runs on it; if not, a line to `warnings` says so, unless only Ray will do.
Status ChooseBackend(const LayerStack& job, const std::optional<ClusterHosts>& cluster,
                     const ResolverFiles& files, JobSpec* spec, Warnings* warnings) {
  RaySpec& ray = spec->ray;
  if (!cluster) return RefuseBackendAlone(job, *spec);
  if (*ray.is_wanted && !ray.address->empty()) return {};
  const bool must = *ray.is_wanted || *ray.backend == JobBackend::kRay;
  if (!must && (*ray.backend == JobBackend::kSsh || NamesOtherHosts(job))) return {};
  if (!files.find_ray) {
    if (!must) return {};
    return {ErrorCode::kNotSupported,
            fmt::format("{} does not apply here: hosts are examined over SSH",
                        *ray.is_wanted ? ray.is_wanted.origin() : ray.backend.origin()),
            "hvdray slots --ray shows what a cluster has free"};
  }
  // Printing the options is no reason to dial anybody.
  if (!must && spec->print_config->has_value()) return {};
  Result<std::string> url = FindRay(*cluster, files, *spec);
  if (url.ok()) {
    if (!*ray.is_wanted) ray.is_wanted.Set(true, "the Ray of " + *spec->cluster_file);
    ray.address.Set(std::move(url).value(), *spec->cluster_file);
    return {};
  }
  if (must || !cluster->hosts_status.ok()) return std::move(url).status();
  warnings->push_back(fmt::format(
      "{}; reaching its hosts over SSH (--backend ssh skips this check)", url.status().message()));
  return {};
}

/// Whether Ray is asked, and with which headers.
Status ReadRayAsk(const LayerStack& all, const LayerStack& job, RaySpec* ray) {
  ray->is_wanted = WantsRay(all, job);
  const RawOption* raw = all.Find(OptionId::kRayHeaders);
  if (raw == nullptr) return {};
  const Status status = ParseRayHeaders(raw->last()).status();
  if (!status.ok()) {
    return Refused(fmt::format("{}: {}", raw->label, status.message()), status.hint());
  }
  ray->headers.Set(raw->last(), raw->origin);
  return {};
}

/// --ray and its options, and with them the choice of the backend.
Status ReadRaySettings(const SpecInput& input, const ResolverFiles& files, JobSpec* spec,
                       Warnings* warnings) {
  const LayerStack& job = input.job;
  RaySpec& ray = spec->ray;
  HVDRAY_RETURN_IF_ERROR(ReadRayAsk(input.all, job, &ray));
  if (const RawOption* raw = input.all.Find(OptionId::kRuntimeEnv)) {
    HVDRAY_ASSIGN_OR_RETURN(std::string env, RuntimeEnv(*raw, files, &ray));
    ray.runtime_env.Set(std::move(env), raw->origin);
  }
  HVDRAY_RETURN_IF_ERROR(ChooseBackend(job, input.cluster, files, spec, warnings));
  if (!*ray.is_wanted) return RefuseRayOptions(job);
  HVDRAY_RETURN_IF_ERROR(RefuseOtherOptions(job, spec));
  HVDRAY_RETURN_IF_ERROR(CheckWorkingDir(ray));
  if (*ray.is_detached && *ray.stops_with_client) {
    return Refused(fmt::format("{} is not allowed with {}", ray.stops_with_client.origin(),
                               ray.is_detached.origin()),
                   kLeaveOneOut);
  }
  return CheckSlotGpus(ray.gpus_per_slot.origin(), *ray.gpus_per_slot, *ray.uses_gpu);
}

// --- Workers, and the slots for them

int64_t TotalSlots(const std::vector<HostSlots>& hosts) {
  int64_t total = 0;
  for (const HostSlots& host : hosts) total += host.slots;
  return total;
}

constexpr std::string_view kEnvOrigin = "env ";

/// The hosts are those of a batch system.
bool AreAllocated(const JobSpec& spec) {
  const std::string& origin = spec.hosts.origin();
  return origin.starts_with(kEnvOrigin) && !origin.starts_with("env HVDRAY_");
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
  if (!min || !max || *min <= *max) return {};
  return Refused(fmt::format("{}: {} is above the maximum of {} ({})", spec.min_np.origin(), *min,
                             *max, spec.max_np.origin()));
}

/// An elastic job starts with -np workers, so its limits must allow that many.
Status CheckStart(const JobSpec& spec) {
  if (!spec.is_elastic()) return {};
  const std::optional<int> min = *spec.min_np;
  const std::optional<int> max = *spec.max_np;
  if (min && *min > *spec.np) {
    return Refused(
        fmt::format("{}: {} is above the {} to start with ({})", spec.min_np.origin(), *min,
                    Count(static_cast<uint64_t>(*spec.np), "worker"), spec.np.origin()),
        "raise -np, or lower --min-np");
  }
  if (max && *max < *spec.np) {
    return Refused(
        fmt::format("{}: {} is below the {} to start with ({})", spec.max_np.origin(), *max,
                    Count(static_cast<uint64_t>(*spec.np), "worker"), spec.np.origin()),
        "lower -np, or raise --max-np");
  }
  return {};
}

/// All slots of the hosts, for a job that gives hosts and no number of workers.
Status SetNpToAllSlots(JobSpec* spec) {
  const int64_t slots = TotalSlots(*spec->hosts);
  const int64_t most = RowOf(OptionId::kNumProc).max;
  if (slots >= 1 && slots <= most) {
    spec->np.Set(static_cast<int>(slots), "all slots of " + spec->hosts.origin());
    return {};
  }
  return Refused(
      fmt::format("{}: {} slots in total, and {}", spec->hosts.origin(), slots, kAskForNp),
      fmt::format("-np N, from 1 to {}", most));
}

/// -np, if any level gives it, or the least that an elastic job needs. False: neither is there.
Result<bool> TakeNp(const LayerStack& layers, JobSpec* spec) {
  if (const RawOption* raw = layers.Find(OptionId::kNumProc)) {
    HVDRAY_ASSIGN_OR_RETURN(const int64_t np, WholeOf(OptionId::kNumProc, *raw));
    spec->np.Set(static_cast<int>(np), raw->origin);
    return true;
  }
  if (!spec->min_np->has_value()) return false;
  spec->np.Set(**spec->min_np, spec->min_np.origin());
  return true;
}

/// -H with --ray: names nodes by the addresses that Ray knows them by.
Status ReadNamedHosts(const RawOption& raw, JobSpec* spec) {
  Result<std::vector<HostSlots>> hosts = ParseHostList(raw.last());
  if (!hosts.ok()) return std::move(hosts).status().WithContext(raw.label);
  for (const HostSlots& host : *hosts) {
    std::array<unsigned char, 16> bytes{};
    const std::string& name = host.dial_name();
    const bool is_address = ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
                            ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
    if (is_address && !host.address.has_login()) continue;
    return Refused(
        fmt::format("{}: {} is not the address of a Ray node", raw.label, Quoted(host.host)),
        "hvdray slots --ray lists them");
  }
  spec->hosts.Set(std::move(hosts).value(), raw.origin);
  return {};
}

Status SettleNamedHosts(JobSpec* spec, bool has_np) {
  const RaySpec& ray = spec->ray;
  for (const Setting<std::optional<int>>* other : {&ray.num_hosts, &ray.num_slots}) {
    if (!other->get()) continue;
    return Refused(fmt::format("{} is not allowed with {}", other->origin(), spec->hosts.origin()),
                   kLeaveOneOut);
  }
  if (!has_np) return SetNpToAllSlots(spec);
  return CheckSlots(*spec);
}

/// Any two of -np, --num-hosts and --num-slots give the third.
Status SettleNumbers(JobSpec* spec, bool has_np) {
  Setting<std::optional<int>>& hosts = spec->ray.num_hosts;
  Setting<std::optional<int>>& slots = spec->ray.num_slots;
  const auto contradiction = [&](const Setting<std::optional<int>>& other) {
    return Refused(fmt::format("{} {} does not match {} {}", spec->np.origin(), *spec->np,
                               other.origin(), **other),
                   "every node gets the same number of slots: -np is --num-hosts x --num-slots");
  };
  if (hosts->has_value() && has_np && !slots->has_value()) {
    if (*spec->np % **hosts != 0) return contradiction(hosts);
    slots.Set(*spec->np / **hosts, spec->np.origin());
  } else if (slots->has_value() && !hosts->has_value()) {
    if (!has_np) return Refused("the number of hosts is not given", "--num-hosts N");
    if (*spec->np % **slots != 0) return contradiction(slots);
    hosts.Set(*spec->np / **slots, spec->np.origin());
  }
  if (!hosts->has_value()) return {};
  const int64_t wanted = int64_t{**hosts} * slots->value_or(1);
  if (wanted > RowOf(OptionId::kNumProc).max) {
    return Refused(fmt::format("{}: {} workers exceed the limit of {}", hosts.origin(), wanted,
                               RowOf(OptionId::kNumProc).max));
  }
  if (has_np && *spec->np != wanted) return contradiction(hosts);
  if (!has_np) spec->np.Set(static_cast<int>(wanted), hosts.origin());
  return {};
}

Status CheckElasticRay(const JobSpec& spec) {
  const RaySpec& ray = spec.ray;
  for (const Setting<std::optional<int>>* fixed : {&ray.num_hosts, &ray.num_slots}) {
    if (!fixed->get()) continue;
    return Refused(
        fmt::format("{} cannot be used in an elastic job, which takes slots wherever they are free",
                    fixed->origin()),
        "-np N sets the slots to start with, --min-np and --max-np the limits");
  }
  const RayStrategy strategy = *ray.strategy;
  if (strategy == RayStrategy::kStrictPack || strategy == RayStrategy::kStrictSpread) {
    return Refused(
        fmt::format(
            "{} {} cannot be used in an elastic job, which takes slots wherever they are free",
            ray.strategy.origin(),
            strategy == RayStrategy::kStrictPack ? "STRICT_PACK" : "STRICT_SPREAD"),
        "PACK or SPREAD");
  }
  if (spec.hosts.is_default()) return {};
  return Refused(
      fmt::format(
          "{} cannot be used in an elastic job on Ray, which takes slots wherever they are free",
          spec.hosts.origin()),
      "--label-selector NAME=VALUE limits a job to some nodes");
}

Status CheckStrategy(const JobSpec& spec) {
  const RayStrategy strategy = *spec.ray.strategy;
  if (strategy == RayStrategy::kAuto || strategy == RayStrategy::kStrictSpread) return {};
  const bool has_named = !spec.hosts.is_default();
  if (!has_named && !spec.ray.num_hosts->has_value()) return {};
  return Refused(fmt::format("{} is not allowed with {}, which implies STRICT_SPREAD",
                             spec.ray.strategy.origin(),
                             has_named ? spec.hosts.origin() : spec.ray.num_hosts.origin()),
                 "use the strategy with -np N, or omit it");
}

/// The workers of a job on Ray: -np, --num-hosts, --num-slots and -H, which depend on each other.
Status ResolveRaySlots(const SpecInput& input, JobSpec* spec) {
  const bool has_np = input.all.Find(OptionId::kNumProc) != nullptr;
  HVDRAY_ASSIGN_OR_RETURN(const bool is_settled, TakeNp(input.all, spec));
  if (const RawOption* raw = SaidForThisJob(input.job, OptionId::kHosts)) {
    HVDRAY_RETURN_IF_ERROR(ReadNamedHosts(*raw, spec));
  }
  if (spec->is_elastic()) HVDRAY_RETURN_IF_ERROR(CheckElasticRay(*spec));
  HVDRAY_RETURN_IF_ERROR(CheckStrategy(*spec));
  if (!spec->hosts.is_default()) return SettleNamedHosts(spec, has_np);
  HVDRAY_RETURN_IF_ERROR(SettleNumbers(spec, has_np));
  if (is_settled || spec->ray.num_hosts->has_value()) return {};
  const int64_t slots = input.cluster ? TotalSlots(input.cluster->hosts) : 0;
  if (slots < 1 || slots > RowOf(OptionId::kNumProc).max) {
    return Refused(kAskForNp, "-np N, or --num-hosts N");
  }
  spec->np.Set(static_cast<int>(slots), "all slots of " + *spec->cluster_file);
  return {};
}

/// The highest level that names hosts in any of these ways. A level holds at most one of them.
const RawOption* FindHostSource(const LayerStack& layers, OptionId* id) {
  for (const OptionLayer& layer : layers.layers()) {
    for (const OptionId candidate : {OptionId::kHosts, OptionId::kHostfile,
                                     OptionId::kHostDiscoveryScript, OptionId::kHostSource}) {
      const auto found = layer.options.find(candidate);
      if (found == layer.options.end()) continue;
      *id = candidate;
      return &found->second;
    }
  }
  return nullptr;
}

Result<std::vector<HostSlots>> ReadHosts(OptionId id, const RawOption& raw,
                                         const ResolverFiles& files,
                                         std::optional<int> slots_per_host) {
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
  return ParseHostfile(*text, value, slots_per_host);
}

Status TakeHostSource(const RawOption& source, JobSpec* spec) {
  HVDRAY_RETURN_IF_ERROR(ChoiceOf(OptionId::kHostSource, source).status());
  spec->are_hosts_told.Set(true, source.origin);
  if (spec->min_np->has_value()) return {};
  return Refused(fmt::format("{} is for elastic jobs", spec->are_hosts_told.origin()),
                 "--min-np N makes the job elastic");
}

/// The hosts, from the highest level that names any, else a cluster file, else a batch system.
Status FindHosts(const SpecInput& input, const Environment& environment, const ResolverFiles& files,
                 JobSpec* spec) {
  OptionId id = OptionId::kCount;
  const RawOption* source = FindHostSource(input.all, &id);
  if (source != nullptr && (source->values.empty() || source->values.front().empty())) {
    return Refused(fmt::format("{} must not be empty", source->label));
  }
  if (id == OptionId::kHostDiscoveryScript) {
    spec->host_discovery_script.Set(source->values.front(), source->origin);
  } else if (id == OptionId::kHostSource) {
    return TakeHostSource(*source, spec);
  } else if (source != nullptr) {
    HVDRAY_ASSIGN_OR_RETURN(std::vector<HostSlots> hosts,
                            ReadHosts(id, *source, files, *spec->slots_per_host));
    spec->hosts.Set(std::move(hosts), source->origin);
    if (id == OptionId::kHostfile) spec->hostfile.Set(source->values.front(), source->origin);
  } else if (input.cluster) {
    HVDRAY_RETURN_IF_ERROR(input.cluster->hosts_status);
    spec->hosts.Set(input.cluster->hosts, *spec->cluster_file);
    TakeLogin(*input.cluster, spec);
  } else {
    const BatchSystems systems =
        input.name == CalledAs::kHorovodrun ? BatchSystems::kLsf : BatchSystems::kAll;
    HVDRAY_ASSIGN_OR_RETURN(auto found, FindAllocation(environment, files.read, systems));
    if (found) spec->hosts = *std::move(found);
  }
  return {};
}

/// The hosts, -np and the elastic limits, which depend on each other.
Status ResolveHosts(const SpecInput& input, const Environment& environment,
                    const ResolverFiles& files, JobSpec* spec) {
  HVDRAY_RETURN_IF_ERROR(ReadLimit(input.all, OptionId::kMinNp, &spec->min_np));
  HVDRAY_RETURN_IF_ERROR(ReadLimit(input.all, OptionId::kMaxNp, &spec->max_np));
  if (*spec->ray.is_wanted) {
    HVDRAY_RETURN_IF_ERROR(CheckLimits(*spec));
    OptionId id = OptionId::kCount;
    const RawOption* source = FindHostSource(input.all, &id);
    if (source != nullptr && id == OptionId::kHostSource) {
      HVDRAY_RETURN_IF_ERROR(TakeHostSource(*source, spec));
    }
    HVDRAY_RETURN_IF_ERROR(ResolveRaySlots(input, spec));
    return CheckStart(*spec);
  }
  HVDRAY_RETURN_IF_ERROR(FindHosts(input, environment, files, spec));
  HVDRAY_RETURN_IF_ERROR(CheckLimits(*spec));
  HVDRAY_ASSIGN_OR_RETURN(const bool is_settled, TakeNp(input.all, spec));
  if (!is_settled && !spec->hosts->empty()) {
    HVDRAY_RETURN_IF_ERROR(SetNpToAllSlots(spec));
  } else if (!is_settled) {
    if (!input.is_check) return Refused(kAskForNp, "-np N");
    spec->np = Setting<int>(1);
  }
  HVDRAY_RETURN_IF_ERROR(CheckStart(*spec));
  if (!spec->host_discovery_script->empty() || *spec->are_hosts_told) return {};
  if (spec->hosts.is_default()) {
    spec->hosts = Setting<std::vector<HostSlots>>({{"localhost", *spec->np}});
  }
  return !input.is_check ? CheckSlots(*spec) : Status();
}

// --- The command and its environment

/// As a shell finds it: a word with a slash, or a name in PATH.
bool IsExecutable(const std::string& word, const Environment& environment,
                  const ResolverFiles& files) {
  if (!files.is_executable) return false;
  if (word.find('/') != std::string::npos) return files.is_executable(word);
  const std::string path = environment.GetOr("PATH", "");
  const std::vector<std::string_view> directories = BlankSeparated(path, ":");
  return std::any_of(directories.begin(), directories.end(), [&](std::string_view directory) {
    return files.is_executable(fmt::format("{}/{}", directory, word));
  });
}

/// HOST:N, as after a blank in the list of -H.
bool IsHostAndSlots(std::string_view word) {
  const size_t colon = word.find(':');
  return colon != std::string_view::npos && IsHostName(word.substr(0, colon)) &&
         IsAllDigits(word.substr(colon + 1));
}

/// The slips that people make with the first word of a command.
Status CheckProgram(const std::string& program, const Environment& environment,
                    const ResolverFiles& files) {
  if (program.empty()) return Refused("the command is empty");
  if (IsExecutable(program, environment, files)) return {};
  const auto refused = [&program](std::string_view what, std::string hint) {
    return Refused(fmt::format("{} is {}", Quoted(program), what), std::move(hint));
  };
  if (IsAssignment(program)) {
    return refused("a variable, not a command",
                   fmt::format("set it with -x {}, before the command", program));
  }
  if (program.ends_with(".yaml") || program.ends_with(".yml")) {
    return refused(
        "a YAML file, not a command",
        fmt::format("give a job file as -f {0}, a cluster file as --cluster {0}", program));
  }
  if (program.starts_with('-')) {
    return refused("an option, not a command",
                   fmt::format("put the program before it: hvdray run -np 4 -- python3 {} ...",
                               ShownText(program)));
  }
  if (IsHostAndSlots(program)) {
    return refused("a host, not a command", "hosts have commas between them: -H a:4,b:4");
  }
  if (IsExecutable(program.substr(0, program.find(' ')), environment, files)) {
    return refused("one word, and no program has that name",
                   fmt::format("leave out the quotes, or name a shell: sh -c {}", Quoted(program)));
  }
  return {};
}

/// The highest level's command.
Status ResolveCommand(const SpecInput& input, const Environment& environment,
                      const ResolverFiles& files, JobSpec* spec) {
  for (const OptionLayer& layer : input.all.layers()) {
    if (!layer.command) continue;
    spec->command = *layer.command;
    break;
  }
  if (spec->command->empty()) {
    if (input.is_check || spec->is_dry_run.get() || spec->print_config->has_value()) return {};
    return Refused("no command to run",
                   "put it after the options, for example: -- python train.py");
  }
  return CheckProgram(spec->command->front(), environment, files);
}

/// Of Ray's runtime environment.
Status CheckEnvVars(const JobSpec& spec) {
  if (spec.ray.runtime_env->empty()) return {};
  HVDRAY_ASSIGN_OR_RETURN(const RayRuntimeEnv env, ParseRuntimeEnvText(*spec.ray.runtime_env));
  const auto variables = env.actors.find("env_vars");
  if (variables == env.actors.end()) return {};
  const std::string label = spec.ray.runtime_env.origin() + ": env_vars";
  for (const auto& [name, value] : variables->items()) {
    HVDRAY_RETURN_IF_ERROR(CheckRuntimeVariable(spec, label, name));
  }
  return {};
}

/// -x of all levels, the lowest first, so that a higher one wins.
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
        return Refused(
            fmt::format("{} must be NAME or NAME=VALUE, not {}", raw.label, Quoted(variable)));
      }
      // The second of "A=1, B=2" would be a variable that no program asks for.
      if (name.find_first_of(" \t\n\r") != std::string::npos) {
        return Refused(fmt::format("{}: {} is not the name of a variable", raw.label, Quoted(name)),
                       "no blanks beside commas and before '=': A=1,B=2");
      }
      if (name.size() == variable.size() && !environment.Get(name)) {
        return Refused(
            fmt::format("{}: {} is not set in this environment", raw.label, Quoted(name)),
            "give it a value: NAME=VALUE");
      }
      HVDRAY_RETURN_IF_ERROR(CheckUserVariable(*spec, raw.label, variable));
      variables.push_back(variable);
    }
    origin = origin.empty() ? raw.origin : fmt::format("{}, {}", raw.origin, origin);
  }
  if (!origin.empty()) spec->env.Set(std::move(variables), origin);
  return CheckEnvVars(*spec);
}

/// Warns of interfaces that were exported for all programs: hvdray's choice replaces them. Within a
/// worker they are the outer job's.
void WarnOfInterfaces(const JobSpec& spec, const Environment& environment, Warnings* warnings) {
  if (!spec.network_interfaces.is_default() || *spec.ray.is_wanted ||
      environment.Get("HVDRAY_RANK"))
    return;
  const std::vector<std::string> kept = KeptVariables(spec);
  for (const std::string name :
       {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE"}) {
    const std::string value = environment.GetOr(name, "");
    if (value.empty() || std::ranges::find(kept, name) != kept.end()) continue;
    warnings->push_back(
        fmt::format("{}={} of this environment has no effect: hvdray chooses the interface, unless "
                    "-x {} or --network-interfaces names it",
                    name, value, name));
  }
}

// --- What depends on the kind of job

/// Settings of elastic jobs alone, in the order of the option table. The elastic timeout is not
/// here: a site may set HOROVOD_ELASTIC_TIMEOUT for all its jobs.
std::vector<std::string> ElasticOrigins(const JobSpec& spec) {
  std::vector<std::string> origins;
  for (const OptionRow& row : OptionTable()) {
    const bool is_elastic = row.group == OptionGroup::kElastic || row.id == OptionId::kRecord;
    if (!is_elastic || row.id == OptionId::kElasticTimeout) continue;
    VisitMember(row, [&](const auto& member) {
      if (!member.In(spec).is_default()) origins.push_back(member.In(spec).origin());
    });
  }
  return origins;
}

void WarnOfOtherMode(const JobSpec& spec, Warnings* warnings) {
  const auto warn = [warnings](const auto& setting, std::string_view why) {
    if (!setting.is_default()) {
      warnings->push_back(fmt::format("{} has no effect {}", setting.origin(), why));
    }
  };
  if (*spec.elastic_mode == ElasticMode::kHorovod) {
    // 0 is the default.
    if (*spec.max_restarts > 0) {
      warn(spec.max_restarts, "with --elastic-mode horovod: see --reset-limit");
    }
    warn(spec.settle, "with --elastic-mode horovod, whose workers outlive a change");
    return;
  }
  constexpr std::string_view kRestarts = "with --elastic-mode gang, which restarts all workers";
  warn(spec.join, kRestarts);
  warn(spec.straggler_timeout, kRestarts);
  warn(spec.breaks_connections, kRestarts);
}

void WarnWithoutScript(const JobSpec& spec, Warnings* warnings) {
  for (const Setting<Duration>* setting : {&spec.discovery_interval, &spec.discovery_timeout}) {
    if (setting->is_default()) continue;
    warnings->push_back(
        fmt::format("{} has no effect without --host-discovery-script", setting->origin()));
  }
}

/// Sets what an elastic job has other defaults for; warns of the options that this kind of job
/// ignores.
void SettleElastic(JobSpec* spec, Warnings* warnings) {
  if (!spec->is_elastic()) {
    for (const std::string& origin : ElasticOrigins(*spec)) {
      warnings->push_back(
          fmt::format("{} has no effect without --min-np or --host-discovery-script", origin));
    }
    return;
  }
  if (spec->heartbeat_timeout.is_default()) {
    // A host given up too early costs an elastic job a reset, not its life.
    spec->heartbeat_timeout = Setting<Duration>(std::chrono::seconds(5));
  }
  WarnOfOtherMode(*spec, warnings);
  if (spec->host_discovery_script->empty()) WarnWithoutScript(*spec, warnings);
  if (spec->outlives_changes() && *spec->is_torch_env) {
    spec->is_torch_env.Set(false, std::string(kElasticOrigin));
  }
}

/// Warns of a torch.distributed script in an elastic job whose workers outlive changes: such a
/// script cannot.
void WarnOfTorchScript(const ResolverFiles& files, const JobSpec& spec, Warnings* warnings) {
  // Whoever names the mode knows it.
  if (!spec.outlives_changes() || !spec.elastic_mode.is_default() || !files.read) return;
  const size_t script = PythonScript(*spec.command);
  if (script == 0) return;
  const std::string& word = (*spec.command)[script];
  const bool is_below = !word.starts_with('/') && !spec.working_directory->empty();
  const Result<std::optional<std::string>> text =
      files.read(is_below ? *spec.working_directory + "/" + word : word);
  if (!text.ok() || !text->has_value()) return;  // Checked on the host where it runs.
  const auto has = [&text](std::string_view part) {
    return (*text)->find(part) != std::string::npos;
  };
  if (has("horovod") || !(has("torch.distributed") || has("init_process_group"))) return;
  warnings->push_back(
      fmt::format("{} looks like a torch.distributed script, which needs --elastic-mode gang: "
                  "the horovod mode sets no RANK",
                  Quoted(word)));
}

/// Warns of the options that a job on Ray ignores.
void SettleRay(const LayerStack& job, JobSpec* spec, Warnings* warnings) {
  if (!*spec->ray.is_wanted) return;
  // The head of a cluster file may be reached over SSH.
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
                        " has no effect on a working directory that each node fetches");
  }
}

}  // namespace

void TakeLogin(const ClusterHosts& cluster, JobSpec* spec) {
  const std::string& origin = *spec->cluster_file;
  if (!cluster.ssh_user.empty()) spec->ssh_user.Set(cluster.ssh_user, origin);
  if (!cluster.ssh_proxy_command.empty()) {
    spec->ssh_proxy_command.Set(cluster.ssh_proxy_command, origin);
  }
  // Any option that names a key wins over the file.
  if (!cluster.ssh_identity_file.empty() && spec->ssh_identity_file.is_default()) {
    spec->ssh_identity_file.Set(cluster.ssh_identity_file, origin);
  }
}

Status ReadCommandSettings(const LayerStack& said, JobSpec* spec) {
  HVDRAY_RETURN_IF_ERROR(ReadSettings(said, spec));
  return ReadRayAsk(said, said, &spec->ray);
}

Status CheckRunSection(const YamlNode& run) {
  HVDRAY_ASSIGN_OR_RETURN(OptionLayer layer, LayerOfFile(run, FileKind::kClusterRun));
  LayerStack said;
  said.PushLowest(std::move(layer));
  HVDRAY_RETURN_IF_ERROR(RefuseMpi(said));
  JobSpec spec;
  spec.np.Set(1, "default");
  HVDRAY_RETURN_IF_ERROR(ReadCommandSettings(said, &spec));
  std::vector<std::string> ignored;
  return ResolveTunables(said, HorovodConfig(), OptionLayer(), &ignored).status();
}

std::string AllocationNotice(const JobSpec& spec) {
  if (!AreAllocated(spec)) return {};
  std::vector<std::string> names;
  for (const HostSlots& host : *spec.hosts) names.push_back(host.host);
  return fmt::format("the hosts are those of {}: {}, {} (-H localhost:{} stays on this machine)",
                     spec.hosts.origin().substr(kEnvOrigin.size()), CompressHostList(names),
                     Count(static_cast<uint64_t>(TotalSlots(*spec.hosts)), "slot"), *spec.np);
}

Status CheckSlots(const JobSpec& spec) {
  const int64_t slots = TotalSlots(*spec.hosts);
  if (*spec.np <= slots || spec.may_learn_hosts()) return {};
  // Nobody asked for the hosts of a batch system, so the hint shows how to stay on this machine.
  const std::string& origin = spec.hosts.origin();
  const bool is_allocated = AreAllocated(spec);
  return Status(
      ErrorCode::kNotEnoughSlots,
      fmt::format("{}: Requested more processes ({}) than there are available slots ({})",
                  spec.np.origin(), *spec.np, slots),
      fmt::format("the slots come from {}: name more{}, or ask for fewer workers", origin,
                  is_allocated ? fmt::format(", for example -H localhost:{}", *spec.np) : ""));
}

Result<JobSpec> BuildSpec(const SpecInput& input, const Environment& environment,
                          const ResolverFiles& files, std::vector<std::string>* warnings) {
  JobSpec spec;
  HVDRAY_RETURN_IF_ERROR(RefuseMpi(input.all));
  HVDRAY_RETURN_IF_ERROR(ReadSettings(input.all, &spec));
  HVDRAY_RETURN_IF_ERROR(ReadRaySettings(input, files, &spec, warnings));
  HVDRAY_ASSIGN_OR_RETURN(spec.tunables,
                          ResolveTunables(input.job, input.config, input.user, warnings));
  HVDRAY_RETURN_IF_ERROR(ResolveCommand(input, environment, files, &spec));
  HVDRAY_RETURN_IF_ERROR(ResolveHosts(input, environment, files, &spec));
  HVDRAY_RETURN_IF_ERROR(ResolveEnv(input.all, environment, &spec));
  const std::optional<int> most = spec.is_elastic() ? *spec.max_np : *spec.np;
  if (spec.stdin_rank->has_value() && most && **spec.stdin_rank >= *most) {
    return Refused(fmt::format("{}: there is no rank {} among {} workers", spec.stdin_rank.origin(),
                               **spec.stdin_rank, *most));
  }
  if (!spec.preload->empty() && !spec.command->empty()) {
    const Status python = ReadPythonCall(*spec.command).status();
    if (!python.ok()) {
      return Refused(fmt::format("{}: {}", spec.preload.origin(), python.message()), python.hint());
    }
  }
  WarnOfInterfaces(spec, environment, warnings);
  SettleElastic(&spec, warnings);
  WarnOfTorchScript(files, spec, warnings);
  SettleRay(input.job, &spec, warnings);
  return spec;
}

}  // namespace hvdray
