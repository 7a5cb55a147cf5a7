// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/cluster_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/report_file.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

Json SecondsJson(const std::optional<Duration>& time) {
  if (!time) return nullptr;
  return RoundedSeconds(*time);
}

Json RowJson(const NodeRow& row) {
  Json json = NodeNameJson(row);
  json["need"] = nullptr;
  if (!row.need.empty()) json["need"] = row.need;
  json["state"] = KeyOf(row.state);
  json["error"] = ErrorJson(row.why);
  json["processes"] = row.processes;
  json["boot_s"] = SecondsJson(row.boot);
  json["log_in_s"] = SecondsJson(row.log_in);
  json["set_up_s"] = SecondsJson(row.set_up);
  json["join_s"] = SecondsJson(row.join);
  json["end_s"] = SecondsJson(row.end);
  json["steps"] = Json::array();
  for (const StepOutcome& step : row.steps) json["steps"].push_back(StepJson(step));
  json["copied"] = nullptr;
  if (row.copied) json["copied"] = SyncJson(*row.copied);
  json["ray"] = nullptr;
  json["python"] = nullptr;
  if (row.versions) {
    json["ray"] = row.versions->ray;
    json["python"] = row.versions->python;
  }
  return json;
}

std::string TimeText(const std::optional<Duration>& time) {
  return time ? fmt::format("{:.1f} s", Seconds(*time).count()) : "-";
}

}  // namespace

std::string KeyOf(std::string_view words) {
  std::string key(words);
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

Json NodeNameJson(const NodeRow& row) {
  Json json;
  json["address"] = row.address;
  json["role"] = row.is_head ? "head" : "worker";
  return json;
}

Json StepJson(const StepOutcome& outcome) {
  Json json;
  json["kind"] = KeyOf(Name(outcome.kind));
  json["number"] = outcome.number;
  json["count"] = outcome.count;
  json["hash"] = outcome.hash;
  json["exit_code"] = outcome.exit_code;
  json["error"] = ErrorJson(outcome.why);
  json["duration_s"] = RoundedSeconds(outcome.took);
  json["files"] = nullptr;
  json["bytes"] = nullptr;
  if (outcome.copied) {
    json["files"] = outcome.copied->files;
    json["bytes"] = outcome.copied->bytes;
  }
  return json;
}

Json ToJson(const ClusterReport& report) {
  Json json;
  json["schema"] = kClusterReportSchema;
  json["command"] = report.call.command;
  json["name"] = report.call.name;
  json["file"] = report.call.file;
  json["build"] = report.call.build;
  json["began"] = WallText(report.call.began_wall);
  json["duration_s"] = Offset(report.call.began, report.ended);
  json["exit"]["code"] = report.exit_code;
  json["exit"]["error"] = ErrorJson(report.error);
  json["nodes"] = Json::array();
  for (const NodeRow& row : report.nodes) json["nodes"].push_back(RowJson(row));
  return json;
}

Status WriteClusterReport(const std::string& path, const ClusterReport& report) {
  return WriteReportFile(path, "--report", DumpJson(ToJson(report), 2) + "\n");
}

Status FirstFailure(std::span<const NodeRow> rows) {
  const NodeRow* first = nullptr;
  for (const NodeRow& row : rows) {
    if (row.why.ok()) continue;
    const bool is_better = first == nullptr || (first->why.code() == ErrorCode::kCancelled &&
                                                row.why.code() != ErrorCode::kCancelled);
    if (is_better) first = &row;
  }
  return first == nullptr ? Status() : Status(first->why).WithContext(first->address);
}

std::string RowsText(std::span<const NodeRow> rows) {
  const bool has_boot = std::any_of(rows.begin(), rows.end(),
                                    [](const NodeRow& row) { return row.boot.has_value(); });
  std::string text = fmt::format("\n{:<24} {:<7}", "node", "role");
  if (has_boot) text += fmt::format(" {:>8}", "boot");
  text += fmt::format(" {:>8} {:>9} {:>8}  {}\n", "log in", "set up", "join", "state");
  for (const NodeRow& row : rows) {
    text += fmt::format("{:<24} {:<7}", row.address, row.is_head ? "head" : "worker");
    if (has_boot) text += fmt::format(" {:>8}", TimeText(row.boot));
    text += fmt::format(" {:>8} {:>9} {:>8}  {}\n", TimeText(row.log_in), TimeText(row.set_up),
                        TimeText(row.join),
                        row.why.ok() ? std::string(row.state) : "failed: " + row.why.message());
  }
  return text;
}

}  // namespace hvdray
