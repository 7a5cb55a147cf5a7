// SPDX-License-Identifier: Apache-2.0
// The messages between launcher and agent, as plain values: they own what they hold, and any thread
// may use them. docs/protocol.md is normative for their order and rules; message_codec.h alone
// knows their bytes and ranges.
#ifndef HVDRAY_WIRE_MESSAGE_H_
#define HVDRAY_WIRE_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/types.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/relay_stats.h"
#include "wire/directory.h"
#include "wire/inspection.h"
#include "wire/object.h"
#include "wire/probe.h"

namespace hvdray::wire {

inline constexpr uint16_t kMinVersion = 1;
inline constexpr uint16_t kMaxVersion = 2;
/// The first version with StreamId::kChannel.
inline constexpr uint16_t kChannelVersion = 2;

/// Values are wire format.
enum class MessageType : uint16_t {
  kHello = 1,
  kWelcome = 2,
  kProbe = 3,
  kStartGeneration = 4,
  kWorkerStarted = 5,
  kWorkerExited = 6,
  kOutput = 7,
  kCredit = 8,
  kStdin = 9,
  kSignal = 10,
  kKvRequest = 11,
  kKvReply = 12,
  kKvReset = 13,
  kBreakConnections = 14,
  kNotify = 15,
  kHostLeaving = 16,
  kFile = 17,
  kStopGeneration = 18,
  kHeartbeat = 19,
  kBye = 20,
  kGenerationStopped = 21,
  kProbeResult = 22,
  kInspect = 23,
  kInspection = 24,
  kDirectoryList = 25,
  kDirectoryWanted = 26,
  kFileTaken = 27,
  kDirectoryProblem = 28,
  kConnectionsBroken = 29,
  kWorkerArrived = 30,
  kStopWorkers = 31,
  kObjectPiece = 32,
  kGiveObject = 33,
  kDropObject = 34,
  kObjectProblem = 35,
  kWarmed = 36,
  kWarm = 37,
  kSharesMemory = 38,
  kMapObject = 39,
};

/// kChannel: the worker's channel (docs/channel.md), in both directions; from version 2 on.
enum class StreamId : uint8_t { kStdin = 0, kStdout = 1, kStderr = 2, kChannel = 3 };

/// One IPv4 address of an interface.
struct InterfaceAddress {
  std::string address;  ///< "10.0.0.5"
  int prefix_length = 0;
  bool operator==(const InterfaceAddress&) const = default;
};

/// A network interface that is up and has an IPv4 address, or loopback.
struct InterfaceFacts {
  std::string name;
  std::vector<InterfaceAddress> addresses;  ///< In the kernel's order; Gloo uses the first.
  bool is_up = false;
  bool is_loopback = false;
  bool is_virtual = false;  ///< Bridge, veth, tunnel and the like.
  int64_t speed_mbps = 0;   ///< 0: unknown.
  bool has_default_route = false;
  bool operator==(const InterfaceFacts&) const = default;
};

/// What an agent knows about its host. Sent with the first frame, so that no fact costs a round
/// trip.
struct HostFacts {
  std::string host_name;   ///< gethostname()
  std::string machine;     ///< uname -m
  std::string system;      ///< uname -s
  uint32_t cpu_count = 0;  ///< CPUs whose time this process may use.
  uint32_t agent_pid = 0;
  uint16_t offered_port = 0;  ///< Reserved for MASTER_PORT of the first generation.
  uint16_t probe_port = 0;    ///< Accepts connections until the first generation starts; 0: none.
  bool measures = false;      ///< This agent takes a Probe with a token.
  uint64_t open_file_limit = 0;  ///< The hard limit.
  std::string cleanup;           ///< How orphans are found: "cgroup" or "subreaper".
  std::vector<InterfaceFacts> interfaces;
  bool operator==(const HostFacts&) const = default;
};

/// The first frame in each direction. Its layout never changes.
struct Hello {
  uint16_t min_version = kMinVersion;
  uint16_t max_version = kMaxVersion;
  std::string build;            ///< "hvdray 0.1.0 (abc1234)"
  HostFacts facts;              ///< Set by agents only.
  bool takes_deflated = false;  ///< Agents: this one accepts KvReply::inflated_bytes.
  bool operator==(const Hello&) const = default;
};

/// Launcher to agent, once, after both Hellos: settings of the job.
struct Welcome {
  uint16_t version = kMaxVersion;
  std::string job_id;
  std::string host;  ///< The host's name as the scheduler knows it.
  uint32_t heartbeat_period_ms = 1000;
  uint32_t heartbeat_timeout_ms = 15000;  ///< 0: the peer is never lost.
  uint32_t grace_ms = 5000;               ///< From SIGTERM to SIGKILL when the link is lost.
  uint32_t kv_hold_ms = 1000;             ///< How long the relay holds a GET of a missing key.
  uint64_t kv_cache_bytes = uint64_t{1} << 30;  ///< Limit of the relay's cache.
  bool is_peer_checked = true;                  ///< false: --no-peer-check.
  /// Workers of several generations may run side by side and end one by one, and an agent sends
  /// GenerationStopped only in answer to StopGeneration (docs/protocol.md).
  bool is_elastic = false;
  bool takes_deflated = false;  ///< The launcher accepts KvRequest::inflated_bytes.
  /// Sealed memory of the launcher's: an agent that can open it and finds the token in it shares
  /// the launcher's machine, and says so. Process 0: none is offered.
  uint32_t memory_pid = 0;
  int32_t memory_descriptor = 0;
  std::string memory_token = {};
  bool operator==(const Welcome&) const = default;
};

/// Agent to launcher: it can map the launcher's memory (Welcome::memory_pid).
struct SharesMemory {
  bool operator==(const SharesMemory&) const = default;
};

/// The place of one worker of this host in the gang.
struct WorkerSlot {
  int32_t rank = 0;
  int32_t local_rank = 0;
  int32_t cross_rank = 0;
  int32_t cross_size = 1;
  /// What messages call the worker (their `rank`) in jobs where ranks change while it runs: the
  /// launcher's number for the process, never reused. -1: its rank.
  int32_t worker = -1;
  int32_t name() const { return worker < 0 ? rank : worker; }
  bool operator==(const WorkerSlot&) const = default;
};

/// Which GPUs of its host a worker sees, if the agent knows which ones belong to the job
/// (`hvdray-agent --gpus`). The values are wire format.
enum class GpuVisibility : uint8_t {
  kInherited = 0,  ///< CUDA_VISIBLE_DEVICES stays as it is.
  kHost = 1,       ///< All of them, the same list for each worker (Horovod's rule).
  kRank = 2,       ///< An equal share of its own, chosen by local rank.
};

/// Launcher to agent: start these workers. The generation is in the frame header.
struct StartGeneration {
  int32_t size = 0;
  int32_t local_size = 0;
  int32_t host_index = 0;            ///< GROUP_RANK: index among the hosts that have workers.
  int32_t host_count = 1;            ///< GROUP_WORLD_SIZE
  uint32_t restart_count = 0;        ///< TORCHELASTIC_RESTART_COUNT
  uint32_t max_restarts = 0;         ///< TORCHELASTIC_MAX_RESTARTS
  std::string host_name;             ///< HOROVOD_HOSTNAME
  std::string gloo_interface;        ///< HOROVOD_GLOO_IFACE
  std::string nccl_interfaces;       ///< NCCL_SOCKET_IFNAME, comma list
  std::string master_address;        ///< MASTER_ADDR
  uint16_t master_port = 0;          ///< MASTER_PORT
  bool is_torch_environment = true;  ///< Also set torchrun's variables.
  int32_t stdin_rank = -1;  ///< This worker's stdin is a pipe, all others read /dev/null. -1: none.
  std::string working_directory;       ///< Empty: the agent's own.
  bool is_directory_optional = false;  ///< If it is missing or not safe, use the agent's own.
  DirectoryTrust directory_trust = {};
  std::vector<WorkerSlot> workers;
  std::vector<std::string> command;      ///< argv
  std::vector<std::string> environment;  ///< "NAME=VALUE"; the agent adds the slot variables.
  /// `environment` is applied on top of the agent's own, without Ray's variables.
  bool is_on_own_environment = false;
  /// Variables that name another rank stay: those of the agent's own environment
  /// (NamesAnotherRank()), and torchrun's where hvdray sets none.
  bool keeps_rank_variables = false;
  GpuVisibility gpu_visibility = GpuVisibility::kInherited;
  /// Names in `environment` that win over the slot variables: the user has set them on purpose.
  std::vector<std::string> kept_variables = {};
  /// OMP_NUM_THREADS and kin (kThreadNames), unless `environment` has OMP_NUM_THREADS. 0: leave
  /// them.
  uint32_t threads = 0;
  bool has_channel = false;  ///< Each worker gets a channel: HVDRAY_CHANNEL_FD.
  /// Modules that a Python command imports once, in a process that its workers are forked from;
  /// kPreloadAuto alone: those of its script; "?a": a, if it can be imported. Empty: every worker
  /// starts by exec.
  std::vector<std::string> preload = {};
  uint32_t preload_limit_ms = 30000;  ///< How long their imports may take.
  bool operator==(const StartGeneration&) const = default;
};

inline constexpr size_t kMaxKeptVariables = 256;
inline constexpr size_t kMaxPreload = 256;  ///< Modules.
inline constexpr std::string_view kPreloadAuto = "auto";

/// Launcher to agent: do the imports of this start now, for workers that come later. It has no
/// workers.
struct Warm {
  StartGeneration start;
  bool operator==(const Warm&) const = default;
};

/// Agent to launcher, once for each process that workers are to be forked from; in generation 0,
/// the answer to Warm.
struct Warmed {
  bool is_warm = false;
  std::string why = {};  ///< The reason why the workers start by exec after all.
  uint32_t took_ms = 0;
  std::vector<std::string> modules = {};  ///< What was imported.
  bool operator==(const Warmed&) const = default;
};

/// Agent to launcher: the worker's command runs.
struct WorkerStarted {
  int32_t rank = 0;
  uint32_t pid = 0;
  bool operator==(const WorkerStarted&) const = default;
};

/// The step that failed between fork and exec. The values are wire format.
enum class ExecStage : uint8_t {
  kNone = 0,
  kFork = 1,
  kDirectory = 2,    ///< chdir
  kDescriptors = 3,  ///< dup2, close_range
  kLimits = 4,       ///< process group, parent-death signal, cgroup, resource limits
  kExec = 5,
};

/// How a worker ended.
struct ExitStatus {
  int32_t exit_code = 0;  ///< Meaningful when signal is 0 and stage is kNone.
  int32_t signal = 0;     ///< The signal that killed it; 0: it exited.
  bool has_core = false;
  bool is_oom = false;                 ///< Killed by the kernel for memory.
  ExecStage stage = ExecStage::kNone;  ///< Anything but kNone: the command never ran.
  /// errno of that stage. kExec: ELIBACC if the file exists but its interpreter does not, since
  /// execve returns ENOENT for both.
  int32_t error = 0;

  bool is_success() const { return exit_code == 0 && signal == 0 && stage == ExecStage::kNone; }
  bool operator==(const ExitStatus&) const = default;
};

inline constexpr size_t kMaxRecordedError = size_t{1} << 10;  ///< Bytes.

/// Agent to launcher, exactly once per worker, after the process was reaped. Its last output may
/// still follow.
struct WorkerExited {
  int32_t rank = 0;
  ExitStatus status;
  bool was_stopping = false;  ///< The agent had signalled it before it ended.
  /// Time from the first sign of its error to its end. The sign is the first line of its last
  /// traceback on stderr, or its record in TORCHELASTIC_ERROR_FILE. -1: there was no sign.
  int64_t error_age_ms = -1;
  std::string recorded_error = {};  ///< What it wrote to that file.
  bool operator==(const WorkerExited&) const = default;
};

/// Agent to launcher: bytes that a worker wrote, at most kMaxOutput per message. `is_end` comes
/// once per stream, possibly with bytes.
struct Output {
  int32_t rank = 0;
  StreamId stream = StreamId::kStdout;
  bool is_end = false;
  std::string bytes;
  bool operator==(const Output&) const = default;
};

/// Bytes of Output that may be in flight per rank before the first Credit: stdout and stderr
/// together, and as many of the channel.
inline constexpr uint32_t kOutputWindowBytes = uint32_t{1} << 20;
/// Bytes of Stdin that may be in flight before the first Credit: what an agent queues at most.
inline constexpr uint32_t kStdinWindowBytes = uint32_t{1} << 20;
/// Largest number of bytes that one Credit may grant.
inline constexpr uint32_t kMaxCreditBytes = uint32_t{1} << 20;

/// From the receiver of Output or Stdin to its sender: grants `bytes` more of that stream. stdout
/// and stderr of a rank share one window, named kStdout. kChannel: of what the other side sends.
struct Credit {
  int32_t rank = 0;
  StreamId stream = StreamId::kStdout;
  uint32_t bytes = 0;
  bool operator==(const Credit&) const = default;
};

/// Launcher to agent: bytes for a worker's stdin or channel, at most kMaxOutput per message.
struct Stdin {
  int32_t rank = 0;
  bool is_end = false;
  std::string bytes;
  StreamId stream = StreamId::kStdin;
  bool operator==(const Stdin&) const = default;
};

/// Launcher to agent: signal the process group of one worker, or of each worker (rank -1).
struct Signal {
  int32_t rank = -1;
  int32_t signo = 0;
  bool operator==(const Signal&) const = default;
};

/// Agent to launcher: a request of a worker that the relay cannot answer itself.
struct KvRequest {
  uint64_t id = 0;  ///< Chosen by the agent, increasing; the reply repeats it.
  KvOp operation = KvOp::kGet;
  int32_t rank = -1;  ///< The asking worker; -1: the relay itself.
  std::string scope;
  std::string key;
  std::string value;
  /// Unless 0, `value` is a zlib stream of this many bytes. Only for peers with takes_deflated.
  uint32_t inflated_bytes = 0;
  bool operator==(const KvRequest&) const = default;
};

/// Launcher to agent: answers a KvRequest. A kFollow gets one reply per value, each with its key,
/// and a 404 without a key after the values that existed when it began.
struct KvReply {
  uint64_t id = 0;
  uint16_t status = 200;  ///< 200 or 404; 413 and 503 for the limits in docs/rendezvous.md.
  std::string key;
  std::string value;
  uint32_t inflated_bytes = 0;  ///< As in KvRequest.
  bool operator==(const KvReply&) const = default;
};

/// Launcher to agent: the store is empty and belongs to the generation in the header.
struct KvReset {
  bool operator==(const KvReset&) const = default;
};

/// Launcher to agent: stop this generation by SIGTERM, grace, SIGKILL and a sweep.
struct StopGeneration {
  uint32_t grace_ms = 0;  ///< 0: SIGKILL at once.
  bool operator==(const StopGeneration&) const = default;
};

/// Agent to launcher, after all output of the generation: no process of it is left on this host.
struct GenerationStopped {
  uint32_t swept = 0;         ///< Processes found outside the workers' groups and killed.
  uint16_t offered_port = 0;  ///< A new one, reserved for the next generation.
  RelayStats relay;           ///< Counted since the agent started.
  bool operator==(const GenerationStopped&) const = default;
};

/// Sent by both sides, so that silence means a lost peer.
struct Heartbeat {
  bool is_paused = false;  ///< ^Z is about to stop the launcher: wait for it without limit.
  bool operator==(const Heartbeat&) const = default;
};

/// The last frame of a side that ends in order. code 0: success.
struct Bye {
  uint16_t code = 0;  ///< An ErrorCode.
  std::string text;   ///< The reason, for people.
  bool operator==(const Bye&) const = default;
};

// Elastic jobs, whose gangs change while workers run.

/// Launcher to agent: shut the connections between running workers of the header's generation, and
/// nothing else. Idempotent. Answered by ConnectionsBroken.
struct BreakConnections {
  bool operator==(const BreakConnections&) const = default;
};

/// Agent to launcher: the result of BreakConnections. agent/connection_breaker.h defines the
/// counts.
struct ConnectionsBroken {
  uint32_t shut = 0;
  uint32_t destroyed = 0;
  uint32_t refused = 0;
  uint32_t took_us = 0;  ///< Microseconds.
  std::string why;       ///< Why the first one was refused; empty: none was.
  std::string hint;      ///< What would allow it.
  bool operator==(const ConnectionsBroken&) const = default;
};

/// Launcher to agent: tell this worker that the set of hosts has changed. May be lost.
struct Notify {
  int32_t worker = 0;
  int64_t timestamp = 0;  ///< Seconds since 1970; increases from notice to notice.
  uint8_t code = 3;       ///< Horovod's HostUpdateResult: 1 removed, 2 added, 3 both.
  bool operator==(const Notify&) const = default;
};

/// Agent to launcher: this host will leave the job. This is not a failure.
struct HostLeaving {
  uint32_t in_ms = 0;
  bool operator==(const HostLeaving&) const = default;
};

/// Agent to launcher: a worker whose generation is not published yet has reached hvd.init(). Its
/// first PUT is held.
struct WorkerArrived {
  int32_t worker = 0;
  bool operator==(const WorkerArrived&) const = default;
};

/// Launcher to agent: stop only these workers, by SIGTERM, grace and SIGKILL. Unknown ones are
/// ignored.
struct StopWorkers {
  std::vector<int32_t> workers;
  uint32_t grace_ms = 0;
  bool operator==(const StopWorkers&) const = default;
};

using Body =
    std::variant<Hello, Welcome, Probe, ProbeResult, StartGeneration, WorkerStarted, WorkerExited,
                 Output, Credit, Stdin, Signal, KvRequest, KvReply, KvReset, StopGeneration,
                 GenerationStopped, Heartbeat, Bye, Inspect, Inspection, DirectoryList,
                 DirectoryWanted, File, FileTaken, DirectoryProblem, BreakConnections, Notify,
                 HostLeaving, ConnectionsBroken, WorkerArrived, StopWorkers, ObjectPiece,
                 GiveObject, DropObject, ObjectProblem, Warmed, Warm, SharesMemory, MapObject>;

struct Message {
  Generation generation = 0;
  Body body;
  bool operator==(const Message&) const = default;
};

MessageType TypeOf(const Body& body);
/// A body of `type`, which must be known, with the defaults of its struct.
Body EmptyBody(MessageType type);
/// The name for logs and messages, such as "StartGeneration"; "unknown" for unknown numbers.
std::string_view Name(MessageType type);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_MESSAGE_H_
