// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_ending.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "base/command_words.h"
#include "base/fd.h"
#include "base/log.h"
#include "launcher/report/closing_lines.h"
#include "launcher/report/junit.h"
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
    report.verdict.exit_code = 125;
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

/// The interpreter of the command, if that is a script on this machine under its own path.
std::string InterpreterHere(const JobSpec& spec) {
  constexpr size_t kMostBytes = 256;  // of the first line; the kernel reads no more
  std::string path = spec.command->front();
  if (path.find('/') == std::string::npos) return {};
  if (!path.starts_with('/') && !spec.working_directory->empty()) {
    path = *spec.working_directory + "/" + path;
  }
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, kMostBytes> bytes{};
  const ssize_t count = fd.is_valid() ? ::read(fd.get(), bytes.data(), bytes.size()) : 0;
  return InterpreterOf(std::string_view(bytes.data(), count > 0 ? static_cast<size_t>(count) : 0));
}

}  // namespace

int EndRun(const JobSpec& spec, Wording wording, const Environment& environment, Trace& trace,
           JobReport report, const std::function<void(std::span<const std::string> lines)>& print) {
  const TerminalStyle style =
      ChooseStyle(::isatty(STDERR_FILENO) != 0, *spec.color, *spec.is_quiet, environment);
  const ClosingStyle closing{.command = spec.command->front(),
                             .directory = *spec.working_directory,
                             .is_colored = style.is_colored && !IsLogJson(),
                             .is_quiet = *spec.is_quiet,
                             .is_verbose = *spec.is_verbose,
                             .has_horovods_words = wording == Wording::kHorovods,
                             .last_stdout = report.last_stdout,
                             .memberships = report.memberships,
                             .outlives_changes = spec.outlives_changes(),
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

}  // namespace hvdray
