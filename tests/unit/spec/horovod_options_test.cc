// SPDX-License-Identifier: Apache-2.0
// Tunables and the config file (Horovod spec 4.2, 4.3). Expected variables are what horovodrun
// 0.28.1 exports for the same words and files.
#include "launcher/job/horovod_options.h"

#include <gtest/gtest.h>

#include <set>

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

TEST(TunablesTest, FollowTheVectorsOfTheSpec) {
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

TEST(TunablesTest, AreValidatedInHorovodsWords) {
  EXPECT_EQ(Exported("--cache-capacity -1"),
            "error: flag --cache-capacity: cache_capacity=-1 must be >= 0");
  EXPECT_EQ(Exported("--cycle-time-ms -0.5"),
            "error: flag --cycle-time-ms: cycle_time_ms=-0.5 must be >= 0");
  EXPECT_EQ(Exported("--autotune-gaussian-process-noise 1.5"),
            "error: flag --autotune-gaussian-process-noise: "
            "autotune_gaussian_process_noise=1.5 must be in [0, 1]");
  EXPECT_EQ(Exported("--fusion-threshold-mb 9000000000000"),
            "error: flag --fusion-threshold-mb: fusion_threshold_mb=9000000000000 must be <= "
            "4398046511104");
  EXPECT_EQ(Exported("--num-nccl-streams two"),
            "error: flag --num-nccl-streams must be a whole number, not 'two'");
  EXPECT_EQ(Exported("--cycle-time-ms nan").substr(0, 6), "error:");
  EXPECT_EQ(Exported("--log-level LOUD"),
            "error: flag --log-level must be one of TRACE, DEBUG, INFO, WARNING, ERROR, FATAL, not "
            "'LOUD'");
}

TEST(TunablesTest, WarnOfWhatHasNoEffect) {
  const Result<RunRequest> request =
      SpecWorld().Resolve("-np 1 --autotune-warmup-samples 3 --timeline-mark-cycles ./t");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->warnings,
            (std::vector<std::string>{
                "flag --autotune-warmup-samples has no effect without --autotune",
                "flag --timeline-mark-cycles has no effect without --timeline-filename"}));
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
  EXPECT_EQ(request->warnings,
            (std::vector<std::string>{
                "cfg.yaml:1:1: unknown section 'parmas' has no effect: did you mean params?",
                "cfg.yaml:3:3: unknown key 'logging.hide_timestamp' has no effect"}));
}

TEST(ConfigFileTest, AWarningIsNotLostWhenTheLineIsWrong) {
  SpecWorld world;
  world.files["cfg.yaml"] = "np: 2\n";
  std::vector<std::string> warned;
  ResolverFiles files = world.Files();
  files.warn = [&warned](const std::string& warning) { warned.push_back(warning); };
  const Result<RunRequest> request =
      ResolveRun(Words("--config-file cfg.yaml ./t"), world.environment, files);
  EXPECT_EQ(request.status().message(), "how many workers?");
  EXPECT_EQ(warned, (std::vector<std::string>{
                        "cfg.yaml:1:1: unknown section 'np' has no effect: this file is in "
                        "Horovod's format; a job file of hvdray is given with -f"}));
}

TEST(ConfigFileTest, NamesThePlaceOfAFault) {
  EXPECT_EQ(WithConfig("params:\n  cycle_time_ms: -1\n"),
            "error: cfg.yaml:2:18: cycle_time_ms=-1 must be >= 0");
  EXPECT_EQ(WithConfig("params:\n  cache_capacity: \"10\"\n"),
            "error: cfg.yaml:2:19: cache_capacity must be a number, not '10'");
  EXPECT_EQ(WithConfig("params: 5\n"), "error: cfg.yaml:1:9: params must be a mapping");
  EXPECT_EQ(WithConfig("params: {torus_allreduce: []}\n"),
            "error: cfg.yaml:1:27: torus_allreduce must be one value");
  EXPECT_EQ(WithConfig("- a\n").substr(0, 20), "error: cfg.yaml:1:1:");
  EXPECT_EQ(WithConfig("a: 1\na: 2\n").substr(0, 20), "error: cfg.yaml:2:1:");
}

TEST(ConfigFileTest, ChoosesAController) {
  EXPECT_EQ(WithConfig("controller: GLOO\n"), "");
  EXPECT_EQ(WithConfig("controller: nccl\n"),
            "error: cfg.yaml:1:13: No such controller supported: 'nccl'");
  SpecWorld world;
  world.files["cfg.yaml"] = "controller: mpi\n";
  EXPECT_EQ(world.StatusOf("-np 1 --config-file cfg.yaml ./t").code(), ErrorCode::kNotSupported);
  EXPECT_TRUE(world.StatusOf("-np 1 --config-file cfg.yaml --gloo ./t").ok());
  EXPECT_EQ(world.StatusOf("-np 1 --config-file none.yaml ./t").message(),
            "flag --config-file: no file 'none.yaml'");
}

}  // namespace
}  // namespace hvdray
