// The last lines on the terminal: who failed first, how, when, and what to do. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_CLOSING_LINES_H_
#define HVDRAY_LAUNCHER_REPORT_CLOSING_LINES_H_

#include <span>
#include <string>
#include <vector>

#include "launcher/driver/verdict.h"
#include "launcher/report/memberships.h"

namespace hvdray {

struct ClosingStyle {
  std::string command = {};  ///< argv[0]: named when it could not be executed.
  std::string folder = {};   ///< --cwd: named when it could not be entered.
  bool is_colored = false;
  bool is_quiet = false;    ///< -q: nothing on success.
  bool is_verbose = false;  ///< --verbose: one line on success too, and the table of generations.
  bool has_horovods_words = false;  ///< Called as horovodrun: its sentences come first.
  std::span<const std::string> last_stdout = {};       ///< Shown when last_lines is empty.
  std::span<const MembershipRecord> memberships = {};  ///< Of an elastic job.
  bool outlives_changes = false;  ///< An elastic job whose workers live through a change.
  /// What the first line of the command names, if it is a script on this machine.
  std::string interpreter = {};
};

/// Lines for stderr, without line ends; empty on plain success. last_lines: the first failure's
/// stderr. Horovod's own sentences (scripts look for them) are there only for who asked for
/// horovodrun, and all on stderr, where horovodrun mixes some into the data on stdout.
std::vector<std::string> ClosingLines(const Verdict& verdict,
                                      std::span<const std::string> last_lines,
                                      const ClosingStyle& style);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CLOSING_LINES_H_
