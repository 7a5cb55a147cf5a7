// SPDX-License-Identifier: Apache-2.0
// Which hosts a job gets when several levels name them, and the options of elastic jobs: values,
// limits, warnings. Not here: what a host list may look like (tests/unit/hosts), what an elastic
// job does (tests/unit/driver).
#include "launcher/job/spec_builder.h"

#include <gtest/gtest.h>

#include <chrono>

#include "launcher/job/plan_text.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

using HostList = std::vector<HostSlots>;

SpecWorld SlurmJob() {
  SpecWorld world;
  world.environment =
      Env({{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2,1"}, {"HOME", "/u"}});
  return world;
}

TEST(SpecHostsTest, AnAllocationStandsInForHostsThatNobodyNames) {
  const Result<RunRequest> request = SlurmJob().Resolve("./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.hosts, (HostList{{"n1", 2}, {"n2", 1}}));
  EXPECT_EQ(request->spec.hosts.origin(), "env SLURM_JOB_NODELIST");
  EXPECT_EQ(*request->spec.np, 3);
  EXPECT_EQ(request->spec.np.origin(), "all slots of env SLURM_JOB_NODELIST");
  EXPECT_EQ(*SlurmJob().Resolve("-np 2 ./t")->spec.np, 2);
}

TEST(SpecHostsTest, WhoeverTakesTheHostsOfABatchSystemIsTold) {
  const Result<RunRequest> request = SlurmJob().Resolve("./t");
  const std::string notice = AllocationNotice(request->spec);
  EXPECT_NE(notice.find("SLURM_JOB_NODELIST: n[1-2], 3 slots"), std::string::npos) << notice;
  EXPECT_NE(notice.find("-H localhost:3"), std::string::npos) << notice;
  EXPECT_EQ(AllocationNotice(SlurmJob().Resolve("-H a:4 ./t")->spec), "");
  EXPECT_EQ(AllocationNotice(SpecWorld().Resolve("-np 2 ./t")->spec), "");
  SpecWorld variable = SlurmJob();
  variable.environment.Set("HVDRAY_HOSTS", "a:4");
  EXPECT_EQ(AllocationNotice(variable.Resolve("./t")->spec), "");
}

// As Horovod 0.28's launch.py, which looks at LSF's variables alone.
TEST(SpecHostsTest, HorovodrunStaysOnThisMachineInSlurmAndPbs) {
  const auto hosts = [](const SpecWorld& world) {
    const Result<RunRequest> request =
        ResolveRun(Words("-np 2 ./t"), world.environment, world.Files(), CalledAs::kHorovodrun);
    EXPECT_TRUE(request.ok()) << request.status().ToString();
    return request.ok() ? *request->spec.hosts : HostList();
  };
  EXPECT_EQ(hosts(SlurmJob()), (HostList{{"localhost", 2}}));
  SpecWorld pbs;
  pbs.environment = Env({{"PBS_NODEFILE", "/none"}});
  EXPECT_EQ(hosts(pbs), (HostList{{"localhost", 2}}));
  pbs.environment = Env({{"SLURM_JOB_NODELIST", "n1"}, {"LSB_HOSTS", "a a b"}});
  EXPECT_EQ(hosts(pbs), (HostList{{"a", 2}, {"b", 1}}));
}

TEST(SpecHostsTest, AStepOfSeveralTasksWouldStartAJobInEachOfThem) {
  SpecWorld world = SlurmJob();
  world.environment.Set("SLURM_STEP_ID", "0");
  world.environment.Set("SLURM_STEP_NUM_TASKS", "1");
  world.environment.Set("SLURM_TASK_PID", "300");
  EXPECT_TRUE(world.Resolve("./t").ok());
  world.environment.Set("SLURM_STEP_NUM_TASKS", "4");
  const std::string hint = world.ExpectRefused("./t", "srun");
  EXPECT_NE(hint.find("--ntasks=1"), std::string::npos) << hint;
  world.ExpectRefused("-np 2 -H localhost:2 ./t", "srun");
  world.ExpectRefused("--ray -np 2 ./t", "srun");
  EXPECT_TRUE(world.Resolve("-h").ok());
  EXPECT_TRUE(world.Resolve("--print-config ./t").ok());
  EXPECT_EQ(ResolveCheck(Words("-np 2"), world.environment, world.Files()).status().code(),
            ErrorCode::kUsage);
  EXPECT_TRUE(ResolveCheck(Words("-np 2 -H localhost:2"), world.environment, world.Files()).ok())
      << "it starts nothing";
  SpecWorld shell = world;  // of salloc
  shell.environment.Set("SLURM_STEP_ID", "4294967290");
  EXPECT_TRUE(shell.Resolve("./t").ok());
  // sbatch within the step: the variables leak into the script.
  world.files["/proc/300/stat"] = "300 (a) b) S 200 300 300";
  world.files["/proc/200/cmdline"] = "slurmstepd: [8.0]";
  world.ExpectRefused("./t", "srun");
  world.files["/proc/200/cmdline"] = "slurmstepd: [8.batch]";
  EXPECT_TRUE(world.Resolve("./t").ok());
}

TEST(SpecHostsTest, EachTaskOfMpirunWouldStartAJob) {
  for (const std::string size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    SpecWorld world{.environment = Env({{size, "4"}})};
    world.files = {{"/proc/self/stat", "9 (hvdray) S 8 8 8"},
                   {"/proc/8/stat", "8 (a) (b) S 7 7"},
                   {"/proc/7/stat", "7 (hydra_pmi_proxy) S 1 7"},
                   {"/proc/1/stat", "1 (sh) S 0 1"}};
    const std::string hint = world.ExpectRefused("-np 2 ./t", "hydra_pmi_proxy");
    EXPECT_NE(hint.find("mpirun -n 1"), std::string::npos) << hint;
    EXPECT_TRUE(world.Resolve("-h").ok());
    world.environment.Set(size, "1");
    EXPECT_TRUE(world.Resolve("-np 2 ./t").ok());
    world.environment.Set(size, "4");
    world.files["/proc/7/stat"] = "7 (python) S 1 7";
    EXPECT_TRUE(world.Resolve("-np 2 ./t").ok()) << "only the variables are left";
  }
}

TEST(SpecHostsTest, WhateverNamesHostsBeatsTheAllocation) {
  const HostList a = {{"a", 4}};
  EXPECT_EQ(*SlurmJob().Resolve("-H a:4 ./t")->spec.hosts, a);
  SpecWorld variable = SlurmJob();
  variable.environment.Set("HVDRAY_HOSTS", "a:4");
  EXPECT_EQ(*variable.Resolve("./t")->spec.hosts, a);
  for (const char* name : {"job.yaml", "/u/.config/hvdray/config.yaml"}) {
    SpecWorld world = SlurmJob();
    world.files["job.yaml"] = "num_proc: 4\n";
    world.files[name] = "hosts: a:4\n";
    EXPECT_EQ(*world.Resolve("-f job.yaml ./t")->spec.hosts, a) << name;
  }
  SpecWorld cluster = SlurmJob();
  cluster.clusters["c.yaml"] = ClusterHosts{a, std::nullopt};
  EXPECT_EQ(*cluster.Resolve("--cluster c.yaml ./t")->spec.hosts, a);
  SpecWorld file = SlurmJob();
  file.files["h"] = "a slots=4\n";
  EXPECT_EQ(*file.Resolve("--hostfile h ./t")->spec.hosts, a);
  file.files["h"] = "a\n";
  EXPECT_EQ(*file.Resolve("--hostfile h --slots-per-host 4 ./t")->spec.hosts, a);
  EXPECT_EQ(*file.Resolve("--hostfile h ./t")->spec.np, 1);
}

TEST(SpecHostsTest, ADiscoveryScriptLeavesTheAllocationUnread) {
  SpecWorld world = SlurmJob();
  world.environment.Set("SLURM_TASKS_PER_NODE", "nonsense");
  EXPECT_TRUE(world.Resolve("-np 2 --host-discovery-script ./d.sh ./t")->spec.hosts->empty());
  EXPECT_TRUE(world.Resolve("-H a:4 ./t").ok());
  world.ExpectRefused("./t", "env SLURM_TASKS_PER_NODE:1", ErrorCode::kSpecInvalid);
}

TEST(SpecHostsTest, AnAllocationThatIsTooSmallNamesTheWayBackToThisMachine) {
  const std::string hint =
      SlurmJob().ExpectRefused("-np 4 ./t", "flag -np", ErrorCode::kNotEnoughSlots);
  EXPECT_NE(hint.find("env SLURM_JOB_NODELIST"), std::string::npos) << hint;
  EXPECT_NE(hint.find("-H localhost:4"), std::string::npos) << hint;
}

TEST(SpecHostsTest, APbsFileIsReadThroughTheResolversFiles) {
  SpecWorld world;
  world.environment = Env({{"PBS_NODEFILE", "/pbs"}});
  world.ExpectRefused("./t", "env PBS_NODEFILE", ErrorCode::kFileUnreadable);
  world.files["/pbs"] = "a\nb\na\n";
  EXPECT_EQ(*world.Resolve("./t")->spec.hosts, (HostList{{"a", 2}, {"b", 1}}));
}

TEST(SpecHostsTest, RangesUsersAndPortsArriveFromEveryLevel) {
  const HostList wanted = {
      {"n1", 2, {"", "u", 0}}, {"n2", 2, {"", "u", 0}}, {"b", 1, {"", "", 22}}};
  EXPECT_EQ(*SpecWorld().Resolve("-H u@n[1,2]:2,ssh://b:22:1 ./t")->spec.hosts, wanted);
  SpecWorld world;
  world.files["job.yaml"] = "hosts: ['u@n[1,2]:2', ssh://b:22:1]\n";
  EXPECT_EQ(*world.Resolve("-f job.yaml ./t")->spec.hosts, wanted);
  world.environment.Set("HVDRAY_HOSTS", "u@n[1,2]:2,ssh://b:22:1");
  EXPECT_EQ(*world.Resolve("./t")->spec.hosts, wanted);
}

TEST(SpecHostsTest, PrintConfigShowsHostsSoThatTheyReadBack) {
  const Result<RunRequest> request = SpecWorld().Resolve("-H ssh://u@a:22:1,[::1]:2,n[1-2]:1 ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const std::string text = PrintConfig(request->spec, PlanFormat::kText);
  EXPECT_NE(text.find("ssh://u@a:22:1 [::1]:2 n1:1 n2:1"), std::string::npos) << text;
  const Result<RunRequest> slurm = SlurmJob().Resolve("./t");
  EXPECT_NE(PrintConfig(slurm->spec, PlanFormat::kText).find("env SLURM_JOB_NODELIST"),
            std::string::npos);
}

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;
Lines WarningsOf(const SpecWorld& world, const std::string& line) {
  const Result<RunRequest> request = world.Resolve(line);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? request->warnings : Lines();
}
TEST(SpecEnvTest, AnInterfaceThatWasExportedIsNotDroppedWithoutAWord) {
  SpecWorld world{.environment = Env({{"NCCL_SOCKET_IFNAME", "ib0"}})};
  const Lines warnings = WarningsOf(world, "-np 2 ./t");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("NCCL_SOCKET_IFNAME=ib0"), std::string::npos) << warnings[0];
  for (const std::string said : {"-x NCCL_SOCKET_IFNAME", "-x NCCL_SOCKET_IFNAME=ib1",
                                 "--network-interfaces ib0", "--ray"}) {
    EXPECT_EQ(WarningsOf(world, "-np 2 " + said + " ./t"), Lines()) << said;
  }
  world.environment.Set("HVDRAY_RANK", "0");
  EXPECT_EQ(WarningsOf(world, "-np 2 ./t"), Lines()) << "the outer job's";
}
TEST(SpecElasticTest, DefaultsAreThoseOfThePolicy) {
  const JobSpec spec = SpecWorld().Resolve("-np 2 --min-np 1 ./t")->spec;
  const ElasticPolicy policy;
  EXPECT_EQ(*spec.elastic_mode, policy.mode);
  EXPECT_EQ(*spec.join, policy.join);
  EXPECT_EQ(*spec.success, policy.success);
  EXPECT_EQ(*spec.straggler_timeout, policy.straggler_timeout);
  EXPECT_EQ(*spec.breaks_connections, policy.breaks_connections);
  EXPECT_EQ(*spec.discovery_interval, seconds(1));
  EXPECT_EQ(*spec.discovery_timeout, seconds(30));
  EXPECT_TRUE(spec.record_file->empty());
}
TEST(SpecElasticTest, ReadsEveryOption) {
  const Result<RunRequest> request = SpecWorld().Resolve(
      "-np 2 --host-discovery-script ./d --elastic-mode horovod --join together --success any "
      "--discovery-interval 200ms --discovery-timeout 5 --straggler-timeout 1m "
      "--no-break-connections --record job.record ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->warnings, Lines());
  const JobSpec& spec = request->spec;
  EXPECT_EQ(*spec.elastic_mode, ElasticMode::kHorovod);
  EXPECT_EQ(*spec.join, JoinMode::kTogether);
  EXPECT_EQ(*spec.success, SuccessRule::kAny);
  EXPECT_EQ(*spec.discovery_interval, milliseconds(200));
  EXPECT_EQ(*spec.discovery_timeout, seconds(5));
  EXPECT_EQ(*spec.straggler_timeout, seconds(60));
  EXPECT_FALSE(*spec.breaks_connections);
  EXPECT_EQ(*spec.record_file, "job.record");
}
TEST(SpecElasticTest, ATorchScriptInHorovodsModeIsAWarning) {
  SpecWorld world;
  world.files["ddp.py"] = "import torch.distributed as dist\n";
  world.files["hvd.py"] = "import torch.distributed, horovod.torch\n";
  world.files["/job/src/ddp.py"] = "dist.init_process_group()\n";
  for (const char* line : {"-np 2 --min-np 1 python3 -u ddp.py",
                           "-np 2 --min-np 1 --cwd /job python src/ddp.py --epochs 3"}) {
    const Lines warnings = WarningsOf(world, line);
    ExpectWarnings(line, warnings, {""});
    EXPECT_NE(warnings.at(0).find("--elastic-mode gang"), std::string::npos);
  }
  for (const char* line :
       {"-np 2 --min-np 1 python3 hvd.py", "-np 2 python3 ddp.py",
        "-np 2 --min-np 1 python3 nosuch.py", "-np 2 --min-np 1 --elastic-mode gang python ddp.py",
        "-np 2 --min-np 1 --elastic-mode horovod python ddp.py", "-np 2 --min-np 1 python3 -m ddp",
        "-np 2 --min-np 1 ./ddp.py"}) {
    EXPECT_EQ(WarningsOf(world, line), Lines()) << line;
  }
}
TEST(SpecElasticTest, AJobFileHasTheSameWords) {
  SpecWorld world;
  world.files["job.yaml"] =
      "np: 2\nmin_np: 1\nelastic_mode: gang\nsuccess: any\nrecord: r\nmax_restarts: 3\n";
  const Result<RunRequest> request = world.Resolve("-f job.yaml ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->warnings, Lines());
  EXPECT_EQ(*request->spec.elastic_mode, ElasticMode::kGang);
  EXPECT_EQ(*request->spec.success, SuccessRule::kAny);
  EXPECT_EQ(*request->spec.record_file, "r");
  world.files["job.yaml"] = "np: 2\nmin_np: 1\njoin: cold\n";
  world.ExpectRefused("-f job.yaml ./t", "job.yaml:3:7");
  world.files["job.yaml"] = "np: 2\nmin_np: 3\n";
  world.ExpectRefused("-f job.yaml ./t", "job.yaml:2:9");
}
TEST(SpecElasticTest, TorchrunsVariablesAreSetWhereWorkersDoNotOutliveAChange) {
  const SpecWorld world;
  EXPECT_FALSE(world.Resolve("-np 1 --min-np 1 ./t")->spec.wants_torch_env());
  const JobSpec gang = world.Resolve("-np 1 --min-np 1 --elastic-mode gang ./t")->spec;
  EXPECT_TRUE(gang.wants_torch_env());
  EXPECT_FALSE(gang.outlives_changes());
  EXPECT_FALSE(world.Resolve("-np 1 --min-np 1 --elastic-mode gang --no-torch-env ./t")
                   ->spec.wants_torch_env());
  EXPECT_TRUE(world.Resolve("-np 1 ./t")->spec.wants_torch_env());
}
TEST(SpecElasticTest, RefusesWordsThatItDoesNotKnow) {
  const SpecWorld world;
  const std::string job = "-np 2 --min-np 1 ";
  world.ExpectRefused(job + "--elastic-mode mpi ./t", "flag --elastic-mode");
  world.ExpectRefused(job + "--join hot ./t", "flag --join");
  world.ExpectRefused(job + "--success some ./t", "flag --success");
}
TEST(SpecElasticTest, ADiscoveryThatNeverRestsOrNeverRunsIsRefused) {
  SpecWorld world;
  const std::string job = "-np 2 --host-discovery-script d ";
  world.ExpectRefused(job + "--discovery-interval 0 ./t", "flag --discovery-interval");
  world.ExpectRefused(job + "--discovery-timeout 0 ./t", "flag --discovery-timeout");
  world.files["job.yaml"] = "host_discovery_script: ''\n";
  world.ExpectRefused("-np 2 -f job.yaml ./t", "job.yaml:1:24");
}
TEST(SpecElasticTest, LimitsLeaveRoomForTheWorkersToStartWith) {
  const SpecWorld world;
  world.ExpectRefused("-np 4 --max-np 2 --host-discovery-script d ./t", "flag --max-np");
  world.ExpectRefused("-np 4 --min-np 5 -H a:9 ./t", "flag --min-np");
  EXPECT_TRUE(world.ToStatus("-np 4 --min-np 4 --max-np 4 -H a:9 ./t").ok());
}
TEST(SpecElasticTest, ACooldownIsOneSecondToAnHour) {
  const SpecWorld world;
  const std::string job = "-np 2 --min-np 1 --blacklist-cooldown-range ";
  EXPECT_TRUE(world.ToStatus(job + "1 3600 ./t").ok());
  for (const char* range : {"0 10", "1 3601", "-1 10", "10 1"}) {
    world.ExpectRefused(job + range + " ./t", "flag --blacklist-cooldown-range");
  }
}
TEST(SpecElasticTest, AHostfileIsRememberedAndMayGrow) {
  SpecWorld world;
  world.files["hosts"] = "a slots=2\n";
  EXPECT_EQ(world.ToStatus("-np 4 --hostfile hosts ./t").code(), ErrorCode::kNotEnoughSlots);
  const Result<RunRequest> request = world.Resolve("-np 4 --min-np 2 --hostfile hosts ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.hostfile, "hosts");
  EXPECT_TRUE(request->spec.may_learn_hosts());
  EXPECT_NE(PrintConfig(request->spec, PlanFormat::kText).find("\nhostfile "), std::string::npos);
  EXPECT_EQ(world.ToStatus("-np 4 --min-np 2 -H a:2 ./t").code(), ErrorCode::kNotEnoughSlots);
  EXPECT_FALSE(world.Resolve("-np 2 --min-np 2 -H a:2 ./t")->spec.may_learn_hosts());
}
TEST(SpecElasticTest, WhatIsForElasticJobsIsSaidToHaveNoEffectInOthers) {
  const SpecWorld world;
  for (const char* option :
       {"--max-np 4", "--reset-limit 1", "--blacklist-cooldown-range 1 2", "--elastic-mode gang",
        "--join warm", "--success any", "--discovery-interval 2", "--discovery-timeout 2",
        "--straggler-timeout 1", "--settle 1", "--no-break-connections", "--record r"}) {
    const std::string words(option);
    world.ExpectWarned("-np 2 " + words + " ./t", {"flag " + words.substr(0, words.find(' '))});
  }
}
TEST(SpecElasticTest, WhatIsForTheOtherModeIsSaidToHaveNoEffect) {
  const SpecWorld world;
  world.ExpectWarned("-np 2 --min-np 1 --max-restarts 1 --reset-limit 3 ./t",
                     {"flag --max-restarts"});
  const std::string gang = "-np 2 --min-np 1 --elastic-mode gang ";
  world.ExpectWarned("-np 2 --min-np 1 --settle 3 ./t", {"flag --settle"});
  for (const char* option : {"--join", "--straggler-timeout", "--no-break-connections"}) {
    const std::string value = option == std::string("--join")                ? " warm"
                              : option == std::string("--straggler-timeout") ? " 5"
                                                                             : "";
    world.ExpectWarned(gang + option + value + " ./t", {std::string("flag ") + option});
  }
  world.ExpectWarned("-np 2 --min-np 1 --discovery-timeout 3 ./t", {"flag --discovery-timeout"});
}
}  // namespace
}  // namespace hvdray
