// SPDX-License-Identifier: Apache-2.0
// An elastic job on its way. Applies the decisions of an elastic driver, over hosts that come and
// go: starts and releases agents, serves the rendezvous, moves output, writes events, recording,
// trace and reports. Decides nothing itself; owns the loop's side of a job.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "cluster/host_source.h"
#include "cluster/transport.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// What the elastic launcher needs to know about the transport's hosts.
struct ElasticHosts {
  std::function<void(const HostSlots&)> add;  ///< Before Transport::Start of a new host.
  /// Reliable once Transport::Start of that host has called back.
  std::function<bool(const std::string& host)> is_remote;     ///< Reached over the network.
  std::function<bool(const std::string& host)> is_elsewhere;  ///< Another machine.
};

/// Opens all files that the job writes and starts the source, so that a mistake stops the job
/// before any host is dialled. `plan` needs no hosts or ranks. Loop, transport, source and trace
/// outlive the launcher. Errors: kFileUnwritable, those of HostSource::Start().
Result<std::unique_ptr<Launcher>> OpenElastic(Loop& loop, Transport& transport, HostSource& source,
                                              ElasticHosts hosts, Trace& trace, LaunchPlan plan,
                                              ElasticPolicy policy);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_LAUNCHER_H_
