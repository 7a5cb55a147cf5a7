// SPDX-License-Identifier: Apache-2.0
// Where a job's hosts come from: the source of an elastic job's, and what a --cluster file names.
#ifndef HVDRAY_LAUNCHER_PLAN_HOST_SOURCES_H_
#define HVDRAY_LAUNCHER_PLAN_HOST_SOURCES_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/engine/host_source.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Takes a line for the user, without its newline: "discovery: …", which the script wrote to
/// stderr.
using SayDiscoveryFn = std::function<void(std::string_view line)>;

/// Writes to stderr at once. Only while nothing else writes there.
void SayDiscovery(std::string_view line);

/// Says on stderr, without -q, which hosts were taken from a batch system.
void TellAllocation(const JobSpec& spec, std::string_view command);

/// --host-discovery-script; else --hostfile, watched for changes, unless it is a pipe, which can be
/// read only once; else spec.hosts as they are. The loop outlives the source. Errors: those of
/// CheckDiscoveryCommand().
Result<std::unique_ptr<HostSource>> MakeHostSource(Loop& loop, const JobSpec& spec,
                                                   SayDiscoveryFn say);

/// Sets spec.hosts to what the discovery script prints now; without a script, does nothing. Blocks
/// for one run of it, --discovery-timeout at most. Errors: those of the source.
Status LearnHosts(JobSpec& spec, SayDiscoveryFn say);

/// The hosts of a --cluster file, as options_resolver.h takes them. Reads the file and prints its
/// warnings to stderr. Slots: hvdray.slots_per_host of the file, else what CloudSlots() says,
/// else the CPUs of this machine. A provider is only asked later, by ask_provider. hosts_status has
/// the errors of FindClusterNodes(). Errors: those of LoadClusterSpec().
Result<ClusterHosts> LoadClusterHosts(const std::string& path);
/// Only how to log in, and the section `run`. Prints nothing.
ClusterHosts LoginOfCluster(const ClusterSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_HOST_SOURCES_H_
