// SPDX-License-Identifier: Apache-2.0
// The last steps of every job, after its launcher has run: reports, closing lines, exit code.
#ifndef HVDRAY_LAUNCHER_REPORT_RUN_ENDING_H_
#define HVDRAY_LAUNCHER_REPORT_RUN_ENDING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/environ.h"
#include "launcher/job/job_spec.h"
#include "launcher/report/job_report.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// kHorovods: failures are printed in Horovod's sentences, too: scripts that call horovodrun look
/// for them.
enum class Wording : uint8_t { kOwn, kHorovods };

/// Writes the files that the spec asks for, passes the closing lines to `print` (a launcher's
/// Print()) and returns the exit code. `environment`: hvdray's own. Blocks as `print` does.
int EndRun(const JobSpec& spec, Wording wording, const Environment& environment, Trace& trace,
           JobReport report, const std::function<void(std::span<const std::string> lines)>& print);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_RUN_ENDING_H_
