// SPDX-License-Identifier: Apache-2.0
// The executable hvdray-bench, which `hvdray bench` becomes: checks the words, then either becomes
// `hvdray run` with itself as the command, or is one of its ranks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/exec.h"
#include "base/fd.h"
#include "base/signals.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "base/user_home.h"
#include "collective/bench/bench_run.h"
#include "collective/bench/sweep.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/plan/build_name.h"

namespace hvdray {
namespace {

/// Of a wrong result, and of a rank whose peers are gone.
constexpr int kBenchFailed = 1;
/// Rank 0 says what is wrong for all, and its end ends them. If it says nothing, not all are wrong.
constexpr std::chrono::seconds kTurnOfRank0{5};

Result<int> NumberOf(const OptionLayer& said, OptionId id, int fallback) {
  const auto raw = said.options.find(id);
  if (raw == said.options.end()) return fallback;
  HVDRAY_ASSIGN_OR_RETURN(const int64_t number, WholeOf(id, raw->second));
  return static_cast<int>(number);
}

Result<BenchSettings> SettingsOf(const OptionLayer& said) {
  SweepWords words;
  BenchSettings settings;
  settings.build = BuildName();
  std::string backends;
  const std::pair<OptionId, std::string*> texts[] = {{OptionId::kMinBytes, &words.min_bytes},
                                                     {OptionId::kMaxBytes, &words.max_bytes},
                                                     {OptionId::kStepFactor, &words.step_factor},
                                                     {OptionId::kStepBytes, &words.step_bytes},
                                                     {OptionId::kCollectives, &words.collectives},
                                                     {OptionId::kDataTypes, &words.dtypes},
                                                     {OptionId::kReduceOps, &words.ops},
                                                     {OptionId::kRoots, &words.roots},
                                                     {OptionId::kCollectiveBackends, &backends},
                                                     {OptionId::kJsonFile, &settings.json},
                                                     {OptionId::kCsvFile, &settings.csv},
                                                     {OptionId::kTune, &settings.tune},
                                                     {OptionId::kPlot, &settings.svg}};
  for (const auto& [id, text] : texts) {
    const auto raw = said.options.find(id);
    if (raw == said.options.end()) continue;
    *text = raw->second.last();
    if (text->empty() && id != OptionId::kPlot) {
      return Status(ErrorCode::kUsage, fmt::format("{}: the value is empty", raw->second.label));
    }
  }
  settings.has_plot = said.options.contains(OptionId::kPlot);
  HVDRAY_ASSIGN_OR_RETURN(settings.sweep, ParseSweep(words));
  HVDRAY_ASSIGN_OR_RETURN(settings.options.iterations, NumberOf(said, OptionId::kIterations, 0));
  HVDRAY_ASSIGN_OR_RETURN(
      settings.options.warmup_iterations,
      NumberOf(said, OptionId::kWarmupIterations, settings.options.warmup_iterations));
  HVDRAY_ASSIGN_OR_RETURN(const int check, NumberOf(said, OptionId::kCheckResults, 1));
  settings.options.is_checking = check == 1;
  for (const std::string_view backend : BlankSeparated(backends, ",")) {
    settings.backends.emplace_back(backend);
    HVDRAY_RETURN_IF_ERROR(CheckBenchBackend(settings.backends.back(), ""));
  }
  if (settings.backends.empty() && !backends.empty()) {
    return Status(ErrorCode::kUsage, "--backend: the list is empty");
  }
  if (settings.json == kBenchStdout && settings.csv == kBenchStdout) {
    return Status(ErrorCode::kUsage, "only one of --json and --csv can go to stdout");
  }
  if (settings.has_plot && settings.svg.empty() && settings.is_stdout_taken()) {
    return Status(ErrorCode::kUsage, "stdout has no room for --plot beside --json - or --csv -",
                  "--plot=FILE.svg");
  }
  if (!settings.tune.empty() && (settings.backends.size() > 1 || !settings.json.empty() ||
                                 !settings.csv.empty() || settings.has_plot)) {
    return Status(ErrorCode::kUsage, "--tune takes one --backend, and no --json, --csv or --plot");
  }
  return settings;
}

/// Of a rank that could not go on. Who lost peers did so by their fault or the network's.
int CodeOf(const Status& status) {
  const bool is_ours = status.code() == ErrorCode::kOutputLost ||
                       status.code() == ErrorCode::kOutOfResources ||
                       ExitCode(status) == kNothingDone;
  return is_ours ? ExitCode(status) : kBenchFailed;
}

int RunRank(const BenchSettings& settings, const Environment& environment) {
  const int rank = ParseInteger<int>(environment.GetOr("HOROVOD_RANK", "")).value_or(0);
  const Result<std::vector<std::string>> faults = RunBench(settings, environment);
  if (!faults.ok()) {
    const int code = CodeOf(faults.status());
    if (rank == 0 && (code == kNothingDone || faults.status().code() == ErrorCode::kOutputLost)) {
      Fail("bench", faults.status());  // all ranks know the same, or it alone does
    } else if (code == kNothingDone) {
      std::this_thread::sleep_for(kTurnOfRank0);
      Fail(fmt::format("bench: rank {}", rank), faults.status());
    } else if (rank <= 1) {
      // Rank 0 may be the one that is gone.
      Fail(fmt::format("bench: rank {}", rank), faults.status());
    }
    return code;
  }
  if (faults->empty()) return 0;
  if (rank == 0) {
    for (const std::string& fault : *faults) {
      (void)WriteAll(STDERR_FILENO, fmt::format("hvdray bench: {}\n", fault)).ok();
    }
  }
  return kBenchFailed;
}

/// Whether `hvdray run` would find its workers in the environment: that is as good as a flag.
bool NamesWorkers(const Environment& environment) {
  const auto names = {"HVDRAY_NUM_PROC", "HVDRAY_HOSTS", "HVDRAY_HOSTFILE", "HVDRAY_CLUSTER"};
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return !environment.GetOr(name, "").empty(); });
}

/// Becomes `hvdray run`, with this program as its command.
int StartJob(const BenchRequest& request, const std::string& own) {
  const std::string hvdray = own.substr(0, own.rfind('/') + 1) + "hvdray";
  std::vector<std::string> words = {hvdray, "run"};
  words.insert(words.end(), request.run_words.begin(), request.run_words.end());
  // The table as it is, unless the user asks for tags.
  if (std::find(words.begin(), words.end(), "--tag-output") == words.end()) {
    words.insert(words.end(), {"--tag-output", "none"});
  }
  words.insert(words.end(), {"--", own});
  words.insert(words.end(), request.bench_words.begin(), request.bench_words.end());
  const std::vector<char*> argv = ExecArray(words);
  ::execv(argv[0], argv.data());
  return Fail("bench", ErrnoStatus(hvdray, errno));
}

int Main(int argc, char** argv) {
  FillStandardStreams();
  RestoreSignals();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const Result<BenchRequest> request = ResolveBench(words, HomesHere(Environment::FromProcess()));
  if (!request.ok()) return Fail("bench", request.status());
  if (request->wants_help) return PrintOut("bench", Help(CommandNamed("bench")));
  if (request->wants_version) {
    return PrintOut("bench", BuildName() + "\n");
  }
  const Result<BenchSettings> settings = SettingsOf(request->said);
  if (!settings.ok()) return Fail("bench", settings.status());
  const Environment environment = Environment::FromProcess();
  const Status files = CheckBenchFiles(*settings, request->run_words, environment);
  if (!files.ok()) return Fail("bench", files);
  const bool has_ranks = !environment.GetOr("HOROVOD_GLOO_RENDEZVOUS_ADDR", "").empty();
  if (!request->run_words.empty() || (!has_ranks && NamesWorkers(environment))) {
    if (settings->backends.empty()) {
      const Status status = CheckBenchBackend("", environment.GetOr("HVDRAY_COLLECTIVE", ""));
      if (!status.ok()) return Fail("bench", status);
    }
    std::error_code error;
    const std::string own = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) return Fail("bench", ErrnoStatus("/proc/self/exe", error.value()));
    return StartJob(*request, own);
  }
  if (!has_ranks) {
    return Fail("bench", {ErrorCode::kUsage, "there are no ranks to measure",
                          "hvdray bench -np 4, or hvdray run -np 4 -- hvdray bench"});
  }
  return RunRank(*settings, environment);
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) { return hvdray::Main(argc, argv); }
