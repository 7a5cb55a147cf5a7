// SPDX-License-Identifier: Apache-2.0
// Where the time of a launch is spent: spans of phases and of each worker's life, collected while
// the job runs, written at its end as a Chrome trace (chrome://tracing, Perfetto). Reads no clock.
// docs/report.md, "Trace".
#ifndef HVDRAY_LAUNCHER_REPORT_TRACE_H_
#define HVDRAY_LAUNCHER_REPORT_TRACE_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/events.h"
#include "launcher/report/elastic_names.h"
#include "wire/message.h"

namespace hvdray {

/// A finished or running step of the launcher: those below, "resolve", "drain", "close_agents", and
/// on Ray "reserve". Steps may overlap, and repeat with each generation.
struct Phase {
  std::string name;
  TimePoint began{};
  std::optional<TimePoint> ended;
};

/// Steps that events and effects end or begin. The launcher begins kPhaseHello itself, when it
/// spawns the agents.
inline constexpr std::string_view kPhaseHello = "hello";  ///< To the last agent's Hello.
/// Within "start": the hosts probe each other. The launcher begins and ends it.
inline constexpr std::string_view kPhaseProbe = "probe";
/// Within "start": directories are copied to the hosts. The launcher begins and ends it.
inline constexpr std::string_view kPhaseSync = "sync";
inline constexpr std::string_view kPhaseStart = "start";  ///< StartGeneration to the last worker.
inline constexpr std::string_view kPhaseRun = "run";    ///< From there to the last exit or a stop.
inline constexpr std::string_view kPhaseStop = "stop";  ///< Stop to the last GenerationStopped.
/// Elastic jobs: from the first loss or the first waiting member to the next generation. In these
/// jobs "hello" ends with the first generation, and "start" is that of a gang before it trains.
inline constexpr std::string_view kPhaseStandstill = "standstill";

/// Keeps all phases; keeps spans of workers and hosts only if is_detailed. Memory is bounded.
/// Threads: one.
class Trace {
 public:
  /// `began`: when hvdray was called. `hosts`: names, by the driver's index; empty for an elastic
  /// job, which learns them later.
  Trace(TimePoint began, std::vector<std::string> hosts, bool is_detailed);

  /// A step of the launcher itself. Begin of a running step and End of an unknown one have no
  /// effect.
  void Begin(std::string_view phase, TimePoint now);
  void End(std::string_view phase, TimePoint now);

  /// Call for every fact and effect, in order; the spans of hosts and workers follow from them.
  void OnEvent(const Event& event, TimePoint now);
  void OnEffect(const Effect& effect, TimePoint now);
  /// The same for an elastic job, where a row is a slot: one worker's life after the other.
  void OnEvent(const ElasticEvent& event, TimePoint now);
  void OnEffect(const ElasticEffect& effect, TimePoint now);
  /// An agent's answer to BreakConnections; `host`: its number in the registry.
  void OnConnectionsBroken(int host, Generation generation, const wire::ConnectionsBroken& broken,
                           TimePoint now);

  const std::vector<Phase>& phases() const { return phases_; }
  /// Spans dropped to stay within the bound.
  uint64_t dropped() const { return dropped_; }
  /// Chrome's JSON array format; microseconds since `began`. Running spans end at `now`.
  std::string ToJson(TimePoint now) const;
  /// Writes ToJson(). Blocks. Errors: kOutputLost.
  Status WriteTo(const std::string& path, TimePoint now) const;

 private:
  /// A span of a lane, or (is_instant) a moment in it.
  struct Span {
    int host = 0;  // -1: the launcher.
    int rank = 0;  // -1: the host itself. Elastic: the local rank, or kGenerations.
    std::string name;
    TimePoint began{};
    std::optional<TimePoint> ended;
    bool is_instant = false;
    std::string detail;
  };
  using Lane = std::pair<int, int>;  // Host, rank.
  // The launcher's row of generations: beyond those of its phases.
  static constexpr int kGenerations = 99;
  std::string Name(Lane lane) const;
  void Enter(Lane lane, std::string name, TimePoint now);
  void Leave(Lane lane, TimePoint now, std::string detail);
  void EndWorker(Lane lane, const wire::ExitStatus& status, TimePoint now);
  void LeaveAll(int lost_host, TimePoint now);
  void Mark(Lane lane, std::string name, TimePoint now);
  void EnterAll(const std::vector<int>& hosts, std::string_view name, TimePoint now);
  bool HasRoom();

  // Elastic jobs.
  Lane LaneOf(WorkerId worker) const;
  void NameHost(int host, const std::string& name);
  void OnStart(const effect::StartWorkers& start, TimePoint now);
  void OnPublish(const effect::PublishGeneration& publish, TimePoint now);
  void OnStarted(WorkerId worker, TimePoint now);
  void StandStill(TimePoint now);
  void Stop(const effect::StopGeneration& stop, TimePoint now);
  void AddPhase(std::string_view name, TimePoint began, TimePoint ended);

  TimePoint began_;
  std::vector<std::string> hosts_;
  bool is_detailed_;
  std::vector<Phase> phases_;
  std::vector<Span> spans_;
  uint64_t dropped_ = 0;           // Spans beyond the bound.
  std::map<Lane, size_t> open_;    // Lane -> its running span.
  std::vector<int> host_of_rank_;  // Of the current generation.
  size_t hosts_ready_ = 0;
  size_t started_ = 0;  // Of the current generation...
  size_t ended_ = 0;
  std::set<int> stopping_hosts_;  // ...that have not sent GenerationStopped.

  bool is_elastic_ = false;
  ElasticNames names_;
  std::set<WorkerId> starting_;
  std::map<WorkerId, std::string> place_;  // Of members: "generation 2, rank 1 of 4".
  std::optional<TimePoint> still_since_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_TRACE_H_
