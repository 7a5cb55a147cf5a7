// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_ending.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/command_words.h"
#include "base/exec.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/tcp_address.h"
#include "base/text.h"
#include "launcher/driver/cause.h"
#include "launcher/job/exit_code.h"
#include "launcher/report/job_report.h"
#include "launcher/report/memberships.h"
#include "launcher/report/progress.h"

namespace hvdray {
namespace {

// A failed write turns success into failure, but never hides an earlier failure: then it only adds
// a line.
std::vector<std::string> WriteReports(const JobSpec& spec, Trace& trace, JobReport& report) {
  std::vector<std::string> lines;
  const auto note = [&report, &lines](const Status& status) {
    if (status.ok()) return;
    if (report.verdict.exit_code != 0) {
      lines.push_back(fmt::format("hvdray run: {}", status.ToString()));
      return;
    }
    report.verdict.exit_code = ExitCode(status);
    report.verdict.origin = ExitOrigin::kHvdray;
    report.verdict.error = status;
  };
  if (!spec.trace_file->empty()) {
    note(trace.WriteTo(*spec.trace_file, std::chrono::steady_clock::now()));
  }
  if (!spec.junit_file->empty()) note(WriteJunit(*spec.junit_file, report));
  if (!spec.report_file->empty()) note(WriteJobReport(*spec.report_file, report));
  return lines;
}

// Turns lines into JSON objects; the level follows the exit code. Quoted lines of a worker keep
// their bar.
void MakeJson(std::vector<std::string>& lines, int exit_code) {
  const LogLevel level = exit_code == 0 ? LogLevel::kInfo : LogLevel::kError;
  for (std::string& line : lines) {
    std::string_view text = line;
    for (const std::string_view who : {"hvdray: ", "hvdray run: "}) {
      if (text.starts_with(who)) text.remove_prefix(who.size());
    }
    line = NoticeLine(level, "hvdray", text);
  }
}

/// The interpreter or loader of the command, if that has one on this machine under its own path.
std::string InterpreterHere(const JobSpec& spec) {
  std::string path = spec.command->front();
  if (path.find('/') == std::string::npos) return {};
  if (!path.starts_with('/') && !spec.working_directory->empty()) {
    path = *spec.working_directory + "/" + path;
  }
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, kInterpreterBytes> bytes{};
  const ssize_t count = fd.is_valid() ? ::read(fd.get(), bytes.data(), bytes.size()) : 0;
  return Interpreter(std::string_view(bytes.data(), count > 0 ? static_cast<size_t>(count) : 0));
}

}  // namespace

int EndRun(const JobSpec& spec, CalledAs name, const Environment& environment, Trace& trace,
           JobReport report, const std::function<void(std::span<const std::string> lines)>& print) {
  const TerminalStyle style =
      ChooseStyle(::isatty(STDERR_FILENO) != 0, *spec.color, *spec.is_quiet, environment);
  std::error_code none;
  const ClosingStyle closing{.command = spec.command->front(),
                             .directory = spec.working_directory->empty()
                                              ? std::filesystem::current_path(none).string()
                                              : *spec.working_directory,
                             .is_colored = style.is_colored && !IsLogJson(),
                             .is_quiet = *spec.is_quiet,
                             .is_verbose = *spec.is_verbose,
                             .has_horovods_words = name == CalledAs::kHorovodrun,
                             .last_stdout = report.last_stdout,
                             .memberships = report.memberships,
                             .outlives_changes = spec.outlives_changes(),
                             .has_builtin_horovod = *spec.horovod == HorovodChoice::kBuiltin,
                             .interpreter = InterpreterHere(spec)};
  // Files first: a blocked reader of stderr must not prevent them.
  std::vector<std::string> lines = WriteReports(spec, trace, report);
  for (std::string& line : ClosingLines(report.verdict, report.last_lines, closing)) {
    lines.push_back(std::move(line));
  }
  if (IsLogJson()) MakeJson(lines, report.verdict.exit_code);
  print(lines);
  return report.verdict.exit_code;
}

namespace {

constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kPlain = "\x1b[0m";

std::string Painted(std::string_view color, std::string text, const ClosingStyle& style) {
  return style.is_colored ? fmt::format("{}{}{}", color, text, kPlain) : text;
}

std::string After(Duration time) {
  const double seconds = std::chrono::duration_cast<Seconds>(time).count();
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}

// What a user can try if the verdict itself has no hint.
std::string HintFor(const WorkerRecord& worker) {
  if (!worker.status.has_value()) return {};
  const wire::ExitStatus& status = *worker.status;
  if (status.stage == wire::ExecStage::kExec && status.error == ENOENT) {
    return fmt::format(
        "is it installed on {}, and on the PATH there? A program in the workers' "
        "directory is called with ./ before its name",
        worker.host);
  }
  if (status.stage == wire::ExecStage::kExec && status.error != EACCES && status.error != ENOEXEC) {
    return {};  // The error itself says it: a loop of links, a file in place of a directory.
  }
  if (status.stage == wire::ExecStage::kExec) {
    return "name an executable file, or its interpreter first: python train.py";
  }
  if (status.is_oom) return "run fewer workers per host, or reduce the memory that each one uses";
  if (status.has_core) return "/proc/sys/kernel/core_pattern says where the core file went";
  if (status.signal == SIGKILL && worker.error.text.empty()) {
    return "hvdray did not send that SIGKILL: look for the out-of-memory killer in dmesg";
  }
  return {};
}

void AddHorovodsWords(const WorkerRecord& worker, std::vector<std::string>& lines) {
  if (!worker.status.has_value()) return;
  const int code = ExitCode(worker);
  lines.push_back(fmt::format("Process {} exit with status code {}.", worker.rank, code));
  lines.push_back(
      fmt::format("Terminating remaining workers after failure of Process {}.", worker.rank));
  lines.emplace_back(
      "Horovod detected that one or more processes exited with non-zero status, thus causing the "
      "job to be terminated. The first process to do so was:");
  lines.push_back(fmt::format("Process name: {}", worker.rank));
  lines.push_back(fmt::format("Exit code: {}", code));
  lines.emplace_back();
}

// How certain it is that this worker failed first; if not, the evidence.
std::string Certainty(const Verdict& verdict) {
  if (verdict.is_first_certain) return "; first to fail";
  return fmt::format("; probably first: {}", fmt::join(verdict.evidence, ", "));
}

void AddFirstFailure(const Verdict& verdict, std::span<const std::string> last_lines,
                     const ClosingStyle& style, std::vector<std::string>& lines) {
  const WorkerRecord& worker = *verdict.first_failure;
  std::string text = fmt::format("hvdray: rank {} on host {}", worker.rank, worker.host);
  const bool has_run = !worker.status || worker.status->stage == wire::ExecStage::kNone;
  const bool is_directory = !has_run && worker.status->stage == wire::ExecStage::kDirectory;
  const std::string& what = is_directory ? style.directory : style.command;
  text += has_run || what.empty() ? " " : fmt::format(": {} ", ShownLine(what));
  text += worker.status.has_value() ? DescribeFailure(worker) : "was lost with its agent";
  if (worker.ended.has_value()) {
    text += fmt::format(", {} after the start", After(*worker.ended - verdict.started));
  }
  // A command that can't be executed is the cause, whichever worker was first.
  if (verdict.workers.size() > 1 && (has_run || verdict.is_first_certain)) {
    text += Certainty(verdict);
  }
  if (IsWorkerToBlame(verdict)) text += fmt::format(" [{}]", ErrorLabel(verdict.error.code()));
  lines.push_back(Painted(kRed, std::move(text), style));
  const std::span<const std::string> quoted = last_lines.empty() ? style.last_stdout : last_lines;
  if (quoted.empty()) return;
  lines.push_back(
      fmt::format("hvdray: last lines of its {}:", last_lines.empty() ? "stdout" : "stderr"));
  for (const std::string& line : quoted) lines.push_back("  | " + ShownLine(line));
}

void AddError(const Status& error, const ClosingStyle& style, std::vector<std::string>& lines) {
  std::string text =
      fmt::format("hvdray: {} [{}]", ShownLine(error.message()), ErrorLabel(error.code()));
  lines.push_back(Painted(kRed, std::move(text), style));
}

void AddHint(const std::string& hint, const ClosingStyle& style, std::vector<std::string>& lines) {
  if (!hint.empty()) lines.push_back(Painted(kBold, "hvdray:   hint: " + ShownLine(hint), style));
}

// The other workers, each group in one line: victims, own failures, lost ones.
void AddOthers(const Verdict& verdict, const ClosingStyle& style, std::vector<std::string>& lines) {
  std::vector<int> victims, lost, not_started, succeeded;
  std::map<std::string, std::vector<int>> failed;
  for (const WorkerRecord& worker : verdict.workers) {
    const bool is_first = verdict.first_failure.has_value() &&
                          verdict.first_failure->generation == worker.generation &&
                          verdict.first_failure->rank == worker.rank;
    if (is_first) continue;
    switch (ToOutcome(worker, verdict)) {
      case WorkerOutcome::kSucceeded:
        succeeded.push_back(worker.rank);
        break;
      case WorkerOutcome::kFailed:
        failed[Describe(*worker.status)].push_back(worker.rank);
        break;
      case WorkerOutcome::kStopped:
        victims.push_back(worker.rank);
        break;
      case WorkerOutcome::kLost:
        lost.push_back(worker.rank);
        break;
      case WorkerOutcome::kNotStarted:
        not_started.push_back(worker.rank);
        break;
    }
  }
  for (const WorkerRecord& worker : verdict.workers) {
    if (verdict.first_failure.has_value() || !worker.error.text.starts_with(kStallRecord)) continue;
    lines.push_back(fmt::format("hvdray: {} {}", Name(worker), DescribeFailure(worker)));
  }
  for (const auto& [how, ranks] : failed) {
    lines.push_back(fmt::format("hvdray: {} failed too: {}", RanksText(ranks), how));
  }
  if (!victims.empty()) {
    const std::string_view why =
        verdict.first_failure.has_value() ? "stopped because of it" : "stopped";
    lines.push_back(fmt::format("hvdray: {}: {}", why, RanksText(victims)));
  }
  if (!lost.empty()) lines.push_back("hvdray: lost with their agent: " + RanksText(lost));
  // Obvious in a static job; an elastic one may have failed because of them.
  if (!style.memberships.empty() && !succeeded.empty()) {
    lines.push_back("hvdray: succeeded: " + RanksText(succeeded));
  }
  if (!not_started.empty()) lines.push_back("hvdray: never started: " + RanksText(not_started));
}

void AddRestartsAndOrphans(const Verdict& verdict, const ClosingStyle& style,
                           std::vector<std::string>& lines) {
  if (!style.memberships.empty()) {
    for (std::string& line :
         MembershipLines(style.memberships, verdict.started, style.is_verbose)) {
      lines.push_back(std::move(line));
    }
  } else if (verdict.restarts > 0 && style.is_quiet) {  // else each was printed when it happened
    lines.push_back(fmt::format("hvdray: restarted {}", Count(verdict.restarts, "time")));
  }
  if (verdict.swept > 0) {
    const bool is_one = verdict.swept == 1;
    lines.push_back(fmt::format("hvdray: killed {} that workers left behind",
                                is_one ? "1 process" : fmt::format("{} processes", verdict.swept)));
  }
}

// Also with -q: what they wanted to save is lost.
void AddKilled(const Verdict& verdict, const ClosingStyle& style, std::vector<std::string>& lines) {
  const Status killed = KilledAfterGrace(verdict.workers);
  if (killed.ok()) return;
  lines.push_back("hvdray: " + killed.message());
  AddHint(killed.hint(), style, lines);
}

std::vector<std::string> SuccessLines(const Verdict& verdict, const ClosingStyle& style) {
  std::vector<std::string> lines;
  if (style.is_quiet) return lines;
  AddRestartsAndOrphans(verdict, style, lines);
  if (style.is_verbose) {
    const auto ended_well = std::count_if(
        verdict.workers.begin(), verdict.workers.end(), [&verdict](const WorkerRecord& worker) {
          return ToOutcome(worker, verdict) == WorkerOutcome::kSucceeded;
        });
    // The workers of a client of `hvdray serve` are its own to count.
    if (ended_well > 0) {
      lines.push_back(fmt::format("hvdray: {} succeeded after {}",
                                  Count(static_cast<size_t>(ended_well), "worker"),
                                  After(verdict.ended - verdict.started)));
    }
  }
  return lines;
}

bool LineHas(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

/// Gloo or torch.distributed on one host gave the others an address that only it can reach.
/// 127.0.0.1 alone proves nothing: workers reach their rendezvous there.
bool IsPeerOnLoopback(std::string_view line) {
  const bool is_failure = LineHas(line, "refused") || LineHas(line, "timed out") ||
                          LineHas(line, "timeout") || LineHas(line, "connectFullMesh") ||
                          LineHas(line, "reset by peer");
  return is_failure &&
         (LineHas(line, "[127.") || LineHas(line, "127.0.1.1") || LineHas(line, "[::ffff:127."));
}

/// Hosts that all have loopback addresses can reach each other over these.
bool HasRemoteHost(std::span<const WorkerRecord> workers) {
  const auto is_here = [](const std::string& host) {
    in_addr address{};
    const bool is_number = ::inet_aton(host.c_str(), &address) != 0;
    return host == "localhost" || (is_number && IsLoopback(ntohl(address.s_addr)));
  };
  const std::string first = workers.empty() ? std::string() : workers.front().host;
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerRecord& worker) {
    return worker.host != first && !(is_here(worker.host) && is_here(first));
  });
}

/// What torch.distributed prints when torchrun's variables are missing.
bool IsRankMissing(std::string_view line) {
  return LineHas(line, "environment variable") && LineHas(line, "expected, but not set") &&
         (LineHas(line, "RANK") || LineHas(line, "WORLD_SIZE") || LineHas(line, "MASTER_"));
}

/// A script's `os.environ["RANK"]`.
bool IsPackageMissing(std::string_view line) {
  return LineHas(line, "Error: No module named 'hvdray");
}

std::string PackageHint(bool has_remote_host) {
  const std::string own = OwnPythonPath();
  if (has_remote_host || own.empty()) {
    return "the script's Python lacks hvdray's package: in hvdray's sources, pip install .";
  }
  return fmt::format("the script's Python lacks hvdray's package: export PYTHONPATH={}", own);
}

bool IsKeyOfTorchrun(std::string_view line) {
  const auto keys = {"'RANK'", "'LOCAL_RANK'", "'WORLD_SIZE'", "'MASTER_ADDR'", "'MASTER_PORT'"};
  return line.starts_with("KeyError: ") &&
         std::any_of(keys.begin(), keys.end(),
                     [line](const char* key) { return LineHas(line, key); });
}

bool IsHorovodMissing(std::string_view line) {
  return line.starts_with("ModuleNotFoundError: No module named 'horovod'");
}

/// The cause, unless a worker's failure says it, and all that was lost besides.
void AddErrors(const Verdict& verdict, std::span<const std::string> last_lines,
               const ClosingStyle& style, std::vector<std::string>& lines) {
  std::string hint;
  if (verdict.first_failure.has_value()) hint = FailureHint(verdict, last_lines, style);
  if (hint.empty()) hint = verdict.error.hint();
  if (IsWorkerToBlame(verdict)) {
    if (hint.empty()) hint = HintFor(*verdict.first_failure);
  } else if (!verdict.error.ok()) {
    AddError(verdict.error, style, lines);
  }
  AddHint(hint, style, lines);
  // The first loss is printed above.
  for (size_t i = 1; i < verdict.losses.size(); ++i) {
    const Status& error = verdict.losses[i].error;
    AddError(error, style, lines);
    if (error.hint() != std::exchange(hint, error.hint())) AddHint(error.hint(), style, lines);
  }
}

}  // namespace

std::vector<std::string> ClosingLines(const Verdict& verdict,
                                      std::span<const std::string> last_lines,
                                      const ClosingStyle& style) {
  if (verdict.error.ok() && verdict.exit_code == 0) return SuccessLines(verdict, style);
  std::vector<std::string> lines;
  if (IsWorkerToBlame(verdict) && style.has_horovods_words) {
    AddHorovodsWords(*verdict.first_failure, lines);
  }
  // The cause comes first: a worker's failure, or what kept all of them from their work.
  const bool has_failure = verdict.first_failure.has_value();
  if (has_failure) {
    AddFirstFailure(verdict, last_lines, style, lines);
  } else {
    AddErrors(verdict, last_lines, style, lines);
  }
  AddOthers(verdict, style, lines);
  AddKilled(verdict, style, lines);
  AddRestartsAndOrphans(verdict, style, lines);
  if (has_failure) AddErrors(verdict, last_lines, style, lines);
  return lines;
}

std::string FailureHint(const Verdict& verdict, std::span<const std::string> last_lines,
                        const ClosingStyle& style) {
  const WorkerRecord& worker = *verdict.first_failure;
  if (worker.status && worker.status->stage == wire::ExecStage::kExec) {
    if (worker.status->error == ELIBACC) return InterpreterHint(style.command, style.interpreter);
    return CommandHint(style.command, worker.status->error == ENOENT);
  }
  const auto any = [last_lines](bool (*is_sign)(std::string_view line)) {
    return std::any_of(last_lines.begin(), last_lines.end(), is_sign);
  };
  if (HasRemoteHost(verdict.workers) && any(&IsPeerOnLoopback)) {
    return "a host announced a loopback address, because its own name resolves to it; hvdray check "
           "says which host: fix /etc/hosts there";
  }
  if (any(&IsPackageMissing)) return PackageHint(HasRemoteHost(verdict.workers));
  if (any(&IsHorovodMissing)) {
    if (style.has_builtin_horovod) {
      return "--horovod builtin works by PYTHONPATH, which python -I and -E ignore";
    }
    return "--horovod builtin has hvdray's own horovod.torch imported, which needs no Horovod";
  }
  if (style.outlives_changes && (any(&IsRankMissing) || any(&IsKeyOfTorchrun))) {
    return "a torch.distributed script needs --elastic-mode gang, which sets RANK and WORLD_SIZE "
           "and restarts all workers after a change";
  }
  return {};
}

}  // namespace hvdray
