// SPDX-License-Identifier: Apache-2.0
// Which source tells an elastic job of its hosts, by its options.
#ifndef HVDRAY_CMD_HOST_SOURCES_H_
#define HVDRAY_CMD_HOST_SOURCES_H_

#include <functional>
#include <memory>
#include <string_view>

#include "base/loop.h"
#include "cluster/host_source.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// Takes a line for a user, without its end: "discovery: …", what the script wrote to its
/// stderr. Must not end the source.
using SayDiscoveryFn = std::function<void(std::string_view line)>;

/// To stderr at once, for as long as nothing else writes there.
void SayDiscovery(std::string_view line);

/// --host-discovery-script; --hostfile, watched and read as for other jobs (a pipe can be read once
/// only: its hosts never change); else spec.hosts as they are. The loop outlives the source.
/// Errors: those of CheckDiscoveryCommand().
Result<std::unique_ptr<HostSource>> MakeHostSource(Loop& loop, const JobSpec& spec,
                                                   SayDiscoveryFn say);

/// Sets spec.hosts to what a discovery script prints now; without one they are known already.
/// Blocks for one run of it (--discovery-timeout). Errors: those of the source.
Status LearnHosts(JobSpec& spec, SayDiscoveryFn say);

}  // namespace hvdray

#endif  // HVDRAY_CMD_HOST_SOURCES_H_
