// SPDX-License-Identifier: Apache-2.0
// What people read about the commands and their options, made from the tables. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_HELP_H_
#define HVDRAY_LAUNCHER_JOB_HELP_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/job/option_table.h"

namespace hvdray {

/// `hvdray COMMAND --help`, of a command with arguments: examples first, then the options. Wrapped
/// at `width` columns, at least 60.
std::string Help(const CommandRow& command, size_t width = 80);
/// `hvdray --help`.
std::string OverviewHelp();

/// Date and version of the newest release in the text of CHANGELOG.md, for the foot of man pages.
std::string NewestRelease(std::string_view changelog);
/// The first lines of a page. `name`: "hvdray-run".
std::string ManTitle(std::string_view name, int section, std::string_view release);
/// A paragraph of a page, printed as it is.
std::string RoffText(std::string_view text);
/// hvdray-COMMAND(1), in man(7) macros.
std::string ManPage(const CommandRow& command, std::string_view release);
/// hvdray(1).
std::string OverviewManPage(std::string_view release);

// Completion of hvdray and horovodrun, in completion.cc.

std::string BashCompletion();
std::string ZshCompletion();
std::string FishCompletion();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HELP_H_
