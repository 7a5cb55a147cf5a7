// SPDX-License-Identifier: Apache-2.0
// The facts and effects of a small elastic job, in order, with their times: two workers start, a
// third joins, one is killed, one leaves with its host, and a signal ends the last one.
#ifndef HVDRAY_TESTS_UNIT_REPORT_SAMPLE_ELASTIC_H_
#define HVDRAY_TESTS_UNIT_REPORT_SAMPLE_ELASTIC_H_

#include <utility>
#include <variant>
#include <vector>

#include "launcher/driver/events.h"
#include "launcher/report/memberships.h"
#include "tests/unit/report/sample_job.h"

namespace hvdray {

struct BrokenAt {
  int host;
  Generation generation;
  wire::ConnectionsBroken broken;
};
using ElasticHappening =
    std::pair<double, std::variant<ElasticEvent, ElasticEffect, BrokenAt, Event, Reported>>;

inline RankInfo ElasticPlace(int host, int rank, int size) {
  RankInfo info;
  info.host = std::string(1, static_cast<char>('a' + host));
  info.host_index = host;
  info.rank = rank;
  info.size = size;
  return info;
}

/// Includes every kind of event and effect. Hosts a, b, c: numbers 0, 1, 2, one slot each.
inline std::vector<ElasticHappening> ElasticHappenings() {
  using E = ElasticEvent;
  using F = ElasticEffect;
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  wire::HostFacts facts;
  facts.agent_pid = 3999;
  facts.cpu_count = 8;
  const Status no_answer(ErrorCode::kNoCapacity, "discovery script exited with 3");
  Verdict verdict;
  verdict.exit_code = 130;
  verdict.error = Status(ErrorCode::kInterrupted, "stopped by SIGINT");
  verdict.restarts = 1;
  return {
      {0.01, E(event::HostsDiscovered{{{"a", 1}, {"b", 1}}})},
      {0.01, F(effect::ConnectHost{0, {"a", 1}})},
      {0.01, F(effect::ConnectHost{1, {"b", 1}})},
      {0.10, E(event::HostReady{0, facts})},
      {0.12, E(event::HostReady{1, facts})},
      {0.12,
       F(effect::PublishGeneration{1, {ElasticPlace(0, 0, 2), ElasticPlace(1, 1, 2)}, {0, 1}})},
      {0.12, F(effect::StartWorkers{
                 1, {{0, ElasticPlace(0, 0, 2)}, {1, ElasticPlace(1, 1, 2)}}, 0, 40001})},
      {0.12, F(effect::MembershipChanged{1, 2, {{"a", 1, ""}, {"b", 1, ""}}, {}, false})},
      {0.20, E(event::ProcessStarted{0, 4000})},
      {0.21, E(event::ProcessStarted{1, 4001})},
      {0.30, E(event::WorkerMet{0})},
      {0.31, E(event::ProcessExited{1, Killed(SIGKILL)})},
      {0.31, F(effect::StartWorkers{1, {{3, ElasticPlace(1, 1, 2)}}, 0, 0})},
      {0.32, E(event::ProcessStarted{3, 4003})},
      {0.40, E(event::WorkerMet{3})},
      {0.40, F(effect::OpenBarrier{1})},
      {0.45, E(event::WorkerConnected{0})},
      {0.46, E(event::WorkerConnected{3})},
      {0.50, E(event::AddressesRegistered{0})},
      {0.60, Reported{0, 1, {{"loss", 0.5}}}},
      {0.61, Reported{3, 1, {{"loss", 0.5}}}},
      {0.70, Reported{0, 2, {{"loss", 0.25}}}},
      {0.90, E(event::HostsDiscovered{{{"a", 1}, {"b", 1}}})},
      {1.00, E(event::HostsDiscovered{{{"a", 1}, {"b", 1}, {"c", 1}}})},
      {1.00, F(effect::ConnectHost{2, {"c", 1}})},
      {1.05, Event(event::HostSynced{2, {.files = 3, .bytes = 700, .time = milliseconds(40)}})},
      {1.10, E(event::HostReady{2, facts})},
      {1.10, F(effect::StartWorkers{2, {{2, ElasticPlace(2, 2, 3)}}, 0, 0})},
      {1.15, E(event::ProcessStarted{2, 4002})},
      {1.50, E(event::WorkerArrived{2})},
      {1.50, F(effect::Notify{0, 0, 1'795'232'252, UpdateCode::kMixed})},
      {1.60, E(event::RankAsked{0})},
      {1.70, E(event::RankAsked{3})},
      {1.70,
       F(effect::PublishGeneration{
           2, {ElasticPlace(0, 0, 3), ElasticPlace(1, 1, 3), ElasticPlace(2, 2, 3)}, {0, 3, 2}})},
      {1.70, F(effect::MembershipChanged{2, 3, {{"c", 1, ""}}, milliseconds(100), true})},
      {3.00, E(event::ProcessExited{3, Killed(SIGKILL)})},
      {3.00, F(effect::BreakConnections{2, {0, 2}})},
      {3.01, BrokenAt{0, 2, {.shut = 3, .took_us = 900}}},
      {3.02, BrokenAt{2, 2, {0, 2, 1, 1500, "ptrace is restricted", "let it be 0"}}},
      {3.20, E(event::RankAsked{0})},
      {3.25, E(event::RankAsked{2})},
      {3.25,
       F(effect::PublishGeneration{3, {ElasticPlace(0, 0, 2), ElasticPlace(2, 1, 2)}, {0, 2}})},
      {3.25,
       F(effect::MembershipChanged{
           3, 2, {{"b", -1, "rank 1 on host b was killed by SIGKILL"}}, milliseconds(250), true})},
      {3.25, F(effect::ReleaseHost{1})},
      {3.50, E(event::DiscoveryFailed{no_answer})},
      {3.60, E(event::DiscoveryFailed{no_answer})},
      {3.70, E(event::OutputDamaged{
                 Status(ErrorCode::kOutputLost, "write to stdout: No space left on device")})},
      {3.75, E(event::OutputBlocked{true})},
      {4.00, E(event::HostLeaving{2, seconds(20)})},
      {4.00, F(effect::Say{"said to people, not to the log"})},
      {4.10, F(effect::StopWorkers{{2}, milliseconds(5000)})},
      {4.20, E(event::ProcessExited{2, Killed(SIGTERM)})},
      {4.30, E(event::Tick{})},
      {5.00, E(event::UserSignal{SIGINT})},
      {5.00, F(effect::StopGeneration{3, {0}, milliseconds(5000)})},
      {5.05, E(event::ReaderGone{})},
      {5.10, E(event::ProcessExited{0, Exited(0)})},
      {5.20, E(event::GenerationStopped{3, 0, 1, 40002})},
      {5.30, E(event::HostLost{2, Status(ErrorCode::kAgentLost, "the link closed")})},
      {5.30, F(effect::Finish{verdict})},
  };
}

/// Feeds them to an observer of all kinds; what is reported, to one with OnReport().
template <typename Observer>
void FeedElastic(Observer& observer) {
  for (const auto& [time, happening] : ElasticHappenings()) {
    if (const auto* event = std::get_if<ElasticEvent>(&happening)) {
      observer.OnEvent(*event, At(time));
    } else if (const auto* effect = std::get_if<ElasticEffect>(&happening)) {
      observer.OnEffect(*effect, At(time));
    } else if (const auto* shared = std::get_if<Event>(&happening)) {
      observer.OnEvent(*shared, At(time));
    } else if (const auto* answer = std::get_if<BrokenAt>(&happening)) {
      observer.OnConnectionsBroken(answer->host, answer->generation, answer->broken, At(time));
    } else if constexpr (requires { observer.OnReport(WorkerId(), 1, Json(), At(0)); }) {
      const auto& [worker, number, metrics] = std::get<Reported>(happening);
      observer.OnReport(static_cast<WorkerId>(worker), number, metrics, At(time));
    }
  }
}

/// The membership table of that job.
inline std::vector<MembershipRecord> ElasticMemberships() {
  MembershipTable table;
  for (const auto& [time, happening] : ElasticHappenings()) {
    if (const auto* effect = std::get_if<ElasticEffect>(&happening)) {
      table.OnEffect(*effect, At(time));
    } else if (const auto* answer = std::get_if<BrokenAt>(&happening)) {
      table.OnConnectionsBroken(answer->generation, answer->broken);
    }
  }
  return table.rows();
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_REPORT_SAMPLE_ELASTIC_H_
