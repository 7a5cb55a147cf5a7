// SPDX-License-Identifier: Apache-2.0
// From a command line, variables and files to a spec: values, defaults, ranges, which level wins,
// and random input; the same for hvdray check. Not here: hosts, elastic jobs
// (spec_builder_test.cc), Ray (ray_options_test.cc), Horovod's tunables (horovod_options_test.cc),
// the real file system.
#include "launcher/job/options_resolver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "launcher/job/argv.h"
#include "launcher/job/option_table.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/spec.txt");

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
  EXPECT_EQ(*spec.grace, seconds(30)) << "torchrun's";
  EXPECT_TRUE(*spec.is_peer_checked);
  EXPECT_TRUE(*spec.is_torch_env);
  EXPECT_FALSE(*spec.has_channel);
  EXPECT_TRUE(spec.tunables.empty());
  EXPECT_FALSE(spec.is_elastic());
  EXPECT_TRUE(request->warnings.empty());
}

TEST(ResolveRunTest, PreloadTakesModulesForAPythonCommandAlone) {
  EXPECT_TRUE(SpecWorld().Resolve("-np 1 python3 train.py")->spec.preload->empty());
  const auto listed =
      SpecWorld().Resolve("-np 1 --preload torch,horovod.torch --preload torch,np python3 t.py");
  ASSERT_TRUE(listed.ok()) << listed.status().ToString();
  EXPECT_EQ(*listed->spec.preload, (std::vector<std::string>{"torch", "horovod.torch", "np"}));
  const std::pair<const char*, const char*> refused[] = {
      {"-np 1 --preload torch ./t", "flag --preload: ./t is not Python"},
      {"-np 1 --preload torch python3 -V", "flag --preload: python3 -V runs no program"},
      {"-np 1 --preload auto,torch python3 t.py", "--preload: auto must stand alone"},
      {"-np 1 --preload a,,b python3 t.py", "is not a module name"},
      {"-np 1 --preload ../x python3 t.py", "is not a module name"},
  };
  for (const auto& [words, message] : refused) {
    const Status status = SpecWorld().Resolve(words).status();
    EXPECT_EQ(status.code(), ErrorCode::kUsage) << words;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

// A path that no shell has expanded: behind '=', in a variable, in a file.
std::vector<std::string> PathsOf(const JobSpec& spec) {
  std::vector<std::string> paths = {*spec.working_directory, *spec.output_filename,
                                    *spec.report_file,       *spec.events_file,
                                    *spec.junit_file,        *spec.trace_file,
                                    *spec.ssh_identity_file, *spec.ssh_config_file};
  for (const SyncWord& word : *spec.sync) paths.push_back(SyncText(word));
  for (const char* name : {"HOROVOD_TIMELINE", "HOROVOD_AUTOTUNE_LOG"}) {
    const auto found = spec.tunables.find(name);
    if (found != spec.tunables.end()) paths.push_back(*found->second);
  }
  return paths;
}

constexpr const char* kPathOptions[] = {"cwd",
                                        "output-filename",
                                        "report",
                                        "events",
                                        "junit",
                                        "trace",
                                        "ssh-identity-file",
                                        "ssh-config",
                                        "sync",
                                        "timeline-filename",
                                        "autotune-log-file"};

void ExpectAtHome(const Result<RunRequest>& request, const std::string& path) {
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const std::vector<std::string> paths = PathsOf(request->spec);
  EXPECT_EQ(paths.size(), std::size(kPathOptions));
  for (const std::string& found : paths) EXPECT_EQ(found, path);
}

TEST(ResolveRunTest, PutsTheHomeDirectoryInPlaceOfATildeWhateverSaysThePath) {
  for (const auto& [written, path] :
       {std::pair("~/a b", "/home/me/a b"), std::pair("~u/a b", "/home/u/a b")}) {
    SpecWorld world{.environment = Env({{"HOME", "/home/me"}})};
    std::vector<std::string> flags = {"-np", "1", "--autotune"};
    std::map<std::string, std::string> variables = {{"HOME", "/home/me"}};
    std::string file = "num_proc: 1\nautotune: true\ncommand: [./t]\n";
    for (const std::string option : kPathOptions) {
      flags.push_back(fmt::format("--{}={}", option, written));
      std::string key = option;
      std::replace(key.begin(), key.end(), '-', '_');
      variables[VariableOfKey(key)] = written;
      file += fmt::format("{}: \"{}\"\n", key, written);
    }
    flags.emplace_back("./t");
    const auto resolve = [](const SpecWorld& seen, const std::vector<std::string>& words) {
      ResolverFiles files = seen.Files();
      files.home_of = [](const std::string& user) {
        return "/home/" + (user.empty() ? "me" : user);
      };
      return ResolveRun(words, seen.environment, files);
    };
    ExpectAtHome(resolve(world, flags), path);
    world.files = {{"/home/me/job.yaml", file}, {"/home/me/.config/hvdray/config.yaml", ""}};
    ExpectAtHome(resolve(world, {"-f", "~/job.yaml"}), path);
    world.environment = Environment(variables);
    ExpectAtHome(resolve(world, {"-np", "1", "--autotune", "./t"}), path);
  }
}

TEST(ResolveRunTest, ATildeStaysInWhatIsNoPathHere) {
  SpecWorld world{.environment =
                      Env({{"HOME", "/home/me"}, {"HVDRAY_AGENT_PATH", "x86_64=~/a,b=~/b"}})};
  const Result<RunRequest> request =
      world.Resolve("-np 1 -x A=~/a --remote-dir=~/cache --report=~nobody/r ~/t ~/u");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_EQ(*spec.remote_directory, "~/cache") << "it is the home directory there";
  EXPECT_EQ(*spec.report_file, "~nobody/r") << "nobody knows that user";
  EXPECT_EQ(*spec.agent_path, "x86_64=/home/me/a,b=/home/me/b");
  EXPECT_EQ(*spec.env, (std::vector<std::string>{"A=~/a"}));
  EXPECT_EQ(*spec.command, (std::vector<std::string>{"~/t", "~/u"}));
}

TEST(ResolveRunTest, NoShellHasExpandedTheProgramOfAJobFile) {
  SpecWorld world{.environment = Env({{"HOME", "/home/me"}})};
  for (const auto& [command, expanded] :
       {std::pair("[~/t, ~/u]", std::vector<std::string>{"/home/me/t", "~/u"}),
        std::pair("[python3, -u, ~/t.py, ~/u]",
                  std::vector<std::string>{"python3", "-u", "/home/me/t.py", "~/u"}),
        std::pair("~/t ~/u", std::vector<std::string>{"/bin/sh", "-c", "~/t ~/u"})}) {
    world.files["job.yaml"] = fmt::format("num_proc: 1\ncommand: {}\n", command);
    const Result<RunRequest> request = world.Resolve("-f job.yaml");
    ASSERT_TRUE(request.ok()) << request.status().ToString();
    EXPECT_EQ(*request->spec.command, expanded);
  }
}

TEST(ResolveRunTest, TheConfigFilesPathsHaveAHomeToo) {
  SpecWorld world{.environment = Env({{"HOME", "/home/me"}})};
  world.files["/home/me/c.yaml"] =
      "autotune: {enabled: true, log_file: ~/log}\ntimeline: {filename: ~/line}\n";
  const Result<RunRequest> request = world.Resolve("-np 1 --config-file=~/c.yaml ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(*request->spec.tunables.at("HOROVOD_AUTOTUNE_LOG"), "/home/me/log");
  EXPECT_EQ(*request->spec.tunables.at("HOROVOD_TIMELINE"), "/home/me/line");
}

TEST(ResolveRequestTest, ArgumentsThatArePathsHereHaveAHome) {
  const Environment environment = Env({{"HOME", "/home/me"}});
  const auto arguments = [&](std::string_view command, const std::string& line) {
    return ResolveRequest(command, Words(line), environment)->arguments;
  };
  using Arguments = std::vector<std::string>;
  EXPECT_EQ(arguments("up", "~/c.yaml"), Arguments{"/home/me/c.yaml"});
  EXPECT_EQ(arguments("replay", "~/r"), Arguments{"/home/me/r"});
  EXPECT_EQ(arguments("cluster", "config ~/c.yaml"), (Arguments{"config", "/home/me/c.yaml"}));
  EXPECT_EQ(arguments("exec", "~/c.yaml ~/run"), (Arguments{"/home/me/c.yaml", "~/run"}));
  EXPECT_EQ(arguments("rsync-up", "~/c ~/s ~/t"), (Arguments{"/home/me/c", "/home/me/s", "~/t"}));
  EXPECT_EQ(arguments("rsync-down", "~/c ~/s ~/t"), (Arguments{"/home/me/c", "~/s", "/home/me/t"}));
}

TEST(ResolveRunTest, DevelopersHaveVariablesButNoFlagsAndKeys) {
  SpecWorld world{.environment = Env({{"HVDRAY_KV_HOLD", "60"},
                                      {"HVDRAY_AGENT_PATH", "/opt/agent"},
                                      {"HVDRAY_FORCE_REMOTE", "1"},
                                      {"HVDRAY_SSH_CONNECTIONS", "8"}})};
  const Result<RunRequest> request = world.Resolve("-np 1 ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_EQ(*spec.kv_hold, seconds(60));
  EXPECT_EQ(*spec.agent_path, "/opt/agent");
  EXPECT_TRUE(*spec.is_remote_forced);
  EXPECT_EQ(*spec.ssh_connections, 8);
  EXPECT_EQ(request->warnings, std::vector<std::string>());
  world.files["job.yaml"] = "np: 1\nkv_hold: 1\ncommand: [./t]\n";
  const Status key = world.Resolve("-f job.yaml").status();
  EXPECT_EQ(key.code(), ErrorCode::kSpecInvalid);
  EXPECT_NE(key.hint().find("HVDRAY_KV_HOLD"), std::string::npos) << key.ToString();
  const Status flag = world.Resolve("-np 1 --ssh-connections 8 ./t").status();
  EXPECT_EQ(flag.code(), ErrorCode::kUsage);
  EXPECT_NE(flag.hint().find("HVDRAY_SSH_CONNECTIONS"), std::string::npos) << flag.ToString();
}

TEST(ResolveRunTest, ReadsEveryOptionThatStandsAlone) {
  const Result<RunRequest> request = SpecWorld().Resolve(
      "-np 2 --cwd /data --clean-env --no-torch-env --channel --network-interface eth0,eth1 "
      "--network-interfaces eth1 --start-timeout 2m --elastic-timeout 90 --grace 200ms "
      "--timeout 1.5h --heartbeat-timeout 20 --max-restarts 3 --stdin 1 "
      "--tag-output host -prefix-timestamp --output-filename out --color never -q --verbose "
      "--log-json --report r.json --events e.jsonl --junit j.xml --trace t.json "
      "--master-port 29500 --no-peer-check -p 2222 -i key --dry-run "
      "--print-plan=json --print-config --disable-cache --gloo ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const JobSpec& spec = request->spec;
  EXPECT_EQ(*spec.working_directory, "/data");
  EXPECT_TRUE(*spec.is_clean_env);
  EXPECT_FALSE(*spec.is_torch_env);
  EXPECT_TRUE(*spec.has_channel);
  EXPECT_EQ(*spec.network_interfaces, (std::vector<std::string>{"eth0", "eth1"}));
  EXPECT_EQ(*spec.start_timeout, seconds(120));
  EXPECT_EQ(*spec.elastic_timeout, seconds(90));
  EXPECT_EQ(*spec.grace, milliseconds(200));
  EXPECT_EQ(*spec.timeout, seconds(5400));
  EXPECT_EQ(*spec.heartbeat_timeout, seconds(20));
  EXPECT_EQ(*spec.max_restarts, 3);
  EXPECT_EQ(*spec.stdin_rank, std::optional<int>(1));
  EXPECT_EQ(*spec.tag_output, TagOutput::kHost);
  EXPECT_TRUE(*spec.is_timestamped);
  EXPECT_EQ(*spec.output_filename, "out");
  EXPECT_EQ(*spec.color, ColorMode::kNever);
  EXPECT_TRUE(*spec.is_quiet && *spec.is_verbose && *spec.is_log_json && *spec.is_dry_run);
  EXPECT_EQ(*spec.report_file, "r.json");
  EXPECT_EQ(*spec.events_file, "e.jsonl");
  EXPECT_EQ(*spec.junit_file, "j.xml");
  EXPECT_EQ(*spec.trace_file, "t.json");
  EXPECT_EQ(*spec.master_port, 29500);
  EXPECT_FALSE(*spec.is_peer_checked);
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
  EXPECT_EQ(SpecWorld().ExpectRefused("./t", ""), "-np N");
  SpecWorld().ExpectRefused("-H a:0 ./t", "flag -H");
}

TEST(ResolveRunTest, RefusesMoreWorkersThanSlotsInHorovodsWords) {
  const Status status = SpecWorld().ToStatus("-np 3 -H a:2 ./t");
  EXPECT_EQ(status.code(), ErrorCode::kNotEnoughSlots);
  // Scripts may look for Horovod's words.
  EXPECT_EQ(status.message(),
            "flag -np: Requested more processes (3) than there are available slots (2)");
  EXPECT_TRUE(SpecWorld().ToStatus("-np 2 -H a:3 ./t").ok()) << "-np caps";
}

TEST(ResolveRunTest, RefusesANumberOfWorkersThatMakesNoSense) {
  for (const char* bad : {"0", "-1", "65537", "two", "99999999999999999999", "1.5", "0x2"}) {
    SpecWorld().ExpectRefused(std::string("-np ") + bad + " ./t", "flag -np");
  }
  EXPECT_FALSE(SpecWorld().ToStatus("-np= ./t").ok());
}

TEST(ResolveRunTest, ReadsHostFiles) {
  SpecWorld world;
  world.files["hosts"] = "# two\n\na slots=2\nb slots=1\n";
  world.files["bad"] = "a slots=2\n???\n";
  EXPECT_EQ(*world.Resolve("-hostfile hosts ./t")->spec.hosts, (HostList{{"a", 2}, {"b", 1}}));
  world.ExpectRefused("--hostfile bad ./t", "bad:2:1", ErrorCode::kSpecInvalid);
  world.ExpectRefused("--hostfile none ./t", "flag --hostfile", ErrorCode::kFileUnreadable);
}

TEST(ResolveRunTest, RefusesABadHostList) {
  for (const char* bad : {"a", "a:2,", "a:x", "::1:2", "a:2,a:1", "a:-1"}) {
    SpecWorld().ExpectRefused(std::string("-np 1 -H ") + bad + " ./t", "flag -H",
                              ErrorCode::kSpecInvalid);
  }
}

TEST(ResolveRunTest, RefusesTwoThatExcludeEachOther) {
  const SpecWorld world;
  world.ExpectRefused("-np 1 -H a:1 --hostfile f ./t", "flag --hostfile");
  world.ExpectRefused("-np 1 --log-without-timestamp -prefix-timestamp ./t",
                      "flag --log-without-timestamp");
  world.ExpectRefused("-np 1 --log-with-timestamp --log-without-timestamp ./t",
                      "flag --log-without-timestamp");
  world.ExpectRefused("-np 1 --torus-allreduce --no-torus-allreduce ./t",
                      "flag --no-torus-allreduce");
  EXPECT_FALSE(world.ToStatus("-np 1 --gloo --mpi ./t").ok());
  EXPECT_TRUE(world.ToStatus("-np 1 --log-hide-timestamp --log-without-timestamp ./t").ok());
}

TEST(ResolveRunTest, TakesAnEmptyWordAsNotGivenWhereHorovodrunDoes) {
  const Result<RunRequest> request =
      SpecWorld().Resolve("-np 2 --output-filename= -i= --config-file= ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_TRUE(request->spec.output_filename->empty());
  EXPECT_EQ(*request->spec.hosts, (HostList{{"localhost", 2}}));
}

TEST(ResolveRunTest, AnEmptyListOfHostsIsNotThisMachine) {
  SpecWorld().ExpectRefused("-np 2 --hosts= ./t", "flag --hosts");
  SpecWorld().ExpectRefused("-np 2 -H a:2 -H= ./t", "flag -H");
  SpecWorld().ExpectRefused("-np 2 --hostfile= ./t", "flag --hostfile");
  SpecWorld().ExpectRefused("-np 2 --host-discovery-script= ./t", "flag --host-discovery-script");
}

TEST(ResolveRunTest, OneJobFileDoesNotHideAnother) {
  SpecWorld world;
  world.files["a.yaml"] = world.files["b.yaml"] = "num_proc: 1\n";
  world.ExpectRefused("-f a.yaml -f b.yaml ./t", "flag -f is given twice");
  world.ExpectRefused("-f a.yaml --file b.yaml ./t", "flag --file is given twice");
  EXPECT_TRUE(world.ToStatus("-f a.yaml -f a.yaml ./t").ok());
  world.ExpectRefused("--cluster c.yaml --cluster d.yaml ./t", "flag --cluster is given twice");
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
  world.ExpectRefused("-np 4 --min-np 5 --max-np 4 -H a:9 ./t", "flag --min-np");
  const Result<RunRequest> not_elastic = world.Resolve("-np 4 --max-np 8 ./t");
  ASSERT_TRUE(not_elastic.ok());
  EXPECT_FALSE(not_elastic->spec.is_elastic());
  world.ExpectWarned("-np 4 --max-np 8 ./t", {"flag --max-np"});
  EXPECT_EQ(world.ToStatus("--host-discovery-script d ./t").hint(), "-np N");
  world.ExpectRefused("-np 2 --min-np 1 --blacklist-cooldown-range 100 10 ./t",
                      "flag --blacklist-cooldown-range");
  world.ExpectRefused("-np 2 --min-np 1 --blacklist-cooldown-range -1 10 ./t",
                      "flag --blacklist-cooldown-range");
  world.ExpectRefused("-np 2 --min-np 1 --reset-limit -1 ./t", "flag --reset-limit");
  world.ExpectRefused("-np 2 --min-np 0 ./t", "flag --min-np");
}

TEST(ResolveRunTest, SaysWhyMpiIsNotSupported) {
  for (const char* flags : {"--mpi", "--jsrun", "--mpi-args=-x", "--binding-args x"}) {
    const std::string word(flags);
    SpecWorld().ExpectRefused("-np 1 " + word + " ./t",
                              "flag " + word.substr(0, word.find_first_of("= ")),
                              ErrorCode::kNotSupported);
  }
}

TEST(ResolveRunTest, WantsACommandUnlessNothingRuns) {
  SpecWorld().ExpectRefused("-np 2", "");
  SpecWorld().ExpectRefused("-np 2 --", "");
  EXPECT_TRUE(SpecWorld().ToStatus("-np 2 --dry-run").ok());
  EXPECT_TRUE(SpecWorld().ToStatus("-np 2 --print-config").ok());
  EXPECT_FALSE(SpecWorld().Resolve(std::vector<std::string>{"-np", "2", ""}).ok());
}

TEST(ResolveRunTest, TakesAYamlFileForASlipUnlessItIsAProgram) {
  SpecWorld world;
  const std::string hint = world.ExpectRefused("-np 2 job.yaml", "'job.yaml'");
  EXPECT_NE(hint.find("-f job.yaml"), std::string::npos) << hint;
  EXPECT_NE(hint.find("--cluster job.yaml"), std::string::npos) << hint;
  EXPECT_FALSE(world.ToStatus("-np 2 ./job.yml").ok());
  world.executables = {"./job.yml", "/bin/job.yaml"};
  world.environment.Set("PATH", "/usr/bin:/bin");
  EXPECT_TRUE(world.ToStatus("-np 2 ./job.yml").ok());
  EXPECT_TRUE(world.ToStatus("-np 2 job.yaml").ok());
  EXPECT_TRUE(world.ToStatus("-np 2 python job.yaml").ok());
}

TEST(ResolveRunTest, NamesTheSlipInTheFirstWordOfACommand) {
  SpecWorld world;
  world.environment.Set("PATH", "/bin");
  world.executables = {"/bin/python"};
  const auto hint = [&world](const std::string& word) {
    return world.Resolve(std::vector<std::string>{"-np", "2", "--", word, "x"}).status().hint();
  };
  EXPECT_NE(hint("python train.py").find("leave out the quotes"), std::string::npos);
  EXPECT_NE(hint("-m").find("python3 -m"), std::string::npos);
  EXPECT_NE(hint("b:4").find("-H a:4,b:4"), std::string::npos);
  for (const char* word : {"python", "pythin train.py", "b:c", ":4", "/b:4"}) {
    EXPECT_EQ(hint(word), "") << word;
  }
  world.executables.insert({"/bin/b:4", "/bin/-m"});
  for (const char* word : {"b:4", "-m"}) EXPECT_EQ(hint(word), "") << word;
  // The slip is the cause, not the number of workers that it hides.
  world.ExpectRefused("job.yaml", "'job.yaml'");
}

TEST(ResolveRunTest, ChecksTheVariablesOfX) {
  SpecWorld world;
  world.environment.Set("HERE", "1");
  EXPECT_EQ(*world.Resolve("-np 1 -x A=1 -x HERE -x E= ./t")->spec.env,
            (std::vector<std::string>{"A=1", "HERE", "E="}));
  world.ExpectRefused("-np 1 -x GONE ./t", "flag -x");
  world.ExpectRefused("-np 1 -x =v ./t", "flag -x");
}

TEST(ResolveRunTest, ChecksWhatEachValueMayBe) {
  const SpecWorld world;
  world.ExpectRefused("-np 1 --tag-output all ./t", "flag --tag-output");
  world.ExpectRefused("-np 1 --print-plan=xml ./t", "flag --print-plan");
  world.ExpectRefused("-np 1 --stdin first ./t", "flag --stdin");
  world.ExpectRefused("-np 2 --stdin 2 ./t", "flag --stdin");
  world.ExpectRefused("-np 2 --min-np 1 --max-np 3 --stdin 3 ./t", "flag --stdin");
  EXPECT_TRUE(world.ToStatus("-np 2 --min-np 1 --max-np 3 --stdin 2 ./t").ok());
  world.ExpectRefused("-np 1 --grace soon ./t", "flag --grace");
  world.ExpectRefused("-np 1 --network-interface eth0,,eth1 ./t", "flag --network-interface");
  world.ExpectRefused("-np 1 --ssh-port 70000 ./t", "flag --ssh-port");
  world.ExpectRefused("-np 1 --report= ./t", "flag --report");
  world.ExpectRefused("-np 1 --heartbeat-timeout 1 ./t", "flag --heartbeat-timeout");
  world.ExpectRefused("-np 1 --grace -1 ./t", "flag --grace");
}

TEST(ResolveRunTest, TakesAStartTimeoutOfZeroAsNotGiven) {
  SpecWorld world;
  EXPECT_EQ(*world.Resolve("-np 1 --start-timeout 0 ./t")->spec.start_timeout, seconds(30));
  world.environment.Set("HOROVOD_START_TIMEOUT", "77");
  const Result<RunRequest> request = world.Resolve("-np 1 --start-timeout 0 ./t");
  EXPECT_EQ(*request->spec.start_timeout, seconds(77));
  EXPECT_EQ(request->spec.start_timeout.origin(), "env HOROVOD_START_TIMEOUT");
}

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
  world.ExpectRefused("./t", "env HVDRAY_HOSTFILE");
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
  world.ExpectRefused("-np 1 ./t", "env HVDRAY_GRACE");
  world.environment = Env({{"HVDRAY_VERBOSE", "maybe"}});
  world.ExpectRefused("-np 1 ./t", "env HVDRAY_VERBOSE");
  world.environment = Env({{"HOROVOD_START_TIMEOUT", "x"}});
  world.ExpectRefused("-np 1 ./t", "env HOROVOD_START_TIMEOUT");
}

TEST(EnvironmentLevelTest, WarnsOfUnknownNamesButNotOfItsOwn) {
  SpecWorld world;
  world.environment = Env({{"HVDRAY_GRCAE", "1"},
                           {"HVDRAY_WHATEVER_ELSE_THIS_IS", "1"},
                           {"HVDRAY_RANK", "3"},
                           {"HVDRAY_JOB_ID", "x"},
                           {"HVDRAY_GENERATION", "1"},
                           {"HVDRAY_CHANNEL_FD", "4"},
                           {"HVDRAYX", "1"}});
  const std::vector<std::string> warnings = world.Resolve("-np 1 ./t")->warnings;
  ExpectWarnings("HVDRAY_GRCAE=1 HVDRAY_WHATEVER_ELSE_THIS_IS=1", warnings, {"", ""});
  EXPECT_NE(warnings.at(0).find("'HVDRAY_GRCAE'"), std::string::npos) << warnings[0];
  EXPECT_TRUE(warnings.at(0).ends_with("HVDRAY_GRACE?")) << warnings[0];
  EXPECT_TRUE(warnings.at(1).ends_with("'HVDRAY_WHATEVER_ELSE_THIS_IS'")) << warnings[1];
}

TEST(EnvironmentLevelTest, ManyUnknownNamesAreCounted) {
  SpecWorld world;
  for (const int more : {0, 3}) {
    for (int i = 0; i < 5 + more; ++i)
      world.environment.Set(fmt::format("HVDRAY_OTHERS_{}", i), "1");
    const std::vector<std::string> warnings = world.Resolve("-np 1 ./t")->warnings;
    ASSERT_EQ(warnings.size(), more == 0 ? 5U : 6U);
    EXPECT_TRUE(warnings[4].ends_with("'HVDRAY_OTHERS_4'")) << warnings[4];
    if (more > 0) ExpectWarnings("8 unknown variables", {warnings[5]}, {"3 more"});
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
      {"grcae: 5\n", "job.yaml:1:1"},
      {"np: 2\nnum_proc: 3\n", "job.yaml:2:1"},
      {"np: 2\nnp: 3\n", "job.yaml:2:1"},
      {"np: two\n", "job.yaml:1:5"},
      {"np: 0\n", "job.yaml:1:5"},
      {"np: \"2\"\n", "job.yaml:1:5"},
      {"np: [2]\n", "job.yaml:1:5"},
      {"verbose: 3\n", "job.yaml:1:10"},
      {"grace: soon\n", "job.yaml:1:8"},
      {"tag_output: all\n", "job.yaml:1:13"},
      {"hosts: a\n", "job.yaml:1:8"},
      {"hosts: a:1\nhostfile: f\n", "job.yaml:2:1"},
      {"file: x\n", "job.yaml:1:1"},
      {"grace:\n", "job.yaml:1:1"},
      {"cwd: ~\n", "job.yaml:1:1"},
      {"command: []\n", "job.yaml:1:10"},
      {"command: {a: b}\n", "job.yaml:1:10"},
      {"- a\n", "job.yaml:1:1"},
      {"a: [\n", "job.yaml:2:1"},
      {"env: {A: [1]}\n", "job.yaml:1:10"},
      {"env: {A=B: c}\n", "job.yaml:1:12"},
      {"mpi: true\n", "job.yaml:1:6"},
      {"grace: -1\n", "job.yaml:1:8"},
      {"blacklist_cooldown_range: [1]\n", "job.yaml:1:27"},
      {"cache_capacity: -1\n", "job.yaml:1:17"},
  };
  for (const auto& [text, place] : faults) {
    SpecWorld world;
    world.files["job.yaml"] = text;
    // np of the flag would win, but a file is checked whole.
    const std::string line = "-np 1 -f job.yaml ./t";
    const Status status = world.ToStatus(line);
    ExpectFault(world.InputOf(line), status, status.code(), place);
    EXPECT_TRUE(status.code() == ErrorCode::kSpecInvalid || status.code() == ErrorCode::kUsage ||
                status.code() == ErrorCode::kNotSupported)
        << status.ToString();
  }
}

TEST(JobFileTest, NamesTheNearestKey) {
  SpecWorld world;
  world.files["job.yaml"] = "max-restarts: 5\n";
  EXPECT_NE(world.ToStatus("-f job.yaml").hint().find("max_restarts?"), std::string::npos);
  world.files["job.yaml"] = "comand: x\n";
  EXPECT_NE(world.ToStatus("-f job.yaml").hint().find("command?"), std::string::npos);
}

TEST(JobFileTest, HasToBeThere) {
  SpecWorld().ExpectRefused("-f none.yaml", "flag -f", ErrorCode::kFileUnreadable);
  SpecWorld().ExpectRefused("-f= ./t", "flag -f");
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
  EXPECT_EQ(world.ToStatus("--cluster c.yaml -np 5 ./t").code(), ErrorCode::kNotEnoughSlots);
  EXPECT_EQ(world.ToStatus("--cluster none.yaml ./t").code(), ErrorCode::kFileUnreadable);
}

TEST(ClusterFileTest, ItsRunSectionNamesNoHosts) {
  for (const char* text : {"hosts: a:1\n", "hostfile: f\n", "cluster: x\n", "file: y\n",
                           "host_discovery_script: d\n"}) {
    SpecWorld world;
    world.clusters["c.yaml"] = {{{"h", 1}}, Yaml(text, "c.yaml")};
    const Status status = world.ToStatus("--cluster c.yaml ./t");
    ExpectFault(text, status, ErrorCode::kSpecInvalid, "c.yaml:1:1");
  }
}

TEST(UserFileTest, GivesDefaultsAndHoldsNoJob) {
  SpecWorld world;
  world.environment = Env({{"HOME", "/home/u"}});
  world.files["/home/u/.config/hvdray/config.yaml"] = "color: never\n";
  EXPECT_EQ(*world.Resolve("-np 1 ./t")->spec.color, ColorMode::kNever);
  world.files["/home/u/.config/hvdray/config.yaml"] = "command: [x]\n";
  world.ExpectRefused("-np 1 ./t", "/home/u/.config/hvdray/config.yaml:1:1",
                      ErrorCode::kSpecInvalid);
  world.environment.Set("XDG_CONFIG_HOME", "relative");
  EXPECT_FALSE(world.ToStatus("-np 1 ./t").ok()) << "a relative XDG_CONFIG_HOME does not count";
  world.environment.Set("XDG_CONFIG_HOME", "/elsewhere");
  EXPECT_TRUE(world.ToStatus("-np 1 ./t").ok());
}

Result<CheckRequest> Check(const SpecWorld& world, const std::string& line) {
  return ResolveCheck(Words(line), world.environment, world.Files());
}

TEST(CheckOptionsTest, TheWordsOfAJobAreTakenAsTheyAre) {
  const SpecWorld world;
  const auto request = Check(world,
                             "-np 3 -H a:2,b:2 -i key -p 22 -x A=1 --report r --timeout 5m "
                             "--fusion-threshold-mb 3 python train.py --json");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_FALSE(request->is_json) << "a word of the command";
  EXPECT_EQ(*request->run.spec.np, 3);
  EXPECT_EQ(request->run.spec.hosts->size(), 2U);
  EXPECT_EQ(request->run.spec.command->back(), "--json");
  EXPECT_TRUE(request->slots.ok());
}

TEST(CheckOptionsTest, NeitherACommandNorANumberIsNeeded) {
  const SpecWorld world;
  const auto hosts = Check(world, "-H a:2,b:2 --json");
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_TRUE(hosts->is_json);
  EXPECT_EQ(*hosts->run.spec.np, 4);
  const auto nothing = Check(world, "");
  ASSERT_TRUE(nothing.ok()) << nothing.status().ToString();
  EXPECT_EQ(nothing->run.spec.hosts->at(0).host, "localhost");
  EXPECT_EQ(*nothing->run.spec.np, 1);
}

TEST(CheckOptionsTest, ModulesToImportAreAListWithoutDoubles) {
  const SpecWorld world;
  const auto request = Check(world, "--import torch,horovod.torch --import=numpy,torch -H a:1");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->modules, (std::vector<std::string>{"torch", "horovod.torch", "numpy"}));
  for (const char* wrong : {"--import torch,,numpy", "--import .torch", "--import a-b",
                            "--import os;x", "--import torch."}) {
    const auto refused = Check(world, std::string(wrong) + " -H a:1");
    ExpectFault(wrong, refused.status(), ErrorCode::kUsage, "flag --import");
  }
}

TEST(CheckOptionsTest, TooFewSlotsAreToldBesideTheRest) {
  const SpecWorld world;
  const auto request = Check(world, "-np 9 -H a:2,b:2 -- train");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->slots.code(), ErrorCode::kNotEnoughSlots);
  EXPECT_EQ(request->slots.message(), world.ToStatus("-np 9 -H a:2,b:2 -- train").message());
}

TEST(CheckOptionsTest, HostsOfABatchSystemAndOfAJobFileCount) {
  SpecWorld world;
  world.files["job.yaml"] = "hosts: [a:1, b:1]\ncommand: [train]\n";
  const auto file = Check(world, "-f job.yaml");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->run.spec.command->front(), "train");
  world.environment = Env({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "2(x3)"}});
  const auto slurm = Check(world, "-np 7");
  ASSERT_TRUE(slurm.ok()) << slurm.status().ToString();
  EXPECT_EQ(slurm->run.spec.hosts->size(), 3U);
  EXPECT_NE(slurm->slots.hint().find("-H localhost:7"), std::string::npos);
}

TEST(CheckOptionsTest, WhatIsWrongForRunIsWrongHere) {
  const SpecWorld world;
  for (const char* line : {"-H a", "-H a:1 --hostfile x", "-H a:1 --no-such-option", "-np many",
                           "-H a:1 --jsonn", "-H a:1,a:1", "-H a:0", "-f none.yaml", "--mpi"}) {
    const auto request = Check(world, line);
    EXPECT_FALSE(request.ok()) << line;
  }
  EXPECT_EQ(Check(world, "--jsno").status().hint(), "did you mean --json?");
}

TEST(CheckOptionsTest, WhatAsksForAPlanIsRefused) {
  const SpecWorld world;
  for (const char* line : {"-np 1 --dry-run", "-np 1 --print-plan", "-np 1 --print-config"}) {
    ExpectFault(line, Check(world, line).status(), ErrorCode::kUsage);
  }
}

TEST(CheckOptionsTest, RunDoesNotKnowWhatIsOfCheckAlone) {
  SpecWorld world;
  EXPECT_FALSE(world.ToStatus("-np 1 --json train").ok());
  world.files["job.yaml"] = "json: true\ncommand: [train]\n";
  EXPECT_FALSE(Check(world, "-np 1 -f job.yaml").ok());
  world.environment = Env({{"HVDRAY_JSON", "1"}});
  const auto request = Check(world, "-np 1");
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->is_json);
  EXPECT_EQ(request->run.warnings.size(), 1U);
}

TEST(CheckOptionsTest, HelpEndsTheReading) {
  const SpecWorld world;
  EXPECT_TRUE(Check(world, "--json -h --nonsense")->run.wants_help);
  EXPECT_TRUE(Check(world, "-v")->run.wants_version);
}

// Random command lines, environments and files: always a spec or one line of error.

constexpr unsigned kSeed = 20240501;

class Chooser {
 public:
  explicit Chooser(unsigned seed) : random_(seed) {}
  size_t Below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }
  bool OneIn(size_t n) { return Below(n) == 0; }

  std::string Word() {
    static const std::vector<std::string> kWords = {"-",    "--",       "",     "=",      "-1",
                                                    "a:2",  "4",        "0.5",  "2m",     "none",
                                                    "x=1",  "-x y",     "-q",   "---",    "-=1",
                                                    "--=",  "json",     "true", "~a",     "é",
                                                    "\x01", "job.yaml", ",",    "a:1,b:2"};
    if (OneIn(3)) return kWords[Below(kWords.size())];
    const Spelling& spelling = AllSpellings()[Below(AllSpellings().size())];
    std::string word(spelling.text.substr(0, 1 + Below(spelling.text.size())));
    if (OneIn(3)) word += "=" + kWords[Below(kWords.size())];
    if (OneIn(10)) word += kWords[Below(kWords.size())];
    return word;
  }

  std::vector<std::string> Line() {
    std::vector<std::string> words;
    if (!OneIn(4)) words = {"-np", "2"};
    for (size_t i = Below(8); i > 0; --i) words.push_back(Word());
    if (!OneIn(4)) words.push_back("./train");
    return words;
  }

 private:
  std::mt19937 random_;
};

void ExpectOneLine(const Status& status) {
  EXPECT_FALSE(status.message().empty());
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  EXPECT_EQ(status.hint().find('\n'), std::string::npos) << status.hint();
  EXPECT_NE(status.code(), ErrorCode::kInternal);
}

TEST(ResolverPropertyTest, AnyWordsGiveASpecOrOneLine) {
  Chooser choose(kSeed);
  SpecWorld world;
  world.files["job.yaml"] = "grace: 1\n";
  int resolved = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<std::string> words = choose.Line();
    const Result<RunRequest> request = world.Resolve(words);
    if (!request.ok()) {
      ExpectOneLine(request.status());
      continue;
    }
    ++resolved;
    if (request->wants_help || request->wants_version || request->wants_check_build) continue;
    EXPECT_GE(*request->spec.np, 1);
    EXPECT_LE(*request->spec.np, 65536);
  }
  EXPECT_GT(resolved, 200) << "seed " << kSeed << ": too few lines resolve to say anything";
}

TEST(ResolverPropertyTest, TheCommandIsNeverReadForOptions) {
  Chooser choose(kSeed + 1);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> tail = {"./train"};
    for (size_t n = choose.Below(5); n > 0; --n) tail.push_back(choose.Word());
    std::vector<std::string> words = {"-np", "2"};
    if (choose.OneIn(2)) words.push_back("--");
    words.insert(words.end(), tail.begin(), tail.end());
    const Result<ParsedArgv> argv = ParseArgv(words);
    ASSERT_TRUE(argv.ok()) << argv.status().ToString();
    EXPECT_EQ(argv->command, tail);
  }
}

TEST(ResolverPropertyTest, WhatTheParserSpellsOutParsesToTheSame) {
  Chooser choose(kSeed + 2);
  for (int i = 0; i < 4000; ++i) {
    const Result<ParsedArgv> argv = ParseArgv(choose.Line());
    if (!argv.ok()) continue;
    std::vector<std::string> again;
    for (const ParsedOption& option : argv->options) {
      const bool is_pair = option.values.size() == 2;
      again.push_back(option.spelling);
      if (is_pair) again.insert(again.end(), option.values.begin(), option.values.end());
      if (option.values.size() == 1) again.back() += "=" + option.values[0];
    }
    again.push_back("--");
    again.insert(again.end(), argv->command.begin(), argv->command.end());
    const Result<ParsedArgv> second = ParseArgv(again);
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    ASSERT_EQ(second->options.size(), argv->options.size());
    for (size_t k = 0; k < argv->options.size(); ++k) {
      EXPECT_EQ(second->options[k].row, argv->options[k].row);
      EXPECT_EQ(second->options[k].values, argv->options[k].values);
      EXPECT_EQ(second->options[k].is_negation, argv->options[k].is_negation);
    }
  }
}

TEST(ResolverPropertyTest, AnyEnvironmentGivesASpecOrOneLine) {
  Chooser choose(kSeed + 3);
  for (int i = 0; i < 1000; ++i) {
    SpecWorld world;
    for (int n = 0; n < 3; ++n) {
      const OptionKey& key = AllKeys()[choose.Below(AllKeys().size())];
      if (key.row->id == OptionId::kJobFile || key.row->id == OptionId::kCluster) continue;
      world.environment.Set(VariableOfKey(key.text), choose.Word());
    }
    const Result<RunRequest> request = world.Resolve("-np 2 ./t");
    if (!request.ok()) ExpectOneLine(request.status());
  }
}

Result<ServeRequest> Serve(const SpecWorld& world, const std::string& line) {
  return ResolveServe(Words(line), world.environment, world.Files());
}

TEST(ServeOptionsTest, TheClientIsAtADescriptorOrAPath) {
  const SpecWorld world;
  const auto descriptor = Serve(world, "-np 2 --control-fd 3 -- ./worker --control x");
  ASSERT_TRUE(descriptor.ok()) << descriptor.status().ToString();
  EXPECT_EQ(descriptor->control_fd, 3);
  EXPECT_EQ(descriptor->broker_fd, -1);
  EXPECT_TRUE(*descriptor->run.spec.has_channel);
  EXPECT_EQ(descriptor->run.spec.command->back(), "x");
  const auto path = Serve(world, "-H a:2 --control /run/x --linger 30 ./worker");
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_EQ(path->control_path, "/run/x");
  EXPECT_EQ(path->linger, seconds(30));
  for (const char* line : {"-np 2 ./worker", "-np 2 --control-fd 3 --control x ./worker"}) {
    ExpectFault(line, Serve(world, line).status(), ErrorCode::kUsage, "");
  }
  EXPECT_FALSE(Serve(world, "-np 2 --control-fd -1 ./worker").ok());
}

TEST(ServeOptionsTest, SlotsOfRayComeThroughABroker) {
  const SpecWorld world;
  const auto request = Serve(world,
                             "--ray-broker-fd 4 --control-fd 3 --num-hosts 2 --num-slots 3 "
                             "--cpus-per-slot 0.5 -- @python -c x");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->broker_fd, 4);
  EXPECT_EQ(*request->run.spec.np, 6);
  EXPECT_EQ(*request->run.spec.ray.cpus_per_slot, 0.5);
  ExpectFault(
      "two Rays",
      Serve(world, "--ray-broker-fd 4 --ray-address http://h:1 -np 2 --control-fd 3 ./w").status(),
      ErrorCode::kNotSupported, "flag --ray-address");
  ExpectFault("slots without Ray",
              Serve(world, "--cpus-per-slot 2 -np 2 --control-fd 3 w").status(), ErrorCode::kUsage,
              "flag --cpus-per-slot");
}

TEST(ServeOptionsTest, AGangMayBeAJobOnRay) {
  const SpecWorld world;
  for (const char* line : {"--ray -np 2 --control-fd 3 ./worker",
                           "--ray-address http://h:8265 -np 2 --control-fd 3 -- @python -c x"}) {
    const auto request = Serve(world, line);
    ASSERT_TRUE(request.ok()) << request.status().ToString();
    EXPECT_TRUE(*request->run.spec.ray.is_wanted);
    EXPECT_EQ(request->broker_fd, -1);
  }
  ExpectFault("a path", Serve(world, "--ray -np 2 --control /run/x ./w").status(),
              ErrorCode::kNotSupported, "--control");
  for (const char* option : {"--detach", "--min-np 1 --host-source control"}) {
    const std::string line = fmt::format("--ray {} --control-fd 3 -np 2 ./w", option);
    EXPECT_FALSE(Serve(world, line).ok()) << line;
  }
}

TEST(ServeOptionsTest, WhatHasNoMeaningIsRefused) {
  const SpecWorld world;
  for (const char* option : {"--dry-run", "--print-plan", "--stdin 0", "--report r", "--junit j"}) {
    const std::string line = std::string(option) + " -np 2 --control-fd 3 ./worker";
    const std::string name = line.substr(0, line.find(' '));
    ExpectFault(line, Serve(world, line).status(), ErrorCode::kUsage, "flag " + name);
  }
}

}  // namespace
}  // namespace hvdray
