// SPDX-License-Identifier: Apache-2.0
#include "wire/message_fields.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "wire/directory_codec.h"
#include "wire/field_reader.h"
#include "wire/frame.h"

namespace hvdray::wire {
namespace {

constexpr int32_t kMaxErrno = 4095;
constexpr size_t kMaxReason = 1024;
constexpr int64_t kMaxUpdateCode = 3;
constexpr size_t kMaxByeText = 65536;  // a cause in words
constexpr int32_t kMaxSignal = 64;
constexpr int64_t kMaxErrorAgeMs = int64_t{1} << 40;

/// Objects of an array, each read by `read_one(reader, element)`.
template <typename T, typename ReadOne>
void ReadObjects(FieldReader& read, Status& status, const char* key, std::vector<T>& list,
                 const ReadOne& read_one) {
  read.Each(key, [&](const Json& element) {
    if (list.size() >= kMaxInspected) return read.Fault(key);
    FieldReader item(element, status);
    if (status.ok()) read_one(item, list.emplace_back());
  });
}

void ReadTexts(FieldReader& read, const char* key, std::vector<std::string>& list) {
  read.Each(key, [&](const Json& element) {
    const bool is_fit = element.is_string() && list.size() < kMaxInspected;
    if (!is_fit || element.get_ref<const std::string&>().size() > kMaxText) return read.Fault(key);
    list.push_back(ShownLine(element.get_ref<const std::string&>()));
  });
}

std::string JsonOf(const BreakConnections& /*order*/) { return "{}"; }

std::string JsonOf(const ConnectionsBroken& result) {
  return DumpJson({{"shut", result.shut},
                   {"destroyed", result.destroyed},
                   {"refused", result.refused},
                   {"took_us", result.took_us},
                   {"why", result.why},
                   {"hint", result.hint}});
}

std::string JsonOf(const Notify& notice) {
  return fmt::format(R"({{"worker":{},"timestamp":{},"code":{}}})", notice.worker, notice.timestamp,
                     notice.code);
}

std::string JsonOf(const HostLeaving& leaving) {
  return fmt::format(R"({{"in_ms":{}}})", leaving.in_ms);
}

std::string JsonOf(const WorkerArrived& arrived) {
  return fmt::format(R"({{"worker":{}}})", arrived.worker);
}

std::string JsonOf(const StopWorkers& stop) {
  return DumpJson({{"workers", stop.workers}, {"grace_ms", stop.grace_ms}});
}

void ReadFields(FieldReader& /*read*/, BreakConnections& /*order*/) {}

void ReadFields(FieldReader& read, ConnectionsBroken& result) {
  read.Unsigned("shut", result.shut);
  read.Unsigned("destroyed", result.destroyed);
  read.Unsigned("refused", result.refused);
  read.Unsigned("took_us", result.took_us);
  read.Shown("why", result.why, kMaxReason);
  read.Shown("hint", result.hint, kMaxReason);
}

void ReadFields(FieldReader& read, Notify& notice) {
  read.Worker("worker", notice.worker);
  read.Int("timestamp", notice.timestamp, 0, std::numeric_limits<int64_t>::max());
  read.Int("code", notice.code, 0, kMaxUpdateCode);
}

void ReadFields(FieldReader& read, HostLeaving& leaving) { read.Unsigned("in_ms", leaving.in_ms); }

void ReadFields(FieldReader& read, WorkerArrived& arrived) {
  read.Worker("worker", arrived.worker);
}

void ReadFields(FieldReader& read, StopWorkers& stop) {
  read.Each("workers", [&](const Json& element) {
    const bool is_worker = element.is_number_unsigned() && element.get<uint64_t>() <= kMaxWorker;
    if (!is_worker || stop.workers.size() >= kMaxSize) return read.Fault("workers");
    stop.workers.push_back(element.get<int32_t>());
  });
  read.Unsigned("grace_ms", stop.grace_ms);
}

Json ToJson(const Inspection& inspection) {
  Json directories = Json::array();
  for (const DirectoryFacts& directory : inspection.directories) {
    directories.push_back({{"use", directory.use},
                           {"path", directory.path},
                           {"error", directory.error},
                           {"is_writable", directory.is_writable},
                           {"is_noexec", directory.is_noexec},
                           {"total_bytes", directory.total_bytes},
                           {"free_bytes", directory.free_bytes}});
  }
  Json limits = Json::array();
  for (const LimitFacts& limit : inspection.limits) {
    limits.push_back({{"name", limit.name}, {"soft", limit.soft}, {"hard", limit.hard}});
  }
  Json missing = Json::array();
  for (const MissingFile& file : inspection.missing_files) {
    missing.push_back({{"path", file.path}, {"error", file.error}});
  }
  Json modules = Json::array();
  for (const ModuleFacts& module : inspection.modules) {
    modules.push_back(
        {{"name", module.name}, {"version", module.version}, {"trouble", module.trouble}});
  }
  Json gpus = Json::array();
  for (const GpuFacts& gpu : inspection.gpus) {
    gpus.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}});
  }
  return {{"received_ns", inspection.received_ns},
          {"sent_ns", inspection.sent_ns},
          {"kernel", inspection.kernel},
          {"distribution", inspection.distribution},
          {"libc", inspection.libc},
          {"memory_bytes", inspection.memory_bytes},
          {"available_bytes", inspection.available_bytes},
          {"memory_limit_bytes", inspection.memory_limit_bytes},
          {"folders", std::move(directories)},
          {"limits", std::move(limits)},
          {"gpus", std::move(gpus)},
          {"gpu_device_count", inspection.gpu_device_count},
          {"gpu_driver", inspection.gpu_driver},
          {"gpu_trouble", inspection.gpu_trouble},
          {"infiniband_count", inspection.infiniband_count},
          {"command_path", inspection.command_path},
          {"command_error", inspection.command_error},
          {"command_interpreter", inspection.command_interpreter},
          {"command_version", inspection.command_version},
          {"name_addresses", inspection.name_addresses},
          {"missing_files", std::move(missing)},
          {"modules", std::move(modules)},
          {"unanswered", inspection.unanswered}};
}

void ReadInspection(FieldReader& read, Status& status, Inspection& inspection) {
  read.Unsigned64("received_ns", inspection.received_ns);
  read.Unsigned64("sent_ns", inspection.sent_ns);
  read.Shown("kernel", inspection.kernel);
  read.Shown("distribution", inspection.distribution);
  read.Shown("libc", inspection.libc);
  read.Unsigned64("memory_bytes", inspection.memory_bytes);
  read.Unsigned64("available_bytes", inspection.available_bytes);
  read.Unsigned64("memory_limit_bytes", inspection.memory_limit_bytes);
  ReadObjects(read, status, "folders", inspection.directories,
              [](FieldReader& item, DirectoryFacts& f) {
                item.Text("use", f.use);
                item.Shown("path", f.path);
                item.Int("error", f.error, 0, kMaxErrno);
                item.Bool("is_writable", f.is_writable);
                item.Bool("is_noexec", f.is_noexec);
                item.Unsigned64("total_bytes", f.total_bytes);
                item.Unsigned64("free_bytes", f.free_bytes);
              });
  ReadObjects(read, status, "limits", inspection.limits, [](FieldReader& item, LimitFacts& limit) {
    item.Text("name", limit.name);
    item.Unsigned64("soft", limit.soft);
    item.Unsigned64("hard", limit.hard);
  });
  ReadObjects(read, status, "gpus", inspection.gpus, [](FieldReader& item, GpuFacts& gpu) {
    item.Shown("name", gpu.name);
    item.Unsigned64("memory_bytes", gpu.memory_bytes);
  });
  read.Unsigned("gpu_device_count", inspection.gpu_device_count);
  read.Shown("gpu_driver", inspection.gpu_driver);
  read.Shown("gpu_trouble", inspection.gpu_trouble);
  read.Unsigned("infiniband_count", inspection.infiniband_count);
  read.Shown("command_path", inspection.command_path);
  read.Int("command_error", inspection.command_error, 0, kMaxErrno);
  read.Text("command_interpreter", inspection.command_interpreter);  // its \r tells; shown escaped
  read.Shown("command_version", inspection.command_version);
  ReadTexts(read, "name_addresses", inspection.name_addresses);
  ReadObjects(read, status, "missing_files", inspection.missing_files,
              [](FieldReader& item, MissingFile& file) {
                item.Shown("path", file.path);
                item.Int("error", file.error, 0, kMaxErrno);
              });
  ReadObjects(read, status, "modules", inspection.modules,
              [](FieldReader& item, ModuleFacts& module) {
                item.Shown("name", module.name);
                item.Shown("version", module.version);
                item.Shown("trouble", module.trouble);
              });
  ReadTexts(read, "unanswered", inspection.unanswered);
}

Json ToJson(const HostFacts& facts) {
  Json interfaces = Json::array();
  for (const InterfaceFacts& face : facts.interfaces) {
    Json addresses = Json::array();
    for (const InterfaceAddress& address : face.addresses) {
      addresses.push_back({{"address", address.address}, {"prefix_length", address.prefix_length}});
    }
    interfaces.push_back({{"name", face.name},
                          {"addresses", std::move(addresses)},
                          {"is_up", face.is_up},
                          {"is_loopback", face.is_loopback},
                          {"is_virtual", face.is_virtual},
                          {"speed_mbps", face.speed_mbps},
                          {"has_default_route", face.has_default_route}});
  }
  return {{"host_name", facts.host_name},   {"machine", facts.machine},
          {"system", facts.system},         {"cpu_count", facts.cpu_count},
          {"agent_pid", facts.agent_pid},   {"offered_port", facts.offered_port},
          {"probe_port", facts.probe_port}, {"open_file_limit", facts.open_file_limit},
          {"cleanup", facts.cleanup},       {"interfaces", std::move(interfaces)}};
}

std::string Inflated(uint32_t bytes) {
  return bytes == 0 ? "" : fmt::format(R"(,"inflated_bytes":{})", bytes);
}

// Messages of a busy job are numbers only and are written without a document in between.
struct JsonWriter {
  std::string operator()(const Hello& hello) const {
    Json json = {{"min", hello.min_version}, {"max", hello.max_version}, {"build", hello.build}};
    if (hello.facts != HostFacts()) json["facts"] = ToJson(hello.facts);
    if (hello.takes_deflated) json["takes_deflated"] = true;
    return DumpJson(json);
  }
  std::string operator()(const Welcome& welcome) const {
    Json json = {{"version", welcome.version},
                 {"job_id", welcome.job_id},
                 {"host", welcome.host},
                 {"heartbeat_period_ms", welcome.heartbeat_period_ms},
                 {"heartbeat_timeout_ms", welcome.heartbeat_timeout_ms},
                 {"grace_ms", welcome.grace_ms},
                 {"kv_hold_ms", welcome.kv_hold_ms},
                 {"kv_cache_bytes", welcome.kv_cache_bytes},
                 {"is_peer_checked", welcome.is_peer_checked}};
    if (welcome.is_elastic) json["is_elastic"] = true;
    if (welcome.takes_deflated) json["takes_deflated"] = true;
    return DumpJson(json);
  }
  std::string operator()(const Probe& probe) const {
    Json targets = Json::array();
    for (const ProbeTarget& target : probe.targets) {
      targets.push_back(Json::array({target.source, target.address, target.port}));
    }
    return DumpJson({{"timeout_ms", probe.timeout_ms}, {"targets", std::move(targets)}});
  }
  std::string operator()(const ProbeResult& result) const {
    Json results = Json::array();
    for (const ProbeOutcome& outcome : result.results) {
      results.push_back(Json::array({static_cast<int>(outcome.stage), outcome.error}));
    }
    return DumpJson({{"results", std::move(results)}});
  }
  std::string operator()(const StartGeneration& start) const {
    Json workers = Json::array();
    for (const WorkerSlot& slot : start.workers) {
      workers.push_back(
          Json::array({slot.rank, slot.local_rank, slot.cross_rank, slot.cross_size}));
      if (slot.worker >= 0) workers.back().push_back(slot.worker);
    }
    Json fields({{"size", start.size},
                 {"local_size", start.local_size},
                 {"host_index", start.host_index},
                 {"host_count", start.host_count},
                 {"restart_count", start.restart_count},
                 {"max_restarts", start.max_restarts},
                 {"host_name", start.host_name},
                 {"gloo_interface", start.gloo_interface},
                 {"nccl_interfaces", start.nccl_interfaces},
                 {"master_address", start.master_address},
                 {"master_port", start.master_port},
                 {"is_torch_environment", start.is_torch_environment},
                 {"is_folder_optional", start.is_directory_optional},
                 {"stdin_rank", start.stdin_rank},
                 {"workers", std::move(workers)},
                 {"argument_count", start.command.size()},
                 {"environment_count", start.environment.size()}});
    // On Ray only: agents that know nothing of it are never asked.
    if (start.is_on_own_environment) fields["is_on_own_environment"] = true;
    if (start.gpu_visibility != GpuVisibility::kInherited) {
      fields["gpu_visibility"] = static_cast<int>(start.gpu_visibility);
    }
    return DumpJson(fields);
  }
  std::string operator()(const WorkerStarted& started) const {
    return fmt::format(R"({{"rank":{},"pid":{}}})", started.rank, started.pid);
  }
  std::string operator()(const WorkerExited& exited) const {
    const ExitStatus& status = exited.status;
    std::string text = fmt::format(
        R"({{"rank":{},"exit_code":{},"signal":{},"has_core":{},"is_oom":{},"stage":{},)"
        R"("error":{},"was_stopping":{})",
        exited.rank, status.exit_code, status.signal, status.has_core, status.is_oom,
        static_cast<int>(status.stage), status.error, exited.was_stopping);
    if (exited.error_age_ms >= 0) {
      text += fmt::format(R"(,"error_age_ms":{})", exited.error_age_ms);
    }
    if (!exited.recorded_error.empty()) {
      text += fmt::format(R"(,"recorded_error":{})", DumpJson(Json(exited.recorded_error)));
    }
    return text + "}";
  }
  std::string operator()(const Output& /*output*/) const { return "{}"; }
  std::string operator()(const Credit& credit) const {
    return fmt::format(R"({{"rank":{},"stream":{},"bytes":{}}})", credit.rank,
                       static_cast<int>(credit.stream), credit.bytes);
  }
  std::string operator()(const Stdin& /*input*/) const { return "{}"; }
  std::string operator()(const Signal& signal) const {
    return fmt::format(R"({{"rank":{},"signo":{}}})", signal.rank, signal.signo);
  }
  std::string operator()(const KvRequest& request) const {
    return fmt::format(R"({{"id":{},"operation":{},"rank":{},"scope_bytes":{},"key_bytes":{}{}}})",
                       request.id, static_cast<int>(request.operation), request.rank,
                       request.scope.size(), request.key.size(), Inflated(request.inflated_bytes));
  }
  std::string operator()(const KvReply& reply) const {
    return fmt::format(R"({{"id":{},"status":{},"key_bytes":{}{}}})", reply.id, reply.status,
                       reply.key.size(), Inflated(reply.inflated_bytes));
  }
  std::string operator()(const KvReset& /*reset*/) const { return "{}"; }
  std::string operator()(const StopGeneration& stop) const {
    return fmt::format(R"({{"grace_ms":{}}})", stop.grace_ms);
  }
  std::string operator()(const GenerationStopped& stopped) const {
    Json relay;
    for (const auto& [name, field] : kRelayCounters) relay[name] = stopped.relay.*field;
    return DumpJson({{"swept", stopped.swept},
                     {"offered_port", stopped.offered_port},
                     {"relay", std::move(relay)}});
  }
  std::string operator()(const Heartbeat& beat) const {
    return fmt::format(R"({{"is_paused":{}}})", beat.is_paused);
  }
  std::string operator()(const Bye& bye) const {
    return DumpJson({{"code", bye.code}, {"text", bye.text}});
  }
  std::string operator()(const Inspect& inspect) const {
    Json fields;
    fields["timeout_ms"] = inspect.timeout_ms;
    // Agents before these keys take an Inspect without them.
    if (!inspect.files.empty()) fields["file_count"] = inspect.files.size();
    if (!inspect.modules.empty()) fields["module_count"] = inspect.modules.size();
    if (!inspect.environment.empty()) fields["environment_count"] = inspect.environment.size();
    return DumpJson(fields);
  }
  std::string operator()(const Inspection& inspection) const {
    return DumpJson(ToJson(inspection));
  }
  template <typename Other>  // of elastic.h and directory.h
  std::string operator()(const Other& message) const {
    return JsonOf(message);
  }
};

bool IsIpv4(const std::string& text) {
  in_addr parsed{};
  return ::inet_pton(AF_INET, text.c_str(), &parsed) == 1;
}

/// nullopt: not a number of that range.
std::optional<int64_t> NumberIn(const Json& json, uint64_t min, uint64_t max) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto number = json.get<uint64_t>();
  if (number < min || number > max) return std::nullopt;
  return static_cast<int64_t>(number);
}

void ReadInterface(const Json& json, Status& status, InterfaceFacts& face) {
  FieldReader read(json, status);
  if (!status.ok()) return;
  read.Text("name", face.name);
  read.Each("addresses", [&](const Json& element) {
    InterfaceAddress& address = face.addresses.emplace_back();
    FieldReader item(element, status);
    if (!status.ok()) return;
    item.Text("address", address.address);
    item.Int("prefix_length", address.prefix_length, 0, 32);
    if (!IsIpv4(address.address)) item.Fault("address");
  });
  read.Bool("is_up", face.is_up);
  read.Bool("is_loopback", face.is_loopback);
  read.Bool("is_virtual", face.is_virtual);
  read.Int("speed_mbps", face.speed_mbps, 0, std::numeric_limits<int32_t>::max());
  read.Bool("has_default_route", face.has_default_route);
}

void ReadFacts(const Json& json, Status& status, HostFacts& facts) {
  FieldReader read(json, status);
  if (!status.ok()) return;
  read.Text("host_name", facts.host_name);
  read.Text("machine", facts.machine);
  read.Text("system", facts.system);
  read.Unsigned("cpu_count", facts.cpu_count);
  read.Unsigned("agent_pid", facts.agent_pid);
  read.Unsigned("offered_port", facts.offered_port);
  read.Unsigned("probe_port", facts.probe_port);
  read.Unsigned64("open_file_limit", facts.open_file_limit);
  read.Shown("cleanup", facts.cleanup);
  read.Each("interfaces", [&](const Json& element) {
    ReadInterface(element, status, facts.interfaces.emplace_back());
  });
}

// One Read per control message. `read` is at the top object.
struct JsonReader {
  FieldReader& read;
  const Json& json;
  Status& status;
  RawSizes& sizes;

  void operator()(Hello& hello) const {
    read.Int("min", hello.min_version, 1, UINT16_MAX);
    read.Int("max", hello.max_version, 1, UINT16_MAX);
    if (hello.min_version > hello.max_version) read.Fault("min");
    read.Shown("build", hello.build, 256);
    const auto facts = json.find("facts");
    if (facts != json.end()) ReadFacts(*facts, status, hello.facts);
    read.Bool("takes_deflated", hello.takes_deflated);
  }
  void operator()(Welcome& welcome) const {
    read.Int("version", welcome.version, 1, UINT16_MAX);
    read.Text("job_id", welcome.job_id);
    read.Text("host", welcome.host);
    read.Int("heartbeat_period_ms", welcome.heartbeat_period_ms, 1, UINT32_MAX);
    read.Unsigned("heartbeat_timeout_ms", welcome.heartbeat_timeout_ms);
    read.Unsigned("grace_ms", welcome.grace_ms);
    read.Unsigned("kv_hold_ms", welcome.kv_hold_ms);
    read.Unsigned64("kv_cache_bytes", welcome.kv_cache_bytes);
    read.Bool("is_peer_checked", welcome.is_peer_checked);
    read.Bool("is_elastic", welcome.is_elastic);
    read.Bool("takes_deflated", welcome.takes_deflated);
  }
  void operator()(Probe& probe) const {
    read.Unsigned("timeout_ms", probe.timeout_ms);
    read.Each("targets", [&](const Json& element) { ReadTarget(element, probe); });
  }
  void operator()(ProbeResult& result) const {
    read.Each("results", [&](const Json& element) { ReadOutcome(element, result); });
  }
  void operator()(StartGeneration& start) const {
    read.Int("size", start.size, 0, kMaxSize);
    read.Int("local_size", start.local_size, 0, kMaxSize);
    read.Rank("host_index", start.host_index);
    read.Int("host_count", start.host_count, 0, kMaxSize);
    read.Unsigned("restart_count", start.restart_count);
    read.Unsigned("max_restarts", start.max_restarts);
    read.Text("host_name", start.host_name);
    read.Text("gloo_interface", start.gloo_interface);
    read.Text("nccl_interfaces", start.nccl_interfaces);
    read.Text("master_address", start.master_address);
    read.Unsigned("master_port", start.master_port);
    read.Bool("is_torch_environment", start.is_torch_environment);
    read.Bool("is_folder_optional", start.is_directory_optional);
    read.Bool("is_on_own_environment", start.is_on_own_environment);
    read.Int("gpu_visibility", start.gpu_visibility, 0, static_cast<int64_t>(GpuVisibility::kRank));
    read.Rank("stdin_rank", start.stdin_rank, -1);
    read.Each("workers", [&](const Json& element) { ReadWorker(element, start); });
    read.Unsigned("argument_count", sizes.strings.command);
    read.Unsigned("environment_count", sizes.strings.environment);
  }
  void operator()(WorkerStarted& started) const {
    read.Worker("rank", started.rank);
    read.Unsigned("pid", started.pid);
  }
  void operator()(WorkerExited& exited) const {
    read.Worker("rank", exited.rank);
    read.Int("exit_code", exited.status.exit_code, 0, 255);
    read.Int("signal", exited.status.signal, 0, kMaxSignal);
    read.Bool("has_core", exited.status.has_core);
    read.Bool("is_oom", exited.status.is_oom);
    read.Int("stage", exited.status.stage, 0, static_cast<int64_t>(ExecStage::kExec));
    read.Int("error", exited.status.error, 0, kMaxErrno);
    read.Bool("was_stopping", exited.was_stopping);
    read.Int("error_age_ms", exited.error_age_ms, -1, kMaxErrorAgeMs);
    read.Text("recorded_error", exited.recorded_error, kMaxRecordedError);
  }
  void operator()(Credit& credit) const {
    read.Worker("rank", credit.rank);
    read.Int("stream", credit.stream, 0, static_cast<int64_t>(StreamId::kStdout));
    read.Int("bytes", credit.bytes, 0, kMaxCreditBytes);
  }
  void operator()(Signal& signal) const {
    read.Worker("rank", signal.rank, -1);
    read.Int("signo", signal.signo, 0, kMaxSignal);
  }
  void operator()(KvRequest& request) const {
    read.Unsigned64("id", request.id);
    read.Int("operation", request.operation, static_cast<int64_t>(KvOperation::kPut),
             static_cast<int64_t>(KvOperation::kWorkerAddresses));
    read.Worker("rank", request.rank, -1);
    read.Unsigned("scope_bytes", sizes.scope);
    read.Unsigned("key_bytes", sizes.key);
    read.Int("inflated_bytes", request.inflated_bytes, 0, int64_t{kMaxKvValue});
  }
  void operator()(KvReply& reply) const {
    read.Unsigned64("id", reply.id);
    read.Int("status", reply.status, 100, 599);
    read.Unsigned("key_bytes", sizes.key);
    read.Int("inflated_bytes", reply.inflated_bytes, 0, int64_t{kMaxKvValue});
  }
  void operator()(KvReset& /*reset*/) const {}
  void operator()(StopGeneration& stop) const { read.Unsigned("grace_ms", stop.grace_ms); }
  void operator()(GenerationStopped& stopped) const {
    read.Unsigned("swept", stopped.swept);
    read.Unsigned("offered_port", stopped.offered_port);
    read.Object("relay", [&stopped](FieldReader& relay) {
      for (const auto& [name, field] : kRelayCounters) relay.Unsigned64(name, stopped.relay.*field);
    });
  }
  void operator()(Heartbeat& beat) const { read.Bool("is_paused", beat.is_paused); }
  void operator()(Bye& bye) const {
    read.Unsigned("code", bye.code);
    read.Shown("text", bye.text, kMaxByeText);
  }
  void operator()(Inspect& inspect) const {
    read.Unsigned("timeout_ms", inspect.timeout_ms);
    read.Int("file_count", sizes.inspect.files, 0, kMaxInspected);
    read.Int("module_count", sizes.inspect.modules, 0, kMaxInspected);
    read.Unsigned("environment_count", sizes.inspect.environment);
  }
  void operator()(Inspection& inspection) const { ReadInspection(read, status, inspection); }
  void operator()(Output& /*output*/) const {}
  void operator()(Stdin& /*input*/) const {}
  template <typename Other>  // of elastic.h and directory.h
  void operator()(Other& message) const {
    if constexpr (requires { ReadFields(read, message); }) {
      ReadFields(read, message);
    } else {
      ReadFields(read, json, sizes.directory, message);
    }
  }

 private:
  void ReadTarget(const Json& element, Probe& probe) const {
    const bool is_whole = element.is_array() && element.size() >= 3 && element[0].is_string() &&
                          element[1].is_string() && probe.targets.size() < kMaxProbeTargets;
    if (!is_whole) return read.Fault("targets");
    ProbeTarget target{element[0].get<std::string>(), element[1].get<std::string>()};
    const auto port = NumberIn(element[2], 1, UINT16_MAX);
    if (!port || !IsIpv4(target.source) || !IsIpv4(target.address)) return read.Fault("targets");
    target.port = static_cast<uint16_t>(*port);
    probe.targets.push_back(std::move(target));
  }
  void ReadOutcome(const Json& element, ProbeResult& result) const {
    const bool is_whole = element.is_array() && element.size() >= 2;
    if (!is_whole || result.results.size() >= kMaxProbeTargets) return read.Fault("results");
    const auto stage = NumberIn(element[0], 0, static_cast<uint64_t>(ProbeStage::kOther));
    const auto error = NumberIn(element[1], 0, kMaxErrno);
    if (!stage || !error) return read.Fault("results");
    result.results.push_back({static_cast<ProbeStage>(*stage), static_cast<int32_t>(*error)});
  }
  void ReadWorker(const Json& element, StartGeneration& start) const {
    if (!element.is_array() || element.size() < 4) return read.Fault("workers");
    int64_t numbers[4];
    for (size_t i = 0; i < 4; ++i) {
      const auto number = NumberIn(element[i], 0, i == 3 ? kMaxSize : kMaxRank);
      if (!number) return read.Fault("workers");
      numbers[i] = *number;
    }
    start.workers.push_back({static_cast<int32_t>(numbers[0]), static_cast<int32_t>(numbers[1]),
                             static_cast<int32_t>(numbers[2]), static_cast<int32_t>(numbers[3])});
    if (element.size() < 5) return;
    const auto name = NumberIn(element[4], 0, kMaxWorker);
    if (!name) return read.Fault("workers");
    start.workers.back().worker = static_cast<int32_t>(*name);
  }
};

}  // namespace

Status Violation(MessageType type, std::string_view what) {
  return {ErrorCode::kProtocolError, fmt::format("{}: {}", NameOf(type), what)};
}

std::string FieldsToJson(const Body& body) { return std::visit(JsonWriter{}, body); }

Result<Body> FieldsFromJson(MessageType type, const Json& json, RawSizes& sizes) {
  Body body = EmptyBody(type);
  Status status;
  FieldReader read(json, status);
  if (status.ok()) std::visit(JsonReader{read, json, status, sizes}, body);
  if (!status.ok()) return std::move(status).WithContext(NameOf(type));
  return body;
}

}  // namespace hvdray::wire
