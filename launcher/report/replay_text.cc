// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/replay_text.h"

#include <fmt/format.h>

#include "base/text.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

double InSeconds(Duration time) { return std::chrono::duration_cast<Seconds>(time).count(); }

/// A recording's texts are untrusted: they must not move the cursor.
std::string Shown(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = '?';
  }
  return text;
}

std::string_view Name(ReplayStep::Kind kind) {
  switch (kind) {
    case ReplayStep::Kind::kState:
      return "state";
    case ReplayStep::Kind::kGeneration:
      return "generation";
    case ReplayStep::Kind::kSaid:
      return "said";
  }
  return "";
}

std::string HeaderText(const RecordHeader& header) {
  const ElasticPolicy& policy = header.policy;
  return fmt::format(
      "job {}, recorded by {}: {}, -np {} --min-np {}{}, seed {}\n", Shown(header.job_id),
      Shown(header.build), policy.mode == ElasticMode::kGang ? "gang" : "horovod", policy.np,
      policy.min_np, policy.max_np ? fmt::format(" --max-np {}", *policy.max_np) : "",
      header.jitter_seed);
}

std::string EndText(const ReplayResult& result) {
  if (result.is_cut) return "the last line is cut off, as after a kill, and was ignored";
  if (!result.end) return "the recording stops before the end of the job";
  const std::string end = fmt::format("the job ends with exit code {}", result.end->exit_code);
  return end + (result.recorded_end ? ", as recorded" : "; its end was not recorded");
}

Json EndJson(const std::optional<RecordedEnd>& end) {
  if (!end) return nullptr;
  Json json;
  json["exit_code"] = end->exit_code;
  json["error"] = end->error == ErrorCode::kOk ? Json(nullptr) : Json(ErrorLabel(end->error));
  json["generation"] = end->generation;
  json["size"] = end->size;
  json["resets"] = end->resets;
  json["stale_facts"] = end->stale_events;
  return json;
}

Json StepJson(const ReplayStep& step) {
  Json json;
  json["line"] = step.line;
  json["at_s"] = InSeconds(step.at);
  json["kind"] = Name(step.kind);
  json["text"] = step.text;
  if (step.kind == ReplayStep::Kind::kState) {
    json["from"] = step.from;
    json["to"] = step.to;
  } else if (step.kind == ReplayStep::Kind::kGeneration) {
    json["generation"] = step.generation;
    json["size"] = step.size;
  }
  return json;
}

Json BrokenJson(const ReplayResult& result) {
  if (result.broken.empty()) return nullptr;
  Json json;
  json["line"] = result.broken_line;
  json["at_s"] = InSeconds(result.lasted);
  json["rules"] = result.broken;
  json["recent"] = Json::array();
  uint64_t line = result.first_recent();
  for (const std::string& text : result.recent) {
    json["recent"].push_back({{"line", line++}, {"text", text}});
  }
  return json;
}

}  // namespace

std::string ReplayFaults(const ReplayResult& result) {
  std::string text;
  for (const std::string& rule : result.broken) {
    text += fmt::format("line {}: broken rule: {}\n", result.broken_line, rule);
  }
  if (!result.recent.empty()) text += "last events:\n";
  uint64_t line = result.first_recent();
  for (const std::string& recent : result.recent) {
    text += fmt::format("  {:>6}  {}\n", line++, Shown(recent));
  }
  for (const std::string& difference : result.differences) {
    text += fmt::format("the job ends differently: {}\n", difference);
  }
  if (!result.differences.empty()) {
    text += fmt::format("  recorded by {}\n", Shown(result.header.build));
  }
  return text;
}

std::string ReplayText(const ReplayResult& result) {
  std::string text = HeaderText(result.header);
  for (const ReplayStep& step : result.steps) {
    const bool is_said = step.kind == ReplayStep::Kind::kSaid;
    text += fmt::format("{:>14.6f} s  line {:<6} {}{}\n", InSeconds(step.at), step.line,
                        is_said ? "says: " : "", Shown(step.text));
  }
  text += ReplayFaults(result);
  if (!result.is_well()) return text;
  return text + fmt::format("{}, {}, {:.3f} s: all rules hold; {}\n", Count(result.events, "event"),
                            Count(result.generations, "generation"), InSeconds(result.lasted),
                            EndText(result));
}

std::string ReplayJson(const ReplayResult& result) {
  Json json;
  json["schema"] = kReplaySchema;
  json["job_id"] = result.header.job_id;
  json["build"] = result.header.build;
  json["exit_code"] = result.is_well() ? 0 : 1;
  json["events"] = result.events;
  json["generations"] = result.generations;
  json["lasted_s"] = InSeconds(result.lasted);
  json["cut_off"] = result.is_cut;
  json["steps"] = Json::array();
  for (const ReplayStep& step : result.steps) json["steps"].push_back(StepJson(step));
  json["end"] = EndJson(result.end);
  json["recorded_end"] = EndJson(result.recorded_end);
  json["differences"] = result.differences;
  json["broken"] = BrokenJson(result);
  return DumpJson(json) + "\n";
}

}  // namespace hvdray
