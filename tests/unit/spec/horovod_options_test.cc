// SPDX-License-Identifier: Apache-2.0
// Horovod's tunables and its config file, scalars as PyYAML types them, hints for other launchers'
// options. Expected variables are what horovodrun 0.28.1 exports for the same words and files, and
// expected types what PyYAML 6 gives. Not here: whether Horovod heeds its variables.
#include "launcher/job/horovod_options.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/job/argv.h"
#include "launcher/job/foreign_options.h"
#include "launcher/job/option_table.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

/// "A=1 B=2": the tunables of a line, in the order of their names.
std::string Exported(const SpecWorld& world, const std::string& line) {
  const Result<RunRequest> request = world.Resolve("-np 1 " + line + " ./t");
  if (!request.ok()) return "error: " + request.status().message();
  std::string text;
  for (const auto& [name, setting] : request->spec.tunables) {
    text += (text.empty() ? "" : " ") + name + "=" + *setting;
  }
  return text;
}
std::string Exported(const std::string& line) { return Exported(SpecWorld(), line); }

std::string WithConfig(const std::string& yaml, const std::string& line = "") {
  SpecWorld world;
  world.files["cfg.yaml"] = yaml;
  return Exported(world, "--config-file cfg.yaml " + line);
}

void ExpectRefused(const std::string& line, std::string_view origin) {
  SpecWorld().ExpectRefused("-np 1 " + line + " ./t", origin);
}

void ExpectBadConfig(const std::string& yaml, std::string_view place,
                     ErrorCode code = ErrorCode::kSpecInvalid) {
  SpecWorld world;
  world.files["cfg.yaml"] = yaml;
  ExpectFault(yaml, world.ToStatus("-np 1 --config-file cfg.yaml ./t"), code, place);
}

TEST(TunablesTest, AreExportedAsByHorovodrun) {
  EXPECT_EQ(Exported("--fusion-threshold-mb 10 --cycle-time-ms 20 --cache-capacity 512"),
            "HOROVOD_CACHE_CAPACITY=512 HOROVOD_CYCLE_TIME=20.0 HOROVOD_FUSION_THRESHOLD=10485760");
  EXPECT_EQ(Exported("--autotune --cache-capacity 1024 --no-hierarchical-allgather"),
            "HOROVOD_AUTOTUNE=1 HOROVOD_CACHE_CAPACITY=1024 HOROVOD_HIERARCHICAL_ALLGATHER=0");
  EXPECT_EQ(Exported(""), "");
}

struct TunableCase {
  const char* flags;
  const char* variable;
};

class TunableTest : public ::testing::TestWithParam<TunableCase> {};

TEST_P(TunableTest, BecomesItsVariable) {
  EXPECT_EQ(Exported(GetParam().flags), GetParam().variable);
}

const std::vector<TunableCase> kTunables = {
    {"--fusion-threshold-mb 0", "HOROVOD_FUSION_THRESHOLD=0"},
    {"--cycle-time-ms 3.5", "HOROVOD_CYCLE_TIME=3.5"},
    {"--cycle-time-ms 1e-7", "HOROVOD_CYCLE_TIME=1e-07"},
    {"--cache-capacity 0", "HOROVOD_CACHE_CAPACITY=0"},
    {"--hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE=1"},
    {"--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE=0"},
    {"--hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER=1"},
    {"--torus-allreduce", "HOROVOD_TORUS_ALLREDUCE=1"},
    {"--no-torus-allreduce", "HOROVOD_TORUS_ALLREDUCE=0"},
    {"--autotune", "HOROVOD_AUTOTUNE=1"},
    {"--no-autotune", ""},
    {"--autotune --autotune-log-file f", "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_LOG=f"},
    {"--autotune --autotune-warmup-samples 3",
     "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_WARMUP_SAMPLES=3"},
    {"--autotune --autotune-steps-per-sample 10",
     "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=10"},
    {"--autotune --autotune-bayes-opt-max-samples 20",
     "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=20"},
    {"--autotune --autotune-gaussian-process-noise 1",
     "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=1.0"},
    {"--autotune-warmup-samples 3", ""},
    {"--timeline-filename DYNAMIC", "HOROVOD_TIMELINE=DYNAMIC"},
    {"--timeline-filename= --timeline-mark-cycles", ""},
    {"--timeline-filename t --timeline-mark-cycles",
     "HOROVOD_TIMELINE=t HOROVOD_TIMELINE_MARK_CYCLES=1"},
    {"--timeline-filename t --no-timeline-mark-cycles",
     "HOROVOD_TIMELINE=t HOROVOD_TIMELINE_MARK_CYCLES=0"},
    {"--timeline-mark-cycles", ""},
    {"--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE=1"},
    {"--stall-check", "HOROVOD_STALL_CHECK_DISABLE=0"},
    {"--stall-check-warning-time-seconds 60", "HOROVOD_STALL_CHECK_TIME_SECONDS=60"},
    {"--stall-check-shutdown-time-seconds 0", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0"},
    {"--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE=1"},
    {"--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE=0"},
    {"--num-nccl-streams 2", "HOROVOD_NUM_NCCL_STREAMS=2"},
    {"--thread-affinity 1", "HOROVOD_THREAD_AFFINITY=1"},
    {"--gloo-timeout-seconds 30", "HOROVOD_GLOO_TIMEOUT_SECONDS=30"},
    {"--tcp", "NCCL_IB_DISABLE=1"},
    {"--log-level DEBUG", "HOROVOD_LOG_LEVEL=DEBUG"},
    {"--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME=0"},
    {"--log-without-timestamp", "HOROVOD_LOG_HIDE_TIME=1"},
    {"--log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME=1"},
    {"--no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME=0"},
};
INSTANTIATE_TEST_SUITE_P(All, TunableTest, ::testing::ValuesIn(kTunables));

TEST(TunablesTest, AreAllInTheListAbove) {
  std::set<std::string> tested;
  for (const TunableCase& one : kTunables) {
    for (const std::string& pair : Words(one.variable))
      tested.insert(pair.substr(0, pair.find('=')));
  }
  for (const OptionRow& row : OptionTable()) {
    if (row.worker_variable.empty()) continue;
    EXPECT_TRUE(tested.contains(std::string(row.worker_variable))) << row.name;
  }
}

TEST(TunablesTest, AreValidated) {
  ExpectRefused("--cache-capacity -1", "flag --cache-capacity");
  ExpectRefused("--cycle-time-ms -0.5", "flag --cycle-time-ms");
  ExpectRefused("--autotune-gaussian-process-noise 1.5", "flag --autotune-gaussian-process-noise");
  ExpectRefused("--fusion-threshold-mb 9000000000000", "flag --fusion-threshold-mb");
  ExpectRefused("--num-nccl-streams two", "flag --num-nccl-streams");
  ExpectRefused("--cycle-time-ms nan", "flag --cycle-time-ms");
  ExpectRefused("--log-level LOUD", "flag --log-level");
}

TEST(TunablesTest, WarnOfWhatHasNoEffect) {
  const Result<RunRequest> request =
      SpecWorld().Resolve("-np 1 --autotune-warmup-samples 3 --timeline-mark-cycles ./t");
  ASSERT_TRUE(request.ok());
  ExpectWarnings("--autotune-warmup-samples 3 --timeline-mark-cycles", request->warnings,
                 {"flag --autotune-warmup-samples", "flag --timeline-mark-cycles"});
  EXPECT_TRUE(SpecWorld().Resolve("-np 1 --no-autotune ./t")->warnings.empty());
}

TEST(ConfigFileTest, KeepsYamlTypesAndPrintsThemAsPython) {
  EXPECT_EQ(WithConfig("params:\n  cycle_time_ms: 10\n  fusion_threshold_mb: 1.5\n"),
            "HOROVOD_CYCLE_TIME=10 HOROVOD_FUSION_THRESHOLD=1572864.0");
  EXPECT_EQ(WithConfig("params: {cycle_time_ms: 1.0e+20, cache_capacity: 010}\n"),
            "HOROVOD_CACHE_CAPACITY=8 HOROVOD_CYCLE_TIME=1e+20");
  EXPECT_EQ(WithConfig("params: {torus_allreduce: on, hierarchical_allreduce: text}\n"),
            "HOROVOD_HIERARCHICAL_ALLREDUCE=1 HOROVOD_TORUS_ALLREDUCE=1");
  EXPECT_EQ(WithConfig("logging: {level: yes}\n"), "HOROVOD_LOG_LEVEL=True");
}

TEST(ConfigFileTest, ReadsTheSampleThatHorovodTestsWith) {
  // The keys and values of Horovod's own sample, an obsolete one among them.
  const std::string sample =
      "controller: gloo\n"
      "params:\n  fusion_threshold_mb: 32\n  cycle_time_ms: 10\n  cache_capacity: 2048\n"
      "  hierarchical_allreduce: true\n  hierarchical_allgather: true\n"
      "autotune:\n  enabled: true\n  log_file: horovod_autotune_log.txt\n  warmup_samples: 5\n"
      "  steps_per_sample: 20\n  bayes_opt_max_samples: 50\n  gaussian_process_noise: 0.9\n"
      "timeline:\n  filename: horovod_timeline.json\n  mark_cycles: true\n"
      "stall_check:\n  enabled: false\n  warning_time_seconds: 120\n"
      "  shutdown_time_seconds: 240\n"
      "library_options:\n  mpi_threads_disable: true\n  num_nccl_streams: 2\n"
      "  thread_affinity: 1\n  gloo_timeout_seconds: 60\n"
      "logging:\n  level: INFO\n  hide_timestamp: true\n";
  EXPECT_EQ(WithConfig(sample),
            "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=50 "
            "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.9 "
            "HOROVOD_AUTOTUNE_LOG=horovod_autotune_log.txt HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=20 "
            "HOROVOD_AUTOTUNE_WARMUP_SAMPLES=5 HOROVOD_CACHE_CAPACITY=2048 HOROVOD_CYCLE_TIME=10 "
            "HOROVOD_FUSION_THRESHOLD=33554432 HOROVOD_GLOO_TIMEOUT_SECONDS=60 "
            "HOROVOD_HIERARCHICAL_ALLGATHER=1 HOROVOD_HIERARCHICAL_ALLREDUCE=1 "
            "HOROVOD_LOG_LEVEL=INFO HOROVOD_MPI_THREADS_DISABLE=1 HOROVOD_NUM_NCCL_STREAMS=2 "
            "HOROVOD_STALL_CHECK_DISABLE=1 HOROVOD_STALL_CHECK_TIME_SECONDS=120 "
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=240 HOROVOD_THREAD_AFFINITY=1 "
            "HOROVOD_TIMELINE=horovod_timeline.json HOROVOD_TIMELINE_MARK_CYCLES=1");
}

TEST(ConfigFileTest, FlagsBeatItWhateverTheOrder) {
  const std::string yaml = "params: {cache_capacity: 1}\nautotune: {enabled: true}\n";
  EXPECT_EQ(WithConfig(yaml, "--cache-capacity 7 --no-autotune"), "HOROVOD_CACHE_CAPACITY=7");
  SpecWorld world;
  world.files["cfg.yaml"] = yaml;
  EXPECT_EQ(Exported(world, "--cache-capacity 7 --config-file cfg.yaml"),
            "HOROVOD_AUTOTUNE=1 HOROVOD_CACHE_CAPACITY=7");
}

TEST(ConfigFileTest, SectionsSaySomethingByBeingThere) {
  EXPECT_EQ(WithConfig("autotune: {warmup_samples: 3}\n"), "");
  EXPECT_EQ(WithConfig("autotune: {warmup_samples: 3}\n", "--autotune"),
            "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_WARMUP_SAMPLES=3");
  EXPECT_EQ(WithConfig("stall_check: {warning_time_seconds: 9}\n"),
            "HOROVOD_STALL_CHECK_DISABLE=0 HOROVOD_STALL_CHECK_TIME_SECONDS=9");
  EXPECT_EQ(WithConfig("stall_check: {enabled: ~}\n"), "HOROVOD_STALL_CHECK_DISABLE=1");
  EXPECT_EQ(WithConfig("stall_check: {}\nautotune:\n"), "");
  EXPECT_EQ(WithConfig(""), "") << "horovodrun crashes";
  EXPECT_EQ(WithConfig("logging: {with_timestamp: false}\n"), "HOROVOD_LOG_HIDE_TIME=1");
}

TEST(ConfigFileTest, IgnoresUnknownKeysButSaysSo) {
  SpecWorld world;
  world.files["cfg.yaml"] = "parmas: {}\nlogging:\n  hide_timestamp: true\n";
  const Result<RunRequest> request = world.Resolve("-np 1 --config-file cfg.yaml ./t");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  ExpectWarnings(world.files["cfg.yaml"], request->warnings, {"cfg.yaml:1:1", "cfg.yaml:3:3"});
  EXPECT_TRUE(request->warnings.at(0).ends_with("params?"));
}

TEST(ConfigFileTest, AWarningIsNotLostWhenTheLineIsWrong) {
  SpecWorld world;
  world.files["cfg.yaml"] = "np: 2\n";
  std::vector<std::string> warned;
  ResolverFiles files = world.Files();
  files.warn = [&warned](const std::string& warning) { warned.push_back(warning); };
  const Result<RunRequest> request =
      ResolveRun(Words("--config-file cfg.yaml ./t"), world.environment, files);
  EXPECT_EQ(request.status().code(), ErrorCode::kUsage);
  ExpectWarnings(world.files["cfg.yaml"], warned, {"cfg.yaml:1:1"});
  EXPECT_TRUE(warned.at(0).ends_with("with -f"));
}

TEST(ConfigFileTest, NamesThePlaceOfAFault) {
  ExpectBadConfig("params:\n  cycle_time_ms: -1\n", "cfg.yaml:2:18", ErrorCode::kUsage);
  ExpectBadConfig("params:\n  cache_capacity: \"10\"\n", "cfg.yaml:2:19", ErrorCode::kUsage);
  ExpectBadConfig("params: 5\n", "cfg.yaml:1:9");
  ExpectBadConfig("params: {torus_allreduce: []}\n", "cfg.yaml:1:27");
  ExpectBadConfig("- a\n", "cfg.yaml:1:1");
  ExpectBadConfig("a: 1\na: 2\n", "cfg.yaml:2:1");
}

TEST(ConfigFileTest, ChoosesAController) {
  EXPECT_EQ(WithConfig("controller: GLOO\n"), "");
  ExpectBadConfig("controller: nccl\n", "cfg.yaml:1:13");
  SpecWorld world;
  world.files["cfg.yaml"] = "controller: mpi\n";
  world.ExpectRefused("-np 1 --config-file cfg.yaml ./t", "cfg.yaml:1:13",
                      ErrorCode::kNotSupported);
  EXPECT_TRUE(world.ToStatus("-np 1 --config-file cfg.yaml --gloo ./t").ok());
  world.ExpectRefused("-np 1 --config-file none.yaml ./t", "flag --config-file",
                      ErrorCode::kFileUnreadable);
}

/// "int 8": type and Python's text.
std::string Typed(const std::string& text) {
  static constexpr const char* kNames[] = {"None", "bool", "int", "float", "str"};
  const PythonValue value = TypePlainScalar(text);
  return std::string(kNames[value.index()]) + " " + FormatPython(value);
}

TEST(TypePlainScalarTest, FollowsYaml11) {
  const std::vector<std::pair<std::string, std::string>> rows = {{"10", "int 10"},
                                                                 {"-1", "int -1"},
                                                                 {"+4", "int 4"},
                                                                 {"010", "int 8"},
                                                                 {"0x10", "int 16"},
                                                                 {"0b11", "int 3"},
                                                                 {"1_000", "int 1000"},
                                                                 {"08", "str 08"},
                                                                 {"1.5", "float 1.5"},
                                                                 {"1.", "float 1.0"},
                                                                 {".5", "float 0.5"},
                                                                 {"-.5", "str -.5"},
                                                                 {"+.5", "str +.5"},
                                                                 {"-0.5", "float -0.5"},
                                                                 {"1e3", "str 1e3"},
                                                                 {"1.0e3", "str 1.0e3"},
                                                                 {"1.0e+3", "float 1000.0"},
                                                                 {"1.0e-3", "float 0.001"},
                                                                 {"5e+2", "str 5e+2"},
                                                                 {"1.0e+20", "float 1e+20"},
                                                                 {"1.0e+16", "float 1e+16"},
                                                                 {".inf", "float inf"},
                                                                 {"-.INF", "float -inf"},
                                                                 {".nan", "float nan"},
                                                                 {"true", "bool True"},
                                                                 {"no", "bool False"},
                                                                 {"On", "bool True"},
                                                                 {"y", "str y"},
                                                                 {"n", "str n"},
                                                                 {"tRue", "str tRue"},
                                                                 {"~", "None None"},
                                                                 {"", "None None"},
                                                                 {"null", "None None"},
                                                                 {"DYNAMIC", "str DYNAMIC"},

                                                                 {"+", "str +"},
                                                                 {".", "str ."},
                                                                 {"0", "int 0"},
                                                                 {"-0", "int 0"},
                                                                 {"1.0e+999", "float inf"},
                                                                 {"1.0e-999", "float 0.0"},
                                                                 {"0x", "str 0x"},
                                                                 {"0x-1", "str 0x-1"},
                                                                 {"0_", "int 0"},
                                                                 {"12:30", "int 750"},
                                                                 {"-1_0:5", "int -605"},
                                                                 {"0:30", "str 0:30"},
                                                                 {"1:60", "str 1:60"},
                                                                 {"1:2:", "str 1:2:"},
                                                                 {"190:20:30.5", "float 685230.5"},
                                                                 {"0:30.", "float 30.0"}};
  for (const auto& [text, typed] : rows) EXPECT_EQ(Typed(text), typed) << text;
}

TEST(IsTruthyTest, FollowsPython) {
  for (const char* text : {"0", "0.0", "false", "~", "-0.0"}) {
    EXPECT_FALSE(IsTruthy(TypePlainScalar(text))) << text;
  }
  for (const char* text : {"1", "-0.5", "true", "no?", ".nan"}) {
    EXPECT_TRUE(IsTruthy(TypePlainScalar(text))) << text;
  }
  EXPECT_FALSE(IsTruthy(PythonValue(std::string())));
}

Status ArgvStatusOf(const std::string& line) { return ParseArgv(Words(line)).status(); }

TEST(ForeignOptionsTest, OtherLaunchersOptionsGetAHintThatNamesOurs) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--nproc_per_node 4", "-H localhost:N"},
      {"--nproc-per-node=4", "-H localhost:N"},
      {"-N 4", "-H localhost:N"},
      {"-npernode 4", "-H localhost:N"},
      {"--ntasks-per-node 4", "-H localhost:N"},
      {"--nnodes 2", "-H a:4,b:4"},
      {"--node_rank=1", "-H a:4,b:4"},
      {"--rdzv_backend c10d", "--master-port"},
      {"--bind-to core", "taskset"},
      {"--mca btl tcp", "-x NAME=VALUE"},
      {"-machinefile x", "--hostfile"},
      {"-wdir x", "--cwd"},
      {"--ray --ray-mode jobs", "placement group"},
      {"-m train", "python -m MODULE"},
      {"--no-python", "leave it out"},
      {"-l", "--tag-output"},
      {"--gres=gpu:4", "LOCAL_RANK"},
      {"--gpus-per-task 1", "LOCAL_RANK"},
      {"--export=ALL,A=1", "-x NAME=VALUE"},
  };
  for (const auto& [line, hint] : cases) {
    const Status status = ArgvStatusOf(line + " ./t");
    ExpectFault(line, status, ErrorCode::kUsage);
    EXPECT_NE(status.hint().find(hint), std::string::npos) << line << ": " << status.hint();
  }
}

TEST(ForeignOptionsTest, ABeginningOfOursThatIsAWholeOneThereGetsTheHintToo) {
  EXPECT_NE(ArgvStatusOf("--n 4 ./t").hint().find("-np N"), std::string::npos);
  EXPECT_NE(ArgvStatusOf("--host a ./t").hint().find("-H a:4"), std::string::npos);
  EXPECT_EQ(ArgvStatusOf("--ver ./t").hint(), "");
}

TEST(ForeignOptionsTest, OurOwnSpellingsAreNobodyElses) {
  for (const Spelling& spelling : AllSpellings()) {
    if (spelling.text == "-n") continue;  // the same here: only --n is not
    EXPECT_EQ(HintForForeignOption(spelling.text), "") << spelling.text;
  }
  EXPECT_EQ(HintForForeignOption("--"), "");
  EXPECT_EQ(HintForForeignOption(""), "");
}

TEST(ForeignOptionsTest, HintsNameOptionsThatExist) {
  std::set<std::string> known;
  for (const Spelling& spelling : AllSpellings()) known.emplace(spelling.text);
  for (const char* option :
       {"--n", "--ppn", "--nnodes", "--node-rank", "--rdzv-id", "--genv", "--machinefile", "--wd",
        "--map-by", "--mca", "--gres", "--label", "--export", "--time", "--display-map", "--tee",
        "--allow-run-as-root"}) {
    const std::string_view hint = HintForForeignOption(option);
    EXPECT_NE(hint, "") << option;
    for (std::string word : Words(std::string(hint))) {
      while (word.ends_with(':') || word.ends_with(',') || word.ends_with(';')) word.pop_back();
      EXPECT_TRUE(!word.starts_with('-') || known.contains(word)) << option << ": " << word;
    }
  }
}

}  // namespace
}  // namespace hvdray
