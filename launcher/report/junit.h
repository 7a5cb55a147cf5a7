// SPDX-License-Identifier: Apache-2.0
// --junit FILE: the job as a JUnit test suite, one test case per rank, for CI systems.
// docs/report.md, "JUnit".
#ifndef HVDRAY_LAUNCHER_REPORT_JUNIT_H_
#define HVDRAY_LAUNCHER_REPORT_JUNIT_H_

#include <string>

#include "base/status.h"
#include "launcher/report/job_report.h"

namespace hvdray {

/// The first failure is a failure with its last lines of stderr; other workers that failed by
/// themselves are failures, too. Victims, workers that never started, and failed workers of an
/// elastic job that succeeded without them are skipped. A job that failed without a worker to blame
/// has one more test case, "hvdray", with an error.
std::string ToJunitXml(const JobReport& report);

/// Replaces `path` atomically. Blocks. Errors: kOutputLost.
Status WriteJunit(const std::string& path, const JobReport& report);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_JUNIT_H_
