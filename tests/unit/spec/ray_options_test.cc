// SPDX-License-Identifier: Apache-2.0
// --ray in a spec: what implies it, how many slots, what it excludes; the Ray of a cluster file;
// the runtime environment; the job file for the driver. Not here: Ray itself (tests/integration),
// what its API answers (tests/unit/ray_*).

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "launcher/job/plan_text.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/job/ray_runtime_env.h"
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
  const RayAsk ask = ToRayAsk(spec);
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
  const RayAsk ask = ToRayAsk(SpecOf("-f job.yaml ./t", world));
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
    return std::array<int, 2>{*spec.np, ToRayAsk(spec).num_hosts.value_or(0)};
  };
  using Pair = std::array<int, 2>;
  EXPECT_EQ(numbers("-np 4"), (Pair{4, 0}));
  EXPECT_EQ(numbers("--num-hosts 3"), (Pair{3, 3}));
  EXPECT_EQ(numbers("--num-hosts 3 --num-slots 2"), (Pair{6, 3}));
  EXPECT_EQ(numbers("-np 6 --num-hosts 3 --num-slots 2"), (Pair{6, 3}));
  EXPECT_EQ(numbers("-np 6 --num-hosts 3"), (Pair{6, 3}));
  EXPECT_EQ(numbers("-np 6 --num-slots 2"), (Pair{6, 3}));
  SpecWorld().ExpectRefused("--ray ./t", "");
  SpecWorld().ExpectRefused("--ray --num-slots 2 ./t", "");
  SpecWorld().ExpectRefused("--ray -np 5 --num-hosts 2 ./t", "flag -np");
  SpecWorld().ExpectRefused("--ray -np 5 --num-slots 2 ./t", "flag -np");
  SpecWorld().ExpectRefused("--ray -np 4 --num-hosts 3 --num-slots 2 ./t", "flag -np");
  SpecWorld().ExpectRefused("--ray --num-hosts 60000 --num-slots 60000 ./t", "flag --num-hosts");
}

TEST(SpecRayTest, HostsAreNamedByTheAddressesOfRaysNodes) {
  JobSpec spec = SpecOf("--ray -H 10.0.0.11:2,[fe80::1]:1 ./t");
  EXPECT_EQ(*spec.np, 3);
  const RayAsk ask = ToRayAsk(spec);
  ASSERT_EQ(ask.named.size(), 2U);
  EXPECT_EQ(ask.named[0].host, "10.0.0.11");
  EXPECT_EQ(ask.named[0].slots, 2);
  EXPECT_EQ(ask.named[1].host, "fe80::1");
  EXPECT_EQ(*SpecOf("--ray -H 10.0.0.11:2 -np 1 ./t").np, 1);
  SpecWorld().ExpectRefused("--ray -H node1:2 ./t", "flag -H");
  SpecWorld().ExpectRefused("--ray -H me@10.0.0.11:2 ./t", "flag -H");
  SpecWorld().ExpectRefused("--ray -H 10.0.0.11:2 --num-slots 2 ./t", "flag --num-slots");
  SpecWorld().ExpectRefused("--ray -H 10.0.0.11:2 -np 3 ./t", "flag -np",
                            ErrorCode::kNotEnoughSlots);
  SpecWorld().ExpectRefused("--ray -H 10.0.0.11:2 --strategy PACK ./t", "flag --strategy");
}

TEST(SpecRayTest, TheSlotsOfABatchJobAreNotTheClusters) {
  SpecWorld world;
  world.environment = Env({{"SLURM_JOB_NODELIST", "a,b"},
                           {"SLURM_TASKS_PER_NODE", "4(x2)"},
                           {"SLURM_JOB_ID", "1"},
                           {"HVDRAY_HOSTS", "a:8"}});
  world.ExpectRefused("--ray ./t", "");
  EXPECT_TRUE(SpecOf("--ray -np 2 ./t", world).hosts->empty());
}

TEST(SpecRayTest, ElasticJobsTakeSlotsWhereThereAreSome) {
  const JobSpec spec = SpecOf("--ray --min-np 2 --max-np 4 ./t");
  EXPECT_TRUE(spec.is_elastic());
  EXPECT_EQ(*spec.np, 2);
  EXPECT_EQ(*SpecOf("--ray -np 3 --min-np 2 ./t").np, 3);
  SpecWorld().ExpectRefused("--ray -np 1 --min-np 2 ./t", "flag --min-np");
  SpecWorld().ExpectRefused("--ray --min-np 3 --max-np 2 ./t", "flag --min-np");
  SpecWorld().ExpectRefused("--ray --num-hosts 2 --min-np 1 ./t", "flag --num-hosts");
  SpecWorld().ExpectRefused("--ray -H 10.0.0.1:2 --min-np 1 ./t", "flag -H");
}

TEST(SpecRayTest, GpusAreCheckedAsHorovodsExecutorChecksThem) {
  EXPECT_EQ(SpecOf("--ray -np 1 --use-gpu ./t").ray.slot_gpus(), 1);
  EXPECT_EQ(SpecOf("--ray -np 1 ./t").ray.slot_gpus(), 0);
  EXPECT_EQ(SpecOf("--ray -np 1 --gpus-per-slot 0 ./t").ray.slot_gpus(), 0);
  SpecWorld().ExpectRefused("--ray -np 1 --gpus-per-slot 1 ./t", "flag --gpus-per-slot");
  for (const char* gpus : {"0", "0.5", "1.5"}) {
    SpecWorld().ExpectRefused(std::string("--ray -np 1 --use-gpu --gpus-per-slot ") + gpus + " ./t",
                              "flag --gpus-per-slot");
  }
}

TEST(SpecRayTest, RefusesBadAmountsAndNames) {
  const std::string job = "--ray -np 1 ";
  SpecWorld().ExpectRefused(job + "--cpus-per-slot -1 ./t", "flag --cpus-per-slot");
  SpecWorld().ExpectRefused(job + "--cpus-per-slot many ./t", "flag --cpus-per-slot");
  SpecWorld().ExpectRefused(job + "--resources-per-slot disk ./t", "flag --resources-per-slot");
  SpecWorld().ExpectRefused(job + "--resources-per-slot GPU=1 ./t", "flag --resources-per-slot");
  SpecWorld().ExpectRefused(job + "--resources-per-slot disk=0 ./t", "flag --resources-per-slot");
  SpecWorld().ExpectRefused(job + "--label-selector zone ./t", "flag --label-selector");
  SpecWorld().ExpectRefused(job + "--strategy pack ./t", "flag --strategy");
  SpecWorld().ExpectRefused(job + "--placement-group-timeout 0 ./t",
                            "flag --placement-group-timeout");
  SpecWorld().ExpectRefused(job + "--num-hosts 2 --strategy PACK ./t", "flag --strategy");
}

TEST(SpecRayTest, HeadersAreCheckedAndShownNowhere) {
  const std::string job = "--ray -np 1 --ray-headers ";
  for (const char* text : {"x", "[]", "{\"A\":1}", "{\"A:\":\"secret\"}", "{\"\":\"secret\"}",
                           "{\"A\":\"secret\\n\"}"}) {
    const Status status = SpecWorld().ToStatus(job + text + " ./t");
    ExpectFault(text, status, ErrorCode::kUsage, "flag --ray-headers");
    EXPECT_EQ(status.ToString().find("secret"), std::string::npos) << text;
  }
  const JobSpec spec = SpecOf(job + "{\"A\":\"secret\"} ./t");
  EXPECT_EQ(PrintConfig(spec, PlanFormat::kText).find("secret"), std::string::npos);
  EXPECT_EQ(PrintConfig(spec, PlanFormat::kJson).find("secret"), std::string::npos);
}

TEST(SpecRayTest, OptionsOfOtherWaysOfRunningAreRefused) {
  const std::string job = "--ray -np 1 ";
  SpecWorld().ExpectRefused(job + "--hostfile f ./t", "flag --hostfile");
  SpecWorld().ExpectRefused(job + "--host-discovery-script d ./t", "flag --host-discovery-script");
  EXPECT_EQ(SpecWorld().ExpectRefused(job + "--sync . ./t", "flag --sync"), "--working-dir DIR");
  SpecWorld().ExpectRefused(job + "--stdin 0 ./t", "flag --stdin");
  EXPECT_TRUE(SpecWorld().ToStatus(job + "--stdin none ./t").ok());
  SpecWorld().ExpectRefused(job + "--launch-agent {host} ./t", "flag --launch-agent");
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
      SpecWorld().Resolve("--ray -np 1 -p 22 --remote-dir d --exclude x ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  ExpectWarnings("-p 22 --remote-dir d --exclude x", request->warnings,
                 {"flag -p", "flag --remote-dir", "flag --exclude"});
}

TEST(SpecRayTest, RaysOptionsNeedRay) {
  for (const char* option :
       {"--num-hosts 2", "--use-gpu", "--detach", "--working-dir .", "--strategy PACK",
        "--ray-python p", "--keep-ray-env", "--ray-verify false"}) {
    const std::string words(option);
    SpecWorld().ExpectRefused("-np 1 " + words + " ./t",
                              "flag " + words.substr(0, words.find(' ')));
  }
  EXPECT_TRUE(SpecWorld().ToStatus("-np 1 --backend ssh ./t").ok());
  SpecWorld().ExpectRefused("-np 1 --backend ray ./t", "flag --backend");
}

TEST(SpecRayTest, ACheckSaysWhereToAskInstead) {
  const SpecWorld world;
  const Result<CheckRequest> request =
      ResolveCheck(Words("--ray -np 1"), world.environment, world.Files());
  ExpectFault("check --ray -np 1", request.status(), ErrorCode::kNotSupported, "flag --ray");
  EXPECT_NE(request.status().hint().find("hvdray slots --ray"), std::string::npos);
}

TEST(SpecRayTest, MemoryMayHaveAUnit) {
  const auto memory = [](const std::string& amount) {
    return ToRayAsk(SpecOf("--ray -np 1 --resources-per-slot memory=" + amount + " ./t"))
        .slot_resources.at("memory");
  };
  EXPECT_EQ(memory("1GiB"), 1073741824);
  EXPECT_EQ(memory("1.5KiB"), 1536);
  EXPECT_EQ(memory("2MB"), 2e6);
  EXPECT_EQ(memory("3TB"), 3e12);
  EXPECT_EQ(memory("512B"), 512);
  EXPECT_EQ(memory("1073741824"), 1073741824);
  const std::string job = "--ray -np 1 --resources-per-slot ";
  SpecWorld().ExpectRefused(job + "memory=1Gi ./t", "flag --resources-per-slot");
  SpecWorld().ExpectRefused(job + "memory=GiB ./t", "flag --resources-per-slot");
  SpecWorld().ExpectRefused(job + "memory=0MiB ./t", "flag --resources-per-slot");
  SpecWorld().ExpectRefused(job + "disk=1GiB ./t", "flag --resources-per-slot");
}

const Status kNoRay(ErrorCode::kRayUnreachable, "no Ray answers on 10.0.0.1");

SpecWorld WorldWith(Result<std::string> ray) {
  SpecWorld world;
  world.ray = std::move(ray);
  ClusterHosts cluster;
  cluster.hosts = {{"10.0.0.1", 2}, {"10.0.0.2", 2}};
  cluster.head = HostSlots{"10.0.0.1", 2};
  cluster.ssh_user = "alice";
  world.clusters["c.yaml"] = cluster;
  ClusterHosts cloud;
  cloud.hosts_status = Status(ErrorCode::kNotSupported, "only aws knows the hosts");
  world.clusters["aws.yaml"] = cloud;
  return world;
}

TEST(SpecBackendTest, ARayThatAnswersTakesTheJob) {
  const SpecWorld world = WorldWith(std::string("http://10.0.0.1:8265"));
  const Result<RunRequest> request = world.Resolve("--cluster c.yaml ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_TRUE(*request->spec.ray.is_wanted);
  EXPECT_EQ(*request->spec.ray.address, "http://10.0.0.1:8265");
  EXPECT_EQ(request->spec.ray.address.origin(), "c.yaml");
  EXPECT_EQ(*request->spec.np, 4) << "as by SSH: all slots of the file";
  EXPECT_TRUE(request->warnings.empty());
}

TEST(SpecBackendTest, WithoutOneTheHostsAreReachedBySshAndThatIsSaid) {
  const Result<RunRequest> request = WorldWith(kNoRay).Resolve("--cluster c.yaml ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_FALSE(*request->spec.ray.is_wanted);
  EXPECT_EQ(request->spec.hosts->size(), 2u);
  EXPECT_EQ(*request->spec.ssh_user, "alice");
  ExpectWarnings("--cluster c.yaml ./t", request->warnings, {""});
  EXPECT_TRUE(request->warnings.at(0).starts_with(kNoRay.message()));
}

TEST(SpecBackendTest, NobodyIsAskedWhereTheAnswerIsClear) {
  const SpecWorld world = WorldWith(Status(ErrorCode::kInternal, "asked"));
  for (const char* line : {"--cluster c.yaml --backend ssh ./t", "--cluster c.yaml -H a:1 ./t",
                           "--cluster c.yaml --print-config ./t"}) {
    const Result<RunRequest> request = world.Resolve(line);
    ASSERT_TRUE(request.ok()) << line << ": " << request.status().ToString();
    EXPECT_FALSE(*request->spec.ray.is_wanted) << line;
    EXPECT_TRUE(request->warnings.empty()) << line;
  }
  const Result<RunRequest> named =
      world.Resolve("--cluster aws.yaml --ray-address http://h:8265 -np 1 ./t");
  ASSERT_TRUE(named.ok()) << named.status().ToString();
  EXPECT_EQ(*named->spec.ray.address, "http://h:8265");
}

TEST(SpecBackendTest, AJobThatNeedsRayFailsWithoutIt) {
  for (const char* line : {"--cluster c.yaml --backend ray ./t", "--cluster c.yaml --ray ./t"}) {
    WorldWith(kNoRay).ExpectRefused(line, "", ErrorCode::kRayUnreachable);
  }
}

TEST(SpecBackendTest, AHeadThatOnlyAProviderKnowsNeedsAnAddress) {
  const std::string hint =
      WorldWith(std::string("http://x"))
          .ExpectRefused("--cluster aws.yaml -np 1 ./t", "", ErrorCode::kNotSupported);
  EXPECT_NE(hint.find("--ray-address"), std::string::npos) << hint;
}

TEST(SpecBackendTest, ACheckLooksAtHostsBySsh) {
  SpecWorld world = WorldWith(kNoRay);
  world.ray.reset();
  EXPECT_TRUE(world.Resolve("--cluster c.yaml ./t").ok());
  world.ExpectRefused("--cluster c.yaml --backend ray ./t", "flag --backend",
                      ErrorCode::kNotSupported);
}

using Files = std::map<std::string, std::string>;

Result<RayRuntimeEnv> Read(const std::string& text, const Files& files = {}) {
  return ReadRuntimeEnv(text, [&files](const std::string& path) {
    const auto found = files.find(path);
    return Result<std::optional<std::string>>(found == files.end() ? std::nullopt
                                                                   : std::optional(found->second));
  });
}

/// Expects the fault and that its message names `part`.
void ExpectWrong(const std::string& text, std::string_view part, const Files& files = {},
                 ErrorCode code = ErrorCode::kUsage) {
  const Status status = Read(text, files).status();
  ExpectFault(text, status, code);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
}

TEST(RayRuntimeEnvTest, JsonGoesToRayAsItIs) {
  const auto env = Read(R"({"pip": ["a==1", "b"], "env_vars": {"X": "1"},
                            "config": {"setup_timeout_seconds": 30}})");
  ASSERT_TRUE(env.ok()) << env.status().ToString();
  EXPECT_EQ(DumpJson(env->actors), R"({"pip":["a==1","b"],"env_vars":{"X":"1"},)"
                                   R"("config":{"setup_timeout_seconds":30}})");
}

TEST(RayRuntimeEnvTest, FilesOfThisMachineAreReadIn) {
  const Files files = {{"req.txt", "a==1\r\n\n# why\nb\n"},
                       {"conda.yml", "dependencies:\n- python=3.11\n- pip: [x]\n"},
                       {"env.yaml",
                        "pip: {packages: req.txt, pip_check: false}\n"
                        "env_vars: {N: 010, Y: yes}\npy_modules: [lib]\n"
                        "working_dir: .\nexcludes: ['*.bin']\n"}};
  EXPECT_EQ(DumpJson(Read(R"({"uv": "req.txt"})", files)->actors),
            R"({"uv":["a==1","# why","b"]})");
  EXPECT_EQ(DumpJson(Read(R"({"conda": "conda.yml"})", files)->actors),
            R"({"conda":{"dependencies":["python=3.11",{"pip":["x"]}]}})");
  EXPECT_EQ(DumpJson(Read(R"({"conda": "named"})", files)->actors), R"({"conda":"named"})");
  const auto env = Read("env.yaml", files);
  ASSERT_TRUE(env.ok()) << env.status().ToString();
  EXPECT_EQ(DumpJson(env->actors), R"({"pip":{"packages":["a==1","# why","b"],"pip_check":false},)"
                                   R"("env_vars":{"N":"010","Y":"yes"}})");
  EXPECT_EQ(env->py_modules, std::vector<std::string>{"lib"});
  EXPECT_EQ(env->working_dir, ".");
  EXPECT_EQ(env->excludes, std::vector<std::string>{"*.bin"});
}

TEST(RayRuntimeEnvTest, WhatIsWrongIsSaidWithoutValuesOfVariables) {
  ExpectWrong(R"({"pips": []})", "'pips'");
  EXPECT_NE(Read(R"({"pips": []})").status().hint().find("pip?"), std::string::npos);
  ExpectWrong(R"({"pip": [], "conda": "x"})", "pip, uv and conda");
  ExpectWrong(R"({"pip": "none.txt"})", "none.txt", {}, ErrorCode::kFileUnreadable);
  ExpectWrong(R"({"pip": {}})", "pip");
  ExpectWrong(R"({"env_vars": {"A": 1}})", "'A'");
  ExpectWrong(R"({"env_vars": {"A=B": "secret"}})", "'A=B'");
  EXPECT_EQ(Read(R"({"env_vars": {"A=B": "secret"}})").status().ToString().find("secret"),
            std::string::npos);
  ExpectWrong(R"({"py_modules": "x"})", "py_modules");
  ExpectWrong(R"({"image_uri": "x", "pip": ["y"]})", "pip");
  ExpectWrong("none.yaml", "'none.yaml'");
  ExpectWrong("a.yaml", "a.yaml: ", {{"a.yaml", "- x\n"}});
  ExpectWrong("{", "JSON");
  ExpectWrong(R"({"env_vars": {"A": 99999999999999999999}})", "'A'");
  ExpectWrong(R"({"config": {"x": 99999999999999999999}})", "JSON:1:18: the integer", {},
              ErrorCode::kSpecInvalid);
  ExpectWrong("a.yaml", "a.yaml:1:13: the integer",
              {{"a.yaml", "config: {x: 18446744073709551616}"}}, ErrorCode::kSpecInvalid);
}

TEST(RayRuntimeEnvTest, TheTextOfASpecHasItAllAndShowsNoPasswords) {
  auto env = Read(R"({"uv": ["a"], "env_vars": {"KEY": "secret"}, "py_modules": ["lib"]})");
  ASSERT_TRUE(env.ok());
  const std::string text = RuntimeEnvText(*env);
  const auto back = ParseRuntimeEnvText(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->actors, env->actors);
  EXPECT_EQ(back->py_modules, env->py_modules);
  EXPECT_EQ(ShownRuntimeEnv(text).get<std::string>().find("secret"), std::string::npos);
  EXPECT_EQ(RuntimeEnvText({}), "");
  EXPECT_TRUE(ParseRuntimeEnvText("")->actors.empty());
}

TEST(RayRuntimeEnvTest, ASpecTakesTheWorkingDirectoryFromIt) {
  SpecWorld world;
  const auto spec = [&world](const std::string& line) {
    const Result<RunRequest> request = world.Resolve("-np 1 --ray " + line + " ./t");
    EXPECT_TRUE(request.ok()) << request.status().ToString();
    return request.ok() ? request->spec.ray : RaySpec();
  };
  const RaySpec ray = spec(R"(--runtime-env {"working_dir":"src","excludes":["x"],"uv":["a"]})");
  EXPECT_EQ(*ray.working_dir, "src");
  EXPECT_EQ(*ray.excludes, std::vector<std::string>{"x"});
  EXPECT_EQ(*ray.runtime_env, R"({"uv":["a"]})");
  EXPECT_EQ(*spec(R"(--runtime-env-json {"uv":["a"]})").runtime_env, R"({"uv":["a"]})");
  EXPECT_EQ(*spec("--working-dir s3://b/x.zip").working_dir, "s3://b/x.zip");
  world.ExpectRefused("-np 1 --ray --working-dir a --runtime-env {\"working_dir\":\"b\"} ./t",
                      "flag --runtime-env");
  world.ExpectRefused("-np 1 --ray --working-dir s3://b/x ./t", "flag --working-dir");
  world.ExpectRefused("-np 1 --ray --working-dir ftp://b/x.zip ./t", "flag --working-dir");
  world.ExpectRefused("-np 1 --ray --detach --stop-with-client ./t", "flag --stop-with-client");
}

RayJobFile Sample() {
  RayJobFile job;
  job.job_id = "hvd-20261122-043300-0011aabb";
  job.build = "hvdray 0.1.0 (abc)";
  job.key = std::string(64, 'a');
  job.can_grow = false;
  job.spec.np.Set(4, "flag -np");
  job.spec.command.Set({"python3", "train.py"}, "command line");
  job.environment.Set("NCCL_DEBUG", "INFO");
  job.environment.Set("ODD", "\xff\n\"");
  return job;
}

void ExpectBadFile(const std::string& text, ErrorCode code = ErrorCode::kProtocolError) {
  ExpectFault(text, ParseRayJobFile(text).status(), code);
}

TEST(RayJobFileTest, WhatIsWrittenComesBack) {
  const RayJobFile job = Sample();
  const Result<RayJobFile> read = ParseRayJobFile(RayJobFileText(job));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->job_id, job.job_id);
  EXPECT_EQ(read->build, job.build);
  EXPECT_EQ(read->key, job.key);
  EXPECT_FALSE(read->can_grow);
  EXPECT_EQ(*read->spec.np, 4);
  EXPECT_EQ(*read->spec.command, *job.spec.command);
  EXPECT_EQ(read->environment.values(), job.environment.values());
}

TEST(RayJobFileTest, WhatAProxyAsksTheClientForStaysWithTheClient) {
  RayJobFile job = Sample();
  job.spec.ray.headers.Set(R"({"Authorization": "Basic geheim"})", "flag --ray-headers");
  const std::string text = RayJobFileText(job);
  EXPECT_EQ(text.find("geheim"), std::string::npos) << text;
  EXPECT_EQ(text.find("ray_headers"), std::string::npos) << text;
}

TEST(RayJobFileTest, AFileThatCannotBeTheClientsIsRefused) {
  ExpectBadFile("");
  ExpectBadFile("[]");
  ExpectBadFile("{}");
  ExpectBadFile(R"({"job_id":"j","key":"abc"})");
  RayJobFile job = Sample();
  job.key[3] = 'G';
  ExpectBadFile(RayJobFileText(job));
  const std::string begin = R"({"job_id":"j","key":")" + std::string(64, '0') + "\"";
  ExpectBadFile(begin + "}");
  ExpectBadFile(begin + R"(,"options":{}})", ErrorCode::kProtocolMismatch);
  const std::string options = R"(,"options":{"schema":"hvdray.spec/2"})";
  ExpectBadFile(begin + options + R"(,"environment":{"A":"b"}})");
  EXPECT_TRUE(ParseRayJobFile(begin + options + R"(,"of_tomorrow":1})").ok());
}

TEST(RayJobFileTest, OfTheClientsEnvironmentGoesWhatIsOfTheJob) {
  JobSpec spec;
  spec.env.Set({"WANTED", "SET=1", "MISSING"}, "flag -x");
  const Environment client({{"HOROVOD_CYCLE_TIME", "1"},
                            {"NCCL_DEBUG", "INFO"},
                            {"PATH", "/usr/bin"},
                            {"RAY_AUTH_TOKEN", "secret"},
                            {"SET", "other"},
                            {"WANTED", "w"}});
  EXPECT_EQ(EnvironmentForRay(spec, client).ToStrings(),
            (std::vector<std::string>{"HOROVOD_CYCLE_TIME=1", "NCCL_DEBUG=INFO", "WANTED=w"}));
}

}  // namespace
}  // namespace hvdray
