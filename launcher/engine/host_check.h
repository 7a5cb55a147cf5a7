// SPDX-License-Identifier: Apache-2.0
// `hvdray check`: starts the agents of a job's hosts, collects facts about the hosts and whether
// they reach each other, and releases the agents. Starts no worker; judges nothing. docs/check.md.
#ifndef HVDRAY_LAUNCHER_ENGINE_HOST_CHECK_H_
#define HVDRAY_LAUNCHER_ENGINE_HOST_CHECK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/loop.h"
#include "cluster/transport/transport.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/pair_measure.h"
#include "launcher/engine/reach_probe.h"
#include "launcher/engine/signals.h"
#include "launcher/job/nic_select.h"
#include "launcher/report/check_findings.h"

namespace hvdray {

/// How long each step may take.
struct CheckLimits {
  std::chrono::milliseconds inspect{10000};  ///< For each host; agents enforce it.
  std::chrono::milliseconds import_each{
      30000};                             ///< In addition, for each module; agents enforce it.
  std::chrono::milliseconds spare{3000};  ///< In addition, for the answer's way.
};

/// What to ask in addition to the usual facts.
struct CheckWishes {
  std::vector<std::string> files;    ///< Arguments of the command that name files.
  std::string script;                ///< The one that is the program's script; empty: none.
  std::vector<std::string> modules;  ///< Python modules to import.
};

/// Continues when hosts fail, unlike a job. Takes at most --start-timeout plus the limits plus 15
/// s, plus some seconds for the measurement. Threads: the loop's.
class HostCheck final : private AgentSet::Owner {
 public:
  /// `plan.ranks` tell how many workers each host gets. Loop and transport outlive the check.
  HostCheck(Loop& loop, Transport& transport, LaunchPlan plan, CheckLimits limits = {},
            CheckWishes wishes = {});

  struct Outcome {
    CheckFacts facts;
    int signo = 0;  ///< Not 0: interrupted by it; the facts are incomplete.
  };
  /// Runs the loop until every host has answered or been given up and all agents are gone.
  /// Meanwhile handles SIGINT, SIGTERM, SIGQUIT, SIGHUP and SIGTSTP. Call once.
  Outcome Run();

 private:
  enum class State : uint8_t { kStarting, kAsked, kAnswered, kSilent, kLost };
  struct Row {
    State state = State::kStarting;
    uint64_t asked_ns = 0;
    Watch timer;
    bool is_probed = false;
    size_t place = 0;  // index into probing_
  };

  SignalHandlers MakeSignalHandlers();
  void OnReady(int number, const wire::HostFacts& facts) override;
  void OnLost(int number, Status why) override;
  void OnMessage(int number, wire::Message&& message) override;
  void OnNoise(int number, ByteView line) override;
  void OnStartTimeout();
  void Ask(size_t host);
  /// Enters the next step once all awaited answers have arrived.
  void Advance();
  void StartProbe();
  void StartMeasure();
  void ChooseNics();
  void Close();

  Loop& loop_;
  const LaunchPlan plan_;
  const CheckLimits limits_;
  const CheckWishes wishes_;
  CheckFacts facts_;
  std::vector<Row> rows_;
  AgentSet agents_;
  std::unique_ptr<ReachProbe> probe_;
  std::unique_ptr<PairMeasure> measure_;
  std::vector<size_t> probing_;  // Hosts that probe and measure, by place.
  TimePoint began_{};
  bool is_probe_begun_ = false;
  bool is_probe_done_ = false;
  bool is_measure_begun_ = false;
  bool is_measure_done_ = false;
  bool is_closing_ = false;
  int signo_ = 0;
  Watch start_timer_;
};

// The interfaces that a job would use, chosen so that one unfit host does not hide the others'.
// Pure.

/// The choice and its errors, for each host.
struct CheckedNics {
  std::vector<std::optional<NicChoice>> choices;  ///< One per host, in order.
  std::vector<Status> why;  ///< One per host: why it has no choice; ok if it has.
  Status all;               ///< Why no host has a choice, if that is no single host's fault.
};

/// As SelectNics(), but leaves hosts without a usable interface out of the others' choice.
/// `planned`: number of hosts of the job; lost ones are missing in `hosts`.
CheckedNics SelectNicsOfEach(std::span<const HostNics> hosts, size_t planned,
                             std::span<const std::string> wanted, HostSpread spread);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_HOST_CHECK_H_
