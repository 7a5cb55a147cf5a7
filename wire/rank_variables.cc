// SPDX-License-Identifier: Apache-2.0
#include "wire/rank_variables.h"

#include <algorithm>
#include <array>

namespace hvdray {
namespace {

constexpr auto kNames = std::to_array<std::string_view>({
    // torchrun, and launchers that imitate it (DeepSpeed's CROSS_*, Lightning's NODE_RANK).
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "LOCAL_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "CROSS_RANK",
    "CROSS_SIZE",
    "NODE_RANK",
    "WORLD_RANK",
    "GLOBAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    // Slurm, of a task or its step. Lightning takes SLURM_NTASKS as a sign that there is a
    // SLURM_PROCID.
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_STEP_NUM_TASKS",
    // Open MPI. JAX takes the URI as a sign that there is a rank.
    "OMPI_UNIVERSE_SIZE",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_FIRST_RANKS",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_local_daemon_uri",
    "OMPI_MCA_orte_app_num",
    // PMIx: MPI_Init() would join as this rank.
    "PMIX_RANK",
    "PMIX_ID",
    "PMIX_NAMESPACE",
    // Intel MPI, MPICH, MVAPICH, IBM.
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_CONTROL_FD",
    "MPIRUN_RANK",
    "MPIRUN_ID",
    "MPIRUN_NPROCS",
    "MP_CHILD",
    // Flux, LSF, PBS.
    "FLUX_JOB_SIZE",
    "LSF_PM_TASKID",
    "PBS_TASKNUM",
    "PBS_NODENUM",
    "PBS_VNODENUM",
    // Frameworks' own.
    "TF_CONFIG",
    "JAX_PROCESS_ID",
    "JAX_NUM_PROCESSES",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_LOCAL_DEVICE_IDS",
    "NEURON_PJRT_PROCESS_INDEX",
    "NEURON_PJRT_PROCESSES_NUM_DEVICES",
    "PJRT_LOCAL_PROCESS_COUNT",
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINERS_NUM",
    "PADDLE_RANK_IN_NODE",
    "PADDLE_CURRENT_ENDPOINT",
    "DMLC_RANK",
    "DMLC_WORKER_ID",
    "DMLC_TASK_ID",
    "RANK_ID",
    "RANK_SIZE",
});

constexpr auto kPrefixes = std::to_array<std::string_view>({
    "TORCHELASTIC_",
    "PET_",
    "OMPI_COMM_WORLD_",
    "OMPI_MCA_ess_",
    "OMPI_MCA_orte_ess_",
    "PRTE_MCA_ess_",
    "PMIX_SERVER_",
    "PMI_",
    "PMI2_",
    "SLURM_PMI",
    "MV2_COMM_WORLD_",
    "MPISPAWN_",
    "PALS_",
    "ALPS_APP_",
    "FLUX_TASK_",
    "JSM_NAMESPACE_",
});

// However a launcher calls itself. "_RANK" alone would take a user's LORA_RANK.
constexpr auto kSuffixes = std::to_array<std::string_view>({
    "_LOCAL_RANK",
    "_LOCAL_RANKID",
    "_WORLD_RANK",
    "_GLOBAL_RANK",
    "_NODE_RANK",
    "_PROCESS_RANK",
});

}  // namespace

bool NamesAnotherRank(std::string_view name) {
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes,
                             [&](std::string_view it) { return name.starts_with(it); }) ||
         std::ranges::any_of(kSuffixes, [&](std::string_view it) { return name.ends_with(it); });
}

}  // namespace hvdray
