// SPDX-License-Identifier: Apache-2.0
// Follows a job on Ray to its end, from a machine that reaches only the dashboard: its output,
// state and files, and the user's signals. Carries out what ray_follow_plan.h decides.
#ifndef HVDRAY_CLUSTER_RAY_RAY_ATTACH_H_
#define HVDRAY_CLUSTER_RAY_RAY_ATTACH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "base/signals.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_follow_plan.h"

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
  /// A message of the session that the job is for, see FormatControl(). May be null. After an error
  /// none follows: the job is stopped, and what it printed still arrives.
  std::function<Status(ByteView message)> on_control = nullptr;
};

/// Creates or empties the files to fetch. Errors: kFileUnwritable.
Status CheckWantedFiles(const std::vector<RayWantedFile>& files);
/// Creates the directory of --output-filename with the files of `np` ranks (0: not known yet). No
/// effect for an empty path. Errors: kFileUnwritable.
Status CheckOutputDirectory(const std::string& path, int np);

/// A client of a job on Ray, for an owner that has more to do meanwhile. Threads: the loop's, which
/// outlives it.
class RayJobClient {
 public:
  RayJobClient(Loop& loop, RayAttachOptions options);
  ~RayJobClient();

  /// Runs the loop until the job has ended or the user leaves. Returns the exit code; prints errors
  /// to stderr. Once.
  int Run();

  // During Run(), also from on_control.
  /// Stops the job as SIGTERM to this process does; the second time, forces the stop.
  void Stop();
  /// True: no message for now.
  void SetBusy(bool is_busy);
  /// Calls `done` once all of the job's output that has arrived is written, or never will be; maybe
  /// at once.
  void OnceWritten(std::function<void()> done);

  // After Run().
  /// The last record of the stream; nullopt: it has not arrived.
  const std::optional<StreamEnd>& end() const;
  /// The error that Run() has printed.
  const Status& error() const;
  /// The first signal that this process got, or SIGPIPE if its reader has gone; 0: none, or Stop()
  /// was called before.
  int stop_signo() const;

 private:
  class Attachment;
  std::unique_ptr<Attachment> attachment_;
};

/// Blocks until the job has ended or the user leaves. Returns the exit code; prints errors to
/// stderr.
int AttachToRayJob(RayAttachOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_ATTACH_H_
