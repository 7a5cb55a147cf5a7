// SPDX-License-Identifier: Apache-2.0
// From untyped levels to a checked JobSpec. Pure but for the host file, which it gets as text.
#ifndef HVDRAY_LAUNCHER_JOB_SPEC_BUILDER_H_
#define HVDRAY_LAUNCHER_JOB_SPEC_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// What a spec is for: a check needs neither a command nor a number of workers, and tells of too
/// few slots among the rest.
enum class SpecUse : uint8_t { kRun, kCheck };

/// Types and ranges of everything but hosts, command and tunables. Errors: kUsage.
Status ReadSettings(const LayerStack& layers, JobSpec* spec);

/// The option as the flags or a file of this job say it; null: they do not. A variable may say it
/// for all jobs, whatever starts them.
const RawOption* SaidForThisJob(const LayerStack& job, OptionId id);

/// kNotSupported for --mpi, --jsrun, --mpi-args and --binding-args, with the reason.
Status RefuseMpi(const LayerStack& layers);

/// Hosts, -np and the elastic limits, which depend on each other. `cluster`: the hosts of the
/// cluster file, if there is one. `environment`: where a batch system names the hosts of a job for
/// which nothing else does. `job`: as for ReadRaySettings(), which stands before. Errors: kUsage,
/// kSpecInvalid, kNotEnoughSlots (kRun), kFileUnreadable.
Status ResolveHosts(const LayerStack& layers, const LayerStack& job,
                    const std::optional<ClusterHosts>& cluster, const Environment& environment,
                    const ResolverFiles& files, SpecUse use, JobSpec* spec);

/// Whether the job runs on Ray, --ray-headers, and what a slot is made of. `job`: as below. Errors:
/// kUsage.
Status ReadRayAsk(const LayerStack& all, const LayerStack& job, RaySpec* spec);

/// --ray and what belongs to it. `job`: the levels that speak of this job, without the user's own
/// file. Behind ReadSettings(). Errors: kUsage for options that mean nothing with Ray, or only with
/// it; kNotSupported; those of ChooseBackend(), which it calls once it has read the settings.
Status ReadRaySettings(const LayerStack& all, const LayerStack& job,
                       const std::optional<ClusterHosts>& cluster, const ResolverFiles& files,
                       JobSpec* spec, std::vector<std::string>* warnings);

/// With a cluster file: looks for its Ray, unless the options leave no choice, and makes the job
/// one of Ray's if there is one; else a line to `warnings`. Errors: kUsage for --backend without
/// a file, kNotSupported, those of ResolverFiles::find_ray when only Ray will do.
Status ChooseBackend(const LayerStack& job, const std::optional<ClusterHosts>& cluster,
                     const ResolverFiles& files, JobSpec* spec, std::vector<std::string>* warnings);

/// How to log in to the hosts of a cluster file, as far as no option says it.
void TakeLogin(const ClusterHosts& cluster, JobSpec* spec);

/// -np, --num-hosts, --num-slots and -H of a job on Ray, instead of ResolveHosts()'s own search.
/// default_np: of what the cluster file says; 0: there is none. Behind the limits of elastic jobs.
/// Errors: kUsage, kSpecInvalid, kNotEnoughSlots.
Status ResolveRaySlots(const LayerStack& all, const LayerStack& job, int64_t default_np,
                       JobSpec* spec);

/// Defaults that are others on Ray; a line to `warnings` for each option without effect there.
void SettleRay(const LayerStack& job, JobSpec* spec, std::vector<std::string>* warnings);

/// kNotEnoughSlots when the hosts have less room than -np wants, and no others may come.
Status CheckSlots(const JobSpec& spec);

/// Defaults that are others in elastic jobs; a line to `warnings` for each option that this kind of
/// job has no use for. Behind ReadSettings() and ResolveHosts().
void SettleElastic(JobSpec* spec, std::vector<std::string>* warnings);

/// A line to `warnings` when the script of a Python, as `files` have it, is one of
/// torch.distributed and the job's workers live through changes, which such a script cannot. Behind
/// SettleElastic().
void WarnOfTorchScript(const ResolverFiles& files, const JobSpec& spec,
                       std::vector<std::string>* warnings);

/// The highest level's command, and the slips that people make with it. Errors: kUsage.
Status ResolveCommand(const LayerStack& layers, const Environment& environment,
                      const ResolverFiles& files, SpecUse use, JobSpec* spec);

/// -x of all levels, lowest first, so that a later one wins. Errors: kUsage for an empty name and
/// for NAME without a value that `environment` does not have.
Status ResolveEnv(const LayerStack& layers, const Environment& environment, JobSpec* spec);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SPEC_BUILDER_H_
