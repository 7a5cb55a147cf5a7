// --junit FILE: the job as a JUnit test suite, one test case a rank, for CI systems.
#ifndef HVDRAY_LAUNCHER_REPORT_JUNIT_H_
#define HVDRAY_LAUNCHER_REPORT_JUNIT_H_

#include <string>

#include "base/status.h"
#include "launcher/report/job_report.h"

namespace hvdray {

/// The first failure is a failure with its last stderr lines; workers that failed on their own are
/// failures; victims, and workers that never started, are skipped: they say nothing about
/// themselves; so are workers that failed of an elastic job that succeeded without them. A job that
/// broke without a worker to blame has one more test case, "hvdray", with an error.
std::string ToJunitXml(const JobReport& report);

/// Replaces `path` whole or not at all. Errors: kOutputLost.
Status WriteJunit(const std::string& path, const JobReport& report);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_JUNIT_H_
