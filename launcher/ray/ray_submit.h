// Before and at the submission of a job to Ray: whether the cluster can hold it, the packages, the
// job itself. Everything here blocks.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_SUBMIT_H_
#define HVDRAY_LAUNCHER_RAY_RAY_SUBMIT_H_

#include <string>
#include <utility>
#include <vector>

#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_report.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/ray/job_package.h"

namespace hvdray {

/// What a look at the cluster has said.
struct RayOutlook {
  RaySnapshot cluster;
  RayRequest request;
  RayFit fit;             ///< Of what is free now.
  bool can_grow = false;  ///< An autoscaler may add nodes, or it is not known yet that it can't.
  std::string head_node;  ///< Empty: unknown.
};

/// Looks at the cluster. Errors: those of DashboardClient; kInfeasible when what `spec` asks for
/// fits into no live node and none can be added (elastic jobs wait for nodes that people add).
Result<RayOutlook> LookAhead(const RayAccess& access, const JobSpec& spec);

/// What runtime_env's py_modules has of this machine, and where all of it is for Ray.
struct RayModules {
  std::vector<std::string> uris;                            ///< In their order.
  std::vector<PackagePlan> folders;                         ///< Each to be sent.
  std::vector<std::pair<std::string, std::string>> wheels;  ///< Name, path.
};
/// Looks them through. Blocks. Errors: as PlanPackage(); kUsage for what is no module.
Result<RayModules> PlanModules(const std::vector<std::string>& modules);
/// On the cluster when it returns. Errors: as SendPackage().
Status SendModules(DashboardClient& client, const RayModules& modules);

/// The large package: on the cluster when it returns. Errors: those of DashboardClient and
/// BuildPackage().
Status SendPackage(DashboardClient& client, const PackagePlan& package);

struct RaySubmission {
  RayJobRequest request;
  std::string job_package;  ///< The small package's bytes.
};

/// `plan`: environment, job id, build and resolved spec. Errors: those of BuildJobFilePackage().
Result<RaySubmission> MakeSubmission(const LaunchPlan& plan, const PackagePlan& package,
                                     const RayModules& modules, const RayOutlook& outlook,
                                     bool is_colored);

/// Sends the small package and the job. When the answer is lost it looks whether Ray has taken it.
/// Errors: those of DashboardClient: there is no such job; kRayFailed also where that can't be
/// known.
Status Submit(DashboardClient& client, const RaySubmission& submission);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_SUBMIT_H_
