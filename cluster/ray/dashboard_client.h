// The Ray dashboard's HTTP interface (docs/ray.md): what hvdray asks of a cluster from outside.
#ifndef HVDRAY_CLUSTER_RAY_DASHBOARD_CLIENT_H_
#define HVDRAY_CLUSTER_RAY_DASHBOARD_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/web_client.h"
#include "cluster/ray/ray_address.h"
#include "cluster/ray/ray_facts.h"
#include "cluster/ray/ray_report.h"
#include "cluster/ray/ray_token.h"

namespace hvdray {

/// How a cluster is reached, resolved once; every connection to it is made from this.
struct RayAccess {
  RayAddress address;
  RayToken token;
  WebHeaders headers;
  WebTrust trust;
  std::optional<WebProxy> proxy;
  std::string user_agent = "hvdray";           ///< "hvdray/0.1.0". Ray refuses browsers.
  Duration timeout{std::chrono::seconds(30)};  ///< Of one answer.

  RayAccess Copy() const;
};

/// Every call blocks for one answer, at most `access.timeout` (PutPackage(): as long as bytes go
/// out). Threads: one caller at a time, Cancel() from any; two connections for two threads.
///
/// Errors of all calls, each one line with the address: kRayUnreachable (nothing there, no TLS, a
/// certificate that is not believed, a gateway without a cluster behind it, no Ray dashboard),
/// kRayDenied (401, 403: with where a token would come from), kRayFailed (everything else that it
/// answers or fails to answer in time: the last line of what it says), kPackageTooLarge (413),
/// kCancelled, kFileUnreadable (certificates).
class DashboardClient {
 public:
  explicit DashboardClient(RayAccess access);
  ~DashboardClient();
  DashboardClient(const DashboardClient&) = delete;
  DashboardClient& operator=(const DashboardClient&) = delete;

  const RayAccess& access() const;

  Result<RayVersion> Version();
  /// Those that are alive, the head first, then by address and id.
  Result<std::vector<RayNode>> Nodes();
  Result<RayClusterStatus> ClusterStatus();
  Result<RayNodeSummary> NodeSummary();
  Result<std::vector<RayPlacementGroup>> PlacementGroups();

  /// Whether the cluster has "hvdray_….zip"; if so it is kept for 600 s from now.
  Result<bool> HasPackage(const std::string& name);
  Status PutPackage(const std::string& name, ByteView bytes);

  /// The submission id. Success says that Ray took it, not that it will run.
  Result<std::string> Submit(const RayJobRequest& request);
  /// nullopt: no such job. `id`: a submission id.
  Result<std::optional<RayJob>> GetJob(const std::string& id);
  Result<std::vector<RayJob>> ListJobs();
  /// false: it had ended. true does not say that it stops: a pending one does not.
  Result<bool> StopJob(const std::string& id);
  /// Only one that has ended; false: Ray did not.
  Result<bool> DeleteJob(const std::string& id);

  /// The bytes of a file in a node's logs folder from its start, then what is added to it, until
  /// `take` returns false (that is success) or the connection ends (kRayFailed; also when there is
  /// no such file or node). Has no time limit of its own. See log_follower.h for one that goes on.
  Status StreamLog(const std::string& node_id, const std::string& file_name,
                   const std::function<bool(ByteView piece)>& take);
  /// The same file as it is now, to its end; each piece within the timeout. An empty one is
  /// kRayFailed, for Ray does not always tell it from one that is not there. `take` returns false
  /// to end.
  Status ReadLog(const std::string& node_id, const std::string& file_name,
                 const std::function<bool(ByteView piece)>& take);

  /// Ends the call under way with kCancelled, and every later one at once.
  void Cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Asks for version, nodes and what is in use, one after another. Blocks. Errors: those of
/// DashboardClient.
Result<RaySnapshot> LookAtRay(RayAccess access);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_DASHBOARD_CLIENT_H_
