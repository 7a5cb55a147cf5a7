// SPDX-License-Identifier: Apache-2.0
// The hosts that a batch system gave to this job, from its environment. Pure: files are read
// through a callback.
#ifndef HVDRAY_LAUNCHER_JOB_ALLOCATION_H_
#define HVDRAY_LAUNCHER_JOB_ALLOCATION_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "launcher/job/placement.h"

namespace hvdray {

struct Allocation {
  std::vector<HostSlots> hosts;
  std::string variable;  ///< The one that names the hosts: "SLURM_JOB_NODELIST".
};

/// The whole file; nullopt when there is none.
using ReadWholeFile = std::function<Result<std::optional<std::string>>(const std::string& path)>;

/// nullopt outside of a batch job. The first of these that is set and not empty counts:
/// - SLURM_JOB_NODELIST ("node[01-03],gpu1"). Slots of each host, in its order, by the first that
///   is set of SLURM_TASKS_PER_NODE ("2(x3),1"), SLURM_NTASKS_PER_NODE (one number for all),
///   SLURM_JOB_CPUS_PER_NODE (as the first) and, if there is one host only, SLURM_CPUS_ON_NODE,
///   which speaks of the host it is read on. Source: sbatch(1), output environment variables.
///   Within a step (srun) SLURM_STEP_NODELIST with SLURM_STEP_TASKS_PER_NODE comes before all of
///   these, unless the step is the shell of salloc or the script of sbatch, or it is not of this
///   job: then it says nothing. A step without counts of its own has those of the job for its
///   hosts. Source: srun(1), output environment variables.
/// - PBS_NODEFILE: a file with a line per slot. Source: PBS and Torque user guides.
/// - LSB_HOSTS: a word per slot; LSB_MCPU_HOSTS: "host slots host slots", which LSF sets for jobs
///   that are too large for the other. Source: LSF administration, "parallel jobs".
/// Errors: kSpecInvalid "env NAME:column: …" (of a file: "env PBS_NODEFILE: file:line:column: …");
/// kFileUnreadable for a file that is not there.
Result<std::optional<Allocation>> FindAllocation(const Environment& environment,
                                                 const ReadWholeFile& read);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_ALLOCATION_H_
