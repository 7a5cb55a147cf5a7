// SPDX-License-Identifier: Apache-2.0
// The variables by which other launchers tell a process its place. Pure.
#ifndef HVDRAY_WIRE_RANK_VARIABLES_H_
#define HVDRAY_WIRE_RANK_VARIABLES_H_

#include <string_view>

namespace hvdray {

/// True for a variable that names a rank, a number of ranks or their meeting point: torchrun's, and
/// those of Slurm's steps, Open MPI, PMIx, PMI (MPICH, Intel MPI, Cray), MVAPICH, PALS, ALPS, Flux,
/// jsrun, PBS and frameworks. What hvdray inherits of these is true of its own process alone: a
/// framework that believes it makes every worker the same rank (Lightning: SLURM_PROCID, where
/// there is no TORCHELASTIC_RUN_ID; JAX: SLURM_LOCALID, OMPI_*; accelerate: OMPI's size).
/// False for what describes the whole batch job (SLURM_JOB_*, SLURM_ARRAY_TASK_ID, PBS_NODEFILE)
/// and for settings (OMPI_MCA_btl). Horovod's own names are not in it.
bool NamesAnotherRank(std::string_view name);

}  // namespace hvdray

#endif  // HVDRAY_WIRE_RANK_VARIABLES_H_
