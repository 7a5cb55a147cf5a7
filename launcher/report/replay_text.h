// SPDX-License-Identifier: Apache-2.0
// What `hvdray replay` prints: transitions in order and the result. Pure. docs/replay.md.
#ifndef HVDRAY_LAUNCHER_REPORT_REPLAY_TEXT_H_
#define HVDRAY_LAUNCHER_REPORT_REPLAY_TEXT_H_

#include <string>

#include "launcher/driver/elastic_replay.h"

namespace hvdray {

inline constexpr std::string_view kReplaySchema = "hvdray.replay/1";

/// Text for users; ends with the result.
std::string ReplayText(const ReplayResult& result);
/// Only the faults; empty if there are none.
std::string ReplayFaults(const ReplayResult& result);
/// One JSON object (docs/replay.md), with a newline.
std::string ReplayJson(const ReplayResult& result);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_REPLAY_TEXT_H_
