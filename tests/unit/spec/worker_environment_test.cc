// SPDX-License-Identifier: Apache-2.0
// What a worker inherits, here and on another host. Not here: the variables of its slot
// (tests/unit/placement), and whether the agent passes them on (tests/unit/agent).
#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

JobSpec SpecOf(const std::string& line, const Environment& environment = {}) {
  SpecWorld world;
  world.environment = environment;
  Result<RunRequest> request = world.Resolve(line);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? request->spec : JobSpec();
}

TEST(WorkerEnvironmentTest, KeepsWhatUsersRelyOn) {
  const Environment ours = Env({{"PATH", "/bin"},
                                {"OMP_NUM_THREADS", "2"},
                                {"odd name!", "a\nb"},
                                {"EMPTY", ""},
                                {"HOROVOD_GLOO_TIMEOUT_SECONDS", "1800"},
                                {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                {"SLURM_JOB_ID", "7"}});
  for (const bool is_local : {true, false}) {
    const Environment worker = WorkerEnvironment(SpecOf("-np 1 ./t"), ours, is_local);
    for (const auto& [name, value] : ours.values()) EXPECT_EQ(worker.Get(name), value) << name;
    EXPECT_EQ(worker.Get("PYTHONUNBUFFERED"), "1");
    EXPECT_EQ(worker.values().size(), ours.values().size() + 1);
  }
}

TEST(WorkerEnvironmentTest, GlooWaitsLongerForALargeGangUnlessTheUserSaysHowLong) {
  const auto timeout = [](const std::string& line, const Environment& ours = {}) {
    return WorkerEnvironment(SpecOf(line, ours), ours, true).Get("HOROVOD_GLOO_TIMEOUT_SECONDS");
  };
  EXPECT_EQ(timeout("-np 32 ./t"), std::nullopt);
  EXPECT_EQ(timeout("-np 33 ./t"), "31");
  EXPECT_EQ(timeout("-np 128 ./t"), "126");
  EXPECT_EQ(timeout("-np 1200 ./t"), "600");
  EXPECT_EQ(timeout("-np 128 --gloo-timeout-seconds 45 ./t"), "45");
  EXPECT_EQ(timeout("-np 128 -x HOROVOD_GLOO_TIMEOUT_SECONDS=50 ./t"), "50");
  EXPECT_EQ(timeout("-np 128 ./t", Env({{"HOROVOD_GLOO_TIMEOUT_SECONDS", "20"}})), "20");
}

TEST(WorkerEnvironmentTest, DropsThePlaceOfAnotherJobEverywhere) {
  const std::vector<std::string> dropped = {"HOROVOD_HOSTNAME",
                                            "HOROVOD_RANK",
                                            "HOROVOD_SIZE",
                                            "HOROVOD_LOCAL_RANK",
                                            "HOROVOD_LOCAL_SIZE",
                                            "HOROVOD_CROSS_RANK",
                                            "HOROVOD_CROSS_SIZE",
                                            "HOROVOD_GLOO_RENDEZVOUS_ADDR",
                                            "HOROVOD_GLOO_RENDEZVOUS_PORT",
                                            "HOROVOD_ELASTIC",
                                            "RANK",
                                            "WORLD_SIZE",
                                            "LOCAL_RANK",
                                            "LOCAL_WORLD_SIZE",
                                            "GROUP_RANK",
                                            "MASTER_ADDR",
                                            "MASTER_PORT",
                                            "TORCHELASTIC_RUN_ID",
                                            "TORCHELASTIC_USE_AGENT_STORE",
                                            "BASH_FUNC_f%%",
                                            "OLDPWD",
                                            "OLDPWDX",
                                            "_HOROVOD_SECRET_KEY",
                                            "HVDRAY_GRACE",
                                            "HVDRAY_RANK"};
  for (const std::string& name : dropped) {
    for (const bool is_local : {true, false}) {
      EXPECT_FALSE(WorkerEnvironment(JobSpec(), Env({{name, "1"}}), is_local).Get(name)) << name;
    }
  }
}

// Slurm, Open MPI, PMIx, MPICH, Intel MPI, MVAPICH, Cray, Flux, jsrun, PBS, torchrun, frameworks.
const std::vector<std::string> kOtherRanks = {"SLURM_PROCID",
                                              "SLURM_LOCALID",
                                              "WORLD_RANK",
                                              "PRTE_MCA_ess_base_vpid",
                                              "JAX_COORDINATOR_ADDRESS",
                                              "JAX_LOCAL_DEVICE_IDS",
                                              "NEURON_PJRT_PROCESSES_NUM_DEVICES",
                                              "SLURM_NODEID",
                                              "SLURM_GTIDS",
                                              "SLURM_NTASKS",
                                              "SLURM_NPROCS",
                                              "SLURM_STEP_NUM_TASKS",
                                              "SLURM_PMIX_MAPPING_SERV",
                                              "OMPI_COMM_WORLD_RANK",
                                              "OMPI_COMM_WORLD_SIZE",
                                              "OMPI_COMM_WORLD_LOCAL_RANK",
                                              "OMPI_COMM_WORLD_NODE_RANK",
                                              "OMPI_MCA_orte_ess_vpid",
                                              "OMPI_MCA_ess_base_vpid",
                                              "OMPI_MCA_orte_hnp_uri",
                                              "OMPI_UNIVERSE_SIZE",
                                              "PMIX_RANK",
                                              "PMIX_NAMESPACE",
                                              "PMIX_SERVER_URI41",
                                              "PMI_RANK",
                                              "PMI_SIZE",
                                              "PMI_FD",
                                              "PMI_LOCAL_RANK",
                                              "MPI_LOCALRANKID",
                                              "MPI_LOCALNRANKS",
                                              "MV2_COMM_WORLD_RANK",
                                              "MV2_COMM_WORLD_LOCAL_RANK",
                                              "MPIRUN_RANK",
                                              "PALS_RANKID",
                                              "PALS_LOCAL_RANKID",
                                              "ALPS_APP_PE",
                                              "FLUX_TASK_RANK",
                                              "FLUX_TASK_LOCAL_ID",
                                              "JSM_NAMESPACE_RANK",
                                              "JSM_NAMESPACE_SIZE",
                                              "PBS_TASKNUM",
                                              "PET_NODE_RANK",
                                              "PET_NNODES",
                                              "NODE_RANK",
                                              "CROSS_RANK",
                                              "TF_CONFIG",
                                              "JAX_PROCESS_ID",
                                              "BYTEPS_LOCAL_RANK"};

TEST(WorkerEnvironmentTest, DropsWhatNamesAnotherLaunchersRankUnlessToldToKeepIt) {
  for (const std::string& name : kOtherRanks) {
    const Environment ours = Env({{name, "1"}});
    for (const bool is_local : {true, false}) {
      EXPECT_FALSE(WorkerEnvironment(JobSpec(), ours, is_local).Get(name)) << name;
      EXPECT_EQ(WorkerEnvironment(SpecOf("-np 1 --keep-rank-variables ./t", ours), ours, is_local)
                    .Get(name),
                "1")
          << name;
    }
    EXPECT_EQ(WorkerEnvironment(SpecOf("-np 1 -x " + name + " ./t", ours), ours, true).Get(name),
              "1")
        << name;
  }
}

TEST(WorkerEnvironmentTest, KeepsWhatDescribesTheBatchJobOrIsASetting) {
  for (const std::string name :
       {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_ARRAY_TASK_ID",
        "SLURM_CPUS_PER_TASK", "PBS_NODEFILE", "SGE_TASK_ID", "OMPI_MCA_btl", "PMIX_MCA_gds",
        "LORA_RANK", "RANKS", "MY_RANK", "PETS", "JAX_PLATFORMS", "ACCELERATE_USE_CPU"}) {
    EXPECT_EQ(WorkerEnvironment(JobSpec(), Env({{name, "1"}}), false).Get(name), "1") << name;
  }
}

TEST(WorkerEnvironmentTest, PassesOnWhatTheCollectiveLibraryReads) {
  for (const std::string name : {"HVDRAY_COLLECTIVE", "HVDRAY_CHECK_COLLECTIVES"}) {
    for (const bool is_local : {true, false}) {
      EXPECT_EQ(WorkerEnvironment(JobSpec(), Env({{name, "1"}}), is_local).Get(name), "1") << name;
    }
  }
}

TEST(WorkerEnvironmentTest, KeepsDevicesAndTheLoginOnThisMachineOnly) {
  for (const std::string name :
       {"CUDA_VISIBLE_DEVICES", "MY_CUDA_VISIBLE_DEVICES_2", "HIP_VISIBLE_DEVICES",
        "ASCEND_RT_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "TPU_VISIBLE_CHIPS",
        "TPU_WORKER_ID", "SLURMD_NODENAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "XAUTHORITY", "TMPDIR", "TMP", "TEMP", "HOSTNAME",
        "JOB_COMPLETION_INDEX"}) {
    const Environment ours = Env({{name, "1"}});
    EXPECT_EQ(WorkerEnvironment(JobSpec(), ours, true).Get(name), "1") << name;
    EXPECT_FALSE(WorkerEnvironment(JobSpec(), ours, false).Get(name)) << name;
  }
  EXPECT_EQ(WorkerEnvironment(JobSpec(), Env({{"DISPLAYS", "1"}}), false).Get("DISPLAYS"), "1");
}

TEST(WorkerEnvironmentTest, TunablesBeatWhatIsInheritedAndXBeatsBoth) {
  const Environment ours = Env({{"HOROVOD_CACHE_CAPACITY", "1"}, {"HOROVOD_CYCLE_TIME", "1"}});
  const Environment worker =
      WorkerEnvironment(SpecOf("-np 1 --cache-capacity 7 --cycle-time-ms 7 -x HOROVOD_CYCLE_TIME=9 "
                               "-x PYTHONUNBUFFERED=0 -x E= -x EQ=a=b ./t"),
                        ours, true);
  EXPECT_EQ(worker.Get("HOROVOD_CACHE_CAPACITY"), "7");
  EXPECT_EQ(worker.Get("HOROVOD_CYCLE_TIME"), "9");
  EXPECT_EQ(worker.Get("PYTHONUNBUFFERED"), "0");
  EXPECT_EQ(worker.Get("E"), "");
  EXPECT_EQ(worker.Get("EQ"), "a=b");
}

TEST(WorkerEnvironmentTest, ThreadsAreSetOnceTheUserGivesANumber) {
  const Environment ours = Env({{"OMP_NUM_THREADS", "8"}, {"MKL_NUM_THREADS", "8"}});
  const auto threads = [&ours](const std::string& words) {
    const Environment worker =
        WorkerEnvironment(SpecOf("-np 1 " + words + " ./t", ours), ours, true);
    return worker.GetOr("OMP_NUM_THREADS", "") + worker.GetOr("MKL_NUM_THREADS", "") +
           worker.GetOr("OPENBLAS_NUM_THREADS", "");
  };
  EXPECT_EQ(threads(""), "88");
  EXPECT_EQ(threads("--omp-threads inherit"), "88");
  EXPECT_EQ(threads("--omp-threads 3"), "333");
  EXPECT_EQ(threads("--omp-threads 3 -x MKL_NUM_THREADS=5"), "353");
  SpecWorld().ExpectRefused("-np 1 --omp-threads 0 ./t", "flag --omp-threads");
  SpecWorld().ExpectRefused("-np 1 --omp-threads all ./t", "flag --omp-threads");
}

TEST(WorkerEnvironmentTest, BuiltinHorovodComesBeforeWhatTheUserHasOnThePath) {
  const Environment found = Env(
      {{kBuiltinHorovod, "/hvdray"}, {"HVDRAY_LIBRARY", "/lib.so"}, {"HVDRAY_VERSION", "1.2.3"}});
  const auto worker = [&found](const std::string& words) {
    return WorkerEnvironment(SpecOf("-np 1 " + words + " ./t", found), found, true);
  };
  EXPECT_EQ(worker("--horovod builtin").Get("PYTHONPATH"), "/hvdray");
  EXPECT_EQ(worker("--horovod builtin -x PYTHONPATH=/mine").Get("PYTHONPATH"), "/hvdray:/mine");
  EXPECT_EQ(worker("--horovod builtin --clean-env").Get("HVDRAY_LIBRARY"), "/lib.so");
  EXPECT_EQ(worker("--horovod builtin").Get("HVDRAY_VERSION"), "1.2.3");
  EXPECT_EQ(worker("").Get("HVDRAY_VERSION"), std::nullopt);
  EXPECT_EQ(worker("").Get("PYTHONPATH"), std::nullopt);
  EXPECT_EQ(worker("--horovod builtin").Get(kBuiltinHorovod), std::nullopt);
  SpecWorld().ExpectRefused("-np 1 --horovod mine ./t", "flag --horovod");
}

TEST(WorkerEnvironmentTest, XBringsBackWhatWouldBeDropped) {
  const Environment ours = Env({{"CUDA_VISIBLE_DEVICES", "3"}, {"OLDPWD", "/x"}});
  const Environment worker =
      WorkerEnvironment(SpecOf("-np 1 -x CUDA_VISIBLE_DEVICES -x OLDPWD ./t", ours), ours, false);
  EXPECT_EQ(worker.Get("CUDA_VISIBLE_DEVICES"), "3");
  EXPECT_EQ(worker.Get("OLDPWD"), "/x");
}

TEST(WorkerEnvironmentTest, CleanMeansOnlyWhatIsNamed) {
  const Environment ours = Env({{"PATH", "/bin"},
                                {"HOME", "/h"},
                                {"LANG", "C"},
                                {"LANGUAGE", "de"},
                                {"HOROVOD_TIMELINE", "t"},
                                {"HOROVOD_RANK", "3"},
                                {"NCCL_DEBUG", "INFO"},
                                {"SECRET", "s"},
                                {"MINE", "m"}});
  const Environment worker =
      WorkerEnvironment(SpecOf("-np 1 --clean-env -x MINE --tcp ./t", ours), ours, true);
  EXPECT_EQ(worker.values(), (std::map<std::string, std::string>{{"PATH", "/bin"},
                                                                 {"HOME", "/h"},
                                                                 {"LANG", "C"},
                                                                 {"HOROVOD_TIMELINE", "t"},
                                                                 {"NCCL_DEBUG", "INFO"},
                                                                 {"NCCL_IB_DISABLE", "1"},
                                                                 {"PYTHONUNBUFFERED", "1"},
                                                                 {"MINE", "m"}}));
}

}  // namespace
}  // namespace hvdray
