// SPDX-License-Identifier: Apache-2.0
// The progress line of a job's start. Pure; JobOutput shows it.
#ifndef HVDRAY_LAUNCHER_REPORT_PROGRESS_H_
#define HVDRAY_LAUNCHER_REPORT_PROGRESS_H_

#include <string>

#include "base/environ.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// What the terminal behind stderr allows.
struct TerminalStyle {
  bool is_progress_shown = false;
  bool is_colored = false;
};

/// CI is set to anything but "false" and "0": no user watches or answers questions. `environment`:
/// the launcher's.
bool IsContinuousIntegration(const Environment& environment);

/// A progress line needs a terminal, no -q, no TERM=dumb and no CI. Color follows `mode`; kAuto
/// needs a terminal without NO_COLOR, TERM=dumb and CI.
TerminalStyle ChooseStyle(bool is_terminal, ColorMode mode, bool is_quiet,
                          const Environment& environment);

/// Counters of the start.
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
