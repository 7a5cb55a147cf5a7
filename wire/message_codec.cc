// SPDX-License-Identifier: Apache-2.0
#include "wire/message_codec.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/json_fields.h"

namespace hvdray::wire {
namespace {

constexpr uint8_t kFlagEnd = 1;
constexpr int32_t kMaxSize = 65536;                // workers of a job
constexpr int64_t kMaxSeconds = int64_t{1} << 53;  // exact in any JSON reader
constexpr int64_t kMaxMode = 0777;
constexpr int64_t kMaxNanoseconds = 999'999'999;

constexpr FieldRange kSizes = {0, kMaxSize};
constexpr FieldRange kRanks = {0, kMaxSize - 1};
// How messages identify a worker: its rank or, in an elastic job, the number of its process, which
// increases while the job runs.
constexpr FieldRange kWorkers = {0, (1 << 24) - 1};
constexpr FieldRange kWorkersOrNone = {-1, kWorkers.max};
constexpr FieldRange kVersions = {1, UINT16_MAX};
constexpr FieldRange kSignals = {0, 64};
constexpr FieldRange kErrnos = {0, 4095};
constexpr FieldRange kSeconds = {-kMaxSeconds, kMaxSeconds};
constexpr FieldRange kMeasured = {0, int64_t{1} << 53};  // exact in any JSON reader
constexpr FieldRange kName = {0, 4096};                  // a name, an address, a list of interfaces
constexpr FieldRange kModule = {0, 256};
constexpr FieldRange kReason = {0, 1024};
constexpr FieldRange kCause = {0, 65536};

Status Violation(MessageType type, std::string_view what) {
  return {ErrorCode::kProtocolError, fmt::format("{}: {}", Name(type), what)};
}

Status Unsendable(MessageType type, std::string_view what) {
  return {ErrorCode::kInternal, fmt::format("cannot send {}: {}", Name(type), what)};
}

bool HasNul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

// A body is JSON fields followed by raw bytes. BodyWriter and BodyReader handle both, so that
// Fields() lists each part of a message once. Raw bytes are in the order of the calls.

class BodyWriter : public FieldWriter {
 public:
  BodyWriter(std::string& json, std::string& raw) : FieldWriter(json), raw_(raw) {}

  /// Raw bytes, counted by the field.
  void Piece(const char* key, const std::string& bytes, size_t max) {
    Limit(bytes.size() <= max, "a part is too long");
    Int(key, static_cast<int64_t>(bytes.size()));
    raw_ += bytes;
  }
  /// All remaining raw bytes.
  void Rest(const std::string& bytes, size_t max) {
    Limit(bytes.size() <= max, "the value is too long");
    raw_ += bytes;
  }
  /// A raw string, ended by a NUL.
  void String(const std::string& text) {
    Limit(!HasNul(text), "a string has a NUL");
    raw_ += text;
    raw_ += '\0';
  }
  /// Raw strings, counted by the field, which is left out if `is_optional` and there are none.
  void Strings(const char* key, const std::vector<std::string>& list, FieldRange /*count*/,
               bool is_optional = false) {
    if (!is_optional || !list.empty()) Int(key, static_cast<int64_t>(list.size()));
    for (const std::string& text : list) String(text);
  }
  /// Raw elements, counted by the field: calls fields(io, element) for each.
  template <typename T, typename Fields>
  void Elements(const char* key, const std::vector<T>& list, size_t max, const Fields& fields) {
    Limit(list.size() <= max, "too many elements");
    Int(key, static_cast<int64_t>(list.size()));
    for (const T& element : list) fields(*this, element);
  }
  /// A raw little-endian number.
  template <typename T>
  void Fixed(const T& number) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      raw_ += static_cast<char>(static_cast<uint64_t>(number) >> 8 * i);
    }
  }
  /// `count` raw bytes.
  void Counted(const std::string& bytes, size_t /*count*/) { raw_ += bytes; }

  /// A rule for both directions, so that nothing is sent that the peer would refuse.
  void Limit(bool is_kept, const char* rule) {
    if (!is_kept && broken_ == nullptr) broken_ = rule;
  }
  size_t raw_bytes() const { return raw_.size(); }
  const char* broken_rule() const { return broken_; }  ///< nullptr: none.

 private:
  std::string& raw_;
  const char* broken_ = nullptr;
};

class BodyReader : public FieldReader {
 public:
  BodyReader(const Json& json, ByteView raw, Status& status)
      : FieldReader(json, Missing::kKeepsDefault, status), raw_(raw), raw_bytes_(raw.size()) {}

  void Piece(const char* key, std::string& bytes, size_t max) {
    uint32_t size = 0;
    Int(key, size, {0, static_cast<int64_t>(max)});
    Counted(bytes, size);
  }
  void Rest(std::string& bytes, size_t max) {
    Limit(raw_.size() <= max, "the value is too long");
    Counted(bytes, raw_.size());
  }
  void String(std::string& text) {
    const size_t end = raw_.find('\0');
    if (end == ByteView::npos) return Refuse({}, "has fewer strings than counted");
    Counted(text, end);
    raw_.remove_prefix(1);
  }
  void Strings(const char* key, std::vector<std::string>& list, FieldRange range,
               bool /*is_optional*/ = false) {
    uint32_t count = 0;
    Int(key, count, range);
    for (uint32_t i = 0; i < count && ok(); ++i) String(list.emplace_back());
  }
  template <typename T, typename Fields>
  void Elements(const char* key, std::vector<T>& list, size_t max, const Fields& fields) {
    uint32_t count = 0;
    Int(key, count, {0, static_cast<int64_t>(max)});
    for (uint32_t i = 0; i < count && ok(); ++i) fields(*this, list.emplace_back());
  }
  template <typename T>
  void Fixed(T& number) {
    std::string bytes;
    Counted(bytes, sizeof(T));
    uint64_t value = 0;
    for (size_t i = bytes.size(); i > 0; --i)
      value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
    number = static_cast<T>(value);
  }
  void Counted(std::string& bytes, size_t count) {
    Limit(count <= raw_.size(), "the raw bytes are too few");
    if (!ok()) return;
    bytes = raw_.substr(0, count);
    raw_.remove_prefix(count);
  }
  void Limit(bool is_kept, const char* rule) { Require({}, is_kept, rule); }
  size_t raw_bytes() const { return raw_bytes_; }
  void End() { Limit(raw_.empty(), "bytes behind the body"); }

 private:
  ByteView raw_;  // what is left
  const size_t raw_bytes_;
};

bool IsIpv4(const std::string& text) {
  in_addr parsed{};
  return ::inet_pton(AF_INET, text.c_str(), &parsed) == 1;
}
constexpr std::string_view kMustBeIpv4 = "must be an IPv4 address";

template <typename Io>
void Fields(Io& io, FieldsOf<Io, InterfaceFacts> face) {
  io.Text("name", face.name, kName);
  io.List("addresses", face.addresses, kAnyCount, [](auto& item, auto& address) {
    item.Text("address", address.address, kName);
    item.Int("prefix_length", address.prefix_length, {0, 32});
    item.Require("address", IsIpv4(address.address), kMustBeIpv4);
  });
  io.Flag("is_up", face.is_up);
  io.Flag("is_loopback", face.is_loopback);
  io.Flag("is_virtual", face.is_virtual);
  io.Int("speed_mbps", face.speed_mbps, {0, INT32_MAX});
  io.Flag("has_default_route", face.has_default_route);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, HostFacts> facts) {
  io.Text("host_name", facts.host_name, kName);
  io.Text("machine", facts.machine, kName);
  io.Text("system", facts.system, kName);
  io.Int("cpu_count", facts.cpu_count, kAnyOf<uint32_t>);
  io.Int("agent_pid", facts.agent_pid, kAnyOf<uint32_t>);
  io.Int("offered_port", facts.offered_port, kAnyOf<uint16_t>);
  io.Int("probe_port", facts.probe_port, kAnyOf<uint16_t>);
  io.Word("open_file_limit", facts.open_file_limit);
  io.Shown("cleanup", facts.cleanup, kName);
  io.List("interfaces", facts.interfaces, kAnyCount,
          [](auto& item, auto& face) { Fields(item, face); });
  if (io.Has("measures", facts.measures)) io.Flag("measures", facts.measures);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Hello> hello) {
  io.Int("min", hello.min_version, kVersions);
  io.Int("max", hello.max_version, kVersions);
  io.Require("min", hello.min_version <= hello.max_version, "must not be over max");
  io.Shown("build", hello.build, {0, 256});
  if (io.Has("facts", hello.facts != HostFacts())) {
    io.Object("facts", hello.facts, [](auto& part, auto& facts) { Fields(part, facts); });
  }
  if (io.Has("takes_deflated", hello.takes_deflated)) {
    io.Flag("takes_deflated", hello.takes_deflated);
  }
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Welcome> welcome) {
  io.Int("version", welcome.version, kVersions);
  io.Text("job_id", welcome.job_id, kName);
  io.Text("host", welcome.host, kName);
  io.Int("heartbeat_period_ms", welcome.heartbeat_period_ms, {1, UINT32_MAX});
  io.Int("heartbeat_timeout_ms", welcome.heartbeat_timeout_ms, kAnyOf<uint32_t>);
  io.Int("grace_ms", welcome.grace_ms, kAnyOf<uint32_t>);
  io.Int("kv_hold_ms", welcome.kv_hold_ms, kAnyOf<uint32_t>);
  io.Word("kv_cache_bytes", welcome.kv_cache_bytes);
  io.Flag("is_peer_checked", welcome.is_peer_checked);
  if (io.Has("is_elastic", welcome.is_elastic)) io.Flag("is_elastic", welcome.is_elastic);
  if (io.Has("takes_deflated", welcome.takes_deflated)) {
    io.Flag("takes_deflated", welcome.takes_deflated);
  }
  if (io.Has("memory_pid", welcome.memory_pid != 0)) {
    io.Int("memory_pid", welcome.memory_pid, {1, INT32_MAX});
    io.Int("memory_descriptor", welcome.memory_descriptor, {0, INT32_MAX});
    io.Text("memory_token", welcome.memory_token, kName);
  }
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Probe> probe) {
  io.Int("timeout_ms", probe.timeout_ms, kAnyOf<uint32_t>);
  io.List("targets", probe.targets, kMaxProbeTargets, [](auto& item, auto& target) {
    item.Text(0, target.source);
    item.Text(1, target.address);
    item.Int(2, target.port, {1, UINT16_MAX});
    item.Require(0, IsIpv4(target.source), kMustBeIpv4);
    item.Require(1, IsIpv4(target.address), kMustBeIpv4);
  });
  if (!io.Has("token", !probe.token.empty())) return;
  io.Text("token", probe.token, {kMeasureTokenBytes, kMeasureTokenBytes});
  io.Int("measure_ms", probe.measure_ms, {1, kMaxMeasureMs});
  io.Require("targets", probe.targets.size() <= 1, "must be at most one in a measurement");
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, ProbeResult> result) {
  io.List("results", result.results, kMaxProbeTargets, [](auto& item, auto& outcome) {
    item.Int(0, outcome.stage, {0, static_cast<int64_t>(ProbeStage::kOther)});
    item.Int(1, outcome.error, kErrnos);
    const bool is_measured = outcome.step != MeasureStep::kNone;
    if (!item.Has(5, is_measured)) return;
    item.Int(2, outcome.step, {0, static_cast<int64_t>(MeasureStep::kDone)});
    item.Int(3, outcome.round_trip_ns, kMeasured);
    item.Int(4, outcome.sent_bytes_per_s, kMeasured);
    item.Int(5, outcome.received_bytes_per_s, kMeasured);
  });
}

template <typename Io>
void TrusteeFields(Io& io, FieldsOf<Io, Trustees> trustees) {
  const auto id = [](auto& item, auto& number) { item.Int({}, number, kAnyOf<uint32_t>); };
  io.List("folder_owners", trustees.owners, kMaxTrustees, id);
  io.List("folder_groups", trustees.groups, kMaxTrustees, id);
  io.Flag("is_folder_everybodys", trustees.is_everybody);
}

template <typename Io, typename Trust>
void TrustFields(Io& io, Trust& trust) {
  if (!io.Has("is_folder_checked", trust.is_checked)) return;
  io.Flag("is_folder_checked", trust.is_checked);
  TrusteeFields(io, trust.trustees);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, StartGeneration> start) {
  io.Int("size", start.size, kSizes);
  io.Int("local_size", start.local_size, kSizes);
  io.Int("host_index", start.host_index, kRanks);
  io.Int("host_count", start.host_count, kSizes);
  io.Int("restart_count", start.restart_count, kAnyOf<uint32_t>);
  io.Int("max_restarts", start.max_restarts, kAnyOf<uint32_t>);
  io.Text("host_name", start.host_name, kName);
  io.Text("gloo_interface", start.gloo_interface, kName);
  io.Text("nccl_interfaces", start.nccl_interfaces, kName);
  io.Text("master_address", start.master_address, kName);
  io.Int("master_port", start.master_port, kAnyOf<uint16_t>);
  io.Flag("is_torch_environment", start.is_torch_environment);
  io.Flag("is_folder_optional", start.is_directory_optional);
  io.Int("stdin_rank", start.stdin_rank, {-1, kRanks.max});
  io.List("workers", start.workers, kAnyCount, [](auto& item, auto& slot) {
    item.Int(0, slot.rank, kRanks);
    item.Int(1, slot.local_rank, kRanks);
    item.Int(2, slot.cross_rank, kRanks);
    item.Int(3, slot.cross_size, kSizes);
    if (item.Has(4, slot.worker >= 0)) item.Int(4, slot.worker, kWorkers);
  });
  io.String(start.working_directory);
  io.Strings("argument_count", start.command, kAnyOf<uint32_t>);
  io.Strings("environment_count", start.environment, kAnyOf<uint32_t>);
  if constexpr (Io::kIsWriter) io.Limit(io.raw_bytes() <= kMaxRaw, "strings of over 16 MiB");
  // On Ray only: agents that know nothing of it are never asked.
  if (io.Has("is_on_own_environment", start.is_on_own_environment)) {
    io.Flag("is_on_own_environment", start.is_on_own_environment);
  }
  if (io.Has("keeps_rank_variables", start.keeps_rank_variables)) {
    io.Flag("keeps_rank_variables", start.keeps_rank_variables);
  }
  if (io.Has("kept_variables", !start.kept_variables.empty())) {
    io.List("kept_variables", start.kept_variables, kMaxKeptVariables,
            [](auto& item, auto& name) { item.Text({}, name, kName); });
  }
  if (io.Has("threads", start.threads != 0)) io.Int("threads", start.threads, kAnyOf<uint32_t>);
  if (io.Has("gpu_visibility", start.gpu_visibility != GpuVisibility::kInherited)) {
    io.Int("gpu_visibility", start.gpu_visibility, {0, static_cast<int64_t>(GpuVisibility::kRank)});
  }
  TrustFields(io, start.directory_trust);
  if (io.Has("has_channel", start.has_channel)) io.Flag("has_channel", start.has_channel);
  if (io.Has("preload", !start.preload.empty())) {
    io.List("preload", start.preload, kMaxPreload,
            [](auto& item, auto& module) { item.Text({}, module, kModule); });
    io.Int("preload_limit_ms", start.preload_limit_ms, kAnyOf<uint32_t>);
  }
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Warm> warm) {
  Fields(io, warm.start);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Warmed> warmed) {
  io.Flag("is_warm", warmed.is_warm);
  io.Shown("why", warmed.why, kReason);
  io.Int("took_ms", warmed.took_ms, kAnyOf<uint32_t>);
  io.List("modules", warmed.modules, kMaxPreload,
          [](auto& item, auto& module) { item.Shown({}, module, kModule); });
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, WorkerStarted> started) {
  io.Int("rank", started.rank, kWorkers);
  io.Int("pid", started.pid, kAnyOf<uint32_t>);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, WorkerExited> exited) {
  io.Int("rank", exited.rank, kWorkers);
  io.Int("exit_code", exited.status.exit_code, {0, 255});
  io.Int("signal", exited.status.signal, kSignals);
  io.Flag("has_core", exited.status.has_core);
  io.Flag("is_oom", exited.status.is_oom);
  io.Int("stage", exited.status.stage, {0, static_cast<int64_t>(ExecStage::kExec)});
  io.Int("error", exited.status.error, kErrnos);
  io.Flag("was_stopping", exited.was_stopping);
  if (io.Has("error_age_ms", exited.error_age_ms >= 0)) {
    io.Int("error_age_ms", exited.error_age_ms, {-1, int64_t{1} << 40});
  }
  if (io.Has("recorded_error", !exited.recorded_error.empty())) {
    io.Text("recorded_error", exited.recorded_error, {0, kMaxRecordedError});
  }
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Credit> credit) {
  io.Int("rank", credit.rank, kWorkers);
  io.Int("stream", credit.stream, {0, static_cast<int64_t>(StreamId::kChannel)});
  io.Limit(credit.stream != StreamId::kStderr, "stderr has no credit of its own");
  io.Int("bytes", credit.bytes, {0, kMaxCreditBytes});
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Signal> signal) {
  io.Int("rank", signal.rank, kWorkersOrNone);
  io.Int("signo", signal.signo, kSignals);
}

template <typename Io>
void InflatedBytes(Io& io, FieldsOf<Io, uint32_t> bytes) {
  if (io.Has("inflated_bytes", bytes != 0)) {
    io.Int("inflated_bytes", bytes, {0, int64_t{kMaxKvValue}});
  }
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, KvRequest> request) {
  io.Word("id", request.id);
  io.Int("operation", request.operation,
         {static_cast<int64_t>(KvOp::kPut), static_cast<int64_t>(KvOp::kWorkerAddresses)});
  io.Int("rank", request.rank, kWorkersOrNone);
  io.Piece("scope_bytes", request.scope, kMaxKvNames);
  io.Piece("key_bytes", request.key, kMaxKvNames);
  io.Limit(request.scope.size() + request.key.size() <= kMaxKvNames, "names of over 16 KiB");
  io.Rest(request.value, kMaxKvValue);
  InflatedBytes(io, request.inflated_bytes);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, KvReply> reply) {
  io.Word("id", reply.id);
  io.Int("status", reply.status, {100, 599});
  io.Piece("key_bytes", reply.key, kMaxKvNames);
  io.Rest(reply.value, kMaxKvValue);
  InflatedBytes(io, reply.inflated_bytes);
}

template <typename Io>
void Fields(Io&, FieldsOf<Io, KvReset>) {}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, StopGeneration> stop) {
  io.Int("grace_ms", stop.grace_ms, kAnyOf<uint32_t>);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, GenerationStopped> stopped) {
  io.Int("swept", stopped.swept, kAnyOf<uint32_t>);
  io.Int("offered_port", stopped.offered_port, kAnyOf<uint16_t>);
  io.Object("relay", stopped.relay, [](auto& part, auto& relay) {
    for (const auto& [name, counter] : kRelayCounters) part.Word(name, relay.*counter);
  });
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Heartbeat> beat) {
  io.Flag("is_paused", beat.is_paused);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Bye> bye) {
  io.Int("code", bye.code, kAnyOf<uint16_t>);
  io.Shown("text", bye.text, kCause);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Inspect> inspect) {
  constexpr FieldRange kCounts = {0, kMaxInspected};
  io.Int("timeout_ms", inspect.timeout_ms, kAnyOf<uint32_t>);
  TrustFields(io, inspect.directory_trust);
  io.String(inspect.working_directory);
  io.String(inspect.command);
  io.String(inspect.path);
  // Agents older than these counts take an Inspect without them.
  io.Strings("file_count", inspect.files, kCounts, /*is_optional=*/true);
  io.Strings("module_count", inspect.modules, kCounts, /*is_optional=*/true);
  io.Strings("environment_count", inspect.environment, kAnyOf<uint32_t>, /*is_optional=*/true);
  if constexpr (Io::kIsWriter) {
    io.Limit(io.raw_bytes() <= kMaxInspectStrings, "strings of over 8 MiB");
  }
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, DirectoryFacts> directory) {
  io.Text("use", directory.use, kName);
  io.Shown("path", directory.path, kName);
  io.Int("error", directory.error, kErrnos);
  io.Flag("is_writable", directory.is_writable);
  io.Flag("is_noexec", directory.is_noexec);
  io.Word("total_bytes", directory.total_bytes);
  io.Word("free_bytes", directory.free_bytes);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Inspection> inspection) {
  const auto texts = [](auto& item, auto& text) { item.Shown({}, text, kName); };
  io.Word("received_ns", inspection.received_ns);
  io.Word("sent_ns", inspection.sent_ns);
  io.Shown("kernel", inspection.kernel, kName);
  io.Shown("distribution", inspection.distribution, kName);
  io.Shown("libc", inspection.libc, kName);
  io.Word("memory_bytes", inspection.memory_bytes);
  io.Word("available_bytes", inspection.available_bytes);
  io.Word("memory_limit_bytes", inspection.memory_limit_bytes);
  io.List("folders", inspection.directories, kMaxInspected,
          [](auto& item, auto& directory) { Fields(item, directory); });
  io.List("limits", inspection.limits, kMaxInspected, [](auto& item, auto& limit) {
    item.Text("name", limit.name, kName);
    item.Word("soft", limit.soft);
    item.Word("hard", limit.hard);
  });
  io.List("gpus", inspection.gpus, kMaxInspected, [](auto& item, auto& gpu) {
    item.Shown("name", gpu.name, kName);
    item.Word("memory_bytes", gpu.memory_bytes);
    if (item.Has("ecc_errors", gpu.ecc_errors >= 0)) {
      item.Int("ecc_errors", gpu.ecc_errors, {-1, kMeasured.max});
    }
    if (item.Has("throttle_reasons", gpu.throttle_reasons != 0)) {
      item.Int("throttle_reasons", gpu.throttle_reasons, kAnyOf<uint32_t>);
    }
    if (item.Has("nvlinks", gpu.nvlinks != 0)) {
      item.Int("nvlinks", gpu.nvlinks, kAnyOf<uint32_t>);
    }
  });
  io.Int("gpu_device_count", inspection.gpu_device_count, kAnyOf<uint32_t>);
  io.Shown("gpu_driver", inspection.gpu_driver, kName);
  io.Shown("gpu_trouble", inspection.gpu_trouble, kName);
  io.Int("infiniband_count", inspection.infiniband_count, kAnyOf<uint32_t>);
  io.Shown("command_path", inspection.command_path, kName);
  io.Int("command_error", inspection.command_error, kErrnos);
  // Unchanged, since a trailing \r is what to report; the printing code escapes it.
  io.Text("command_interpreter", inspection.command_interpreter, kName);
  io.Shown("command_version", inspection.command_version, kName);
  io.List("name_addresses", inspection.name_addresses, kMaxInspected, texts);
  io.List("missing_files", inspection.missing_files, kMaxInspected, [](auto& item, auto& file) {
    item.Shown("path", file.path, kName);
    item.Int("error", file.error, kErrnos);
  });
  io.List("modules", inspection.modules, kMaxInspected, [](auto& item, auto& module) {
    item.Shown("name", module.name, kName);
    item.Shown("version", module.version, kName);
    item.Shown("trouble", module.trouble, kName);
  });
  if (io.Has("packages", !inspection.packages.empty())) {
    io.List("packages", inspection.packages, kMaxInspected, [](auto& item, auto& package) {
      item.Shown("name", package.name, kName);
      item.Shown("version", package.version, kName);
    });
  }
  if (io.Has("variables", !inspection.variables.empty())) {
    io.List("variables", inspection.variables, kMaxInspected, [](auto& item, auto& variable) {
      item.Shown("name", variable.name, kName);
      item.Shown("value", variable.value, kName);
      item.Shown("source", variable.source, kName);
    });
  }
  io.List("unanswered", inspection.unanswered, kMaxInspected, texts);
}

template <typename Io>
void Fields(Io&, FieldsOf<Io, BreakConnections>) {}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, ConnectionsBroken> result) {
  io.Int("shut", result.shut, kAnyOf<uint32_t>);
  io.Int("destroyed", result.destroyed, kAnyOf<uint32_t>);
  io.Int("refused", result.refused, kAnyOf<uint32_t>);
  io.Int("took_us", result.took_us, kAnyOf<uint32_t>);
  io.Shown("why", result.why, kReason);
  io.Shown("hint", result.hint, kReason);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Notify> notice) {
  io.Int("worker", notice.worker, kWorkers);
  io.Int("timestamp", notice.timestamp, {0, INT64_MAX});
  io.Int("code", notice.code, {0, 3});
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, HostLeaving> leaving) {
  io.Int("in_ms", leaving.in_ms, kAnyOf<uint32_t>);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, WorkerArrived> arrived) {
  io.Int("worker", arrived.worker, kWorkers);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, StopWorkers> stop) {
  io.List("workers", stop.workers, kMaxSize,
          [](auto& item, auto& worker) { item.Int({}, worker, kWorkers); });
  io.Int("grace_ms", stop.grace_ms, kAnyOf<uint32_t>);
}

// A path or a target.
template <typename Io>
void Path(Io& io, const char* key, FieldsOf<Io, std::string> path) {
  io.Piece(key, path, kMaxDirectoryPath);
  io.Limit(!HasNul(path), "a NUL in a path");
}

// nullptr: none. The same rules for both directions.
const char* FaultOf(const DirectoryEntry& entry) {
  const bool is_link = entry.kind == DirectoryEntryKind::kLink;
  const bool is_file_or_into = entry.kind == DirectoryEntryKind::kFileOrInto;
  if (entry.kind > DirectoryEntryKind::kFileOrInto) return "an entry of an unknown kind";
  if (!IsPlainPath(entry.path)) return "a path that is absolute, empty, or has '.' or '..' in it";
  if (entry.link.size() > kMaxDirectoryPath || HasNul(entry.link)) return "an invalid link";
  if (entry.link.empty() == (is_link || is_file_or_into)) {
    return "a link without a target, or a target without a link";
  }
  const bool is_name = IsPlainPath(entry.link) && entry.link.find('/') == std::string::npos;
  if (is_file_or_into && !is_name) return "a name that is none";
  if (entry.mode > kMaxMode) return "a mode beyond 0777";
  if (entry.mtime_ns > kMaxNanoseconds) return "a time with too many nanoseconds";
  if (entry.mtime_s > kMaxSeconds || entry.mtime_s < -kMaxSeconds) return "a time out of range";
  if (entry.size > static_cast<uint64_t>(INT64_MAX)) return "a size out of range";
  return nullptr;
}

// kind u8 | reserved u8 | mode u16 | mtime_ns u32 | size u64 | mtime_s i64 | path u16 | link u16
template <typename Io>
void RawFields(Io& io, FieldsOf<Io, DirectoryEntry> entry) {
  uint8_t reserved = 0;
  auto path_bytes = static_cast<uint16_t>(entry.path.size());
  auto link_bytes = static_cast<uint16_t>(entry.link.size());
  io.Fixed(entry.kind);
  io.Fixed(reserved);
  io.Fixed(entry.mode);
  io.Fixed(entry.mtime_ns);
  io.Fixed(entry.size);
  io.Fixed(entry.mtime_s);
  io.Fixed(path_bytes);
  io.Fixed(link_bytes);
  io.Counted(entry.path, path_bytes);
  io.Counted(entry.link, link_bytes);
  io.Limit(reserved == 0, "a reserved byte that is not 0");
  if (const char* fault = FaultOf(entry)) io.Limit(false, fault);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, DirectoryList> list) {
  io.Int("folder", list.directory, kAnyOf<uint32_t>);
  if (io.Has("folder_owners", !(list.trustees == Trustees()))) TrusteeFields(io, list.trustees);
  Path(io, "target_bytes", list.target);
  io.Elements("count", list.entries, kMaxDirectoryEntries,
              [](auto& item, auto& entry) { RawFields(item, entry); });
  io.Limit(io.raw_bytes() <= kMaxDirectoryRaw, "a list of over 1 MiB");
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, DirectoryWanted> wanted) {
  constexpr int64_t kEntries = kMaxDirectoryEntries;
  int64_t least = 0;
  io.List("ranges", wanted.ranges, kMaxDirectoryEntries, [&least](auto& item, auto& range) {
    item.Int(0, range.first, {least, kEntries});
    item.Int(1, range.count, {1, kEntries - range.first});
    least = int64_t{range.first} + range.count;
  });
  io.Int("links", wanted.links, {0, kEntries});
  Path(io, "root_bytes", wanted.root);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, File> file) {
  io.Int("entry", file.entry, {0, kMaxDirectoryEntries - 1});
  io.Flag("is_end", file.is_end);
  io.Flag("is_restart", file.is_restart);
  io.Int("mode", file.mode, {0, kMaxMode});
  io.Int("mtime_s", file.mtime_s, kSeconds);
  io.Int("mtime_ns", file.mtime_ns, {0, kMaxNanoseconds});
  io.Piece("bytes", file.bytes, kMaxFileChunk);
  io.Limit(!file.is_restart || (!file.is_end && file.bytes.empty()),
           "a restart with bytes or an end");
  io.Limit(file.mode <= kMaxMode && file.mtime_ns <= kMaxNanoseconds &&
               file.mtime_s <= kMaxSeconds && file.mtime_s >= -kMaxSeconds,
           "a mode or time out of range");
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, FileTaken> taken) {
  io.Int("files", taken.files, {0, kMaxDirectoryEntries});
  io.Int("bytes", taken.bytes, {0, kDirectoryWindowBytes});
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, DirectoryProblem> problem) {
  io.Int("error", problem.error, kErrnos);
  io.Text("step", problem.step, {0, 256});
  Path(io, "path_bytes", problem.path);
}

constexpr FieldRange kObjects = {0, INT64_MAX};

template <typename Io>
void Fields(Io& io, FieldsOf<Io, ObjectPiece> piece) {
  io.Int("object", piece.object, kObjects);
  io.Word("size", piece.size);
  io.Word("offset", piece.offset);
  io.Limit(piece.offset <= piece.size && piece.size <= static_cast<uint64_t>(INT64_MAX),
           "a piece behind its object");
  io.Rest(piece.bytes, kMaxObjectPiece);
}

template <typename Io>
void Fields(Io& /*io*/, FieldsOf<Io, SharesMemory> /*shares*/) {}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, MapObject> map) {
  io.Int("object", map.object, kObjects);
  io.Int("descriptor", map.descriptor, {0, INT32_MAX});
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, GiveObject> give) {
  io.Int("rank", give.rank, kWorkers);
  io.Int("object", give.object, kObjects);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, DropObject> drop) {
  io.Int("object", drop.object, kObjects);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, ObjectProblem> problem) {
  io.Int("object", problem.object, kObjects);
  io.Int("error", problem.error, kErrnos);
}

// Their frames have no JSON.
template <typename Io>
void Fields(Io&, FieldsOf<Io, Output>) {}
template <typename Io>
void Fields(Io&, FieldsOf<Io, Stdin>) {}

Result<std::string> EncodeStream(const Message& message, uint16_t version, int32_t rank,
                                 StreamId stream, bool is_end, const std::string& bytes) {
  const MessageType type = TypeOf(message.body);
  if (bytes.size() > kMaxOutput) {
    return Unsendable(type, fmt::format("{} bytes, at most {} allowed", bytes.size(), kMaxOutput));
  }
  std::string frame;
  frame.reserve(kHeaderBytes + kOutputPrefixBytes + bytes.size());
  EncodeHeader(frame,
               {version, static_cast<uint16_t>(type),
                static_cast<uint32_t>(kOutputPrefixBytes + bytes.size()), message.generation});
  PutU32(frame, static_cast<uint32_t>(rank));
  frame += static_cast<char>(stream);
  frame += static_cast<char>(is_end ? kFlagEnd : 0);
  PutU16(frame, 0);
  frame += bytes;
  return frame;
}

bool HasChannels(const FrameHeader& header) { return header.version >= kChannelVersion; }

Result<Message> DecodeStream(const FrameHeader& header, ByteView body) {
  const auto type = static_cast<MessageType>(header.type);
  if (body.size() < kOutputPrefixBytes) return Violation(type, "shorter than its prefix");
  const uint32_t rank = GetU32(body.data());
  const auto stream = static_cast<uint8_t>(body[4]);
  const auto flags = static_cast<uint8_t>(body[5]);
  if (rank > static_cast<uint32_t>(kWorkers.max)) return Violation(type, "rank out of range");
  if ((flags & ~kFlagEnd) != 0) return Violation(type, "unknown flags");
  if (GetU16(body.data() + 6) != 0) return Violation(type, "reserved bytes are not 0");
  body.remove_prefix(kOutputPrefixBytes);
  if (body.size() > kMaxOutput) return Violation(type, "over 64 KiB");
  const bool is_end = (flags & kFlagEnd) != 0;
  const bool is_channel = StreamId{stream} == StreamId::kChannel && HasChannels(header);
  if (type == MessageType::kStdin) {
    if (stream != 0 && !is_channel) return Violation(type, "stream out of range");
    return Message{header.generation,
                   Stdin{static_cast<int32_t>(rank), is_end, std::string(body), StreamId{stream}}};
  }
  if (stream != 1 && stream != 2 && !is_channel) return Violation(type, "stream out of range");
  return Message{header.generation,
                 Output{static_cast<int32_t>(rank), StreamId{stream}, is_end, std::string(body)}};
}

}  // namespace

Result<std::string> EncodeMessage(const Message& message, uint16_t version) {
  const MessageType type = TypeOf(message.body);
  if (const auto* output = std::get_if<Output>(&message.body)) {
    return EncodeStream(message, version, output->rank, output->stream, output->is_end,
                        output->bytes);
  }
  if (const auto* input = std::get_if<Stdin>(&message.body)) {
    return EncodeStream(message, version, input->rank, input->stream, input->is_end, input->bytes);
  }
  // The JSON is written in place; header and lengths are filled in afterwards.
  constexpr size_t kJsonAt = kHeaderBytes + 4;
  std::string frame(kJsonAt, '\0');
  std::string raw;
  const auto write = [&frame, &raw](const auto& body) {
    BodyWriter io(frame, raw);
    Fields(io, body);
    return io.broken_rule();
  };
  if (const char* rule = std::visit(write, message.body)) return Unsendable(type, rule);
  const size_t json_bytes = frame.size() - kJsonAt;
  const size_t json_limit = type == MessageType::kHello ? kMaxAgentHello - 4 : kMaxControlJson;
  if (json_bytes > json_limit) {
    return Unsendable(type,
                      fmt::format("{} bytes of JSON, at most {} allowed", json_bytes, json_limit));
  }
  frame += raw;
  std::string front;
  EncodeHeader(front,
               {type == MessageType::kHello ? kHelloVersion : version, static_cast<uint16_t>(type),
                static_cast<uint32_t>(frame.size() - kHeaderBytes), message.generation});
  PutU32(front, static_cast<uint32_t>(json_bytes));
  frame.replace(0, kJsonAt, front);
  return frame;
}

Result<Message> DecodeMessage(const FrameHeader& header, ByteView body) {
  const auto type = static_cast<MessageType>(header.type);
  const std::optional<size_t> limit = MaxBodyBytes(header.type);
  if (!limit) {
    return Status(ErrorCode::kProtocolError, fmt::format("unknown message type {}", header.type));
  }
  const bool is_of_version_2 = type >= MessageType::kObjectPiece && type <= MessageType::kMapObject;
  if (is_of_version_2 && header.version < kChannelVersion) {
    return Violation(type, "in a frame of version 1");
  }
  if (body.size() != header.length || body.size() > *limit) {
    return Violation(type, "length out of range");
  }
  if (type == MessageType::kOutput || type == MessageType::kStdin) {
    return DecodeStream(header, body);
  }
  if (body.size() < 4) return Violation(type, "shorter than its JSON length");
  const uint32_t json_bytes = GetU32(body.data());
  body.remove_prefix(4);
  if (json_bytes > kMaxControlJson || json_bytes > body.size()) {
    return Violation(type, "JSON length out of range");
  }
  const Result<Json> json = ParseJson(body.substr(0, json_bytes), kMaxControlJson);
  if (!json.ok()) return Status(json.status()).WithContext(Name(type));
  Message message{header.generation, EmptyBody(type)};
  Status status;
  BodyReader io(*json, body.substr(json_bytes), status);
  std::visit([&io](auto& fields) { Fields(io, fields); }, message.body);
  io.End();
  if (!status.ok()) return std::move(status).WithContext(Name(type));
  const auto* credit = std::get_if<Credit>(&message.body);
  if (credit != nullptr && credit->stream == StreamId::kChannel && !HasChannels(header)) {
    return Violation(type, "stream out of range");
  }
  const auto* list = std::get_if<DirectoryList>(&message.body);
  const bool has_kind_4 =
      list != nullptr && std::ranges::find(list->entries, DirectoryEntryKind::kFileOrInto,
                                           &DirectoryEntry::kind) != list->entries.end();
  if (has_kind_4 && !HasChannels(header)) return Violation(type, "an entry of an unknown kind");
  return message;
}

std::string ToJson(const Inspection& inspection) {
  return WriteFields([&](FieldWriter& io) { Fields(io, inspection); });
}

Result<Inspection> InspectionFromJson(ByteView text) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  Inspection inspection;
  HVDRAY_RETURN_IF_ERROR(ReadFields(json, FieldReader::Missing::kKeepsDefault,
                                    [&](FieldReader& io) { Fields(io, inspection); }));
  return inspection;
}

}  // namespace hvdray::wire
