// SPDX-License-Identifier: Apache-2.0
// What people read about the commands and their options, made from the tables. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HELP_H_
#define HVDRAY_LAUNCHER_JOB_HELP_H_

#include <cstddef>
#include <string>

#include "launcher/job/option_table.h"

namespace hvdray {

/// `hvdray COMMAND --help`, of a command with arguments: examples first, then the options. Wrapped
/// at `width` columns, at least 60.
std::string Help(const CommandRow& command, size_t width = 80);
/// `hvdray --help`.
std::string OverviewHelp();

/// hvdray-COMMAND(1), in man(7) macros.
std::string ManPage(const CommandRow& command);
/// hvdray(1).
std::string OverviewManPage();

/// Completion of hvdray and horovodrun for bash.
std::string BashCompletion();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HELP_H_
