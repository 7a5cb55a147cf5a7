// SPDX-License-Identifier: Apache-2.0
#include "agent/gang_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/spawn.h"
#include "base/command_words.h"
#include "wire/package_layout.h"
#include "wire/rank_variables.h"
#include "wire/slot_environment.h"

namespace hvdray {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1";
constexpr std::array<std::string_view, 5> kOwnNames = {"HVDRAY_RANK", "HVDRAY_JOB_ID",
                                                       "HVDRAY_GENERATION", "HVDRAY_CHANNEL_FD",
                                                       "TORCHELASTIC_ERROR_FILE"};
constexpr std::string_view kGpuName = "CUDA_VISIBLE_DEVICES";
// Ray names an actor's AMD GPUs in this variable; their libraries may read no other.
constexpr std::string_view kHipName = "HIP_VISIBLE_DEVICES";
constexpr std::string_view kPathName = "PATH";
// We set these from their inherited values.
constexpr std::array<std::string_view, 2> kProxyNames = {"no_proxy", "NO_PROXY"};

// Drops torchrun's names even where we do not set them: in an elastic job, an inherited RANK would
// go stale.
std::set<std::string, std::less<>> NamesToDrop(const wire::StartGeneration& place) {
  wire::StartGeneration all = place;
  if (!place.keeps_rank_variables) all.is_torch_environment = true;
  if (all.master_address.empty()) all.master_address = kLoopback;
  if (all.master_port == 0) all.master_port = 1;
  std::set<std::string, std::less<>> names(kOwnNames.begin(), kOwnNames.end());
  names.insert(kProxyNames.begin(), kProxyNames.end());
  for (auto& [name, value] : SlotEnvironment(all, {}, "job", 1)) names.insert(std::move(name));
  for (const std::string& name : place.kept_variables) names.erase(name);
  return names;
}

bool HasItem(std::string_view list, std::string_view wanted) {
  for (;;) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item == wanted) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

// The rendezvous is on this host: a proxy would answer in its place.
std::string WithoutProxyForLoopback(std::string_view list) {
  if (list.empty()) return std::string(kLoopback);
  if (HasItem(list, kLoopback) || HasItem(list, "*")) return std::string(list);
  return fmt::format("{},{}", list, kLoopback);
}

wire::StartGeneration PlaceOf(const wire::StartGeneration& start) {
  wire::StartGeneration place = start;
  place.workers.clear();
  place.command.clear();
  place.environment.clear();
  return place;
}

bool IsRays(std::string_view entry, RayNames names) {
  return (names == RayNames::kDropped && entry.starts_with("RAY_")) ||
         entry.starts_with("OMP_NUM_THREADS=") || entry == "PYTHONWARNINGS=ignore" ||
         entry.starts_with("PYTHONBREAKPOINT=ray.") || entry.starts_with("PWD=") ||
         entry.starts_with("OLDPWD=");
}

// Where Ray unpacks a job's packages.
constexpr std::string_view kPackages = "/working_dir_files/hvdray_";
constexpr std::string_view kJobFiles = "/py_modules_files/hvdray_job_";
constexpr std::string_view kModules = "/py_modules_files/hvdray_";
constexpr std::string_view kUsersModules = "/py_modules_files/hvdray_mod_";
constexpr std::string_view kModulePath = "PYTHONPATH=";

/// True if `path` contains `place` and has no '/' after it: a directory that Ray unpacked there.
bool IsIn(std::string_view path, std::string_view place) {
  const size_t at = path.find(place);
  return at != std::string_view::npos &&
         path.find('/', at + place.size()) == std::string_view::npos;
}

/// PYTHONPATH as if Ray had unpacked the user's directory only; empty: nothing remains.
std::string UsersModulePath(std::string_view path) {
  std::string kept;
  for (;;) {
    const size_t colon = path.find(':');
    const std::string_view part = path.substr(0, colon);
    if (!IsIn(part, kJobFiles) && !(IsIn(part, kModules) && !IsIn(part, kUsersModules))) {
      if (!kept.empty()) kept += ':';
      kept += part;
      if (IsIn(part, kPackages)) kept += std::string("/") + kPackageFilesDirectory;
    }
    if (colon == std::string_view::npos) return kept;
    path.remove_prefix(colon + 1);
  }
}

}  // namespace

wire::StartGeneration WithNodePython(wire::StartGeneration start, const std::string& python) {
  if (start.command.front() == kNodePython && !python.empty()) start.command.front() = python;
  return start;
}

GangEnvironment::GangEnvironment(const wire::StartGeneration& start, std::string job_id,
                                 Generation generation, const NodeShare& node)
    : place_(PlaceOf(start)), job_id_(std::move(job_id)) {
  if (start.gpu_visibility != wire::GpuVisibility::kInherited) gpus_ = node.gpus;
  auto dropped = NamesToDrop(place_);
  if (!gpus_.empty()) {
    gpu_names_.push_back(kGpuName);
    const auto is_hip = [](const std::string& entry) {
      return entry.starts_with(kHipName) && entry[kHipName.size()] == '=';
    };
    if (std::any_of(node.environment.begin(), node.environment.end(), is_hip)) {
      gpu_names_.push_back(kHipName);
    }
    dropped.insert(gpu_names_.begin(), gpu_names_.end());
  }
  std::set<std::string_view> seen;
  std::array<std::optional<std::string_view>, 2> proxies;
  std::vector<std::string> entries = start.environment;
  if (start.is_on_own_environment) {
    // Ray itself may have been started by srun or mpirun.
    std::copy_if(node.environment.begin(), node.environment.end(), std::back_inserter(entries),
                 [&start](std::string_view entry) {
                   return start.keeps_rank_variables ||
                          !NamesAnotherRank(entry.substr(0, entry.find('=')));
                 });
  }
  const std::string_view python = node.python;
  const std::string_view directory =
      python.substr(0, python.rfind('/') == std::string_view::npos ? 0 : python.rfind('/'));
  for (const std::string& entry : entries) {
    const std::string_view text = entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    const std::string_view name = text.substr(0, equals);
    if (!seen.insert(name).second) continue;
    for (size_t i = 0; i < kProxyNames.size(); ++i) {
      if (name == kProxyNames[i]) proxies[i] = text.substr(equals + 1);
    }
    if (dropped.contains(name)) continue;
    shared_.push_back(name == kPathName ? WithPathEnd(entry, directory) : entry);
  }
  if (start.threads > 0 && !seen.contains(kThreadNames.front())) {
    for (const std::string_view name : kThreadNames) {
      if (!seen.contains(name)) shared_.push_back(fmt::format("{}={}", name, start.threads));
    }
  }
  // Programs prefer either spelling: an unset one gets the other's value.
  for (size_t i = 0; i < kProxyNames.size(); ++i) {
    const std::string_view value = proxies[i].value_or(proxies[1 - i].value_or(""));
    shared_.push_back(fmt::format("{}={}", kProxyNames[i], WithoutProxyForLoopback(value)));
  }
  shared_.push_back(fmt::format("HVDRAY_JOB_ID={}", job_id_));
  shared_.push_back(fmt::format("HVDRAY_GENERATION={}", generation));
}

GangEnvironment GangEnvironment::Plain(const wire::StartGeneration& start, const NodeShare& node) {
  GangEnvironment plain;
  plain.is_plain_ = true;
  std::set<std::string_view> seen;
  for (const auto* entries : {&start.environment, &node.environment}) {
    for (const std::string& entry : *entries) {
      const size_t equals = entry.find('=');
      if (equals == std::string::npos || equals == 0) continue;
      if (seen.insert(std::string_view(entry).substr(0, equals)).second) {
        plain.shared_.push_back(entry);
      }
    }
  }
  return plain;
}

std::vector<std::string> GangEnvironment::ForWorker(const wire::WorkerSlot& slot,
                                                    uint16_t relay_port,
                                                    const std::string& error_file) const {
  std::vector<std::string> own;
  if (is_plain_) return own;
  for (const auto& [name, value] : SlotEnvironment(place_, slot, job_id_, relay_port)) {
    own.push_back(fmt::format("{}={}", name, value));
  }
  own.push_back(fmt::format("HVDRAY_RANK={}", slot.rank));
  if (place_.has_channel) own.push_back(fmt::format("HVDRAY_CHANNEL_FD={}", kChannelFd));
  if (!error_file.empty()) own.push_back(fmt::format("TORCHELASTIC_ERROR_FILE={}", error_file));
  const std::string gpus =
      VisibleGpus(place_.gpu_visibility, gpus_, slot.local_rank, place_.local_size);
  if (gpus.empty()) return own;
  for (const std::string_view name : gpu_names_) own.push_back(fmt::format("{}={}", name, gpus));
  return own;
}

std::vector<std::string> WithoutRay(const std::vector<std::string>& environment, RayNames names) {
  std::vector<std::string> kept;
  for (const std::string& entry : environment) {
    if (IsRays(entry, names)) continue;
    if (!entry.starts_with(kModulePath)) {
      kept.push_back(entry);
      continue;
    }
    const std::string path = UsersModulePath(std::string_view(entry).substr(kModulePath.size()));
    if (!path.empty()) kept.push_back(std::string(kModulePath) + path);
  }
  return kept;
}

std::string WithPathEnd(std::string_view entry, std::string_view directory) {
  constexpr std::string_view kName = "PATH=";
  const std::string_view list = entry.substr(std::min(kName.size(), entry.size()));
  const bool is_there =
      fmt::format(":{}:", list).find(fmt::format(":{}:", directory)) != std::string::npos;
  return directory.empty() || is_there ? std::string(entry)
                                       : fmt::format("{}:{}", entry, directory);
}

std::string VisibleGpus(wire::GpuVisibility visibility, const std::vector<std::string>& gpus,
                        int local_rank, int local_size) {
  if (visibility == wire::GpuVisibility::kInherited || gpus.empty()) return {};
  size_t first = 0;
  size_t count = gpus.size();
  if (visibility == wire::GpuVisibility::kRank && local_size > 0) {
    const auto workers = static_cast<size_t>(local_size);
    const auto worker = static_cast<size_t>(local_rank) % workers;
    count = gpus.size() / workers;
    first = worker * count;
    if (count == 0) {
      count = 1;
      first = worker * gpus.size() / workers;
    }
  }
  std::string value;
  for (size_t i = first; i < first + count; ++i) {
    if (!value.empty()) value += ',';
    value += gpus[i];
  }
  return value;
}

}  // namespace hvdray
