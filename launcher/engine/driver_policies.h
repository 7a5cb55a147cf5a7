// SPDX-License-Identifier: Apache-2.0
// From a resolved spec to the settings of the drivers. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_DRIVER_POLICIES_H_
#define HVDRAY_LAUNCHER_ENGINE_DRIVER_POLICIES_H_

#include <chrono>

#include "launcher/driver/gang_driver.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// For a fixed job; see PlanPlace for jobs inside a cluster.
GangPolicy ToGangPolicy(const JobSpec& spec, const PlanPlace& place = {});

/// `spec`: of an elastic job. Options that are not set take the policy's defaults. `began`: start
/// of the job. The caller checks the result by CheckElasticPolicy().
ElasticPolicy ToElasticPolicy(const JobSpec& spec, std::chrono::system_clock::time_point began);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_DRIVER_POLICIES_H_
