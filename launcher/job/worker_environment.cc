// SPDX-License-Identifier: Apache-2.0
// What a worker inherits. The comment at each list says why its names are dropped or kept.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "launcher/job/job_spec.h"
#include "wire/rank_variables.h"
#include "wire/slot_environment.h"

namespace hvdray {
namespace {

using Names = std::span<const std::string_view>;

// Horovod's place of the process that started hvdray, which may itself be a worker, means nothing
// to this gang. For other launchers' there is NamesAnotherRank().
constexpr std::array<std::string_view, 12> kPlaceInHorovod = {"HOROVOD_HOSTNAME",
                                                              "HOROVOD_RANK",
                                                              "HOROVOD_SIZE",
                                                              "HOROVOD_LOCAL_RANK",
                                                              "HOROVOD_LOCAL_SIZE",
                                                              "HOROVOD_CROSS_RANK",
                                                              "HOROVOD_CROSS_SIZE",
                                                              "HOROVOD_GLOO_RENDEZVOUS_ADDR",
                                                              "HOROVOD_GLOO_RENDEZVOUS_PORT",
                                                              "HOROVOD_ELASTIC",
                                                              "HOROVOD_CONTROLLER",
                                                              "HOROVOD_CPU_OPERATIONS"};

// Read by collective/ in the workers.
constexpr std::array<std::string_view, 5> kOfCollectives = {
    "HVDRAY_COLLECTIVE", "HVDRAY_CHECK_COLLECTIVES", "HVDRAY_COLLECTIVE_TABLE", "HVDRAY_LIBRARY",
    "HVDRAY_TORCH_NCCL"};

// Horovod drops the first three; the other HVDRAY_* are for the launcher.
constexpr std::array<std::string_view, 4> kNeverPrefixes = {"BASH_FUNC_", "OLDPWD",
                                                            "_HOROVOD_SECRET_KEY", "HVDRAY_"};

// These belong to this machine or to a login on it, and mean something else, or nothing, on
// another.
constexpr std::array<std::string_view, 4> kLoginPrefixes = {"SSH_", "XDG_", "DBUS_",
                                                            "TPU_VISIBLE_"};
constexpr std::array<std::string_view, 15> kLoginNames = {
    "DISPLAY", "XAUTHORITY", "TMPDIR", "TMP", "TEMP",
    // Of a container or a pod of Kubernetes: JAX takes the index as the rank.
    "HOSTNAME", "JOB_COMPLETION_INDEX", "PMIX_HOSTNAME", "SLURMD_NODENAME", "TPU_WORKER_ID",
    "CLOUD_TPU_TASK_ID",
    // Other makers' selections of devices.
    "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL", "NEURON_RT_VISIBLE_CORES", "HABANA_VISIBLE_MODULES"};

constexpr std::array<std::string_view, 3> kCleanNames = {"PATH", "HOME", "LANG"};
constexpr std::array<std::string_view, 2> kCleanPrefixes = {"HOROVOD_", "NCCL_"};

bool IsIn(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool BeginsWithOne(std::string_view name, Names prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool IsInherited(const JobSpec& spec, const std::string& name, bool is_local) {
  const bool is_clean = *spec.is_clean_env;
  if (IsIn(name, kOfCollectives)) return !is_clean;
  if (IsIn(name, kPlaceInHorovod) || BeginsWithOne(name, kNeverPrefixes)) return false;
  if (!*spec.keeps_rank_variables && NamesAnotherRank(name)) return false;
  if (is_clean) return IsIn(name, kCleanNames) || BeginsWithOne(name, kCleanPrefixes);
  if (is_local) return true;
  // Devices are numbered per machine, so a selection made here means nothing there.
  if (name.find("VISIBLE_DEVICES") != std::string::npos) return false;
  return !IsIn(name, kLoginNames) && !BeginsWithOne(name, kLoginPrefixes);
}

constexpr const char* kGlooTimeout = "HOROVOD_GLOO_TIMEOUT_SECONDS";
constexpr int kGlooTimeoutS = 30;  // Horovod's default.
constexpr int kMaxGlooTimeoutS = 600;
constexpr int kFewRanks = 32;

// The timeout runs from a rank's own init, so it must cover the time between the first and the last
// rank's arrival, which grows with the gang (imports from one shared disk).
int GlooTimeoutS(int np) {
  return std::min(kGlooTimeoutS + std::max(np - kFewRanks, 0), kMaxGlooTimeoutS);
}

/// Before what the user has there: a Horovod that is installed would come first.
void AddBuiltinHorovod(const Environment& launcher, Environment& result) {
  std::string path = launcher.GetOr(kBuiltinHorovod, "");
  if (path.empty()) return;  // no worker runs on it
  if (const std::optional<std::string> given = result.Get("PYTHONPATH"); given && !given->empty()) {
    path += ":" + *given;
  }
  result.Set("PYTHONPATH", path);
  for (const char* name : {"HVDRAY_LIBRARY", "HVDRAY_VERSION"}) {
    result.Set(name, launcher.GetOr(name, ""));
  }
}

}  // namespace

Environment WorkerEnvironment(const JobSpec& spec, const Environment& launcher, bool is_local) {
  Environment result;
  for (const auto& [name, value] : launcher.values()) {
    if (IsInherited(spec, name, is_local)) result.Set(name, value);
  }
  const int gloo_timeout_s = GlooTimeoutS(*spec.np);
  if (gloo_timeout_s != kGlooTimeoutS && !result.Get(kGlooTimeout)) {
    result.Set(kGlooTimeout, std::to_string(gloo_timeout_s));
  }
  for (const auto& [name, value] : spec.tunables) result.Set(name, *value);
  if (spec.omp_threads->value_or(0) > 0) {
    for (const std::string_view name : kThreadNames) {
      result.Set(std::string(name), std::to_string(**spec.omp_threads));
    }
  }
  // A Python worker's lines appear as soon as it prints them; -x may override this.
  result.Set("PYTHONUNBUFFERED", "1");
  for (const std::string& variable : *spec.env) {
    const size_t equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    if (equals != std::string::npos) {
      result.Set(name, variable.substr(equals + 1));
    } else if (const std::optional<std::string> value = launcher.Get(name)) {
      result.Set(name, *value);
    }
  }
  if (*spec.horovod == HorovodChoice::kBuiltin) AddBuiltinHorovod(launcher, result);
  return result;
}

}  // namespace hvdray
