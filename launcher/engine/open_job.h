// SPDX-License-Identifier: Apache-2.0
// The one way to start a job, whatever its hosts, its driver and its client are.
#ifndef HVDRAY_LAUNCHER_ENGINE_OPEN_JOB_H_
#define HVDRAY_LAUNCHER_ENGINE_OPEN_JOB_H_

#include <memory>
#include <optional>

#include "base/loop.h"
#include "base/result.h"
#include "launcher/engine/elastic_hosts.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// Opens all files that the job writes, and starts its source of hosts, so that a mistake stops it
/// before any host is dialled. `plan.spec` decides whether the job is elastic; then the plan needs
/// no hosts or ranks. Loop and trace outlive the launcher.
///
/// `client`: of `hvdray serve`; nullopt: the job has one gang, which begins at once. A client
/// starts gangs one after the other, on agents that stay: of a fixed job, plan.ranks are those of
/// the largest gang; of an elastic one, --record is opened with each gang, the source with the
/// first. Errors: kFileUnwritable, those of HostSource::Start() and ServeSession::Open().
Result<std::unique_ptr<Launcher>> OpenJob(Loop& loop, const JobReach& reach, Trace& trace,
                                          LaunchPlan plan,
                                          std::optional<ServeOptions> client = std::nullopt);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_OPEN_JOB_H_
