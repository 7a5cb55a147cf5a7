// SPDX-License-Identifier: Apache-2.0
// --ray in a spec: what implies it, how many slots, what it forbids, what is forbidden without it.
#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "launcher/job/plan.h"
#include "launcher/job/ray_job_file.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

using std::chrono::seconds;
using Lines = std::vector<std::string>;

JobSpec SpecOf(const std::string& line, const SpecWorld& world = {}) {
  const Result<RunRequest> request = world.Resolve(line);
  EXPECT_TRUE(request.ok()) << line << ": " << request.status().ToString();
  return request.ok() ? request->spec : JobSpec();
}

std::string ErrorOf(const std::string& line, const SpecWorld& world = {}) {
  return world.StatusOf(line).message();
}

TEST(SpecRayTest, AnAddressImpliesRayWhereItIsGivenForThisJob) {
  SpecWorld world;
  EXPECT_TRUE(*SpecOf("-np 1 --ray ./t").ray.is_wanted);
  EXPECT_TRUE(*SpecOf("-np 1 --ray-address http://h:1 ./t").ray.is_wanted);
  EXPECT_FALSE(*SpecOf("-np 1 ./t").ray.is_wanted);
  world.environment = Env({{"HVDRAY_RAY_ADDRESS", "http://e:1"}, {"HOME", "/h"}});
  world.files["/h/.config/hvdray/config.yaml"] = "use_gpu: true\n";
  EXPECT_FALSE(*SpecOf("-np 1 ./t", world).ray.is_wanted) << "it names the cluster, no more";
  const JobSpec spec = SpecOf("-np 1 --ray ./t", world);
  EXPECT_EQ(*spec.ray.address, "http://e:1");
  EXPECT_TRUE(*spec.ray.uses_gpu) << "the user's own default";
  world.files["job.yaml"] = "np: 1\nray_address: http://f:1\n";
  EXPECT_EQ(*SpecOf("-f job.yaml ./t", world).ray.address, "http://e:1");
  EXPECT_TRUE(*SpecOf("-f job.yaml ./t", world).ray.is_wanted);
  world.files["job.yaml"] = "np: 1\nray: false\nray_address: http://f:1\n";
  EXPECT_FALSE(*SpecOf("-f job.yaml ./t", world).ray.is_wanted);
  EXPECT_TRUE(*SpecOf("-f job.yaml --ray-address http://g:1 ./t", world).ray.is_wanted);
}

TEST(SpecRayTest, ReadsEveryOption) {
  const JobSpec spec = SpecOf(
      "-np 4 --ray --ray-verify ca.pem --ray-headers {\"A\":\"b\"} --ray-python py "
      "--keep-ray-env --detach --working-dir . --exclude *.ckpt --exclude data/ --cpus-per-slot "
      "0.5 --use-gpu --gpus-per-slot 2 --resources-per-slot disk=0.5 --label-selector zone=eu "
      "--strategy SPREAD --placement-group-timeout 2m --gpu-visibility rank ./t");
  const RaySpec& ray = spec.ray;
  EXPECT_EQ(*ray.verify, "ca.pem");
  EXPECT_EQ(*ray.headers, "{\"A\":\"b\"}");
  EXPECT_EQ(*ray.python, "py");
  EXPECT_TRUE(*ray.keeps_ray_env);
  EXPECT_TRUE(*ray.is_detached);
  EXPECT_EQ(*ray.working_dir, ".");
  EXPECT_EQ(*ray.excludes, (Lines{"*.ckpt", "data/"}));
  EXPECT_EQ(*ray.strategy, RayStrategy::kSpread);
  EXPECT_EQ(*ray.group_timeout, seconds(120));
  EXPECT_EQ(*ray.gpu_choice, GpuChoice::kRank);
  const RayAsk ask = RayAskOf(spec);
  EXPECT_EQ(ask.np, 4);
  EXPECT_EQ(ask.cpus_per_slot, 0.5);
  EXPECT_EQ(ask.gpus_per_slot, 2);
  EXPECT_EQ(ask.slot_resources, (RayAmounts{{"disk", 0.5}}));
  EXPECT_EQ(ask.labels, (RayLabels{{"zone", "eu"}}));
  EXPECT_EQ(ask.strategy, "SPREAD");
}

TEST(SpecRayTest, AFileMayMapResourcesAndLabels) {
  SpecWorld world;
  world.files["job.yaml"] =
      "ray: true\nnp: 1\nresources_per_slot: {disk: 0.5}\nlabel_selector: {zone: eu}\n";
  const RayAsk ask = RayAskOf(SpecOf("-f job.yaml ./t", world));
  EXPECT_EQ(ask.slot_resources, (RayAmounts{{"disk", 0.5}}));
  EXPECT_EQ(ask.labels, (RayLabels{{"zone", "eu"}}));
}

TEST(SpecRayTest, AStallOfTheDriverCostsAStaticJobItsLifeOnlyAsLateAsElsewhere) {
  EXPECT_EQ(*SpecOf("-np 1 --ray ./t").heartbeat_timeout, seconds(15));
  EXPECT_EQ(*SpecOf("-np 1 --min-np 1 --ray ./t").heartbeat_timeout, seconds(5));
  EXPECT_EQ(*SpecOf("-np 1 --ray --heartbeat-timeout 9 ./t").heartbeat_timeout, seconds(9));
  EXPECT_EQ(*SpecOf("-np 1 ./t").heartbeat_timeout, seconds(15));
}

TEST(SpecRayTest, TwoOfThreeNumbersGiveTheThird) {
  const auto numbers = [](const std::string& line) {
    const JobSpec spec = SpecOf("--ray " + line + " ./t");
    return std::array<int, 2>{*spec.np, RayAskOf(spec).num_hosts.value_or(0)};
  };
  using Pair = std::array<int, 2>;
  EXPECT_EQ(numbers("-np 4"), (Pair{4, 0}));
  EXPECT_EQ(numbers("--num-hosts 3"), (Pair{3, 3}));
  EXPECT_EQ(numbers("--num-hosts 3 --num-slots 2"), (Pair{6, 3}));
  EXPECT_EQ(numbers("-np 6 --num-hosts 3 --num-slots 2"), (Pair{6, 3}));
  EXPECT_EQ(numbers("-np 6 --num-hosts 3"), (Pair{6, 3}));
  EXPECT_EQ(numbers("-np 6 --num-slots 2"), (Pair{6, 3}));
  EXPECT_EQ(ErrorOf("--ray ./t"), "how many workers?");
  EXPECT_EQ(ErrorOf("--ray --num-slots 2 ./t"), "how many hosts?");
  EXPECT_EQ(ErrorOf("--ray -np 5 --num-hosts 2 ./t"),
            "flag -np of 5 can't be laid out by flag --num-hosts 2");
  EXPECT_EQ(ErrorOf("--ray -np 5 --num-slots 2 ./t"),
            "flag -np of 5 can't be laid out by flag --num-slots 2");
  EXPECT_EQ(ErrorOf("--ray -np 4 --num-hosts 3 --num-slots 2 ./t"),
            "flag -np of 4 can't be laid out by flag --num-hosts 3");
  EXPECT_EQ(ErrorOf("--ray --num-hosts 60000 --num-slots 60000 ./t"),
            "flag --num-hosts: 3600000000 workers are too many, at most 65536");
}

TEST(SpecRayTest, HostsAreNamedByTheAddressesOfRaysNodes) {
  JobSpec spec = SpecOf("--ray -H 10.0.0.11:2,[fe80::1]:1 ./t");
  EXPECT_EQ(*spec.np, 3);
  const RayAsk ask = RayAskOf(spec);
  ASSERT_EQ(ask.named.size(), 2U);
  EXPECT_EQ(ask.named[0].ip, "10.0.0.11");
  EXPECT_EQ(ask.named[0].slots, 2);
  EXPECT_EQ(ask.named[1].ip, "fe80::1");
  EXPECT_EQ(*SpecOf("--ray -H 10.0.0.11:2 -np 1 ./t").np, 1);
  EXPECT_EQ(ErrorOf("--ray -H node1:2 ./t"), "flag -H: 'node1' is not the address of a Ray node");
  EXPECT_EQ(ErrorOf("--ray -H me@10.0.0.11:2 ./t"),
            "flag -H: '10.0.0.11' is not the address of a Ray node");
  EXPECT_EQ(ErrorOf("--ray -H 10.0.0.11:2 --num-slots 2 ./t"),
            "flag --num-slots is not allowed with flag -H");
  EXPECT_EQ(ErrorOf("--ray -H 10.0.0.11:2 -np 3 ./t"),
            "flag -np: Requested more processes (3) than there are available slots (2)");
  EXPECT_EQ(ErrorOf("--ray -H 10.0.0.11:2 --strategy PACK ./t"),
            "flag --strategy is not allowed with flag -H, which means STRICT_SPREAD");
}

TEST(SpecRayTest, TheSlotsOfABatchJobAreNotTheClusters) {
  SpecWorld world;
  world.environment = Env({{"SLURM_JOB_NODELIST", "a,b"},
                           {"SLURM_TASKS_PER_NODE", "4(x2)"},
                           {"SLURM_JOB_ID", "1"},
                           {"HVDRAY_HOSTS", "a:8"}});
  EXPECT_EQ(ErrorOf("--ray ./t", world), "how many workers?");
  EXPECT_TRUE(SpecOf("--ray -np 2 ./t", world).hosts->empty());
}

TEST(SpecRayTest, ElasticJobsTakeSlotsWhereThereAreSome) {
  const JobSpec spec = SpecOf("--ray --min-np 2 --max-np 4 ./t");
  EXPECT_TRUE(spec.is_elastic());
  EXPECT_EQ(*spec.np, 2);
  EXPECT_EQ(*SpecOf("--ray -np 3 --min-np 2 ./t").np, 3);
  EXPECT_EQ(ErrorOf("--ray -np 1 --min-np 2 ./t"),
            "flag --min-np: 2 is above the 1 workers to start with (flag -np)");
  EXPECT_EQ(ErrorOf("--ray --min-np 3 --max-np 2 ./t"),
            "flag --min-np: 3 is above the maximum of 2 (flag --max-np)");
  EXPECT_EQ(ErrorOf("--ray --num-hosts 2 --min-np 1 ./t"),
            "flag --num-hosts is not for elastic jobs, which take slots where there are some");
  EXPECT_EQ(ErrorOf("--ray -H 10.0.0.1:2 --min-np 1 ./t"),
            "flag -H is not for elastic jobs on Ray, which take slots where there are some");
}

TEST(SpecRayTest, GpusAreCheckedAsHorovodsExecutorChecksThem) {
  EXPECT_EQ(SpecOf("--ray -np 1 --use-gpu ./t").ray.slot_gpus(), 1);
  EXPECT_EQ(SpecOf("--ray -np 1 ./t").ray.slot_gpus(), 0);
  EXPECT_EQ(SpecOf("--ray -np 1 --gpus-per-slot 0 ./t").ray.slot_gpus(), 0);
  EXPECT_EQ(ErrorOf("--ray -np 1 --gpus-per-slot 1 ./t"),
            "flag --gpus-per-slot has no effect without --use-gpu");
  for (const char* gpus : {"0", "0.5", "1.5"}) {
    EXPECT_EQ(ErrorOf(std::string("--ray -np 1 --use-gpu --gpus-per-slot ") + gpus + " ./t"),
              "flag --gpus-per-slot must be a whole number from 1, with --use-gpu");
  }
}

TEST(SpecRayTest, RefusesAmountsAndNamesThatAreNone) {
  const std::string job = "--ray -np 1 ";
  EXPECT_EQ(ErrorOf(job + "--cpus-per-slot -1 ./t"),
            "flag --cpus-per-slot must be from 0 to 1e+15, not '-1'");
  EXPECT_EQ(ErrorOf(job + "--cpus-per-slot many ./t").substr(0, 28),
            "flag --cpus-per-slot must be");
  EXPECT_EQ(ErrorOf(job + "--resources-per-slot disk ./t"),
            "flag --resources-per-slot must be NAME=AMOUNT, not 'disk'");
  EXPECT_EQ(ErrorOf(job + "--resources-per-slot GPU=1 ./t"),
            "flag --resources-per-slot must not name GPU");
  EXPECT_EQ(ErrorOf(job + "--resources-per-slot disk=0 ./t"),
            "flag --resources-per-slot must ask for more than 0 of 'disk'");
  EXPECT_EQ(ErrorOf(job + "--label-selector zone ./t"),
            "flag --label-selector must be NAME=VALUE, not 'zone'");
  EXPECT_EQ(ErrorOf(job + "--strategy pack ./t"),
            "flag --strategy must be one of auto, PACK, SPREAD, STRICT_PACK, STRICT_SPREAD, not "
            "'pack'");
  EXPECT_EQ(ErrorOf(job + "--placement-group-timeout 0 ./t"),
            "flag --placement-group-timeout must be above 0");
  EXPECT_EQ(ErrorOf(job + "--num-hosts 2 --strategy PACK ./t"),
            "flag --strategy is not allowed with flag --num-hosts, which means STRICT_SPREAD");
}

TEST(SpecRayTest, HeadersAreCheckedAndShownNowhere) {
  const std::string job = "--ray -np 1 --ray-headers ";
  for (const char* text : {"x", "[]", "{\"A\":1}", "{\"A:\":\"secret\"}", "{\"\":\"secret\"}",
                           "{\"A\":\"secret\\n\"}"}) {
    const Status status = SpecWorld().StatusOf(job + text + " ./t");
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << text;
    EXPECT_EQ(status.ToString().find("secret"), std::string::npos) << text;
  }
  const JobSpec spec = SpecOf(job + "{\"A\":\"secret\"} ./t");
  EXPECT_EQ(PrintConfig(spec, PlanFormat::kText).find("secret"), std::string::npos);
  EXPECT_EQ(PrintConfig(spec, PlanFormat::kJson).find("secret"), std::string::npos);
}

TEST(SpecRayTest, OptionsOfOtherWaysOfRunningAreRefused) {
  const std::string job = "--ray -np 1 ";
  EXPECT_EQ(ErrorOf(job + "--hostfile f ./t"),
            "flag --hostfile has no meaning with --ray: Ray knows its nodes");
  EXPECT_EQ(ErrorOf(job + "--host-discovery-script d ./t"),
            "flag --host-discovery-script has no meaning with --ray: Ray knows its nodes");
  const Status sync = SpecWorld().StatusOf(job + "--sync . ./t");
  EXPECT_EQ(sync.message(),
            "flag --sync has no meaning with --ray: files go to the nodes in the job's package");
  EXPECT_EQ(sync.hint(), "--working-dir DIR");
  EXPECT_EQ(ErrorOf(job + "--stdin 0 ./t"),
            "flag --stdin has no meaning with --ray: the job runs on, whoever reads along");
  EXPECT_EQ(ErrorOf(job + "--stdin none ./t"), "");
  EXPECT_EQ(ErrorOf(job + "--launch-agent {host} ./t"),
            "flag --launch-agent has no meaning with --ray: Ray starts the agents");
}

TEST(SpecRayTest, WhatAUserSetsForAllJobsIsInNobodysWay) {
  SpecWorld world;
  world.environment =
      Env({{"HOME", "/h"}, {"HVDRAY_HOSTFILE", "hosts"}, {"HVDRAY_SSH_PORT", "22"}});
  world.files["/h/.config/hvdray/config.yaml"] =
      "ssh_identity_file: k\nstdin: 0\nray_address: http://u:1\nworking_dir: .\n";
  const Result<RunRequest> request = world.Resolve("--ray -np 1 ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->warnings, Lines());
  EXPECT_FALSE(request->spec.stdin_rank->has_value());
  world.files["hosts"] = "a slots=1\n";
  EXPECT_TRUE(world.Resolve("-np 1 ./t").ok()) << "the other way round, too";
}

TEST(SpecRayTest, SshOptionsHaveNoEffect) {
  const Result<RunRequest> request =
      SpecWorld().Resolve("--ray -np 1 -p 22 --ssh-connections 4 --exclude x ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->warnings, (Lines{"flag -p has no effect with --ray",
                                      "flag --ssh-connections has no effect with --ray",
                                      "flag --exclude has no effect without --working-dir"}));
}

TEST(SpecRayTest, RaysOptionsNeedRay) {
  for (const char* option :
       {"--num-hosts 2", "--use-gpu", "--detach", "--working-dir .", "--strategy PACK",
        "--ray-python p", "--keep-ray-env", "--ray-verify false"}) {
    const Status status = SpecWorld().StatusOf("-np 1 " + std::string(option) + " ./t");
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << option;
    EXPECT_NE(status.message().find("has a meaning only with --ray"), std::string::npos) << option;
  }
  EXPECT_EQ(ErrorOf("-np 1 --backend ssh ./t"), "");
  EXPECT_NE(ErrorOf("-np 1 --backend ray ./t").find("only with --cluster"), std::string::npos);
}

TEST(SpecRayTest, ACheckSaysWhereToAskInstead) {
  const SpecWorld world;
  const Result<CheckRequest> request =
      ResolveCheck(Words("--ray -np 1"), world.environment, world.Files());
  EXPECT_EQ(request.status().code(), ErrorCode::kNotSupported);
  EXPECT_EQ(request.status().hint(), "hvdray slots --ray says what a cluster has free");
}

TEST(SpecRayTest, MemoryMayHaveAUnit) {
  const auto memory = [](const std::string& amount) {
    return RayAskOf(SpecOf("--ray -np 1 --resources-per-slot memory=" + amount + " ./t"))
        .slot_resources.at("memory");
  };
  EXPECT_EQ(memory("1GiB"), 1073741824);
  EXPECT_EQ(memory("1.5KiB"), 1536);
  EXPECT_EQ(memory("2MB"), 2e6);
  EXPECT_EQ(memory("3TB"), 3e12);
  EXPECT_EQ(memory("512B"), 512);
  EXPECT_EQ(memory("1073741824"), 1073741824);
  const std::string job = "--ray -np 1 --resources-per-slot ";
  EXPECT_EQ(ErrorOf(job + "memory=1Gi ./t"),
            "flag --resources-per-slot must be a number of bytes or as 1GiB, not '1Gi'");
  EXPECT_EQ(ErrorOf(job + "memory=GiB ./t"),
            "flag --resources-per-slot must be a number of bytes or as 1GiB, not 'GiB'");
  EXPECT_EQ(ErrorOf(job + "memory=0MiB ./t"),
            "flag --resources-per-slot must ask for more than 0 of 'memory'");
  EXPECT_EQ(ErrorOf(job + "disk=1GiB ./t"),
            "flag --resources-per-slot must be a number, not '1GiB'");
}

}  // namespace
}  // namespace hvdray
