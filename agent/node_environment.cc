#include "agent/node_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "wire/package_layout.h"

namespace hvdray {
namespace {

bool IsRays(std::string_view entry, RayNames names) {
  return (names == RayNames::kDropped && entry.starts_with("RAY_")) ||
         entry.starts_with("OMP_NUM_THREADS=") || entry == "PYTHONWARNINGS=ignore" ||
         entry.starts_with("PYTHONBREAKPOINT=ray.") || entry.starts_with("PWD=") ||
         entry.starts_with("OLDPWD=");
}

// Where Ray unpacks what a job has brought.
constexpr std::string_view kPackages = "/working_dir_files/hvdray_";
constexpr std::string_view kJobFiles = "/py_modules_files/hvdray_job_";
constexpr std::string_view kModules = "/py_modules_files/hvdray_";
constexpr std::string_view kUsersModules = "/py_modules_files/hvdray_mod_";
constexpr std::string_view kModulePath = "PYTHONPATH=";

/// `path` is a folder whose name begins as the end of `place` says, there.
bool IsIn(std::string_view path, std::string_view place) {
  const size_t at = path.find(place);
  return at != std::string_view::npos &&
         path.find('/', at + place.size()) == std::string_view::npos;
}

/// PYTHONPATH as it would be if Ray had unpacked nothing but the user's folder; empty: no part of
/// it is left.
std::string UsersModulePath(std::string_view path) {
  std::string kept;
  for (;;) {
    const size_t colon = path.find(':');
    const std::string_view part = path.substr(0, colon);
    if (!IsIn(part, kJobFiles) && !(IsIn(part, kModules) && !IsIn(part, kUsersModules))) {
      if (!kept.empty()) kept += ':';
      kept += part;
      if (IsIn(part, kPackages)) kept += std::string("/") + kPackageFilesFolder;
    }
    if (colon == std::string_view::npos) return kept;
    path.remove_prefix(colon + 1);
  }
}

}  // namespace

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

std::string WithPathEnd(std::string_view entry, std::string_view folder) {
  constexpr std::string_view kName = "PATH=";
  const std::string_view list = entry.substr(std::min(kName.size(), entry.size()));
  const bool is_there =
      fmt::format(":{}:", list).find(fmt::format(":{}:", folder)) != std::string::npos;
  return folder.empty() || is_there ? std::string(entry) : fmt::format("{}:{}", entry, folder);
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
