// The packages that a job on Ray goes with: the large one (agent, Ray's side of the driver, the
// user's folder), which is used again as long as nothing in it changes, and the small one of this
// job alone. docs/adr/0011.
#ifndef HVDRAY_LAUNCHER_RAY_JOB_PACKAGE_H_
#define HVDRAY_LAUNCHER_RAY_JOB_PACKAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// What Ray's dashboard takes in one request, to the byte.
inline constexpr size_t kMaxRayPackageBytes = size_t{100} << 20;

struct PackageOptions {
  std::string agent_path;             ///< The hvdray-agent that runs on the nodes.
  std::string working_dir;            ///< Empty: none goes along.
  std::vector<std::string> excludes;  ///< Lines as of a .gitignore.
};

/// One thing in a package.
struct PackageEntry {
  std::string name;  ///< In the package; folders have no '/' at the end.
  uint16_t mode = 0;
  bool is_folder = false;
  std::string path = {};  ///< On disk; empty: the bytes are `bytes`.
  std::string bytes = {};
  // Of a file on disk, as it was when it was read for the name.
  uint64_t size = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
};

struct PackagePlan {
  /// "hvdray_0123456789abcdef.zip": a hash over names, modes and bytes.
  std::string name;
  std::vector<PackageEntry> entries;
  uint64_t user_files = 0;
  uint64_t user_bytes = 0;
  std::string working_dir;
  std::string user_prefix;  ///< Of the names of the user's entries.
};

/// Looks the folder through and reads everything once. Left out beside .git: what --exclude,
/// .gitignore and .rayignore name, .venv, venv, __pycache__. Links are followed. Blocks. Errors:
/// kUsage and kFileUnreadable as ListFolder(), kPackageTooLarge for what can't fit however well it
/// packs.
Result<PackagePlan> PlanPackage(const PackageOptions& options);

/// The zip archive. Blocks: some 25 ms a MB. Errors: kPackageTooLarge with the largest files,
/// kFileUnreadable, also for a file that has changed since it was planned.
Result<std::string> BuildPackage(const PackagePlan& plan, size_t limit_bytes = kMaxRayPackageBytes);

/// A package for Ray's py_modules, of one folder with Python files: `path`'s last part is its name
/// there. Blocks. Errors: as PlanPackage().
Result<PackagePlan> PlanModulePackage(const std::string& path);

/// The package of one job: the folder hvdray_job with `job_json` as job.json, for its owner alone.
Result<std::string> BuildJobFilePackage(const std::string& job_json);

/// "hvdray_job_<job_id>.zip": the name of that package.
std::string JobFilePackageName(const std::string& job_id);
/// "hvdray_here_<job_id>.zip": a package that says to the driver that its client is there.
std::string PresencePackageName(const std::string& job_id);
/// "hvdray_now_<job_id>.zip": a package that says "at once" to a driver that is stopping.
std::string HurryPackageName(const std::string& job_id);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_JOB_PACKAGE_H_
