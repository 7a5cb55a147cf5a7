// SPDX-License-Identifier: Apache-2.0
// The launcher of elastic jobs: applies the decisions of ElasticDriver, over hosts that come and
// go.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_

#include <memory>

#include "launcher/engine/elastic_hosts.h"
#include "launcher/engine/job_launcher.h"

namespace hvdray {

/// For OpenJob(). `reach`: with hosts and source.
std::unique_ptr<JobLauncher> MakeElasticLauncher(Loop& loop, const JobReach& reach, Trace& trace,
                                                 LaunchPlan plan);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
