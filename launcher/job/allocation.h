// SPDX-License-Identifier: Apache-2.0
// The hosts that a batch system allocated to this job, from its environment. Pure: files are read
// through a callback.
#ifndef HVDRAY_LAUNCHER_JOB_ALLOCATION_H_
#define HVDRAY_LAUNCHER_JOB_ALLOCATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// Returns the whole file; nullopt if it does not exist.
using ReadWholeFile = std::function<Result<std::optional<std::string>>(const std::string& path)>;

/// The hosts of a batch job, with the variable that names them as origin ("env
/// SLURM_JOB_NODELIST"); nullopt outside of one. The first of these variables that is set and not
/// empty counts:
/// - SLURM_JOB_NODELIST ("node[01-03],gpu1"). The slots of its hosts, in its order, come from the
/// first
///   that is set of SLURM_TASKS_PER_NODE ("2(x3),1"), SLURM_NTASKS_PER_NODE (one number for all),
///   SLURM_JOB_CPUS_PER_NODE (written like the first) and, for a single host only,
///   SLURM_CPUS_ON_NODE, which describes the host that reads it. Source: sbatch(1), output
///   environment variables.
///   Within a step (srun), SLURM_STEP_NODELIST with SLURM_STEP_TASKS_PER_NODE takes precedence,
///   unless the step is the shell of salloc or the script of sbatch, or belongs to another job. The
///   hosts of a step without counts of its own have those of the job. Source: srun(1), output
///   environment variables.
/// - PBS_NODEFILE: a file with one line per slot. Source: PBS and Torque user guides.
/// - LSB_HOSTS: one word per slot; LSB_MCPU_HOSTS: "host slots host slots", which LSF sets for jobs
///   too large for LSB_HOSTS. Source: LSF administration, "parallel jobs".
/// Errors: kSpecInvalid "env NAME:column: …" (for a file "env PBS_NODEFILE: file:line:column: …");
/// kFileUnreadable for a missing file.
/// `systems`: which count. Horovod itself knows LSF's alone.
enum class BatchSystems : uint8_t { kAll, kLsf };
Result<std::optional<Setting<std::vector<HostSlots>>>> FindAllocation(
    const Environment& environment, const ReadWholeFile& read,
    BatchSystems systems = BatchSystems::kAll);

/// kUsage if srun or mpirun has started this command as one of several tasks: each would start a
/// whole job. Of mpirun the kernel must say so, too: it is above this process.
/// Not for what stands for the whole allocation of Slurm (the shell of salloc, the script of
/// sbatch), even if sbatch was called within a step, whose variables leak into the script: there
/// the parent of SLURM_TASK_PID calls itself "[JOB.batch]". Source: srun(1), output environment
/// variables.
Status CheckSingleStart(const Environment& environment, const ReadWholeFile& read);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_ALLOCATION_H_
