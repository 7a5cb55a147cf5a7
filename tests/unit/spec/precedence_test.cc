// SPDX-License-Identifier: Apache-2.0
// Which level wins, and what each level may hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

using std::chrono::seconds;
using HostList = std::vector<HostSlots>;

YamlNode Yaml(const std::string& text, const std::string& name) {
  Result<YamlNode> node = ParseYaml(text, name);
  EXPECT_TRUE(node.ok()) << node.status().ToString();
  return *node;
}

/// Levels from the highest: flag, environment, job file, run section, config file, user file.
struct Level {
  const char* grace_origin;
  const char* cache_origin;
  int value;
};
constexpr Level kLevels[] = {{"flag --grace", "flag --cache-capacity", 1},
                             {"env HVDRAY_GRACE", "env HVDRAY_CACHE_CAPACITY", 2},
                             {"job.yaml:1:8", "job.yaml:2:17", 3},
                             {"cluster.yaml:1:8", "cluster.yaml:2:17", 4},
                             {nullptr, "cfg.yaml:1:26", 5},
                             {"/u/hvdray/config.yaml:1:8", "/u/hvdray/config.yaml:2:17", 6}};

/// A world in which the levels of `mask` name both settings; returns the line to resolve.
std::string Prepare(unsigned mask, SpecWorld* world) {
  const auto text = [](int value) {
    return "grace: " + std::to_string(value) + "\ncache_capacity: " + std::to_string(value) + "\n";
  };
  std::string line = "-np 1 -f job.yaml --cluster cluster.yaml ";
  if (mask & 1) line += "--grace 1 --cache-capacity 1 ";
  if (mask & 2) {
    world->environment.Set("HVDRAY_GRACE", "2");
    world->environment.Set("HVDRAY_CACHE_CAPACITY", "2");
  }
  world->files["job.yaml"] = mask & 4 ? text(3) : "";
  ClusterHosts cluster{{{"h", 1}}, std::nullopt};
  if (mask & 8) cluster.run = Yaml(text(4), "cluster.yaml");
  world->clusters["cluster.yaml"] = cluster;
  if (mask & 16) {
    line += "--config-file cfg.yaml ";
    world->files["cfg.yaml"] = "params: {cache_capacity: 5}\n";
  }
  world->environment.Set("XDG_CONFIG_HOME", "/u");
  if (mask & 32) world->files["/u/hvdray/config.yaml"] = text(6);
  return line + "./t";
}

TEST(PrecedenceTest, TheHighestLevelThatNamesAnOptionWinsInEveryCombination) {
  for (unsigned mask = 0; mask < 64; ++mask) {
    SpecWorld world;
    const std::string line = Prepare(mask, &world);
    const Result<RunRequest> request = world.Resolve(line);
    ASSERT_TRUE(request.ok()) << mask << ": " << request.status().ToString();
    std::string grace_origin = "default";
    std::string cache_origin;
    for (int i = 5; i >= 0; --i) {
      if (!(mask >> i & 1u)) continue;
      cache_origin = kLevels[i].cache_origin;
      if (kLevels[i].grace_origin != nullptr) grace_origin = kLevels[i].grace_origin;
    }
    EXPECT_EQ(request->spec.grace.origin(), grace_origin) << mask;
    const auto cache = request->spec.tunables.find("HOROVOD_CACHE_CAPACITY");
    ASSERT_EQ(cache == request->spec.tunables.end(), cache_origin.empty()) << mask;
    if (cache_origin.empty()) continue;
    EXPECT_EQ(cache->second.origin(), cache_origin) << mask;
    const auto* level = std::find_if(std::begin(kLevels), std::end(kLevels), [&](const Level& one) {
      return one.cache_origin == cache_origin;
    });
    EXPECT_EQ(*cache->second, std::to_string(level->value)) << mask;
  }
}

TEST(PrecedenceTest, HorovodsVariablesComeAfterOurs) {
  SpecWorld world;
  world.environment.Set("HOROVOD_START_TIMEOUT", "7");
  world.environment.Set("HOROVOD_ELASTIC_TIMEOUT", "8");
  EXPECT_EQ(*world.Resolve("-np 1 ./t")->spec.start_timeout, seconds(7));
  EXPECT_EQ(*world.Resolve("-np 1 ./t")->spec.elastic_timeout, seconds(8));
  world.environment.Set("HVDRAY_START_TIMEOUT", "9");
  EXPECT_EQ(*world.Resolve("-np 1 ./t")->spec.start_timeout, seconds(9));
  EXPECT_EQ(*world.Resolve("-np 1 --start-timeout 3 ./t")->spec.start_timeout, seconds(3));
  world.files["job.yaml"] = "elastic_timeout: 1\n";
  EXPECT_EQ(*world.Resolve("-np 1 -f job.yaml ./t")->spec.elastic_timeout, seconds(8));
}

TEST(PrecedenceTest, AHigherLevelsHostsReplaceALowerLevelsWhateverTheirForm) {
  SpecWorld world;
  world.files["job.yaml"] = "hosts: a:1\n";
  world.files["hosts"] = "b slots=2\n";
  EXPECT_EQ(*world.Resolve("-f job.yaml ./t")->spec.hosts, (HostList{{"a", 1}}));
  EXPECT_EQ(*world.Resolve("-f job.yaml --hostfile hosts ./t")->spec.hosts, (HostList{{"b", 2}}));
  world.environment.Set("HVDRAY_HOSTS", "c:3");
  EXPECT_EQ(*world.Resolve("-f job.yaml ./t")->spec.hosts, (HostList{{"c", 3}}));
  world.environment.Set("HVDRAY_HOSTFILE", "hosts");
  EXPECT_EQ(world.StatusOf("./t").message(),
            "env HVDRAY_HOSTFILE is not allowed with env HVDRAY_HOSTS");
}

TEST(PrecedenceTest, TheVariablesOfAllLevelsAddUpAndTheHigherOneComesLast) {
  SpecWorld world;
  world.environment = Env({{"XDG_CONFIG_HOME", "/u"}, {"HVDRAY_ENV", "B=env"}});
  world.files["/u/hvdray/config.yaml"] = "env: {A: user, B: user}\n";
  world.files["job.yaml"] = "env: [A=job]\n";
  const Result<RunRequest> request = world.Resolve("-np 1 -f job.yaml -x A=flag ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.env,
            (std::vector<std::string>{"A=user", "B=user", "A=job", "B=env", "A=flag"}));
  const Environment worker = WorkerEnvironment(request->spec, world.environment, true);
  EXPECT_EQ(worker.Get("A"), "flag");
  EXPECT_EQ(worker.Get("B"), "env");
}

TEST(EnvironmentLevelTest, TakesEveryKindOfOption) {
  SpecWorld world;
  world.environment = Env({{"HVDRAY_NP", "2"},
                           {"HVDRAY_NO_PEER_CHECK", "1"},
                           {"HVDRAY_VERBOSE", "yes"},
                           {"HVDRAY_NETWORK_INTERFACE", "eth0,eth1"},
                           {"HVDRAY_BLACKLIST_COOLDOWN_RANGE", "10 20"},
                           {"HVDRAY_PRINT_PLAN", "1"},
                           {"HVDRAY_PRINT_CONFIG", "no"},
                           {"HVDRAY_QUIET", ""},
                           {"HVDRAY_MIN_NUM_PROC", "1"}});
  const Result<RunRequest> request = world.Resolve("-H a:2 ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.np, 2);
  EXPECT_EQ(request->spec.np.origin(), "env HVDRAY_NP");
  EXPECT_FALSE(*request->spec.is_peer_checked);
  EXPECT_TRUE(*request->spec.is_verbose);
  EXPECT_EQ(*request->spec.network_interfaces, (std::vector<std::string>{"eth0", "eth1"}));
  EXPECT_EQ(**request->spec.blacklist_cooldown_range, (std::pair<int, int>(10, 20)));
  EXPECT_EQ(*request->spec.print_plan, std::optional<PlanFormat>(PlanFormat::kText));
  EXPECT_FALSE(request->spec.print_config->has_value());
  EXPECT_TRUE(request->spec.is_quiet.is_default());
  EXPECT_EQ(*request->spec.min_np, std::optional<int>(1));
  EXPECT_TRUE(request->warnings.empty());
}

TEST(EnvironmentLevelTest, NamesTheVariableOfABadValue) {
  SpecWorld world;
  world.environment = Env({{"HVDRAY_GRACE", "soon"}});
  EXPECT_EQ(world.StatusOf("-np 1 ./t").message(),
            "env HVDRAY_GRACE must be a time such as 30, 0.5, 200ms or 2m, not 'soon'");
  world.environment = Env({{"HVDRAY_VERBOSE", "maybe"}});
  EXPECT_EQ(world.StatusOf("-np 1 ./t").message(),
            "env HVDRAY_VERBOSE must be true or false, not 'maybe'");
  world.environment = Env({{"HOROVOD_START_TIMEOUT", "x"}});
  EXPECT_EQ(world.StatusOf("-np 1 ./t").message().substr(0, 26), "env HOROVOD_START_TIMEOUT ");
}

TEST(EnvironmentLevelTest, WarnsOfUnknownNamesButNotOfItsOwn) {
  SpecWorld world;
  world.environment = Env({{"HVDRAY_GRCAE", "1"},
                           {"HVDRAY_WHATEVER_ELSE_THIS_IS", "1"},
                           {"HVDRAY_RANK", "3"},
                           {"HVDRAY_JOB_ID", "x"},
                           {"HVDRAY_GENERATION", "1"},
                           {"HVDRAYX", "1"}});
  EXPECT_EQ(world.Resolve("-np 1 ./t")->warnings,
            (std::vector<std::string>{
                "environment variable 'HVDRAY_GRCAE' is not known: did you mean HVDRAY_GRACE?",
                "environment variable 'HVDRAY_WHATEVER_ELSE_THIS_IS' is not known"}));
}

TEST(EnvironmentLevelTest, ManyUnknownNamesAreCounted) {
  SpecWorld world;
  for (const int more : {0, 3}) {
    for (int i = 0; i < 5 + more; ++i)
      world.environment.Set(fmt::format("HVDRAY_OTHERS_{}", i), "1");
    const std::vector<std::string> warnings = world.Resolve("-np 1 ./t")->warnings;
    ASSERT_EQ(warnings.size(), more == 0 ? 5U : 6U);
    EXPECT_EQ(warnings[4], "environment variable 'HVDRAY_OTHERS_4' is not known");
    if (more > 0) {
      EXPECT_EQ(warnings[5], "3 more environment variables HVDRAY_* are not known");
    }
  }
}

TEST(JobFileTest, HoldsAWholeJob) {
  SpecWorld world;
  world.files["job.yaml"] =
      "# a job\n"
      "command: [python, train.py, --lr, 0.1]\n"
      "np: 3\n"
      "hosts: [a:2, b:2]\n"
      "env:\n  OMP_NUM_THREADS: 2\n  QUOTED: \"a b\"\n  INHERITED:\n"
      "grace: 200ms\n"
      "timeout: 2h\n"
      "verbose: yes\n"
      "no_peer_check: true\n"
      "print_plan: json\n"
      "network_interfaces: [eth0]\n"
      "blacklist_cooldown_range: [1, 2]\n"
      "stdin: none\n"
      "cycle_time_ms: 3\n"
      "no_stall_check: true\n";
  world.environment.Set("INHERITED", "1");
  const Result<RunRequest> request = world.Resolve("-f job.yaml");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_EQ(*spec.command, (std::vector<std::string>{"python", "train.py", "--lr", "0.1"}));
  EXPECT_EQ(spec.command.origin(), "job.yaml:2:10");
  EXPECT_EQ(*spec.np, 3);
  EXPECT_EQ(spec.np.origin(), "job.yaml:3:5");
  EXPECT_EQ(*spec.hosts, (HostList{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(*spec.env, (std::vector<std::string>{"OMP_NUM_THREADS=2", "QUOTED=a b", "INHERITED"}));
  EXPECT_EQ(*spec.grace, std::chrono::milliseconds(200));
  EXPECT_EQ(*spec.timeout, seconds(7200));
  EXPECT_TRUE(*spec.is_verbose);
  EXPECT_FALSE(*spec.is_peer_checked);
  EXPECT_EQ(*spec.print_plan, std::optional<PlanFormat>(PlanFormat::kJson));
  EXPECT_EQ(*spec.tunables.at("HOROVOD_CYCLE_TIME"), "3.0");
  EXPECT_EQ(*spec.tunables.at("HOROVOD_STALL_CHECK_DISABLE"), "1");
  EXPECT_EQ(*world.Resolve("-f job.yaml ./other")->spec.command,
            (std::vector<std::string>{"./other"}));
}

TEST(JobFileTest, RunsATextThroughTheShell) {
  SpecWorld world;
  world.files["job.yaml"] = "np: 1\ncommand: echo $HOROVOD_RANK | cat\n";
  EXPECT_EQ(*world.Resolve("-f job.yaml")->spec.command,
            (std::vector<std::string>{"/bin/sh", "-c", "echo $HOROVOD_RANK | cat"}));
}

TEST(JobFileTest, NamesThePlaceOfEveryFault) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"grcae: 5\n", "job.yaml:1:1: unknown key 'grcae'"},
      {"np: 2\nnum_proc: 3\n", "job.yaml:2:1: 'num_proc' says again what job.yaml:1:5: np says"},
      {"np: 2\nnp: 3\n", "job.yaml:2:1: "},
      {"np: two\n", "job.yaml:1:5: "},
      {"np: 0\n", "job.yaml:1:5: "},
      {"np: \"2\"\n", "job.yaml:1:5: "},
      {"np: [2]\n", "job.yaml:1:5: "},
      {"verbose: 3\n", "job.yaml:1:10: "},
      {"grace: soon\n", "job.yaml:1:8: grace must be a time such as"},
      {"tag_output: all\n", "job.yaml:1:13: tag_output must be one of rank, host, none, not 'all'"},
      {"hosts: a\n", "job.yaml:1:8: hosts: Invalid host input"},
      {"hosts: a:1\nhostfile: f\n",
       "job.yaml:2:1: 'hostfile' is not allowed with job.yaml:1:8: hosts"},
      {"file: x\n", "job.yaml:1:1: 'file' cannot stand here"},
      {"grace:\n", "job.yaml:1:1: 'grace' has no value"},
      {"command: []\n", "job.yaml:1:10: command is empty"},
      {"command: {a: b}\n", "job.yaml:1:10: "},
      {"- a\n", "job.yaml:1:1: "},
      {"a: [\n", "job.yaml:"},
      {"env: {A: [1]}\n", "job.yaml:1:10: "},
      {"mpi: true\n", "job.yaml:1:6: mpi is not supported, because"},
      {"grace: -1\n", "job.yaml:1:8: grace must be"},
      {"blacklist_cooldown_range: [1]\n", "job.yaml:1:27: blacklist_cooldown_range must be two"},
      {"cache_capacity: -1\n", "job.yaml:1:17: "},
  };
  for (const auto& [text, message] : faults) {
    SpecWorld world;
    world.files["job.yaml"] = text;
    const Status status = world.StatusOf("-np 1 -f job.yaml ./t");
    // np of the flag would win, but a file is checked whole.
    EXPECT_TRUE(status.message().starts_with(message)) << text << " gave: " << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << text;
  }
}

TEST(JobFileTest, NamesTheNearestKey) {
  SpecWorld world;
  world.files["job.yaml"] = "max-restarts: 5\n";
  EXPECT_EQ(world.StatusOf("-f job.yaml").hint(), "did you mean max_restarts?");
  world.files["job.yaml"] = "comand: x\n";
  EXPECT_EQ(world.StatusOf("-f job.yaml").hint(), "did you mean command?");
}

TEST(JobFileTest, HasToBeThere) {
  EXPECT_EQ(SpecWorld().StatusOf("-f none.yaml").message(), "flag -f: no file 'none.yaml'");
  EXPECT_EQ(SpecWorld().StatusOf("-f none.yaml").code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(SpecWorld().StatusOf("-f= ./t").message(), "flag -f must not be empty");
}

TEST(ClusterFileTest, GivesHostsAndTheJob) {
  SpecWorld world;
  world.clusters["c.yaml"] = {{{"h1", 2}, {"h2", 2}}, Yaml("command: [./t]\nnp: 3\n", "c.yaml")};
  const Result<RunRequest> request = world.Resolve("--cluster c.yaml");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.np, 3);
  EXPECT_EQ(request->spec.hosts->size(), 2u);
  EXPECT_EQ(request->spec.hosts.origin(), "c.yaml");
  EXPECT_EQ(*world.Resolve("--cluster c.yaml -H x:3")->spec.hosts, (HostList{{"x", 3}}));
  world.clusters["c.yaml"].run = std::nullopt;
  EXPECT_EQ(*world.Resolve("--cluster c.yaml ./t")->spec.np, 4);
  EXPECT_EQ(world.StatusOf("--cluster c.yaml -np 5 ./t").code(), ErrorCode::kNotEnoughSlots);
  EXPECT_EQ(world.StatusOf("--cluster none.yaml ./t").code(), ErrorCode::kFileUnreadable);
}

TEST(ClusterFileTest, ItsRunSectionNamesNoHosts) {
  for (const char* text : {"hosts: a:1\n", "hostfile: f\n", "cluster: x\n", "file: y\n",
                           "host_discovery_script: d\n"}) {
    SpecWorld world;
    world.clusters["c.yaml"] = {{{"h", 1}}, Yaml(text, "c.yaml")};
    EXPECT_TRUE(world.StatusOf("--cluster c.yaml ./t").message().starts_with("c.yaml:1:1: '"))
        << text;
  }
}

TEST(UserFileTest, GivesDefaultsAndHoldsNoJob) {
  SpecWorld world;
  world.environment = Env({{"HOME", "/home/u"}});
  world.files["/home/u/.config/hvdray/config.yaml"] = "color: never\n";
  EXPECT_EQ(*world.Resolve("-np 1 ./t")->spec.color, ColorMode::kNever);
  world.files["/home/u/.config/hvdray/config.yaml"] = "command: [x]\n";
  EXPECT_EQ(world.StatusOf("-np 1 ./t").message(),
            "/home/u/.config/hvdray/config.yaml:1:1: a user's defaults cannot hold a command");
  world.environment.Set("XDG_CONFIG_HOME", "relative");
  EXPECT_FALSE(world.StatusOf("-np 1 ./t").ok()) << "a relative XDG_CONFIG_HOME does not count";
  world.environment.Set("XDG_CONFIG_HOME", "/elsewhere");
  EXPECT_TRUE(world.StatusOf("-np 1 ./t").ok());
}

}  // namespace
}  // namespace hvdray
