// SPDX-License-Identifier: Apache-2.0
// The facts and effects of a small job that fails, in order, with their times.
#ifndef HVDRAY_TESTS_UNIT_REPORT_SAMPLE_EVENTS_H_
#define HVDRAY_TESTS_UNIT_REPORT_SAMPLE_EVENTS_H_

#include <utility>
#include <variant>
#include <vector>

#include "launcher/driver/events.h"
#include "tests/unit/report/sample_job.h"

namespace hvdray {

using Happening = std::pair<double, std::variant<Event, Effect, Reported>>;

/// Includes every kind of event and effect. Hosts: node1 (ranks 0, 1), node2 (rank 2).
inline std::vector<Happening> SampleHappenings() {
  std::vector<RankInfo> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    RankInfo info;
    info.host = rank < 2 ? "node1" : "node2";
    info.host_index = rank < 2 ? 0 : 1;
    info.rank = rank;
    info.size = 3;
    info.local_rank = rank % 2;
    ranks.push_back(info);
  }
  wire::HostFacts facts;
  facts.agent_pid = 3999;
  facts.cpu_count = 8;
  Verdict verdict = BadVerdict();
  verdict.workers.pop_back();
  return {
      {0.10, Event(event::HostReady{0, facts})},
      {0.12, Event(event::HostReady{1, facts})},
      {0.12, Effect(effect::StartGeneration{1, ranks, 0, 40001})},
      {0.13, Event(event::Copying{true})},
      {0.19, Event(event::HostSynced{1, {12, 34'567, std::chrono::milliseconds(50)}})},
      {0.19, Event(event::Copying{false})},
      {0.20, Event(event::WorkerStarted{1, 0, 4000})},
      {0.21, Event(event::WorkerStarted{1, 1, 4001})},
      {0.25, Event(event::WorkerStarted{1, 2, 4002})},
      {0.30, Event(event::OutputDamaged{
                 Status(ErrorCode::kOutputLost, "write to stdout: No space left on device")})},
      {0.40, Reported{1, 1, {{"loss", 0.5}, {"step", 10}, {"best", {{"epoch", nullptr}}}}}},
      {0.50, Reported{1, 2, {{"loss", "NaN"}, {"name", "caf\xc3\xa9"}, {"is_last", true}}}},
      {0.60, Reported{2, 1, Json::object()}},
      {1.00, Event(event::WorkerExited{1, 2, Exited(7), false})},
      {1.00, Effect(effect::StopGeneration{1, {0, 1}, std::chrono::milliseconds(5000)})},
      {1.00, Effect(effect::Say{"said to people, not to the log"})},
      {1.10, Event(event::WorkerExited{1, 0, Killed(SIGTERM), true})},
      {1.20, Event(event::Tick{})},
      {1.50, Event(event::UserSignal{SIGINT})},
      {1.60, Event(event::ReaderGone{})},
      {2.00, Event(event::WorkerExited{1, 1, {.signal = SIGKILL, .is_oom = true}, true})},
      {2.10, Event(event::GenerationStopped{1, 0, 1, 40002})},
      {2.20, Event(event::HostLost{1, Status(ErrorCode::kAgentLost, "the link closed")})},
      {2.20, Effect(effect::Finish{verdict})},
  };
}

/// Feeds them to an observer with OnEvent(), OnEffect() and perhaps OnReport(), `later` seconds
/// later.
template <typename Observer>
void Feed(Observer& observer, double later = 0) {
  for (const auto& [time, happening] : SampleHappenings()) {
    if (const auto* event = std::get_if<Event>(&happening)) {
      observer.OnEvent(*event, At(time + later));
    } else if (const auto* effect = std::get_if<Effect>(&happening)) {
      observer.OnEffect(*effect, At(time + later));
    } else if constexpr (requires { observer.OnReport(1, 0, 1, Json(), At(0)); }) {
      const auto& [rank, number, metrics] = std::get<Reported>(happening);
      observer.OnReport(1, rank, number, metrics, At(time + later));
    }
  }
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_REPORT_SAMPLE_EVENTS_H_
