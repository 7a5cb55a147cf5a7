// SPDX-License-Identifier: Apache-2.0
// From untyped levels to a checked JobSpec. Opens nothing: files go through ResolverFiles.
#ifndef HVDRAY_LAUNCHER_JOB_SPEC_BUILDER_H_
#define HVDRAY_LAUNCHER_JOB_SPEC_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "launcher/job/horovod_options.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/resolver_files.h"

namespace hvdray {

/// Everything that flags, environment and files say about a job.
struct SpecInput {
  LayerStack job;  ///< Flags, environment, job file, run section of the cluster file.
  LayerStack all;  ///< These and, lowest, the user file.
  OptionLayer user;
  std::optional<ClusterHosts> cluster;  ///< Of the cluster file, if there is one.
  HorovodConfig config;
  /// For `hvdray check`, which needs neither a command nor a number of workers, and whose caller
  /// reports too few slots with the rest (CheckSlots()).
  bool is_check = false;
  CalledAs name = CalledAs::kHvdray;  ///< horovodrun's users expect Horovod's hosts.
};

/// One spec from all levels. `environment`: the launcher's, for -x NAME and for the hosts of a
/// batch system. Adds a line to `warnings` for each option without effect. Blocks as long as
/// `files.find_ray` does.
/// Errors: kUsage, kSpecInvalid, kNotEnoughSlots (not for a check), kNotSupported, kFileUnreadable,
/// and those of `files.find_ray` if nothing but Ray will do.
Result<JobSpec> BuildSpec(const SpecInput& input, const Environment& environment,
                          const ResolverFiles& files, std::vector<std::string>* warnings);

/// What `said` says of a command that starts no job: settings, and what of Ray is asked. Errors:
/// kUsage.
Status ReadCommandSettings(const LayerStack& said, JobSpec* spec);

/// Checks the section `hvdray: {run: …}` of a cluster file, as far as one can without hosts and
/// files: keys, types, ranges, and what excludes each other. Errors: kSpecInvalid or kUsage, with
/// file:line:column.
Status CheckRunSection(const YamlNode& run);

/// kNotEnoughSlots if the hosts have fewer slots than -np asks for and cannot grow. Pure.
Status CheckSlots(const JobSpec& spec);

/// What a user is told of hosts that nobody named: which batch system they come from. Empty: they
/// were named, or are this machine.
std::string AllocationNotice(const JobSpec& spec);

/// Sets how to log in to the hosts of a cluster file, except where an option says it. Pure.
void TakeLogin(const ClusterHosts& cluster, JobSpec* spec);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SPEC_BUILDER_H_
