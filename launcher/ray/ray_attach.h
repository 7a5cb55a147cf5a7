// SPDX-License-Identifier: Apache-2.0
// Follows a job on Ray to its end, from a machine that reaches only the dashboard: its output,
// state and files, and the user's signals. Carries out what ray_follow_plan.h decides.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_ATTACH_H_
#define HVDRAY_LAUNCHER_RAY_RAY_ATTACH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/standard_streams.h"
#include "cluster/ray/dashboard_client.h"
#include "launcher/ray/ray_follow_plan.h"

namespace hvdray {

/// A file of the driver to fetch.
struct RayWantedFile {
  std::string suffix;  ///< "report.json": of hvdray_<id>.report.json.
  std::string path;    ///< Local path.
  // For a partly fetched file:
  std::shared_ptr<UniqueFd> out = nullptr;  ///< Shared with the thread that fetches the rest.
  uint64_t begin = 0;                       ///< Bytes fetched so far.
};

/// What to follow, and how.
struct RayAttachOptions {
  std::string command;  ///< "run" or "follow": the command that messages name.
  RayAccess access;
  FollowPlan::Options plan;
  std::string likely_node;  ///< Most likely node of the driver; may be empty.
  std::vector<RayWantedFile> files;
  std::string output_directory = {};  ///< --output-filename; empty: none.
  bool tells_presence = false;        ///< The job stops if it has no client.
  bool is_stopped_at_once = false;
  /// Released once signals are handled here. May be null.
  std::shared_ptr<HeldSignals> held_signals = nullptr;
};

/// Creates or empties the files to fetch. Errors: kFileUnwritable.
Status CheckWantedFiles(const std::vector<RayWantedFile>& files);
/// Creates the directory of --output-filename with the files of `np` ranks (0: not known yet). No
/// effect for an empty path. Errors: kFileUnwritable.
Status CheckOutputDirectory(const std::string& path, int np);

/// Blocks until the job has ended or the user leaves. Returns the exit code; prints errors to
/// stderr.
int AttachToRayJob(RayAttachOptions options);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_ATTACH_H_
