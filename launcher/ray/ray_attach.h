// Follows a job on Ray to its end, from a machine that reaches the dashboard only: its output, its
// state, its files, and what the person in front of it wants. Carries out what ray_follow_plan.h
// decides.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_ATTACH_H_
#define HVDRAY_LAUNCHER_RAY_RAY_ATTACH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/held_signals.h"
#include "cluster/ray/dashboard_client.h"
#include "launcher/ray/ray_follow_plan.h"

namespace hvdray {

/// A file of the driver that is wanted here.
struct RayWantedFile {
  std::string suffix;  ///< "report.json": of hvdray_<id>.report.json.
  std::string path;    ///< Here.
  // Of one that is here in part:
  std::shared_ptr<UniqueFd> out = nullptr;  ///< Shared with the thread that fetches the rest.
  uint64_t begin = 0;                       ///< How much of it is there.
};

struct RayAttachOptions {
  std::string command;  ///< "run" or "follow": whose messages these are.
  RayAccess access;
  FollowPlan::Options plan;
  std::string likely_node;  ///< Where the driver most likely is; may be empty.
  std::vector<RayWantedFile> files;
  std::string output_folder = {};  ///< --output-filename; empty: none.
  bool tells_presence = false;     ///< The job stops without a client.
  bool is_stopped_at_once = false;
  /// Let go once signals are taken as what they mean for the job. May be null.
  std::shared_ptr<HeldSignals> held_signals = nullptr;
};

/// Opens and empties the files that are wanted. Errors: kFileUnwritable.
Status CheckWantedFiles(const std::vector<RayWantedFile>& files);
/// Makes the folder of --output-filename, and the files of np ranks in it; 0: not known yet.
/// Nothing for an empty path. Errors: kFileUnwritable.
Status CheckOutputFolder(const std::string& path, int np);

/// Blocks until the job has ended or the person leaves. Returns the exit code; what is wrong is
/// said on stderr.
int AttachToRayJob(RayAttachOptions options);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_ATTACH_H_
