// SPDX-License-Identifier: Apache-2.0
// Facts that drivers take and effects that they return: those of GangDriver, some of them shared,
// then those of ElasticDriver, which names a worker by its WorkerId and a host by its number in the
// HostRegistry. Values only; times are monotonic.
#ifndef HVDRAY_LAUNCHER_DRIVER_EVENTS_H_
#define HVDRAY_LAUNCHER_DRIVER_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/host_registry.h"
#include "launcher/driver/states.h"
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
/// The client of `hvdray serve` needs the gang, or the elastic job, no more. May be repeated with
/// less grace.
struct Dismissed {
  Duration grace;  ///< From SIGTERM to SIGKILL.
};
/// Only time has passed.
struct Tick {};
}  // namespace event

/// All facts that GangDriver takes.
using Event =
    std::variant<event::HostReady, event::HostLost, event::WorkerStarted, event::WorkerExited,
                 event::WorkerErred, event::GenerationStopped, event::UserSignal, event::ReaderGone,
                 event::OutputDamaged, event::OutputBlocked, event::Copying, event::HostSynced,
                 event::Dismissed, event::Tick>;

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

namespace event {
/// All present hosts, in the order of the source. Hosts that are missing here have left.
struct HostsDiscovered {
  std::vector<HostSlots> hosts;
  bool is_final = false;  ///< The list never changes (-H).
};
/// The source failed to list hosts. Ends the job when it is the source's first answer.
struct DiscoveryFailed {
  Status why;
};
/// The agent has started the process. `pid` is valid on its host only.
struct ProcessStarted {
  WorkerId worker;
  uint32_t pid;
};
/// The process was reaped; its held requests are dropped.
struct ProcessExited {
  WorkerId worker;
  wire::ExitStatus status;
};
/// The error that a process has printed so far: before ProcessExited, and again when more of its
/// stderr arrives. A recording keeps only what the driver weighs, not the text.
struct ProcessErred {
  WorkerId worker;
  LastError error;
  std::optional<Duration> age = {};  ///< Since the error appeared on stderr; nullopt: unchanged.
};
/// A worker of an unpublished generation has reached hvd.init(): its host's relay holds its first
/// PUT of a `rank_*` key of scope `global`.
struct WorkerArrived {
  WorkerId worker;
};
/// A member has stored its addresses in scope `global` of its generation: it is in hvd.init() and
/// waits for those of the others. It sees none of them before OpenBarrier.
struct WorkerMet {
  WorkerId worker;
};
/// A member has deleted its addresses from the last scope of its generation: it is connected to all
/// others and leaves hvd.init().
struct WorkerConnected {
  WorkerId worker;
};
/// A worker asks for its next rank; the RankService holds the request.
struct RankAsked {
  WorkerId worker;
};
/// A worker has registered its notification address (scope worker_addresses).
struct AddressesRegistered {
  WorkerId worker;
};
/// The host's agent has connected and receives the directories of --sync; the copy has its own time
/// limit.
struct HostCopying {
  int host;
};
/// The host will leave in `in`, as its agent or its scheduler announced. Not a failure.
struct HostLeaving {
  int host;
  Duration in;
};
}  // namespace event

/// All facts that ElasticDriver takes. HostReady may come again after HostLost and another
/// ConnectHost. The by-rank facts WorkerStarted and WorkerExited are for GangDriver only.
using ElasticEvent =
    std::variant<event::HostsDiscovered, event::DiscoveryFailed, event::HostReady, event::HostLost,
                 event::ProcessStarted, event::ProcessExited, event::ProcessErred,
                 event::WorkerArrived, event::WorkerMet, event::WorkerConnected, event::RankAsked,
                 event::AddressesRegistered, event::HostCopying, event::HostLeaving,
                 event::GenerationStopped, event::UserSignal, event::ReaderGone,
                 event::OutputDamaged, event::OutputBlocked, event::Dismissed, event::Tick>;

/// A worker to start, with its place in the generation that it will join.
struct NewWorker {
  WorkerId worker = kNoWorker;
  RankInfo place;  ///< host_index: the host's number in the registry.
  bool operator==(const NewWorker&) const = default;
};

/// Change of a host's number of workers since the last generation.
struct HostChange {
  std::string host;
  int workers = 0;  ///< Above 0: joined; below: left.
  std::string why;  ///< For workers that left, half a line; may be empty.
  bool operator==(const HostChange&) const = default;
};

namespace effect {
/// Start an agent on that host; answered by HostReady or HostLost.
struct ConnectHost {
  int host;
  HostSlots slots;
};
/// The job no longer needs that host: send Bye to its agent and close the link. The driver ignores
/// facts about the host until the next ConnectHost.
struct ReleaseHost {
  int host;
};
/// Send each host's share to its agent. The relay holds the requests of a worker whose generation
/// is not published yet (RelayCore). A worker started for the published generation replaces a
/// member that died before OpenBarrier.
struct StartWorkers {
  Generation generation;
  std::vector<NewWorker> workers;
  uint32_t restart_count;  ///< TORCHELASTIC_RESTART_COUNT (gang mode).
  uint16_t master_port;    ///< The one that rank 0's agent offered (gang mode).
};
/// The membership of a new generation. Do in this order: reset the store for `ranks`; send KvReset
/// to the agents of all hosts with workers; call RankService::Publish, which answers every held
/// request. By then each old process is parked, reaped, or behind a lost link: a stale worker could
/// otherwise take a rank of the new generation.
struct PublishGeneration {
  Generation generation;
  std::vector<RankInfo> ranks;    ///< By rank. host_index: the host's number in the registry.
  std::vector<WorkerId> workers;  ///< By rank.
};
/// Every member of the published generation has reached the init barrier: release the values of
/// scope `global`, which no worker has seen so far. Once per generation; only with
/// ElasticPolicy::repairs_barriers.
struct OpenBarrier {
  Generation generation;
};
/// SIGTERM, grace, SIGKILL, for these workers only. ProcessExited answers for each.
struct StopWorkers {
  std::vector<WorkerId> workers;
  Duration grace;
};
/// The agents of these hosts shut the connections between living workers of that generation, and
/// nothing else (docs/elastic.md, "Survivors are freed at once"). Idempotent; parked workers are
/// left alone.
struct BreakConnections {
  Generation generation;
  std::vector<int> hosts;
};
/// HostsUpdatedRequest to that worker, sent by the agent of its host. May be lost; the driver
/// repeats it.
struct Notify {
  WorkerId worker;
  int host;
  int64_t timestamp;  ///< Seconds since the epoch; increases with each notice.
  UpdateCode code;
};
/// For the event log and the report's table of generations. A Say prints the same to the user.
struct MembershipChanged {
  Generation generation;
  int size;
  std::vector<HostChange> changes;
  Duration stood_still;  ///< Since the first loss or the first waiting member. 0: first generation.
  bool is_counted;       ///< Against the reset limit.
};
}  // namespace effect

/// All effects of ElasticDriver. StopGeneration ends every worker of the job on those hosts, of
/// that generation and earlier ones; each host answers with GenerationStopped. At the end of the
/// job call RankService::Close first. Generation numbers increase but may have gaps: numbers of
/// newcomers that were never released.
using ElasticEffect =
    std::variant<effect::ConnectHost, effect::ReleaseHost, effect::StartWorkers,
                 effect::PublishGeneration, effect::OpenBarrier, effect::StopWorkers,
                 effect::BreakConnections, effect::Notify, effect::MembershipChanged,
                 effect::StopGeneration, effect::Say, effect::Finish>;

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_EVENTS_H_
