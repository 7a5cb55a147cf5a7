// SPDX-License-Identifier: Apache-2.0
// What people read about the options of `hvdray run` and `check`, all of it made from the option
// table. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HELP_H_
#define HVDRAY_LAUNCHER_JOB_HELP_H_

#include <cstddef>
#include <string>

namespace hvdray {

/// `hvdray run --help`: examples first, then the options by group. Wrapped at `width` columns, at
/// least 60.
std::string RunHelp(size_t width = 80);

/// `hvdray check --help`.
std::string CheckHelp(size_t width = 80);

/// docs/cli.md, of both.
std::string RunMarkdown();

/// The manual page hvdray-run(1), in man(7) macros.
std::string RunManPage();
/// hvdray-check(1).
std::string CheckManPage();

/// Completion of `hvdray run`, `hvdray check` and `horovodrun` for bash.
std::string BashCompletion();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HELP_H_
