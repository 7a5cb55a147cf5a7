// SPDX-License-Identifier: Apache-2.0
// Client of the Ray dashboard's HTTP interface, through which hvdray uses a cluster from outside.
// docs/ray.md, "The cluster".
#ifndef HVDRAY_CLUSTER_RAY_DASHBOARD_CLIENT_H_
#define HVDRAY_CLUSTER_RAY_DASHBOARD_CLIENT_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/http_client.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/ray/ray_facts.h"
#include "cluster/ray/ray_report.h"
#include "launcher/job/ray_address.h"

namespace hvdray {

/// How to reach a cluster. Resolved once, used for every connection to it. Contains secrets.
struct RayAccess {
  RayAddress address;
  RayToken token;
  HttpHeaders headers;  ///< As secret as the token.
  /// Both also go to another machine in clear text: the user has named its address.
  bool is_clear_text_allowed = false;
  bool is_peer_checked = true;  ///< false: also to processes of other users of this machine.
  HttpTrust trust;
  std::optional<HttpProxy> proxy;
  std::string user_agent = "hvdray";           ///< "hvdray/0.1.0". Ray refuses browsers.
  Duration timeout{std::chrono::seconds(30)};  ///< For one answer.

  /// Explicit, because a token is move-only.
  RayAccess Copy() const;
};

/// One connection. Every call blocks for one answer, at most `access.timeout` (PutPackage(): as
/// long as bytes are being sent). Threads: one caller at a time, Cancel() from any; use one client
/// per thread.
///
/// Errors of all calls, each one line with the address: kRayUnreachable (nothing there, no TLS,
/// untrusted certificate, a gateway without a cluster, no Ray dashboard), kRayDenied (401, 403;
/// the hint tells where to put a token), kRayFailed (any other failure, or no answer in time; with
/// the last line of the answer), kPackageTooLarge (413), kCancelled, kFileUnreadable
/// (certificates).
class DashboardClient {
 public:
  explicit DashboardClient(RayAccess access);
  ~DashboardClient();
  DashboardClient(const DashboardClient&) = delete;
  DashboardClient& operator=(const DashboardClient&) = delete;

  const RayAccess& access() const;

  Result<RayVersion> Version();
  /// The live nodes: the head first, then by address and id.
  Result<std::vector<RayNode>> Nodes();
  /// Nodes that have died since the head's start, as far as Ray remembers them.
  Result<std::vector<RayLostNode>> LostNodes();
  Result<RayClusterStatus> ClusterStatus();
  Result<RayNodeSummary> NodeSummary();
  Result<std::vector<RayPlacementGroup>> PlacementGroups();

  /// Whether the cluster has the package `name` ("hvdray_….zip"). If so, Ray keeps it for 600 s.
  Result<bool> HasPackage(const std::string& name);
  Status PutPackage(const std::string& name, ByteView bytes);

  /// Returns the submission id. Success means that Ray accepted the job, not that it will run.
  Result<std::string> Submit(const RayJobRequest& request);
  /// nullopt: no such job. `id`: a submission id.
  Result<std::optional<RayJob>> GetJob(const std::string& id);
  /// All jobs of the cluster, also those of other users.
  Result<std::vector<RayJob>> ListJobs();
  /// false: the job had ended. true is no promise: Ray does not stop a pending job.
  Result<bool> StopJob(const std::string& id);

  /// The files in a node's log directory, by name.
  Result<std::vector<std::string>> LogNames(const std::string& node_id);
  /// Passes the bytes of a file in a node's log directory to `take`, from the start and as the file
  /// grows, until `take` returns false (success) or the connection ends (kRayFailed; also when the
  /// file or node doesn't exist). Has no time limit. RayLogFollower also reconnects.
  Status StreamLog(const std::string& node_id, const std::string& file_name,
                   const std::function<bool(ByteView piece)>& take);
  /// Passes the present contents of such a file to `take` until it returns false; each piece within
  /// the timeout. An empty file is kRayFailed, because Ray does not always tell it from a missing
  /// one.
  /// `lines`: only so many of the last ones; nullopt: all.
  Status ReadLog(const std::string& node_id, const std::string& file_name,
                 const std::function<bool(ByteView piece)>& take,
                 std::optional<int64_t> lines = std::nullopt);

  /// Passes what a submitted job has written so far to `take` until it returns false. Nothing
  /// written is success. Reads the file on the driver's node, which passes on any byte; where that
  /// is not known yet or gives nothing, asks the Jobs API, which needs the log in UTF-8. `lines`:
  /// as ReadLog().
  Status ReadJobLog(const RayJob& job, const std::function<bool(ByteView piece)>& take,
                    std::optional<int64_t> lines = std::nullopt);

  /// Ends the current call, and every later one, with kCancelled.
  void Cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The name of a submitted job's log in the log directory of its driver's node.
std::string RayJobLogName(const std::string& submission_id);

/// Queries version, nodes and usage, one after another. Blocks. Errors: those of DashboardClient.
Result<RaySnapshot> LookAtRay(RayAccess access);

/// Also queries lost nodes, placement groups, jobs and, where an autoscaler adds nodes, what it
/// wrote last. Fills all but the file's part of the result. `now_ms`: since 1970. Blocks. Errors:
/// those of DashboardClient.
Result<ClusterView> LookAtCluster(RayAccess access, int64_t now_ms);

/// Follows one file in a node's log directory: every byte once and in order, even when the
/// connection breaks. Blocks its own thread (base/blocking_pool.h) as long as it follows. A new
/// connection reads the file from its start and skips the bytes that were delivered before.
class RayLogFollower {
 public:
  struct Options {
    std::string node_id;
    std::string file_name;
    uint64_t offset = 0;                                   ///< Bytes that the caller already has.
    Duration first_pause{std::chrono::milliseconds(100)};  ///< After a failure; doubles each time.
    Duration longest_pause{std::chrono::seconds(2)};       ///< Limit of the doubling.
  };
  struct Handlers {
    /// Receives new bytes. Returns false to end.
    std::function<bool(ByteView piece)> take;
    /// The connection is lost, or the file doesn't exist yet. Called before each pause, on the
    /// following thread. Optional.
    std::function<void(const Status& why)> on_pause;
  };

  RayLogFollower(RayAccess access, Options options);

  /// Returns success once `take` returns false, kCancelled after Cancel(), and at once errors that
  /// a retry can't fix (kRayDenied, kUsage, kFileUnreadable). Retries all other errors for ever:
  /// the caller also watches the job and cancels.
  Status Follow(const Handlers& handlers);

  /// Threads: any. Later calls of Follow() end at once.
  void Cancel();

  /// Delivered bytes, plus Options::offset. Call it within handlers or outside of Follow().
  uint64_t offset() const { return offset_; }

 private:
  bool Pause(Duration pause);

  DashboardClient client_;
  const Options options_;
  uint64_t offset_;

  std::mutex mutex_;  // guards the next
  bool is_cancelled_ = false;
  std::condition_variable wakeup_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_DASHBOARD_CLIENT_H_
