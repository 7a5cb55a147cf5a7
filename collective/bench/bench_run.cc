// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/bench_run.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

#include "base/distinct_files.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/report_file.h"
#include "base/text.h"
#include "base/user_home.h"
#include "collective/bench/plots.h"
#include "collective/bench/results.h"
#include "collective/bench/runner.h"
#include "collective/bench/tune.h"
#include "collective/communicator.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

/// Large enough for no cache to hold it, where --maxbytes allows that.
constexpr size_t kCopyBytes = size_t{32} << 20;

int NumberIn(const Environment& environment, const std::string& name, int fallback) {
  return ParseInteger<int>(environment.GetOr(name, "")).value_or(fallback);
}

/// Rank 0's files and table. Of other ranks nothing comes.
class Output {
 public:
  /// Checks the files at once: a path that can't be written should not cost a measurement.
  static Result<Output> Open(const BenchSettings& settings, bool is_speaker) {
    if (is_speaker) {
      for (const auto& [flag, path] : settings.files()) {
        if (path == kBenchStdout) continue;
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
    const std::vector<PlotSeries> series = Series(rows);
    if (settings_.svg.empty()) return Show("\n" + TerminalPlot(series));
    return Write("--plot", settings_.svg,
                 SvgPlot(series, fmt::format("busbw of {} on {}",
                                             Count(static_cast<uint64_t>(facts.size), "rank"),
                                             Count(static_cast<uint64_t>(facts.hosts), "host"))));
  }

 private:
  Output(const BenchSettings& settings, bool is_speaker)
      : settings_(settings), is_speaker_(is_speaker) {}

  static Status Print(const std::string& text) {
    if (WriteAll(STDOUT_FILENO, text).ok()) return {};
    return OutputLost("stdout", errno).WithCode(ErrorCode::kOutputLost);
  }
  static Status Write(std::string_view flag, const std::string& path, const std::string& text) {
    if (path.empty()) return {};
    return path == kBenchStdout ? Print(text) : WriteReportFile(path, flag, text);
  }

  const BenchSettings& settings_;
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

BenchFacts FactsHere(const CommunicatorOptions& options, const BenchSettings& settings,
                     const Environment& environment) {
  BenchFacts facts;
  facts.build = settings.build;
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

/// What CommunicatorOptionsFrom() makes of `environment` with this backend, unless that is empty.
Result<CommunicatorOptions> BenchCommunicatorOptions(Environment environment,
                                                     const std::string& backend,
                                                     const std::string& name) {
  if (!backend.empty()) environment.Set("HVDRAY_COLLECTIVE", backend);
  Result<CommunicatorOptions> options = CommunicatorOptionsFrom(environment, name);
  if (options.ok() || backend.empty()) return options;
  return std::move(options).status().WithContext("--backend");
}

class Bench {
 public:
  Bench(const BenchSettings& settings, const Environment& environment)
      : settings_(settings), environment_(environment) {}

  /// Measures all.
  Status Run() {
    const std::vector<std::string> backends =
        settings_.backends.empty() ? std::vector<std::string>{""} : settings_.backends;
    HVDRAY_ASSIGN_OR_RETURN(const CommunicatorOptions first,
                            BenchCommunicatorOptions(environment_, backends.front(), "bench"));
    HVDRAY_ASSIGN_OR_RETURN(cases_, CasesOf(settings_.sweep, first.size));
    HVDRAY_ASSIGN_OR_RETURN(Output output, Output::Open(settings_, first.rank == 0));
    facts_ = FactsHere(first, settings_, environment_);
    for (size_t i = 0; i < backends.size(); ++i) {
      HVDRAY_ASSIGN_OR_RETURN(
          const CommunicatorOptions options,
          BenchCommunicatorOptions(environment_, backends[i], fmt::format("bench{}", i)));
      HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                              MakeCommunicator(options));
      if (!settings_.tune.empty()) {
        return TuneHere(*communicator, output);
      }
      HVDRAY_RETURN_IF_ERROR(Measure(*communicator, output));
    }
    return output.Finish(facts_, rows_);
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
    const size_t max_bytes = MaxBytes(cases_);
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

  const BenchSettings& settings_;
  const Environment& environment_;
  BenchFacts facts_;
  std::vector<BenchCase> cases_;
  std::vector<BenchRow> rows_;
};

}  // namespace

Status CheckBenchBackend(const std::string& backend, const std::string& variable) {
  Environment environment;
  environment.Set("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1");
  environment.Set("HVDRAY_COLLECTIVE", variable);
  return BenchCommunicatorOptions(std::move(environment), backend, "bench").status();
}

Status CheckBenchFiles(const BenchSettings& settings, const std::vector<std::string>& run_words,
                       const Environment& environment) {
  std::vector<NamedFile> outputs;
  for (const auto& [flag, path] : settings.files()) {
    if (path != kBenchStdout) outputs.push_back(LookAtFile(std::string(flag), std::string(path)));
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

Result<std::vector<std::string>> RunBench(const BenchSettings& settings,
                                          const Environment& environment) {
  Bench bench(settings, environment);
  HVDRAY_RETURN_IF_ERROR(bench.Run());
  return bench.Faults();
}

}  // namespace hvdray
