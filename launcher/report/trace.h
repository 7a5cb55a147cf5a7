// Where the time of a launch goes: spans of phases and of each worker's life, kept while the job
// runs, written at its end as a Chrome trace (chrome://tracing, Perfetto). Times are given to it.
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

namespace hvdray {

/// A finished or running step of the launcher: "resolve", "spawn_agents", "hello", "probe",
/// "start", "run", "stop", "drain", "report". Steps may overlap, and repeat with each generation.
struct Phase {
  std::string name;
  TimePoint began{};
  std::optional<TimePoint> ended;
};

/// Steps that events and effects end or begin. The launcher begins kPhaseHello itself, when it
/// spawns the agents.
inline constexpr std::string_view kPhaseHello = "hello";  ///< To the last agent's Hello.
/// Within "start": do the hosts reach each other? The launcher begins and ends it.
inline constexpr std::string_view kPhaseProbe = "probe";
/// Within "start": folders are copied to the hosts. The launcher begins and ends it.
inline constexpr std::string_view kPhaseSync = "sync";
inline constexpr std::string_view kPhaseStart = "start";  ///< StartGeneration to the last worker.
inline constexpr std::string_view kPhaseRun = "run";      ///< From there to the last end or a stop.
inline constexpr std::string_view kPhaseStop = "stop";    ///< Stop to the last GenerationStopped.

/// Threads: one. Keeps phases always; the spans of workers and hosts only when is_detailed.
class Trace {
 public:
  /// `began`: when hvdray was called. hosts: names, by the driver's index.
  Trace(TimePoint began, std::vector<std::string> hosts, bool is_detailed);

  /// A step of the launcher itself. Begin of a running step and End of an unknown one do nothing.
  void Begin(std::string_view phase, TimePoint now);
  void End(std::string_view phase, TimePoint now);

  /// Feed every fact and every effect, in order; spans of hosts and workers follow from them.
  void OnEvent(const Event& event, TimePoint now);
  void OnEffect(const Effect& effect, TimePoint now);

  const std::vector<Phase>& phases() const { return phases_; }
  /// Spans that were left out to stay within a bound.
  uint64_t dropped() const { return dropped_; }
  /// Chrome's JSON array format; microseconds since `began`. Spans that still run end at `now`.
  std::string ToJson(TimePoint now) const;
  /// Errors: kOutputLost.
  Status WriteTo(const std::string& path, TimePoint now) const;

 private:
  /// What a lane was doing, or (is_instant) a moment in it.
  struct Span {
    int host = 0;  // -1: the launcher.
    int rank = 0;  // -1: the host itself.
    std::string name;
    TimePoint began{};
    std::optional<TimePoint> ended;
    bool is_instant = false;
    std::string detail;
  };
  using Lane = std::pair<int, int>;  // Host, rank.
  void Enter(Lane lane, std::string name, TimePoint now);
  void Leave(Lane lane, TimePoint now, std::string detail);
  void Mark(Lane lane, std::string name, TimePoint now);
  void EnterAll(const std::vector<int>& hosts, std::string_view name, TimePoint now);
  bool HasRoom();

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
  std::set<int> stopping_hosts_;  // ...that have not said GenerationStopped.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_TRACE_H_
