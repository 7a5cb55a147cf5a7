// SPDX-License-Identifier: Apache-2.0
// The exit code for an error of hvdray's own (docs/errors.md).
#ifndef HVDRAY_LAUNCHER_JOB_EXIT_CODE_H_
#define HVDRAY_LAUNCHER_JOB_EXIT_CODE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace hvdray {

/// Nothing was changed: a mistake, or the user said no.
inline constexpr int kNothingDone = 2;

/// 0 for ok; 2 for what the user must change before anything can start; 124, 126, 127 and 141 as
/// docs/errors.md lists them; 125 for everything else. For errors before a job runs, and for
/// commands that run no job. Pure.
int ExitCode(const Status& status);

/// Prints "hvdray COMMAND: message [HVD-Ennnn]" and the hint to stderr and returns ExitCode().
int Fail(std::string_view command, const Status& status);

/// Writes `text` to stdout and returns `exit_code`. If nobody reads it: the code of kReaderGone. If
/// it cannot be written whole: Fail() with kOutputLost.
int PrintOut(std::string_view command, const std::string& text, int exit_code = 0);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_EXIT_CODE_H_
