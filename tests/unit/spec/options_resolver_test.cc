// SPDX-License-Identifier: Apache-2.0
// From a command line to a spec: values, defaults, ranges, and what each message says.
#include "launcher/job/options_resolver.h"

#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using HostList = std::vector<HostSlots>;

TEST(ResolveRunTest, TakesLocalhostForAllWorkersWhenNoHostIsNamed) {
  const Result<RunRequest> request = SpecWorld().Resolve("-np 4 ./train --lr 1");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_EQ(*spec.np, 4);
  EXPECT_EQ(spec.np.origin(), "flag -np");
  EXPECT_EQ(*spec.hosts, (HostList{{"localhost", 4}}));
  EXPECT_EQ(spec.hosts.origin(), "default");
  EXPECT_EQ(*spec.command, (std::vector<std::string>{"./train", "--lr", "1"}));
  EXPECT_EQ(*spec.start_timeout, seconds(30));
  EXPECT_EQ(*spec.grace, seconds(5));
  EXPECT_TRUE(*spec.is_peer_checked);
  EXPECT_TRUE(*spec.is_torch_env);
  EXPECT_TRUE(spec.tunables.empty());
  EXPECT_FALSE(spec.is_elastic());
  EXPECT_TRUE(request->warnings.empty());
}

TEST(ResolveRunTest, ReadsEveryOptionThatStandsAlone) {
  const Result<RunRequest> request = SpecWorld().Resolve(
      "-np 2 --cwd /data --clean-env --no-torch-env --network-interface eth0,eth1 "
      "--network-interfaces eth1 --start-timeout 2m --elastic-timeout 90 --grace 200ms "
      "--timeout 1.5h --heartbeat-timeout 20 --kv-hold 60 --max-restarts 3 --stdin 1 "
      "--tag-output host -prefix-timestamp --output-filename out --color never -q --verbose "
      "--log-json --report r.json --events e.jsonl --junit j.xml --trace t.json "
      "--master-port 29500 --no-peer-check --agent-path /opt/agent -p 2222 -i key --dry-run "
      "--print-plan=json --print-config --disable-cache --gloo ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_EQ(*spec.working_directory, "/data");
  EXPECT_TRUE(*spec.is_clean_env);
  EXPECT_FALSE(*spec.is_torch_env);
  EXPECT_EQ(*spec.network_interfaces, (std::vector<std::string>{"eth0", "eth1"}));
  EXPECT_EQ(*spec.start_timeout, seconds(120));
  EXPECT_EQ(*spec.elastic_timeout, seconds(90));
  EXPECT_EQ(*spec.grace, milliseconds(200));
  EXPECT_EQ(*spec.timeout, seconds(5400));
  EXPECT_EQ(*spec.heartbeat_timeout, seconds(20));
  EXPECT_EQ(*spec.kv_hold, seconds(60));
  EXPECT_EQ(*spec.max_restarts, 3);
  EXPECT_EQ(*spec.stdin_rank, std::optional<int>(1));
  EXPECT_EQ(*spec.tag_output, TagOutput::kHost);
  EXPECT_TRUE(*spec.is_timestamped);
  EXPECT_EQ(*spec.output_directory, "out");
  EXPECT_EQ(*spec.color, ColorMode::kNever);
  EXPECT_TRUE(*spec.is_quiet && *spec.is_verbose && *spec.is_log_json && *spec.is_dry_run);
  EXPECT_EQ(*spec.report_file, "r.json");
  EXPECT_EQ(*spec.events_file, "e.jsonl");
  EXPECT_EQ(*spec.junit_file, "j.xml");
  EXPECT_EQ(*spec.trace_file, "t.json");
  EXPECT_EQ(*spec.master_port, 29500);
  EXPECT_FALSE(*spec.is_peer_checked);
  EXPECT_EQ(*spec.agent_path, "/opt/agent");
  EXPECT_EQ(*spec.ssh_port, 2222);
  EXPECT_EQ(*spec.ssh_identity_file, "key");
  EXPECT_EQ(*spec.print_plan, std::optional<PlanFormat>(PlanFormat::kJson));
  EXPECT_EQ(*spec.print_config, std::optional<PlanFormat>(PlanFormat::kText));
}

TEST(ResolveRunTest, AsksForHelpVersionOrBuildWithoutReadingAnythingElse) {
  SpecWorld world;
  world.environment.Set("HVDRAY_GRACE", "nonsense");
  EXPECT_TRUE(world.Resolve("-h")->wants_help);
  EXPECT_TRUE(world.Resolve("-np 0 --version")->wants_version);
  EXPECT_TRUE(world.Resolve("-cb")->wants_check_build);
  EXPECT_FALSE(world.Resolve("-cb")->wants_help);
}

TEST(ResolveRunTest, CountsAllSlotsWhenHostsAreGivenWithoutANumber) {
  const Result<RunRequest> request = SpecWorld().Resolve("-H a:2,b:3 ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.np, 5);
  EXPECT_EQ(request->spec.np.origin(), "all slots of flag -H");
  const Status nobody = SpecWorld().StatusOf("./t");
  EXPECT_EQ(nobody.code(), ErrorCode::kUsage);
  EXPECT_EQ(nobody.hint(), "-np N");
  EXPECT_EQ(SpecWorld().StatusOf("-H a:0 ./t").message(),
            "flag -H: 0 slots in all, and no number of workers is given");
}

TEST(ResolveRunTest, RefusesMoreWorkersThanSlotsInHorovodsWords) {
  const Status status = SpecWorld().StatusOf("-np 3 -H a:2 ./t");
  EXPECT_EQ(status.code(), ErrorCode::kNotEnoughSlots);
  EXPECT_EQ(status.message(),
            "flag -np: Requested more processes (3) than there are available slots (2)");
  EXPECT_TRUE(SpecWorld().StatusOf("-np 2 -H a:3 ./t").ok()) << "-np caps";
}

TEST(ResolveRunTest, RefusesANumberOfWorkersThatMakesNoSense) {
  for (const char* bad : {"0", "-1", "65537", "two", "99999999999999999999", "1.5", "0x2"}) {
    const Status status = SpecWorld().StatusOf(std::string("-np ") + bad + " ./t");
    EXPECT_EQ(status.message(),
              std::string("flag -np must be a whole number from 1 to 65536, not '") + bad + "'");
    EXPECT_EQ(status.code(), ErrorCode::kUsage);
  }
  EXPECT_FALSE(SpecWorld().StatusOf("-np= ./t").ok());
}

TEST(ResolveRunTest, ReadsHostFiles) {
  SpecWorld world;
  world.files["hosts"] = "# two\n\na slots=2\nb slots=1\n";
  world.files["bad"] = "a slots=2\n???\n";
  EXPECT_EQ(*world.Resolve("-hostfile hosts ./t")->spec.hosts, (HostList{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(world.StatusOf("--hostfile bad ./t").message().substr(0, 5), "bad:2");
  const Status missing = world.StatusOf("--hostfile none ./t");
  EXPECT_EQ(missing.code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(missing.message(), "flag --hostfile: no file 'none'");
}

TEST(ResolveRunTest, RefusesAHostListThatIsNone) {
  for (const char* bad : {"a", "a:2,", "a:x", "::1:2", "a:2,a:1", "a:-1"}) {
    const Status status = SpecWorld().StatusOf(std::string("-np 1 -H ") + bad + " ./t");
    EXPECT_EQ(status.message().substr(0, 8), "flag -H:") << bad;
    EXPECT_EQ(status.code(), ErrorCode::kSpecInvalid) << bad;
  }
}

TEST(ResolveRunTest, RefusesTwoThatExcludeEachOther) {
  const SpecWorld world;
  EXPECT_EQ(world.StatusOf("-np 1 -H a:1 --hostfile f ./t").message(),
            "flag --hostfile is not allowed with flag -H");
  EXPECT_EQ(world.StatusOf("-np 1 --log-without-timestamp -prefix-timestamp ./t").message(),
            "flag --log-without-timestamp is not allowed with flag -prefix-timestamp");
  EXPECT_EQ(world.StatusOf("-np 1 --log-with-timestamp --log-without-timestamp ./t").message(),
            "flag --log-without-timestamp is not allowed with flag --log-with-timestamp");
  EXPECT_EQ(world.StatusOf("-np 1 --torus-allreduce --no-torus-allreduce ./t").message(),
            "flag --no-torus-allreduce is not allowed with flag --torus-allreduce");
  EXPECT_FALSE(world.StatusOf("-np 1 --gloo --mpi ./t").ok());
  EXPECT_TRUE(world.StatusOf("-np 1 --log-hide-timestamp --log-without-timestamp ./t").ok());
}

TEST(ResolveRunTest, TakesAnEmptyWordAsNotGivenWhereHorovodrunDoes) {
  const Result<RunRequest> request =
      SpecWorld().Resolve("-np 2 --output-filename= --hostfile= -i= --config-file= ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_TRUE(request->spec.output_directory->empty());
  EXPECT_EQ(*request->spec.hosts, (HostList{{"localhost", 2}}));
}

TEST(ResolveRunTest, AnEmptyListOfHostsIsNotThisMachine) {
  for (const char* line : {"-np 2 --hosts= ./t", "-np 2 -H a:2 -H= ./t"}) {
    const Status status = SpecWorld().StatusOf(line);
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << line;
    EXPECT_NE(status.message().find("must not be empty"), std::string::npos) << line;
  }
}

TEST(ResolveRunTest, LetsTheLastOfARepeatedOptionWin) {
  EXPECT_EQ(*SpecWorld().Resolve("-np 1 -np 2 ./t")->spec.np, 2);
}

TEST(ResolveRunTest, ResolvesElasticJobs) {
  const Result<RunRequest> request = SpecWorld().Resolve(
      "-np 4 --min-np 2 --max-np 8 --host-discovery-script ./d.sh --slots 2 --reset-limit 5 "
      "--blacklist-cooldown-range 10 100 --elastic-timeout 60 ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_TRUE(spec.is_elastic());
  EXPECT_EQ(*spec.min_np, std::optional<int>(2));
  EXPECT_EQ(*spec.max_np, std::optional<int>(8));
  EXPECT_EQ(*spec.slots_per_host, std::optional<int>(2));
  EXPECT_EQ(*spec.reset_limit, std::optional<int>(5));
  EXPECT_EQ(**spec.blacklist_cooldown_range, (std::pair<int, int>(10, 100)));
  EXPECT_EQ(*spec.heartbeat_timeout, seconds(5));
  EXPECT_FALSE(*spec.is_torch_env) << "torchrun's variables would go stale";
  EXPECT_TRUE(spec.hosts->empty());
  EXPECT_EQ(*SpecWorld().Resolve("--min-np 3 -H a:4 ./t")->spec.np, 3);
}

TEST(ResolveRunTest, RefusesElasticLimitsThatContradictEachOther) {
  const SpecWorld world;
  EXPECT_EQ(world.StatusOf("-np 4 --min-np 5 --max-np 4 -H a:9 ./t").message(),
            "flag --min-np: 5 is above the maximum of 4 (flag --max-np)");
  const Result<RunRequest> not_elastic = world.Resolve("-np 4 --max-np 8 ./t");
  ASSERT_TRUE(not_elastic.ok());
  EXPECT_FALSE(not_elastic->spec.is_elastic());
  EXPECT_EQ(not_elastic->warnings,
            (std::vector<std::string>{
                "flag --max-np has no effect without --min-np or --host-discovery-script"}));
  EXPECT_EQ(world.StatusOf("--host-discovery-script d ./t").hint(), "-np N");
  EXPECT_EQ(world.StatusOf("-np 2 --min-np 1 --blacklist-cooldown-range 100 10 ./t").message(),
            "flag --blacklist-cooldown-range: the lower limit 100 is above the upper limit 10");
  EXPECT_FALSE(world.StatusOf("-np 2 --min-np 1 --blacklist-cooldown-range -1 10 ./t").ok());
  EXPECT_FALSE(world.StatusOf("-np 2 --min-np 1 --reset-limit -1 ./t").ok());
  EXPECT_FALSE(world.StatusOf("-np 2 --min-np 0 ./t").ok());
}

TEST(ResolveRunTest, SaysWhyMpiIsNotSupported) {
  for (const char* flags : {"--mpi", "--jsrun", "--mpi-args=-x", "--binding-args x"}) {
    const Status status = SpecWorld().StatusOf(std::string("-np 1 ") + flags + " ./t");
    EXPECT_EQ(status.code(), ErrorCode::kNotSupported) << flags;
    EXPECT_NE(status.message().find("is not supported, because"), std::string::npos) << flags;
  }
}

TEST(ResolveRunTest, WantsACommandUnlessNothingRuns) {
  EXPECT_EQ(SpecWorld().StatusOf("-np 2").message(), "no command to run");
  EXPECT_EQ(SpecWorld().StatusOf("-np 2 --").message(), "no command to run");
  EXPECT_TRUE(SpecWorld().StatusOf("-np 2 --dry-run").ok());
  EXPECT_TRUE(SpecWorld().StatusOf("-np 2 --print-config").ok());
  EXPECT_FALSE(SpecWorld().Resolve(std::vector<std::string>{"-np", "2", ""}).ok());
}

TEST(ResolveRunTest, TakesAYamlFileForASlipUnlessItIsAProgram) {
  SpecWorld world;
  const Status status = world.StatusOf("-np 2 job.yaml");
  EXPECT_EQ(status.code(), ErrorCode::kUsage);
  EXPECT_EQ(status.hint(),
            "a job file is given as -f job.yaml, a cluster file as --cluster job.yaml");
  EXPECT_FALSE(world.StatusOf("-np 2 ./job.yml").ok());
  world.executables = {"./job.yml", "/bin/job.yaml"};
  world.environment.Set("PATH", "/usr/bin:/bin");
  EXPECT_TRUE(world.StatusOf("-np 2 ./job.yml").ok());
  EXPECT_TRUE(world.StatusOf("-np 2 job.yaml").ok());
  EXPECT_TRUE(world.StatusOf("-np 2 python job.yaml").ok());
}

TEST(ResolveRunTest, ChecksTheVariablesOfX) {
  SpecWorld world;
  world.environment.Set("HERE", "1");
  EXPECT_EQ(*world.Resolve("-np 1 -x A=1 -x HERE -x E= ./t")->spec.env,
            (std::vector<std::string>{"A=1", "HERE", "E="}));
  EXPECT_EQ(world.StatusOf("-np 1 -x GONE ./t").message(),
            "flag -x: 'GONE' is not set in this environment");
  EXPECT_EQ(world.StatusOf("-np 1 -x =v ./t").message(),
            "flag -x must be NAME or NAME=VALUE, not '=v'");
}

TEST(ResolveRunTest, ChecksWhatEachValueMayBe) {
  const SpecWorld world;
  EXPECT_EQ(world.StatusOf("-np 1 --tag-output all ./t").message(),
            "flag --tag-output must be one of rank, host, none, not 'all'");
  EXPECT_EQ(world.StatusOf("-np 1 --print-plan=xml ./t").message(),
            "flag --print-plan must be one of text, json, not 'xml'");
  EXPECT_EQ(world.StatusOf("-np 1 --stdin first ./t").message(),
            "flag --stdin must be a rank or none, not 'first'");
  EXPECT_EQ(world.StatusOf("-np 2 --stdin 2 ./t").message(),
            "flag --stdin: there is no rank 2 among 2 workers");
  EXPECT_EQ(world.StatusOf("-np 1 --grace soon ./t").message(),
            "flag --grace must be a time such as 30, 0.5, 200ms or 2m, not 'soon'");
  EXPECT_EQ(world.StatusOf("-np 1 --network-interface eth0,,eth1 ./t").message(),
            "flag --network-interface must name network interfaces, not ''");
  EXPECT_EQ(world.StatusOf("-np 1 --ssh-port 70000 ./t").message(),
            "flag --ssh-port must be a whole number from 1 to 65535, not '70000'");
  EXPECT_EQ(world.StatusOf("-np 1 --report= ./t").message(), "flag --report must not be empty");
  EXPECT_FALSE(world.StatusOf("-np 1 --heartbeat-timeout 1 ./t").ok());
  EXPECT_FALSE(world.StatusOf("-np 1 --grace -1 ./t").ok());
}

TEST(ResolveRunTest, TakesAStartTimeoutOfZeroAsNotGiven) {
  SpecWorld world;
  EXPECT_EQ(*world.Resolve("-np 1 --start-timeout 0 ./t")->spec.start_timeout, seconds(30));
  world.environment.Set("HOROVOD_START_TIMEOUT", "77");
  const Result<RunRequest> request = world.Resolve("-np 1 --start-timeout 0 ./t");
  EXPECT_EQ(*request->spec.start_timeout, seconds(77));
  EXPECT_EQ(request->spec.start_timeout.origin(), "env HOROVOD_START_TIMEOUT");
}

}  // namespace
}  // namespace hvdray
