// SPDX-License-Identifier: Apache-2.0
// The executable hvdray-bench, which `hvdray bench` becomes: checks the words, then either becomes
// `hvdray run` with itself as the command, or is one of its ranks.
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/distinct_files.h"
#include "base/environ.h"
#include "base/exec.h"
#include "base/fd.h"
#include "base/report_file.h"
#include "base/signals.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "base/user_home.h"
#include "collective/bench/plots.h"
#include "collective/bench/results.h"
#include "collective/bench/runner.h"
#include "collective/bench/sweep.h"
#include "collective/bench/tune.h"
#include "collective/communicator.h"
#include "collective/reduce_kernels.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/plan/build_name.h"

namespace hvdray {
namespace {

/// Of a wrong result, and of a rank whose peers are gone.
constexpr int kBenchFailed = 1;
/// Large enough for no cache to hold it, where --maxbytes allows that.
constexpr size_t kCopyBytes = size_t{32} << 20;
constexpr std::string_view kStdout = "-";
/// Rank 0 says what is wrong for all, and its end ends them. If it says nothing, not all are wrong.
constexpr std::chrono::seconds kTurnOfRank0{5};

/// What the words say.
struct Settings {
  Sweep sweep;
  BenchOptions options;
  std::vector<std::string> backends;  ///< Values of HVDRAY_COLLECTIVE; empty: as it is.
  std::string json;                   ///< A path or kStdout; empty: none.
  std::string csv;
  std::string tune;
  bool has_plot = false;
  std::string svg;  ///< Empty: the plot is for the terminal.
  /// Flags with their paths.
  std::array<std::pair<std::string_view, std::string_view>, 4> files() const {
    return {{{"--json", json}, {"--csv", csv}, {"--tune", tune}, {"--plot", svg}}};
  }
  bool is_stdout_taken() const { return json == kStdout || csv == kStdout || tune == kStdout; }
};

/// What CommunicatorOptionsFrom() makes of `environment` with this backend.
Result<CommunicatorOptions> OptionsOf(Environment environment, const std::string& backend,
                                      const std::string& name) {
  if (!backend.empty()) environment.Set("HVDRAY_COLLECTIVE", backend);
  Result<CommunicatorOptions> options = CommunicatorOptionsFrom(environment, name);
  if (options.ok() || backend.empty()) return options;
  return std::move(options).status().WithContext("--backend");
}

/// The library alone knows the names of its backends, and reads them where there is a rendezvous.
/// `backend`: empty: `variable`, the value of HVDRAY_COLLECTIVE.
Status CheckBackend(const std::string& backend, const std::string& variable) {
  Environment environment;
  environment.Set("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1");
  environment.Set("HVDRAY_COLLECTIVE", variable);
  return OptionsOf(std::move(environment), backend, "bench").status();
}

Result<int> NumberOf(const OptionLayer& said, OptionId id, int fallback) {
  const auto raw = said.options.find(id);
  if (raw == said.options.end()) return fallback;
  HVDRAY_ASSIGN_OR_RETURN(const int64_t number, WholeOf(id, raw->second));
  return static_cast<int>(number);
}

/// No file may be written twice, nor be one that the words of `hvdray run` or a variable name.
Status CheckFiles(const Settings& settings, const std::vector<std::string>& run_words,
                  const Environment& environment) {
  std::vector<NamedFile> outputs;
  for (const auto& [flag, path] : settings.files()) {
    if (path != kStdout) outputs.push_back(LookAtFile(std::string(flag), std::string(path)));
  }
  std::vector<NamedFile> inputs = {LookAtFile("hvdray itself", "/proc/self/exe")};
  for (const std::string& word : run_words) {
    for (const std::string& path : {word, word.substr(word.find('=') + 1)}) {
      inputs.push_back(
          LookAtFile(fmt::format("an option of run ({})", ShownText(word)), ExpandedHome(path)));
    }
  }
  for (const auto& [name, value] : environment.values()) {
    // A table may be measured anew.
    const bool is_table = name == "HVDRAY_COLLECTIVE_TABLE" && !settings.tune.empty();
    if (name.starts_with("HVDRAY_") && !is_table) {
      inputs.push_back(LookAtFile(name, ExpandedHome(value)));
    }
  }
  return CheckDistinct(outputs, inputs);
}

Result<Settings> SettingsOf(const OptionLayer& said) {
  SweepWords words;
  Settings settings;
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
    HVDRAY_RETURN_IF_ERROR(CheckBackend(settings.backends.back(), ""));
  }
  if (settings.backends.empty() && !backends.empty()) {
    return Status(ErrorCode::kUsage, "--backend: the list is empty");
  }
  if (settings.json == kStdout && settings.csv == kStdout) {
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

/// Rank 0's files and table. Of other ranks nothing comes.
class Output {
 public:
  /// Checks the files at once: a path that can't be written should not cost a measurement.
  static Result<Output> Open(const Settings& settings, bool is_speaker) {
    if (is_speaker) {
      for (const auto& [flag, path] : settings.files()) {
        if (path == kStdout) continue;
        HVDRAY_RETURN_IF_ERROR(CheckReportPath(std::string(path), flag));
      }
    }
    return Output(settings, is_speaker);
  }

  /// A part of the table. Errors: kOutputLost.
  Status Show(const std::string& text) {
    if (!is_speaker_ || settings_.is_stdout_taken()) return {};
    return Print(text);
  }

  Status Finish(const BenchFacts& facts, const AlgorithmTable& table, std::string_view backend) {
    if (!is_speaker_) return {};
    return Write(
        "--tune", settings_.tune,
        fmt::format("# hvdray bench --tune, {}: {} on {}, {}\n{}", facts.time,
                    Count(static_cast<uint64_t>(facts.size), "rank"),
                    Count(static_cast<uint64_t>(facts.hosts), "host"), backend, ToText(table)));
  }

  Status Finish(const BenchFacts& facts, const std::vector<BenchRow>& rows) {
    if (!is_speaker_) return {};
    HVDRAY_RETURN_IF_ERROR(Show(TableFoot(rows)));
    HVDRAY_RETURN_IF_ERROR(Write("--json", settings_.json, ResultsJson(facts, rows)));
    HVDRAY_RETURN_IF_ERROR(Write("--csv", settings_.csv, ResultsCsv(facts, rows)));
    if (!settings_.has_plot) return {};
    const std::vector<PlotSeries> series = SeriesOf(rows);
    if (settings_.svg.empty()) return Show("\n" + TerminalPlot(series));
    return Write("--plot", settings_.svg,
                 SvgPlot(series, fmt::format("busbw of {} on {}",
                                             Count(static_cast<uint64_t>(facts.size), "rank"),
                                             Count(static_cast<uint64_t>(facts.hosts), "host"))));
  }

 private:
  Output(const Settings& settings, bool is_speaker)
      : settings_(settings), is_speaker_(is_speaker) {}

  static Status Print(const std::string& text) {
    if (WriteAll(STDOUT_FILENO, text).ok()) return {};
    return OutputLost("stdout", errno).WithCode(ErrorCode::kOutputLost);
  }
  static Status Write(std::string_view flag, const std::string& path, const std::string& text) {
    if (path.empty()) return {};
    return path == kStdout ? Print(text) : WriteReportFile(path, flag, text);
  }

  const Settings& settings_;
  bool is_speaker_;
};

/// "model name" of /proc/cpuinfo; empty where there is none.
std::string ProcessorName() {
  const Result<std::string> text = ReadFile("/proc/cpuinfo");
  if (!text.ok()) return {};
  const size_t at = text->find("model name");
  const size_t colon = at == std::string::npos ? at : text->find(':', at);
  if (colon == std::string::npos) return {};
  const std::string_view line = std::string_view(*text).substr(colon + 1);
  return std::string(Trimmed(line.substr(0, line.find('\n'))));
}

/// "2024-05-01T12:00:00Z"
std::string TimeNow() {
  const std::time_t now = std::time(nullptr);
  tm utc{};
  ::gmtime_r(&now, &utc);
  return fmt::format("{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

int NumberIn(const Environment& environment, const std::string& name, int fallback) {
  return ParseInteger<int>(environment.GetOr(name, "")).value_or(fallback);
}

BenchFacts FactsHere(const CommunicatorOptions& options, const Environment& environment) {
  BenchFacts facts;
  facts.build = BuildName();
  utsname system{};
  if (::uname(&system) == 0) {
    facts.machine = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  }
  const std::string processor = ProcessorName();
  if (!processor.empty()) facts.machine += ", " + processor;
  facts.kernels = KernelName();
  facts.time = TimeNow();
  facts.processors = static_cast<int>(std::thread::hardware_concurrency());
  facts.size = options.size;
  const int local_size = NumberIn(environment, "HOROVOD_LOCAL_SIZE", 1);
  // The number of hosts is that of rank 0, the first of its host: a rank of a fuller host sees
  // fewer. Whether there is but one, all ranks see alike.
  facts.hosts = local_size == options.size
                    ? 1
                    : std::max(NumberIn(environment, "HOROVOD_CROSS_SIZE", options.size), 2);
  return facts;
}

class Bench {
 public:
  Bench(const Settings& settings, const Environment& environment)
      : settings_(settings), environment_(environment) {}

  /// Measures all. Returns whether all results were right.
  Result<bool> Run() {
    const std::vector<std::string> backends =
        settings_.backends.empty() ? std::vector<std::string>{""} : settings_.backends;
    HVDRAY_ASSIGN_OR_RETURN(const CommunicatorOptions first,
                            OptionsOf(environment_, backends.front(), "bench"));
    HVDRAY_ASSIGN_OR_RETURN(cases_, CasesOf(settings_.sweep, first.size));
    HVDRAY_ASSIGN_OR_RETURN(Output output, Output::Open(settings_, first.rank == 0));
    facts_ = FactsHere(first, environment_);
    for (size_t i = 0; i < backends.size(); ++i) {
      HVDRAY_ASSIGN_OR_RETURN(const CommunicatorOptions options,
                              OptionsOf(environment_, backends[i], fmt::format("bench{}", i)));
      HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                              MakeCommunicator(options));
      if (!settings_.tune.empty()) {
        HVDRAY_RETURN_IF_ERROR(TuneHere(*communicator, output));
        return true;
      }
      HVDRAY_RETURN_IF_ERROR(Measure(*communicator, output));
    }
    HVDRAY_RETURN_IF_ERROR(output.Finish(facts_, rows_));
    return WrongOf(rows_) == 0;
  }

  /// A line for each row with wrong elements.
  std::vector<std::string> Faults() const {
    std::vector<std::string> faults;
    for (const BenchRow& row : rows_) {
      if (std::string text = WrongText(row); !text.empty()) faults.push_back(std::move(text));
    }
    return faults;
  }

 private:
  static Status NothingFor(std::string_view flag) {
    return {ErrorCode::kUsage, fmt::format("{}: one rank alone exchanges nothing", flag),
            "-np 2 or more"};
  }

  Status CheckRoom(Communicator& communicator, size_t max_bytes) {
    const HostRoom room{AvailableMemoryHere(), NumberIn(environment_, "HOROVOD_LOCAL_SIZE", 1)};
    return CheckMemory(communicator, room, max_bytes);
  }

  Status TuneHere(Communicator& communicator, Output& output) {
    if (communicator.size() == 1) return NothingFor("--tune");
    HVDRAY_RETURN_IF_ERROR(CheckRoom(communicator, kTuneBytes));
    HVDRAY_ASSIGN_OR_RETURN(const AlgorithmTable table,
                            Tune(communicator, settings_.options,
                                 [&](const std::string& text) { return output.Show(text); }));
    return output.Finish(facts_, table, communicator.backend());
  }

  Status Measure(Communicator& communicator, Output& output) {
    if (communicator.size() == 1 && settings_.has_plot) return NothingFor("--plot");
    const size_t max_bytes = MaxBytesOf(cases_);
    HVDRAY_RETURN_IF_ERROR(CheckRoom(communicator, max_bytes));
    HVDRAY_ASSIGN_OR_RETURN(BenchRunner runner,
                            BenchRunner::Make(communicator, settings_.options, max_bytes));
    if (rows_.empty()) {
      facts_.copy_bytes = std::min(max_bytes, kCopyBytes);
      HVDRAY_ASSIGN_OR_RETURN(const BenchRunner::CopySpeed speed,
                              runner.MeasureCopy(facts_.copy_bytes));
      facts_.copy_least_gbps = speed.least_gbps;
      facts_.copy_most_gbps = speed.most_gbps;
      HVDRAY_RETURN_IF_ERROR(output.Show(TableFacts(facts_)));
    }
    const BenchCase* before = nullptr;
    for (const BenchCase& one : cases_) {
      if (before == nullptr || before->kind != one.kind) {
        HVDRAY_RETURN_IF_ERROR(
            output.Show(TableHead(facts_, one.kind, std::string(communicator.backend()))));
      }
      before = &one;
      HVDRAY_ASSIGN_OR_RETURN(BenchRow row, runner.Measure(one));
      if (facts_.is_one_host()) {
        HVDRAY_ASSIGN_OR_RETURN(const BenchRunner::CopySpeed speed, runner.MeasureCopy(one.bytes));
        row.copy_gbps = speed.mean_gbps;
      }
      HVDRAY_RETURN_IF_ERROR(output.Show(TableLine(facts_, row)));
      rows_.push_back(std::move(row));
    }
    return {};
  }

  const Settings& settings_;
  const Environment& environment_;
  BenchFacts facts_;
  std::vector<BenchCase> cases_;
  std::vector<BenchRow> rows_;
};

/// Of a rank that could not go on. Who lost peers did so by their fault or the network's.
int CodeOf(const Status& status) {
  const bool is_ours = status.code() == ErrorCode::kOutputLost ||
                       status.code() == ErrorCode::kOutOfResources ||
                       ExitCodeOf(status) == kNothingDone;
  return is_ours ? ExitCodeOf(status) : kBenchFailed;
}

int RunRank(const Settings& settings, const Environment& environment) {
  Bench bench(settings, environment);
  const int rank = NumberIn(environment, "HOROVOD_RANK", 0);
  const Result<bool> is_right = bench.Run();
  if (!is_right.ok()) {
    const int code = CodeOf(is_right.status());
    if (rank == 0 && (code == kNothingDone || is_right.status().code() == ErrorCode::kOutputLost)) {
      Fail("bench", is_right.status());  // all ranks know the same, or it alone does
    } else if (code == kNothingDone) {
      std::this_thread::sleep_for(kTurnOfRank0);
      Fail(fmt::format("bench: rank {}", rank), is_right.status());
    } else if (rank <= 1) {
      // Rank 0 may be the one that is gone.
      Fail(fmt::format("bench: rank {}", rank), is_right.status());
    }
    return code;
  }
  if (*is_right) return 0;
  if (rank == 0) {
    for (const std::string& fault : bench.Faults()) {
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
  const Result<Settings> settings = SettingsOf(request->said);
  if (!settings.ok()) return Fail("bench", settings.status());
  const Environment environment = Environment::FromProcess();
  const Status files = CheckFiles(*settings, request->run_words, environment);
  if (!files.ok()) return Fail("bench", files);
  const bool has_ranks = !environment.GetOr("HOROVOD_GLOO_RENDEZVOUS_ADDR", "").empty();
  if (!request->run_words.empty() || (!has_ranks && NamesWorkers(environment))) {
    if (settings->backends.empty()) {
      const Status status = CheckBackend("", environment.GetOr("HVDRAY_COLLECTIVE", ""));
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
