// SPDX-License-Identifier: Apache-2.0
// Submits a job to Ray: checks that the cluster can hold it, sends the packages, then the job. All
// functions block.
#ifndef HVDRAY_CLUSTER_RAY_RAY_SUBMIT_H_
#define HVDRAY_CLUSTER_RAY_RAY_SUBMIT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/job_package.h"
#include "cluster/ray/ray_report.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/ray_job_file.h"

namespace hvdray {

/// State of the cluster before the submission.
struct RayOutlook {
  RaySnapshot cluster;
  RayRequest request;
  RayFit fit;             ///< Against the resources that are free now.
  bool can_grow = false;  ///< An autoscaler may add nodes, or that is still unknown.
  std::string head_node;  ///< Empty: unknown.
};

/// Queries the cluster. Errors: those of DashboardClient; kInfeasible if what `spec` asks for fits
/// no live node and no node can be added (elastic jobs wait for nodes that users add).
Result<RayOutlook> LookAhead(const RayAccess& access, const JobSpec& spec);

/// The local modules of runtime_env's py_modules, and the URIs of all of them.
struct RayModules {
  std::vector<std::string> uris;                            ///< In the given order.
  std::vector<PackagePlan> directories;                     ///< Each one to send.
  std::vector<std::pair<std::string, std::string>> wheels;  ///< Name, path.
};
/// Lists and hashes local modules. Errors: as PlanPackage(); kUsage for anything but a module.
Result<RayModules> PlanModules(const std::vector<std::string>& modules);
/// Uploads the modules that the cluster lacks. Errors: as SendPackage().
Status SendModules(DashboardClient& client, const RayModules& modules);

/// Uploads the large package if the cluster lacks it. Errors: those of DashboardClient and
/// BuildPackage().
Status SendPackage(DashboardClient& client, const PackagePlan& package);

/// A job that is ready to submit.
struct RaySubmission {
  RayJobRequest request;
  std::string job_package;  ///< The small package's bytes.
};

/// `plan`: with environment, job id, build and resolved spec. `control`: as in
/// BuildJobFilePackage(), whose errors it has.
Result<RaySubmission> MakeSubmission(const LaunchPlan& plan, const PackagePlan& package,
                                     const RayModules& modules, const RayOutlook& outlook,
                                     bool is_colored, const std::string& control = {});

/// Sends the small package and the job. If the answer is lost, asks Ray whether it has the job.
/// Errors: those of DashboardClient, then the job does not exist; kRayFailed also if that is
/// unknown.
Status Submit(DashboardClient& client, const RaySubmission& submission);

/// The command line that Ray runs for a job of ours, by /bin/sh in the job's working directory. The
/// driver runs in Ray's own Python, which often is not the one in PATH: that of --ray-python (shell
/// words); without it, the program of the shell's parent, a process of Ray, with the site-packages
/// that Ray's library was loaded from; failing that, python3. The package is the job's working
/// directory; if that is a remote one, which Ray fetches, the package is in PYTHONPATH beside it.
/// Pure.
std::string RayEntrypoint(const RaySpec& ray);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_SUBMIT_H_
