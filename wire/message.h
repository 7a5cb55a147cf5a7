// SPDX-License-Identifier: Apache-2.0
// The messages between launcher and agent, as types. docs/protocol.md is the normative text; the
// codec (message_codec.h) is the only place that knows their bytes.
#ifndef HVDRAY_WIRE_MESSAGE_H_
#define HVDRAY_WIRE_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/types.h"
#include "rendezvous/relay_stats.h"
#include "wire/directory.h"
#include "wire/elastic.h"
#include "wire/host_facts.h"
#include "wire/inspection.h"
#include "wire/probe.h"

namespace hvdray::wire {

inline constexpr uint16_t kMinVersion = 1;
inline constexpr uint16_t kMaxVersion = 1;

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
};

enum class StreamId : uint8_t { kStdin = 0, kStdout = 1, kStderr = 2 };

/// First frame each way. Never changes its layout.
struct Hello {
  uint16_t min_version = kMinVersion;
  uint16_t max_version = kMaxVersion;
  std::string build;            ///< "hvdray 0.1.0 (abc1234)"
  HostFacts facts;              ///< From the agent; empty from the launcher.
  bool takes_deflated = false;  ///< From the agent: KvReply::inflated_bytes.
  bool operator==(const Hello&) const = default;
};

/// Launcher to agent, once, after both Hellos.
struct Welcome {
  uint16_t version = kMaxVersion;
  std::string job_id;
  std::string host;  ///< The host's name as the scheduler has it.
  uint32_t heartbeat_period_ms = 1000;
  uint32_t heartbeat_timeout_ms = 15000;
  uint32_t grace_ms = 5000;  ///< SIGTERM to SIGKILL when the link is lost.
  uint32_t kv_hold_ms = 1000;
  uint64_t kv_cache_bytes = uint64_t{1} << 30;
  bool is_peer_checked = true;  ///< false: --no-peer-check.
  /// Workers of several generations may live side by side and end one by one; only a
  /// StopGeneration is answered by a GenerationStopped (docs/protocol.md).
  bool is_elastic = false;
  bool takes_deflated = false;  ///< KvRequest::inflated_bytes.
  bool operator==(const Welcome&) const = default;
};

/// Where one worker of this host stands in the gang.
struct WorkerSlot {
  int32_t rank = 0;
  int32_t local_rank = 0;
  int32_t cross_rank = 0;
  int32_t cross_size = 1;
  /// What messages call it (their `rank`), where ranks change while it lives: the launcher's number
  /// of the process, never used twice. -1: its rank.
  int32_t worker = -1;
  int32_t name() const { return worker < 0 ? rank : worker; }
  bool operator==(const WorkerSlot&) const = default;
};

/// Which of its host's GPUs a worker sees, where the agent was told which are the job's
/// (`hvdray-agent --gpus`); wire format.
enum class GpuVisibility : uint8_t {
  kInherited = 0,  ///< CUDA_VISIBLE_DEVICES is not touched.
  kHost = 1,       ///< All of them, the same list for each worker (Horovod's rule).
  kRank = 2,       ///< Its own: as many as fall to each worker, by local rank.
};

/// Launcher to agent: fork these workers. The generation is in the frame header.
struct StartGeneration {
  int32_t size = 0;
  int32_t local_size = 0;
  int32_t host_index = 0;  ///< GROUP_RANK: position among the hosts that have workers.
  int32_t host_count = 1;
  uint32_t restart_count = 0;  ///< TORCHELASTIC_RESTART_COUNT
  uint32_t max_restarts = 0;
  std::string host_name;        ///< HOROVOD_HOSTNAME
  std::string gloo_interface;   ///< HOROVOD_GLOO_IFACE
  std::string nccl_interfaces;  ///< NCCL_SOCKET_IFNAME, comma list
  std::string master_address;
  uint16_t master_port = 0;
  bool is_torch_environment = true;    ///< Sets torchrun's variables too.
  int32_t stdin_rank = -1;             ///< Its stdin is a pipe; all others read /dev/null.
  std::string working_directory;       ///< Empty: the agent's own.
  bool is_directory_optional = false;  ///< Where it is missing, the agent's own will do.
  std::vector<WorkerSlot> workers;
  std::vector<std::string> command;      ///< argv
  std::vector<std::string> environment;  ///< "NAME=VALUE"; slot variables are added by the agent.
  /// `environment` goes over the agent's own, of which what belongs to Ray is left out.
  bool is_on_own_environment = false;
  GpuVisibility gpu_visibility = GpuVisibility::kInherited;
  bool operator==(const StartGeneration&) const = default;
};

struct WorkerStarted {
  int32_t rank = 0;
  uint32_t pid = 0;
  bool operator==(const WorkerStarted&) const = default;
};

/// Which step failed between fork and exec; wire format.
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
  int32_t signal = 0;     ///< Died of this signal; 0: exited.
  bool has_core = false;
  bool is_oom = false;                 ///< The kernel says that it ran out of memory.
  ExecStage stage = ExecStage::kNone;  ///< Not kNone: the command never ran.
  /// errno of that stage. kExec: ELIBACC when the file is there but its interpreter is not, since
  /// execve answers ENOENT to both.
  int32_t error = 0;

  bool is_success() const { return exit_code == 0 && signal == 0 && stage == ExecStage::kNone; }
  bool operator==(const ExitStatus&) const = default;
};

inline constexpr size_t kMaxRecordedError = size_t{1} << 10;

/// Sent when the process has been reaped; its output may still be on the way.
struct WorkerExited {
  int32_t rank = 0;
  ExitStatus status;
  bool was_stopping = false;  ///< We had signalled it before it ended.
  /// How long before its end its error began to show: the first line of its last traceback on
  /// stderr, or its record in TORCHELASTIC_ERROR_FILE. -1: it did not.
  int64_t error_age_ms = -1;
  std::string recorded_error = {};  ///< What it wrote there; at most kMaxRecordedError bytes.
  bool operator==(const WorkerExited&) const = default;
};

/// Bytes of a worker, at most 64 KiB a frame. `is_end` comes once a stream, maybe with bytes.
struct Output {
  int32_t rank = 0;
  StreamId stream = StreamId::kStdout;
  bool is_end = false;
  std::string bytes;
  bool operator==(const Output&) const = default;
};

/// What a sender of Output may have on the way for a rank before any Credit has come, stdout and
/// stderr together.
inline constexpr uint32_t kOutputWindowBytes = uint32_t{1} << 20;
/// The most that one Credit may grant.
inline constexpr uint32_t kMaxCreditBytes = uint32_t{1} << 20;

/// Receiver of Output (or Stdin) to its sender: so many more bytes of that stream may come.
/// stdout and stderr of a rank share one window, named kStdout.
struct Credit {
  int32_t rank = 0;
  StreamId stream = StreamId::kStdout;
  uint32_t bytes = 0;
  bool operator==(const Credit&) const = default;
};

struct Stdin {
  int32_t rank = 0;
  bool is_end = false;
  std::string bytes;
  bool operator==(const Stdin&) const = default;
};

/// Launcher to agent: signal the process groups of one worker, or of all (rank -1).
struct Signal {
  int32_t rank = -1;
  int32_t signo = 0;
  bool operator==(const Signal&) const = default;
};

enum class KvOperation : uint8_t {
  kPut = 1,
  kGet = 2,  ///< Answered at once with 200 or 404.
  kDelete = 3,
  kFollow = 4,  ///< All numeric values of a scope, now and as they arrive, until kUnfollow.
  kUnfollow = 5,
  kRankAndSize = 6,      ///< key "host:local_rank"; answered when the launcher knows.
  kWorkerAddresses = 7,  ///< key "host:local_rank"; value: typed content, without the key.
};

struct KvRequest {
  uint64_t id = 0;  ///< Chosen by the agent, rising; the reply repeats it.
  KvOperation operation = KvOperation::kGet;
  int32_t rank = -1;  ///< The worker that asks; -1: the relay itself.
  std::string scope;
  std::string key;
  std::string value;
  /// Not 0: `value` is a zlib stream of so many bytes. Only to a peer that takes it.
  uint32_t inflated_bytes = 0;
  bool operator==(const KvRequest&) const = default;
};

/// Answer to a KvRequest. A kFollow has any number of them, one a value, each with its key, and a
/// 404 without a key behind those that were there when it began.
struct KvReply {
  uint64_t id = 0;
  uint16_t status = 200;  ///< 200 or 404; 413 and 503 by the limits of docs/rendezvous.md.
  std::string key;
  std::string value;
  uint32_t inflated_bytes = 0;  ///< As in KvRequest.
  bool operator==(const KvReply&) const = default;
};

/// The store is empty again and belongs to the generation of the header.
struct KvReset {
  bool operator==(const KvReset&) const = default;
};

/// Launcher to agent: end this generation: SIGTERM, grace, SIGKILL, sweep.
struct StopGeneration {
  uint32_t grace_ms = 0;  ///< 0: SIGKILL at once.
  bool operator==(const StopGeneration&) const = default;
};

/// Agent to launcher, behind all output of the generation: nothing of it is left on this host.
struct GenerationStopped {
  uint32_t swept = 0;         ///< Processes found outside the workers' groups and killed.
  uint16_t offered_port = 0;  ///< A fresh one, held for the next generation.
  RelayStats relay;           ///< Of the agent's whole life.
  bool operator==(const GenerationStopped&) const = default;
};

struct Heartbeat {
  bool is_paused = false;  ///< ^Z stops the launcher: wait for it without limit.
  bool operator==(const Heartbeat&) const = default;
};

/// Last frame of a side that ends in order. code 0: all well.
struct Bye {
  uint16_t code = 0;  ///< An ErrorCode.
  std::string text;
  bool operator==(const Bye&) const = default;
};

using Body =
    std::variant<Hello, Welcome, Probe, ProbeResult, StartGeneration, WorkerStarted, WorkerExited,
                 Output, Credit, Stdin, Signal, KvRequest, KvReply, KvReset, StopGeneration,
                 GenerationStopped, Heartbeat, Bye, Inspect, Inspection, DirectoryList,
                 DirectoryWanted, File, FileTaken, DirectoryProblem, BreakConnections, Notify,
                 HostLeaving, ConnectionsBroken, WorkerArrived, StopWorkers>;

struct Message {
  Generation generation = 0;
  Body body;
  bool operator==(const Message&) const = default;
};

MessageType TypeOf(const Body& body);
/// The body of a known `type` with the defaults of its struct.
Body EmptyBody(MessageType type);
/// "StartGeneration": for logs and traces; "unknown" for other numbers.
std::string_view NameOf(MessageType type);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_MESSAGE_H_
