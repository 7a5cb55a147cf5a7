// SPDX-License-Identifier: Apache-2.0
// The JSON form of a job's facts, shared by report and events. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_FACTS_JSON_H_
#define HVDRAY_LAUNCHER_REPORT_FACTS_JSON_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/events.h"
#include "launcher/driver/verdict.h"
#include "wire/message.h"

namespace hvdray {

/// "SIGSEGV", "SIGRTMIN+3", "signal 99".
std::string SignalName(int signo);
/// {"code": "HVD-E0303", "name", "message", "hint", "retriable"}; null if ok.
Json ErrorJson(const Status& status);
/// {"code", "origin", "error", "more_errors"}; these errors have "hosts", too.
Json ExitJson(const Verdict& verdict);
/// Adds exit_code, signal, description, oom and core to `object`; all null without a status.
void AddEnd(Json& object, const std::optional<wire::ExitStatus>& status);
/// {"files", "bytes", "duration_s"}
Json SyncJson(const SyncStats& stats);
/// Seconds from `began`, to the microsecond.
double Offset(TimePoint began, TimePoint at);
/// `time` in seconds, to the microsecond.
double RoundedSeconds(Duration time);
/// The same; null for nullopt.
Json OffsetJson(TimePoint began, const std::optional<TimePoint>& at);
/// {"time", "wall", "event"}: how every line of --events begins. `time` and `wall` count from the
/// run's beginning, so that a changed clock does not disorder them.
Json EventLine(std::string_view event, TimePoint began,
               std::chrono::system_clock::time_point began_wall, TimePoint now);
/// UTC: "2026-11-21T03:37:30.123Z".
std::string WallText(std::chrono::system_clock::time_point at);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_FACTS_JSON_H_
