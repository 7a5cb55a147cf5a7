// `hvdray check`: starts the agents of a job's hosts, asks what the hosts are like and whether they
// reach each other, and lets go of them again. Starts no worker; judges nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_HOST_CHECK_H_
#define HVDRAY_LAUNCHER_ENGINE_HOST_CHECK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "cluster/transport.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/mesh_probe.h"
#include "launcher/engine/signals.h"
#include "launcher/report/check_facts.h"

namespace hvdray {

/// How long each step may take.
struct CheckLimits {
  std::chrono::milliseconds inspect{10000};      ///< The agents keep to it.
  std::chrono::milliseconds import_each{30000};  ///< More for each module, as the agents have it.
  std::chrono::milliseconds spare{3000};         ///< For the answer to come.
};

/// What is asked beyond what every host is asked.
struct CheckWishes {
  std::vector<std::string> files;    ///< Words of the command that name files.
  std::string script;                ///< The one of them without which nothing runs; empty: none.
  std::vector<std::string> modules;  ///< Of Python.
};

/// Unlike a job it goes on when hosts fail. Takes --start-timeout, the limits and 15 s at most.
/// Threads: the loop's.
class HostCheck {
 public:
  /// plan: `ranks` say who gets how many workers. Loop and transport outlive the check.
  HostCheck(Loop& loop, Transport& transport, LaunchPlan plan, CheckLimits limits = {},
            CheckWishes wishes = {});

  struct Outcome {
    CheckFacts facts;
    int signo = 0;  ///< Not 0: it was interrupted; the facts are not whole.
  };
  /// Runs the loop until every host has been heard or given up and all agents are gone. Takes
  /// SIGINT, SIGTERM, SIGQUIT, SIGHUP and SIGTSTP over meanwhile. Call once.
  Outcome Run();

 private:
  enum class State : uint8_t { kStarting, kAsked, kAnswered, kSilent, kLost };
  struct Row {
    State state = State::kStarting;
    uint64_t asked_ns = 0;
    Watch timer;
    bool is_probed = false;
    size_t place = 0;  // among those that probe
  };

  AgentSetHandlers MakeAgentHandlers();
  SignalHandlers MakeSignalHandlers();
  void OnReady(size_t host, const wire::HostFacts& facts);
  void OnLost(size_t host, Status why);
  void OnMessage(size_t host, wire::Message&& message);
  void OnStartTimeout();
  void Ask(size_t host);
  /// Goes to the next step when all that it waits for has come.
  void Advance();
  void StartProbe();
  void ChooseNics();
  void Close();

  Loop& loop_;
  const LaunchPlan plan_;
  const CheckLimits limits_;
  const CheckWishes wishes_;
  CheckFacts facts_;
  std::vector<Row> rows_;
  AgentSet agents_;
  std::unique_ptr<MeshProbe> probe_;
  std::vector<size_t> probing_;  // Hosts that probe, by place.
  TimePoint began_{};
  bool is_probe_begun_ = false;
  bool is_probe_done_ = false;
  bool is_closing_ = false;
  int signo_ = 0;
  Watch start_timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_HOST_CHECK_H_
