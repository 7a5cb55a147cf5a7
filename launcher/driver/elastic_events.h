// Facts that ElasticDriver takes and effects that it returns, beside those of events.h. Values
// only. A worker is named by its number, a host by its number in the driver's HostRegistry.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_EVENTS_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_EVENTS_H_

#include "launcher/driver/events.h"
#include "launcher/driver/host_registry.h"

namespace hvdray {

/// One process of the job, from 0 in the order of their starts; never used twice, whatever rank it
/// has in which generation.
using WorkerId = uint32_t;
inline constexpr WorkerId kNoWorker = ~WorkerId{0};

namespace event {
/// All hosts there are now, in the order of the source. Those beside them are gone.
struct HostsDiscovered {
  std::vector<HostSlots> hosts;
  bool is_final = false;  ///< The source never says anything else (-H).
};
/// The source could not say. The first answer must not be this one.
struct DiscoveryFailed {
  Status why;
};
struct ProcessStarted {
  WorkerId worker;
  uint32_t pid;
};
/// It has been reaped; nothing that it asked is answered any more.
struct ProcessExited {
  WorkerId worker;
  wire::ExitStatus status;
};
/// What a process says of its error, as far as that is known: before ProcessExited, and again when
/// more of its stderr has arrived. A recording keeps of it what the driver weighs, not the words.
struct ProcessErred {
  WorkerId worker;
  LastError error;
  std::optional<Duration> age = {};  ///< Since the error began to show; nullopt: no news of that.
};
/// A worker whose generation is not published yet has reached hvd.init(): its first PUT of a
/// `rank_*` of scope `global` is held in its host's relay.
struct WorkerArrived {
  WorkerId worker;
};
/// The addresses of a member in scope `global` of its generation are in the store: it is in
/// hvd.init() and waits for those of the others, of which it has seen none before OpenMeeting.
struct WorkerMet {
  WorkerId worker;
};
/// A member has taken its addresses back from the last scope of its generation: it is connected to
/// all others and leaves hvd.init().
struct WorkerConnected {
  WorkerId worker;
};
/// A worker asks for its next rank; the question is held in the RankService.
struct RankAsked {
  WorkerId worker;
};
/// A worker has said where it takes notices (worker_addresses).
struct AddressesRegistered {
  WorkerId worker;
};
/// The host's agent has come and takes a copy of the job's folders; that has limits of its own.
struct HostCopying {
  int host;
};
/// The host will go away; what its agent or its scheduler was told. Not a failure.
struct HostLeaving {
  int host;
  Duration in;
};
}  // namespace event

/// HostReady may come again after HostLost and another ConnectHost. Of WorkerStarted and
/// WorkerExited (by rank) the elastic driver takes none.
using ElasticEvent =
    std::variant<event::HostsDiscovered, event::DiscoveryFailed, event::HostReady, event::HostLost,
                 event::ProcessStarted, event::ProcessExited, event::ProcessErred,
                 event::WorkerArrived, event::WorkerMet, event::WorkerConnected, event::RankAsked,
                 event::AddressesRegistered, event::HostCopying, event::HostLeaving,
                 event::GenerationStopped, event::UserSignal, event::ReaderGone,
                 event::OutputDamaged, event::OutputBlocked, event::Tick>;

/// A worker to be started, and where it stands in the generation that it will be in.
struct NewWorker {
  WorkerId worker = kNoWorker;
  RankInfo place;  ///< host_index: the host's number in the registry.
  bool operator==(const NewWorker&) const = default;
};

/// How many workers a host has more (or fewer) than in the last generation.
struct HostChange {
  std::string host;
  int workers = 0;  ///< Above 0: joined; below: left.
  std::string why;  ///< For those that left, half a line; may be empty.
  bool operator==(const HostChange&) const = default;
};

namespace effect {
/// Start an agent on that host, answered by HostReady or HostLost.
struct ConnectHost {
  int host;
  HostSlots slots;
};
/// The job needs nothing of that host any more: say Bye to its agent, close the link. No fact about
/// that host is taken until the next ConnectHost.
struct ReleaseHost {
  int host;
};
/// Each host's share to its agent. A worker whose generation is above the published one has its
/// requests held by the relay until that generation is published (RelayCore). One of the published
/// generation, started later than that, takes the place of a member that died before OpenMeeting.
struct StartWorkers {
  Generation generation;
  std::vector<NewWorker> workers;
  uint32_t restart_count;  ///< TORCHELASTIC_RESTART_COUNT (gang mode).
  uint16_t master_port;    ///< As rank 0's agent offered it (gang mode).
};
/// The membership of a new generation. In this order: reset the store for `ranks`; KvReset to the
/// agents of all hosts with workers; RankService::Publish, which answers every held question. Each
/// old process is parked or reaped by then, or behind a lost link (spec 3.11 row 4).
struct PublishGeneration {
  Generation generation;
  std::vector<RankInfo> ranks;    ///< By rank. host_index: the host's number in the registry.
  std::vector<WorkerId> workers;  ///< By rank.
};
/// Every member of the published generation has met the others: the values of scope `global`, which
/// nobody has seen so far, are handed out. Once in a generation; only with
/// ElasticPolicy::repairs_meetings.
struct OpenMeeting {
  Generation generation;
};
/// SIGTERM, grace, SIGKILL for these alone. Each is answered by ProcessExited.
struct StopWorkers {
  std::vector<WorkerId> workers;
  Duration grace;
};
/// The agents of these hosts shut the connections between living workers of that generation, and
/// nothing else (docs/rendezvous.md). Idempotent; workers that are parked are left alone.
struct BreakConnections {
  Generation generation;
  std::vector<int> hosts;
};
/// HostsUpdatedRequest to that worker, sent by the agent of its host. May be lost: it is repeated.
struct Notify {
  WorkerId worker;
  int host;
  int64_t timestamp;  ///< Seconds since the epoch; rises from notice to notice.
  UpdateCode code;
};
/// For the event log and the report's table of generations. A Say with the same in words goes with
/// it.
struct MembershipChanged {
  Generation generation;
  int size;
  std::vector<HostChange> changes;
  Duration stood_still;  ///< From the first loss, or the first member that waited. 0: the first.
  bool is_counted;       ///< Against the reset limit.
};
}  // namespace effect

/// StopGeneration: ends every worker of the job on those hosts, of that generation and earlier
/// ones. Each host answers with GenerationStopped. When the job ends, RankService::Close goes
/// first. Numbers of generations rise but may have gaps: those of newcomers that were never let in.
using ElasticEffect =
    std::variant<effect::ConnectHost, effect::ReleaseHost, effect::StartWorkers,
                 effect::PublishGeneration, effect::OpenMeeting, effect::StopWorkers,
                 effect::BreakConnections, effect::Notify, effect::MembershipChanged,
                 effect::StopGeneration, effect::Say, effect::Finish>;

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_EVENTS_H_
