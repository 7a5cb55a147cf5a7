// SPDX-License-Identifier: Apache-2.0
// The words of `hvdray replay`, and what people read about them. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_REPLAY_OPTIONS_H_
#define HVDRAY_LAUNCHER_JOB_REPLAY_OPTIONS_H_

#include <span>
#include <string>

#include "base/result.h"
#include "launcher/job/option_table.h"

namespace hvdray {

struct ReplayRequest {
  std::string path;
  bool is_json = false;
  bool is_quiet = false;
  bool wants_help = false;
  bool wants_version = false;
};

/// All that `hvdray replay` takes.
std::span<const OptionRow> ReplayOptionTable();

/// Options may stand before FILE and behind it. Errors: kUsage.
Result<ReplayRequest> ResolveReplay(std::span<const std::string> args);

/// `hvdray replay --help`.
std::string ReplayHelp();
/// The part of docs/cli.md about it.
std::string ReplayMarkdown();
/// hvdray-replay(1), in man(7) macros.
std::string ReplayManPage();
/// "--json -q ...", for completions.
std::string ReplayWords();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_REPLAY_OPTIONS_H_
