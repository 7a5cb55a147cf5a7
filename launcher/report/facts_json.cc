// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/facts_json.h"

#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>

namespace hvdray {

std::string SignalName(int signo) {
  const char* name = ::sigabbrev_np(signo);
  if (name != nullptr) return fmt::format("SIG{}", name);
  if (signo >= SIGRTMIN && signo <= SIGRTMAX) return fmt::format("SIGRTMIN+{}", signo - SIGRTMIN);
  return fmt::format("signal {}", signo);
}

Json ErrorJson(const Status& status) {
  if (status.ok()) return nullptr;
  const ErrorInfo& info = InfoOf(status.code());
  Json json;
  json["code"] = ErrorLabel(status.code());
  json["name"] = info.name;
  json["message"] = status.message();
  json["hint"] = status.hint();
  json["retriable"] = info.is_retriable;
  return json;
}

Json ExitJson(const Verdict& verdict) {
  Json json;
  json["code"] = verdict.exit_code;
  json["origin"] = verdict.origin == ExitOrigin::kWorker ? "worker" : "hvdray";
  json["error"] = ErrorJson(verdict.error);
  json["more_errors"] = Json::array();
  if (verdict.error.ok()) return json;
  json["error"]["hosts"] = Json::array();
  if (verdict.losses.empty()) return json;
  json["error"]["hosts"] = verdict.losses.front().hosts;
  for (size_t i = 1; i < verdict.losses.size(); ++i) {
    Json more = ErrorJson(verdict.losses[i].error);
    more["hosts"] = verdict.losses[i].hosts;
    json["more_errors"].push_back(std::move(more));
  }
  return json;
}

void AddEnd(Json& object, const std::optional<wire::ExitStatus>& status) {
  object["exit_code"] = nullptr;
  object["signal"] = nullptr;
  object["description"] = nullptr;
  object["oom"] = nullptr;
  object["core"] = nullptr;
  if (!status.has_value()) return;
  object["exit_code"] = ExitCode(*status);
  if (status->signal != 0) object["signal"] = SignalName(status->signal);
  object["description"] = Describe(*status);
  object["oom"] = status->is_oom;
  object["core"] = status->has_core;
}

Json SyncJson(const SyncStats& stats) {
  Json json;
  json["files"] = stats.files;
  json["bytes"] = stats.bytes;
  json["duration_s"] = Offset(TimePoint(), TimePoint() + stats.time);
  return json;
}

double Offset(TimePoint began, TimePoint at) {
  return std::round(std::chrono::duration_cast<Seconds>(at - began).count() * 1e6) / 1e6;
}

double RoundedSeconds(Duration time) { return Offset(TimePoint(), TimePoint() + time); }

Json OffsetJson(TimePoint began, const std::optional<TimePoint>& at) {
  if (!at.has_value()) return nullptr;
  return Offset(began, *at);
}

Json EventLine(std::string_view event, TimePoint began,
               std::chrono::system_clock::time_point began_wall, TimePoint now) {
  const auto since = std::chrono::duration_cast<std::chrono::system_clock::duration>(now - began);
  Json json;
  json["time"] = Offset(began, now);
  json["wall"] = WallText(began_wall + since);
  json["event"] = event;
  return json;
}

std::string WallText(std::chrono::system_clock::time_point at) {
  const auto since = at.time_since_epoch();
  const auto whole = std::chrono::floor<std::chrono::seconds>(since);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since - whole);
  const std::time_t seconds = whole.count();
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}.{:03d}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms.count());
}

}  // namespace hvdray
