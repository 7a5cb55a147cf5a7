// SPDX-License-Identifier: Apache-2.0
// An elastic job on its way. Applies the decisions of an elastic driver, over hosts that come and
// go: starts and releases agents, serves the rendezvous, moves output, writes events, recording,
// trace and reports. Decides nothing itself; owns the loop's side of a job.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_

#include <memory>
#include <string>

#include "base/loop.h"
#include "cluster/host_source.h"
#include "cluster/transport.h"
#include "launcher/engine/elastic_hosts.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/report/trace.h"

namespace hvdray {

struct ServeOptions;

/// Opens all files that the job writes and starts the source, so that a mistake stops the job
/// before any host is dialled. `plan` needs no hosts or ranks. Loop, transport, hosts, source and
/// trace outlive the launcher. Errors: kFileUnwritable, those of HostSource::Start().
Result<std::unique_ptr<Launcher>> OpenElastic(Loop& loop, Transport& transport, ElasticHosts& hosts,
                                              HostSource& source, Trace& trace, LaunchPlan plan,
                                              ElasticPolicy policy);

/// The same for `hvdray serve`: jobs begin when its client says so, one after the other, on agents
/// that stay; --record is opened with each, the source with the first. `told`: the source, if the
/// client tells the hosts; else null. Errors: also those of ServeSession::Open().
Result<std::unique_ptr<Launcher>> OpenElasticServe(Loop& loop, Transport& transport,
                                                   ElasticHosts& hosts, HostSource& source,
                                                   ToldHosts* told, Trace& trace, LaunchPlan plan,
                                                   ElasticPolicy policy, ServeOptions options);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
