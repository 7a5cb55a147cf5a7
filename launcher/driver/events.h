// Facts that drivers take and effects that they return. Values only.
#ifndef HVDRAY_LAUNCHER_DRIVER_EVENTS_H_
#define HVDRAY_LAUNCHER_DRIVER_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/sync_stats.h"
#include "launcher/driver/verdict.h"
#include "launcher/job/placement.h"
#include "wire/message.h"

namespace hvdray {

namespace event {
/// The agent of a host said Hello. `host` is the index in the driver's host list.
struct HostReady {
  int host;
  wire::HostFacts facts;
};
/// The agent could not be started, or its link is gone. Its workers are dead or dying.
struct HostLost {
  int host;
  Status why;
};
struct WorkerStarted {
  Generation generation;
  int rank;
  uint32_t pid;
};
struct WorkerExited {
  Generation generation;
  int rank;
  wire::ExitStatus status;
  bool was_stopping;
};
/// What a worker says of its error, as far as that is known: before WorkerExited, and again when
/// more of its stderr has arrived. Nothing is told of workers that say nothing.
struct WorkerErred {
  Generation generation;
  int rank;
  LastError error;
  std::optional<Duration> age = {};  ///< Since the error began to show; nullopt: no news of that.
};
/// All output of that host's workers has arrived and nothing of the generation is left there.
struct GenerationStopped {
  Generation generation;
  int host;
  uint32_t swept;
  uint16_t offered_port;
};
/// SIGINT, SIGTERM, SIGQUIT or SIGHUP reached hvdray.
struct UserSignal {
  int signo;
};
/// The reader of our stdout is gone.
struct ReaderGone {};
/// A file of the output or a report could not be written whole; the job goes on.
struct OutputDamaged {
  Status why;
};
/// Our stdout takes no bytes now (a pager), or takes them again. While it is blocked, output of
/// workers that have ended may wait in the agents, so the wait for GenerationStopped is not
/// counted.
struct OutputBlocked {
  bool is_blocked;
};
/// Between StartGeneration and the first worker: folders are being copied to the hosts (--sync), or
/// that is over. Whoever copies sees to it that it goes on; its time is not the start's.
struct Copying {
  bool is_active;
};
/// A host has its copies.
struct HostSynced {
  int host;
  SyncStats stats;
};
struct Tick {};
}  // namespace event

using Event = std::variant<event::HostReady, event::HostLost, event::WorkerStarted,
                           event::WorkerExited, event::WorkerErred, event::GenerationStopped,
                           event::UserSignal, event::ReaderGone, event::OutputDamaged,
                           event::OutputBlocked, event::Copying, event::HostSynced, event::Tick>;

namespace effect {
/// Reset the store for this assignment, then tell every agent that has workers to start them.
struct StartGeneration {
  Generation generation;
  std::vector<RankInfo> ranks;
  uint32_t restart_count;
  uint16_t master_port;  ///< As rank 0's agent offered it.
};
/// To the agents of `hosts`. grace 0: SIGKILL at once. May repeat with less grace.
struct StopGeneration {
  Generation generation;
  std::vector<int> hosts;
  Duration grace;
};
/// One line for the person, at `level` ("note" always, unless -q).
struct Say {
  std::string text;
};
/// The job has ended: close the links, write the reports, leave. Comes once, last.
struct Finish {
  Verdict verdict;
};
}  // namespace effect

using Effect =
    std::variant<effect::StartGeneration, effect::StopGeneration, effect::Say, effect::Finish>;

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_EVENTS_H_
