// What a person can try about a worker that failed, by what it said and how it was started. Pure;
// part of closing_lines.h.
#ifndef HVDRAY_LAUNCHER_REPORT_FAILURE_HINT_H_
#define HVDRAY_LAUNCHER_REPORT_FAILURE_HINT_H_

#include <span>
#include <string>

#include "launcher/driver/verdict.h"
#include "launcher/report/closing_lines.h"

namespace hvdray {

/// Empty: nothing that is known. verdict: has a first_failure, whose last lines of stderr are
/// `last_lines`.
std::string FailureHint(const Verdict& verdict, std::span<const std::string> last_lines,
                        const ClosingStyle& style);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_FAILURE_HINT_H_
