// SPDX-License-Identifier: Apache-2.0
// Facts that drivers take and effects that they return, shared by GangDriver and ElasticDriver.
// Values only; times are monotonic.
#ifndef HVDRAY_LAUNCHER_DRIVER_EVENTS_H_
#define HVDRAY_LAUNCHER_DRIVER_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/verdict.h"
#include "launcher/job/placement.h"
#include "wire/message.h"

namespace hvdray {

// What --sync sent to one host.

struct SyncStats {
  uint64_t files = 0;  ///< Files sent and links made, all directories together.
  uint64_t bytes = 0;  ///< Bytes of these files.
  Duration time{};     ///< From the first list to the last file in place.
  bool operator==(const SyncStats&) const = default;
};

namespace event {
/// The agent of a host sent Hello. `host` is the index in the driver's host list.
struct HostReady {
  int host;
  wire::HostFacts facts;
};
/// The agent did not start, or its link is gone. Its workers are dead or dying.
struct HostLost {
  int host;
  Status why;
};
/// The agent has started the worker. `pid` is valid on its host only.
struct WorkerStarted {
  Generation generation;
  int rank;
  uint32_t pid;
};
/// The worker was reaped. `was_stopping`: its agent had signalled it before.
struct WorkerExited {
  Generation generation;
  int rank;
  wire::ExitStatus status;
  bool was_stopping;
};
/// The error that a worker has printed so far: before WorkerExited, and again when more of its
/// stderr arrives. Never sent for workers that print no error.
struct WorkerErred {
  Generation generation;
  int rank;
  LastError error;
  std::optional<Duration> age = {};  ///< Since the error appeared on stderr; nullopt: unchanged.
};
/// All output of that host's workers has arrived and nothing of the generation is left there.
/// `swept`: orphans killed. `offered_port`: free port for the next MASTER_PORT.
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
/// The reader of our stdout closed it.
struct ReaderGone {};
/// A file of the output or a report could not be written whole; the job goes on.
struct OutputDamaged {
  Status why;
};
/// Our stdout is blocked (a pager), or takes bytes again. While it is blocked, output of ended
/// workers may wait in the agents, so the wait for GenerationStopped has no limit.
struct OutputBlocked {
  bool is_blocked;
};
/// Between StartGeneration and the first worker: the copy of directories to the hosts (--sync)
/// begins or ends. It has its own stall limit and does not count against start_timeout.
struct Copying {
  bool is_active;
};
/// A host has all its copies.
struct HostSynced {
  int host;
  SyncStats stats;
};
/// Only time has passed.
struct Tick {};
}  // namespace event

/// All facts that GangDriver takes.
using Event = std::variant<event::HostReady, event::HostLost, event::WorkerStarted,
                           event::WorkerExited, event::WorkerErred, event::GenerationStopped,
                           event::UserSignal, event::ReaderGone, event::OutputDamaged,
                           event::OutputBlocked, event::Copying, event::HostSynced, event::Tick>;

namespace effect {
/// Reset the store for this assignment, then send every agent with workers its share.
struct StartGeneration {
  Generation generation;
  std::vector<RankInfo> ranks;
  uint32_t restart_count;
  uint16_t master_port;  ///< The one that rank 0's agent offered, or the configured one.
};
/// Tell the agents of `hosts` to stop its workers. grace 0: SIGKILL at once. May be repeated with
/// less grace.
struct StopGeneration {
  Generation generation;
  std::vector<int> hosts;
  Duration grace;
};
/// One line for the user on stderr, unless -q.
struct Say {
  std::string text;
};
/// The job has ended: close the links, write the reports, exit. Always the last effect, exactly
/// once.
struct Finish {
  Verdict verdict;
};
}  // namespace effect

using Effect =
    std::variant<effect::StartGeneration, effect::StopGeneration, effect::Say, effect::Finish>;

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_EVENTS_H_
