// What people read about the options of `hvdray run`, all of it made from the option table. Pure.
#ifndef HVDRAY_LAUNCHER_SPEC_HELP_H_
#define HVDRAY_LAUNCHER_SPEC_HELP_H_

#include <cstddef>
#include <string>

namespace hvdray {

/// `hvdray run --help`: examples first, then the options by group. Wrapped at `width` columns, at
/// least 60.
std::string RunHelp(size_t width = 80);

/// docs/cli.md.
std::string RunMarkdown();

/// The manual page hvdray-run(1), in man(7) macros.
std::string RunManPage();

/// Completion of `hvdray run` and `horovodrun` for bash.
std::string BashCompletion();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_SPEC_HELP_H_
