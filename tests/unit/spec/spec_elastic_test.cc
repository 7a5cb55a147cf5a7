// SPDX-License-Identifier: Apache-2.0
// Options of elastic jobs: their values, their limits, and who is told that one has no effect.
#include <gtest/gtest.h>

#include <chrono>

#include "launcher/job/plan.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;

Lines WarningsOf(const SpecWorld& world, const std::string& line) {
  const Result<RunRequest> request = world.Resolve(line);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? request->warnings : Lines();
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
    ASSERT_EQ(warnings.size(), 1U) << line;
    EXPECT_NE(warnings[0].find("--elastic-mode gang"), std::string::npos);
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
  EXPECT_EQ(world.StatusOf("-f job.yaml ./t").message(),
            "job.yaml:3:7: join must be one of warm, together, not 'cold'");
  world.files["job.yaml"] = "np: 2\nmin_np: 3\n";
  EXPECT_EQ(world.StatusOf("-f job.yaml ./t").message(),
            "job.yaml:2:9: 3 is above the 2 workers to start with (job.yaml:1:5)");
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
  EXPECT_EQ(world.StatusOf(job + "--elastic-mode mpi ./t").message(),
            "flag --elastic-mode must be one of horovod, gang, not 'mpi'");
  EXPECT_EQ(world.StatusOf(job + "--join hot ./t").message(),
            "flag --join must be one of warm, together, not 'hot'");
  EXPECT_EQ(world.StatusOf(job + "--success some ./t").message(),
            "flag --success must be one of all, any, not 'some'");
}

TEST(SpecElasticTest, ADiscoveryThatNeverRestsOrNeverRunsIsRefused) {
  SpecWorld world;
  const std::string job = "-np 2 --host-discovery-script d ";
  EXPECT_EQ(world.StatusOf(job + "--discovery-interval 0 ./t").message(),
            "flag --discovery-interval must be above 0");
  EXPECT_EQ(world.StatusOf(job + "--discovery-timeout 0 ./t").message(),
            "flag --discovery-timeout must be above 0");
  world.files["job.yaml"] = "host_discovery_script: ''\n";
  EXPECT_EQ(world.StatusOf("-np 2 -f job.yaml ./t").message(),
            "job.yaml:1:24: host_discovery_script must not be empty");
}

TEST(SpecElasticTest, LimitsLeaveRoomForTheWorkersToStartWith) {
  const SpecWorld world;
  EXPECT_EQ(world.StatusOf("-np 4 --max-np 2 --host-discovery-script d ./t").message(),
            "flag --max-np: 2 is below the 4 workers to start with (flag -np)");
  EXPECT_EQ(world.StatusOf("-np 4 --min-np 5 -H a:9 ./t").message(),
            "flag --min-np: 5 is above the 4 workers to start with (flag -np)");
  EXPECT_TRUE(world.StatusOf("-np 4 --min-np 4 --max-np 4 -H a:9 ./t").ok());
}

TEST(SpecElasticTest, ACooldownIsOneSecondToAnHour) {
  const SpecWorld world;
  const std::string job = "-np 2 --min-np 1 --blacklist-cooldown-range ";
  EXPECT_TRUE(world.StatusOf(job + "1 3600 ./t").ok());
  for (const char* range : {"0 10", "1 3601", "-1 10", "10 1"}) {
    const Status status = world.StatusOf(job + range + " ./t");
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << range;
    EXPECT_TRUE(status.message().starts_with("flag --blacklist-cooldown-range")) << range;
  }
}

TEST(SpecElasticTest, AHostfileIsRememberedAndMayGrow) {
  SpecWorld world;
  world.files["hosts"] = "a slots=2\n";
  EXPECT_EQ(world.StatusOf("-np 4 --hostfile hosts ./t").code(), ErrorCode::kNotEnoughSlots);
  const Result<RunRequest> request = world.Resolve("-np 4 --min-np 2 --hostfile hosts ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.hostfile, "hosts");
  EXPECT_TRUE(request->spec.may_learn_hosts());
  EXPECT_NE(PrintConfig(request->spec, PlanFormat::kText).find("\nhostfile "), std::string::npos);
  EXPECT_EQ(world.StatusOf("-np 4 --min-np 2 -H a:2 ./t").code(), ErrorCode::kNotEnoughSlots);
  EXPECT_FALSE(world.Resolve("-np 2 --min-np 2 -H a:2 ./t")->spec.may_learn_hosts());
}

TEST(SpecElasticTest, WhatIsForElasticJobsIsSaidToHaveNoEffectInOthers) {
  const SpecWorld world;
  for (const char* option :
       {"--max-np 4", "--reset-limit 1", "--blacklist-cooldown-range 1 2", "--elastic-mode gang",
        "--join warm", "--success any", "--discovery-interval 2", "--discovery-timeout 2",
        "--straggler-timeout 1", "--no-break-connections", "--record r"}) {
    const std::string words(option);
    EXPECT_EQ(WarningsOf(world, "-np 2 " + words + " ./t"),
              Lines{"flag " + words.substr(0, words.find(' ')) +
                    " has no effect without --min-np or --host-discovery-script"});
  }
}

TEST(SpecElasticTest, WhatIsForTheOtherModeIsSaidToHaveNoEffect) {
  const SpecWorld world;
  EXPECT_EQ(WarningsOf(world, "-np 2 --min-np 1 --max-restarts 1 --reset-limit 3 ./t"),
            Lines{"flag --max-restarts has no effect with --elastic-mode horovod: see "
                  "--reset-limit"});
  const std::string gang = "-np 2 --min-np 1 --elastic-mode gang ";
  EXPECT_EQ(WarningsOf(world, gang + "--max-restarts 1 --reset-limit 3 ./t"),
            Lines{"flag --reset-limit has no effect with --elastic-mode gang: see "
                  "--max-restarts"});
  for (const char* option : {"--join", "--straggler-timeout", "--no-break-connections"}) {
    const std::string value = option == std::string("--join")                ? " warm"
                              : option == std::string("--straggler-timeout") ? " 5"
                                                                             : "";
    EXPECT_EQ(WarningsOf(world, gang + option + value + " ./t"),
              Lines{std::string("flag ") + option +
                    " has no effect with --elastic-mode gang, which starts all workers anew"});
  }
  EXPECT_EQ(WarningsOf(world, "-np 2 --min-np 1 --discovery-timeout 3 ./t"),
            Lines{"flag --discovery-timeout has no effect without --host-discovery-script"});
}

}  // namespace
}  // namespace hvdray
