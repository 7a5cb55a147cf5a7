// SPDX-License-Identifier: Apache-2.0
// The last steps of every job, after its launcher has run: reports, closing lines (which worker
// failed first, how, when, and what to do), exit code.
#ifndef HVDRAY_LAUNCHER_REPORT_RUN_ENDING_H_
#define HVDRAY_LAUNCHER_REPORT_RUN_ENDING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/environ.h"
#include "launcher/driver/verdict.h"
#include "launcher/job/job_spec.h"
#include "launcher/report/job_report.h"
#include "launcher/report/memberships.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// Writes the files that the spec asks for, passes the closing lines to `print` (a launcher's
/// Print()) and returns the exit code. `environment`: hvdray's own. Blocks as `print` does.
int EndRun(const JobSpec& spec, CalledAs name, const Environment& environment, Trace& trace,
           JobReport report, const std::function<void(std::span<const std::string> lines)>& print);

/// What the lines may mention and how they look.
struct ClosingStyle {
  std::string command = {};    ///< argv[0]: named if it could not be executed.
  std::string directory = {};  ///< --cwd: named if workers could not enter it.
  bool is_colored = false;
  bool is_quiet = false;    ///< -q: no lines on success.
  bool is_verbose = false;  ///< --verbose: a line on success, too, and the table of generations.
  bool has_horovods_words = false;  ///< Called as horovodrun: print its sentences first.
  std::span<const std::string> last_stdout = {};       ///< Shown if last_lines is empty.
  std::span<const MembershipRecord> memberships = {};  ///< Of an elastic job.
  bool outlives_changes = false;  ///< An elastic job whose workers survive changes.
  bool has_builtin_horovod = false;
  /// The interpreter in the command's first line, if it is a script on this machine.
  std::string interpreter = {};
};

/// Lines for stderr, without line ends; empty on plain success. `last_lines`: the first failure's
/// stderr. Horovod's own sentences (scripts look for them) appear only when hvdray was called as
/// horovodrun, and always on stderr; horovodrun mixes some into the data on stdout.
std::vector<std::string> ClosingLines(const Verdict& verdict,
                                      std::span<const std::string> last_lines,
                                      const ClosingStyle& style);

/// What a user can try after a worker failed, from its output and its command. Empty: no advice.
/// `verdict` has a first_failure; `last_lines` are its last lines of stderr.
std::string FailureHint(const Verdict& verdict, std::span<const std::string> last_lines,
                        const ClosingStyle& style);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_RUN_ENDING_H_
