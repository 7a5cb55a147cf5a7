#include "cmd/run_ending.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/notice.h"
#include "launcher/output/progress.h"
#include "launcher/report/closing_lines.h"
#include "launcher/report/junit.h"

namespace hvdray {
namespace {

// A report that can't be written makes a good job a bad one, but never hides how a bad one ended:
// then it is one line more.
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

// As objects, level by how the job ended. What is quoted of a worker keeps its bar.
void MakeJson(std::vector<std::string>& lines, int exit_code) {
  const LogLevel level = exit_code == 0 ? LogLevel::kInfo : LogLevel::kError;
  for (std::string& line : lines) {
    std::string_view text = line;
    for (const std::string_view who : {"hvdray: ", "hvdray run: "}) {
      if (text.starts_with(who)) text.remove_prefix(who.size());
    }
    line = Notice(level, "hvdray", text);
  }
}

}  // namespace

int EndRun(const JobSpec& spec, Wording wording, const Environment& environment, Trace& trace,
           JobReport report, const std::function<void(std::span<const std::string> lines)>& print) {
  const TerminalStyle style =
      ChooseStyle(::isatty(STDERR_FILENO) != 0, *spec.color, *spec.is_quiet, environment);
  const ClosingStyle closing{.command = spec.command->front(),
                             .folder = *spec.working_folder,
                             .is_colored = style.is_colored && !IsLogJson(),
                             .is_quiet = *spec.is_quiet,
                             .is_verbose = *spec.is_verbose,
                             .has_horovods_words = wording == Wording::kHorovods,
                             .last_stdout = report.last_stdout,
                             .memberships = report.memberships};
  // The files first: a reader of stderr that has stopped reading must not cost them.
  std::vector<std::string> lines = WriteReports(spec, trace, report);
  for (std::string& line : ClosingLines(report.verdict, report.last_lines, closing)) {
    lines.push_back(std::move(line));
  }
  if (IsLogJson()) MakeJson(lines, report.verdict.exit_code);
  print(lines);
  return report.verdict.exit_code;
}

}  // namespace hvdray
