// The one line that says how far the start of a job is. Pure; JobOutput shows it.
#ifndef HVDRAY_LAUNCHER_REPORT_PROGRESS_H_
#define HVDRAY_LAUNCHER_REPORT_PROGRESS_H_

#include <string>

#include "base/environ.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// Whether people's conveniences fit where stderr leads. `environment`: the launcher's.
struct TerminalStyle {
  bool is_progress_shown = false;
  bool is_colored = false;
};

/// CI is set, to anything but "false" and "0": nobody looks, and nobody is there to answer.
bool IsContinuousIntegration(const Environment& environment);

/// A progress line: on a terminal, but not with -q, TERM=dumb or CI set (to anything but "false"
/// and "0"). Color: as `mode` says; kAuto is a terminal without NO_COLOR, TERM=dumb or CI.
TerminalStyle ChooseStyle(bool is_terminal, ColorMode mode, bool is_quiet,
                          const Environment& environment);

/// How far the start is.
struct StartProgress {
  int host_count = 0;
  int hosts_ready = 0;
  int np = 0;
  int workers_started = 0;
};

/// "starting 4 workers on 1 host … 3/4", "starting 8 workers on 2 hosts … 1/2 hosts ready"; empty
/// once all run.
std::string ProgressText(const StartProgress& progress);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_PROGRESS_H_
