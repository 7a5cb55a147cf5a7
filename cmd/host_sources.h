// SPDX-License-Identifier: Apache-2.0
// The source of an elastic job's hosts, by its options.
#ifndef HVDRAY_CMD_HOST_SOURCES_H_
#define HVDRAY_CMD_HOST_SOURCES_H_

#include <functional>
#include <memory>
#include <string_view>

#include "base/loop.h"
#include "cluster/host_source.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// Takes a line for the user, without its newline: "discovery: …", which the script wrote to
/// stderr. Must not destroy the source.
using SayDiscoveryFn = std::function<void(std::string_view line)>;

/// Writes to stderr at once. Only while nothing else writes there.
void SayDiscovery(std::string_view line);

/// --host-discovery-script; else --hostfile, watched for changes, unless it is a pipe, which can be
/// read only once; else spec.hosts as they are. The loop outlives the source. Errors: those of
/// CheckDiscoveryCommand().
Result<std::unique_ptr<HostSource>> MakeHostSource(Loop& loop, const JobSpec& spec,
                                                   SayDiscoveryFn say);

/// Sets spec.hosts to what the discovery script prints now; without a script, does nothing. Blocks
/// for one run of it, --discovery-timeout at most. Errors: those of the source.
Status LearnHosts(JobSpec& spec, SayDiscoveryFn say);

}  // namespace hvdray

#endif  // HVDRAY_CMD_HOST_SOURCES_H_
