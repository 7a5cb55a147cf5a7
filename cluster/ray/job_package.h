// SPDX-License-Identifier: Apache-2.0
// The packages of a job on Ray: the large one (agent, Ray's side of the driver, the user's
// directory), reused as long as nothing in it changes, and the small one of this job alone.
// docs/adr/0011-packages-by-libzip.md.
#ifndef HVDRAY_CLUSTER_RAY_JOB_PACKAGE_H_
#define HVDRAY_CLUSTER_RAY_JOB_PACKAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// The exact limit of Ray's dashboard for one request.
inline constexpr size_t kMaxRayPackageBytes = size_t{100} << 20;

/// One file or directory of a package.
struct PackageEntry {
  std::string name;  ///< In the package; directories without a trailing '/'.
  uint16_t mode = 0;
  bool is_directory = false;
  std::string path = {};  ///< On disk; empty: the bytes are `bytes`.
  std::string bytes = {};
  // For a file on disk: its state when it was hashed.
  uint64_t size = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
};

/// A package before it is built.
struct PackagePlan {
  /// "hvdray_0123456789abcdef.zip": the hash of names, modes and bytes.
  std::string name;
  std::vector<PackageEntry> entries;
  uint64_t user_files = 0;
  uint64_t user_bytes = 0;
  std::string working_dir;
  std::string user_prefix;  ///< Prefix of the names of the user's entries.
};

/// Plans the large package: `agent_path`, the hvdray-agent for the nodes, and the user's directory
/// (empty: none) without `excludes`, patterns as in a .gitignore. Lists the directory and reads all
/// files once. Excludes .git, .venv, venv, __pycache__, and what
/// --exclude, .gitignore and .rayignore name. Follows links. Blocks. Errors: kUsage and
/// kFileUnreadable as ListDirectory(), kPackageTooLarge if it can't fit at any compression.
Result<PackagePlan> PlanPackage(const std::string& agent_path, const std::string& working_dir,
                                const std::vector<std::string>& excludes);

/// The zip archive. Blocks: about 25 ms per MB. Errors: kPackageTooLarge with the largest files;
/// kFileUnreadable, also for a file that changed since PlanPackage().
Result<std::string> BuildPackage(const PackagePlan& plan, size_t limit_bytes = kMaxRayPackageBytes);

/// A package for Ray's py_modules, made of one directory with Python files; the last part of `path`
/// is the module's name. Blocks. Errors: as PlanPackage().
Result<PackagePlan> PlanModulePackage(const std::string& path);

/// The package of one job: the directory hvdray_job with `job_json` as job.json, readable by its
/// owner only. `control`: what a client of `hvdray serve` says, as the file control; empty: none.
/// Blocks. Errors: kPackageTooLarge.
Result<std::string> BuildJobFilePackage(const std::string& job_json,
                                        const std::string& control = {});

/// "hvdray_job_<job_id>.zip": the name of that package.
std::string JobFilePackageName(const std::string& job_id);
/// "hvdray_here_<job_id>.zip": a package that tells the driver that its client is present.
std::string PresencePackageName(const std::string& job_id);
/// "hvdray_now_<job_id>.zip": a package that makes a stopping driver force the stop.
std::string ForceStopPackageName(const std::string& job_id);

// python/hvdray/_ray_driver.py as of this build.

/// The file's bytes. They are shipped with the agent, since both use the same pipe protocol.
std::string_view RayDriverText();

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_JOB_PACKAGE_H_
