// What `hvdray replay` prints: transitions in order and how it came out. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_REPLAY_TEXT_H_
#define HVDRAY_LAUNCHER_REPORT_REPLAY_TEXT_H_

#include <string>

#include "launcher/driver/elastic_replay.h"

namespace hvdray {

inline constexpr std::string_view kReplaySchema = "hvdray.replay/1";

/// For people. Ends with how it came out.
std::string ReplayText(const ReplayResult& result);
/// Only what went wrong; empty when nothing did.
std::string ReplayFaults(const ReplayResult& result);
/// One JSON object (docs/replay.md), with a newline.
std::string ReplayJson(const ReplayResult& result);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_REPLAY_TEXT_H_
