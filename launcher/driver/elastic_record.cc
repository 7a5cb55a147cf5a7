// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_record.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "launcher/driver/record_fields.h"

namespace hvdray {
// A named namespace, so that the templates find overloads declared after them.
namespace record {

template <typename Io, typename T>
using Of = std::conditional_t<Io::kIsOut, const T, T>&;

template <typename T>
constexpr FieldRange kAll = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
constexpr FieldRange kNotNegative = {0, std::numeric_limits<int>::max()};
constexpr FieldRange kRanks = {1, kMaxRanks};
constexpr FieldRange kTimes = {0, kLongestRecordedTime.count()};
constexpr FieldRange kSignals = {1, 64};
constexpr int64_t kLatestSecond = int64_t{1} << 40;
constexpr size_t kMaxListedHosts = 100'000;
constexpr int kMaxListedSlots = 1 << 20;
constexpr size_t kMaxNameBytes = 1024;

constexpr std::array<std::string_view, 2> kModes = {"horovod", "gang"};
constexpr std::array<std::string_view, 2> kSuccessRules = {"all", "any"};
constexpr std::array<std::string_view, 2> kJoins = {"warm", "together"};
constexpr std::array<std::string_view, 6> kStages = {"none",        "fork",   "folder",
                                                     "descriptors", "limits", "exec"};
// In the order of ElasticEvent's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<ElasticEvent>> kEvents = {
    "hosts_discovered", "discovery_failed", "host_ready",     "host_lost",      "process_started",
    "process_exited",   "process_erred",    "worker_arrived", "worker_met",     "worker_connected",
    "rank_asked",       "addresses",        "host_copying",   "host_leaving",   "host_stopped",
    "signal",           "reader_gone",      "output_damaged", "output_blocked", "tick"};
constexpr std::string_view kEnd = "end";
constexpr std::string_view kSomeError = "an error";  // its text is not recorded
static_assert(std::is_same_v<std::variant_alternative_t<0, ElasticEvent>, event::HostsDiscovered>);
static_assert(std::is_same_v<std::variant_alternative_t<19, ElasticEvent>, event::Tick>);

template <typename Io>
void Fields(Io& io, Of<Io, CooldownRange> range) {
  io.Time("lower_ns", range.lower, kTimes);
  io.Time("upper_ns", range.upper, kTimes);
}

template <typename Io>
void Fields(Io& io, Of<Io, ElasticPolicy> policy) {
  io.Choice("mode", policy.mode, kModes);
  io.Int("np", policy.np, kRanks);
  io.Int("min_np", policy.min_np, kRanks);
  io.MaybeInt("max_np", policy.max_np, kRanks);
  io.MaybeInt("reset_limit", policy.reset_limit, kAll<uint32_t>);
  io.Int("max_restarts", policy.max_restarts, kAll<uint32_t>);
  Part(io, "cooldown", policy.cooldown);
  io.Choice("success", policy.success, kSuccessRules);
  io.Int("join_retries", policy.join_retries, kNotNegative);
  io.Flag("breaks_connections", policy.breaks_connections);
  io.Flag("repairs_meetings", policy.repairs_barriers);
  io.Choice("join", policy.join, kJoins);
  io.Time("notice_interval_ns", policy.notice_interval, kTimes);
  io.Int("began_epoch_s", policy.began_epoch_s, {0, kLatestSecond});
  io.Time("elastic_timeout_ns", policy.elastic_timeout, kTimes);
  io.Time("start_timeout_ns", policy.start_timeout, kTimes);
  io.Time("straggler_timeout_ns", policy.straggler_timeout, kTimes);
  io.Time("grace_ns", policy.grace, kTimes);
  io.Time("timeout_ns", policy.timeout, kTimes);
  io.Time("stop_margin_ns", policy.stop_margin, kTimes);
  io.Time("leave_limit_ns", policy.leave_limit, kTimes);
  io.Time("settle_ns", policy.settle, kTimes);
  io.Time("moment_ns", policy.moment, kTimes);
  io.Int("master_port", policy.master_port, kAll<uint16_t>);
}

template <typename Io>
void Fields(Io& io, Of<Io, HostSlots> host) {
  io.Text("host", host.host);
  io.Int("slots", host.slots, {0, kMaxRanks});
  io.Text("address", host.address.name);
  io.Text("user", host.address.user);
  io.Int("port", host.address.port, kAll<uint16_t>);
}

// A code by its name, which is stable.
void Code(FieldsOut& io, const ErrorCode& code) {
  io.Text("code", code == ErrorCode::kOk ? "ok" : std::string(InfoOf(code).name));
}

void Code(FieldsIn& io, ErrorCode& code) {
  std::string name;
  io.Text("code", name);
  if (!io.fault().empty()) return;
  code = ErrorCode::kOk;
  if (name == "ok") return;
  for (const ErrorInfo& info : ErrorCatalogue()) {
    if (info.name == name) code = info.code;
  }
  if (code == ErrorCode::kOk) io.Refuse("code", "is none that is known");
}

void Part(FieldsOut& io, const char* key, const Status& status) {
  FieldsOut part(io.At(key));
  Code(part, status.code());
  part.Text("message", status.message());
  part.Text("hint", status.hint());
}

void Part(FieldsIn& io, const char* key, Status& status) {
  const Json* found = io.Find(key);
  if (found == nullptr) return;
  FieldsIn part(*found, /*is_lenient=*/false);
  ErrorCode code = ErrorCode::kOk;
  std::string message, hint;
  Code(part, code);
  part.Text("message", message);
  part.Text("hint", hint);
  io.Adopt(key, part);
  status = Status(code, std::move(message), std::move(hint));
}

void Part(FieldsOut& io, const char* key, const std::optional<CooldownRange>& range) {
  Json& object = io.At(key);
  if (!range) return;
  FieldsOut part(object);
  Fields(part, *range);
}

void Part(FieldsIn& io, const char* key, std::optional<CooldownRange>& range) {
  const Json* found = io.Find(key);
  if (found == nullptr) return;
  range.reset();
  if (found->is_null()) return;
  FieldsIn part(*found, /*is_lenient=*/false);
  Fields(part, range.emplace());
  io.Adopt(key, part);
}

void Part(FieldsOut& io, const char* key, const std::vector<HostSlots>& hosts) {
  Json& list = io.At(key) = Json::array();
  for (const HostSlots& host : hosts) {
    FieldsOut part(list.emplace_back(Json::object()));
    Fields(part, host);
  }
}

// Names are printed to users.
bool IsName(std::string_view name) {
  const auto is_wrong = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; };
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::none_of(name.begin(), name.end(), is_wrong);
}

void Part(FieldsIn& io, const char* key, std::vector<HostSlots>& hosts) {
  const Json* found = io.Find(key);
  if (found == nullptr) return;
  if (!found->is_array()) return io.Refuse(key, "is no list");
  if (found->size() > kMaxListedHosts) return io.Refuse(key, "has too many hosts");
  int slots = 0;
  for (const Json& element : *found) {
    FieldsIn part(element, /*is_lenient=*/false);
    Fields(part, hosts.emplace_back());
    io.Adopt(key, part);
    if (!io.fault().empty()) return;
    if (!IsName(hosts.back().host)) return io.Refuse(key, "has a host without a fit name");
    slots += hosts.back().slots;
    if (slots > kMaxListedSlots) return io.Refuse(key, "has too many slots");
  }
}

template <typename Io>
void Fields(Io& io, Of<Io, event::HostsDiscovered> e) {
  io.Flag("final", e.is_final);
  Part(io, "hosts", e.hosts);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::DiscoveryFailed> e) {
  Part(io, "why", e.why);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::HostReady> e) {
  io.Int("host", e.host, kAll<int>);
  io.Text("host_name", e.facts.host_name);
  io.Int("offered_port", e.facts.offered_port, kAll<uint16_t>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::HostLost> e) {
  io.Int("host", e.host, kAll<int>);
  Part(io, "why", e.why);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::ProcessStarted> e) {
  io.Int("worker", e.worker, kAll<WorkerId>);
  io.Int("pid", e.pid, kAll<uint32_t>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::ProcessExited> e) {
  io.Int("worker", e.worker, kAll<WorkerId>);
  io.Int("exit_code", e.status.exit_code, {0, 255});
  io.Int("signal", e.status.signal, {0, kSignals.max});
  io.Flag("core", e.status.has_core);
  io.Flag("oom", e.status.is_oom);
  io.Choice("stage", e.status.stage, kStages);
  io.Int("errno", e.status.error, kAll<int32_t>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::WorkerArrived> e) {
  io.Int("worker", e.worker, kAll<WorkerId>);
}
void Fields(FieldsOut& io, const event::ProcessErred& e) {
  const int64_t age_ns = e.age ? std::clamp<int64_t>(e.age->count(), 0, kTimes.max) : -1;
  io.Int("worker", e.worker, kAll<WorkerId>);
  io.Flag("error", !e.error.text.empty());
  io.Text("peer_words", e.error.peer_words);
  io.Int("age_ns", age_ns, {-1, kTimes.max});
}
void Fields(FieldsIn& io, event::ProcessErred& e) {
  bool is_error = false;
  int64_t age_ns = -1;
  io.Int("worker", e.worker, kAll<WorkerId>);
  io.Flag("error", is_error);
  io.Text("peer_words", e.error.peer_words);
  io.Int("age_ns", age_ns, {-1, kTimes.max});
  if (is_error) e.error.text = kSomeError;
  if (age_ns >= 0) e.age = Duration(age_ns);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::WorkerMet> e) {
  io.Int("worker", e.worker, kAll<WorkerId>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::WorkerConnected> e) {
  io.Int("worker", e.worker, kAll<WorkerId>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::RankAsked> e) {
  io.Int("worker", e.worker, kAll<WorkerId>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::AddressesRegistered> e) {
  io.Int("worker", e.worker, kAll<WorkerId>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::HostCopying> e) {
  io.Int("host", e.host, kAll<int>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::HostLeaving> e) {
  io.Int("host", e.host, kAll<int>);
  io.Time("in_ns", e.in, {-kTimes.max, kTimes.max});
}
template <typename Io>
void Fields(Io& io, Of<Io, event::GenerationStopped> e) {
  io.Int("generation", e.generation, kAll<Generation>);
  io.Int("host", e.host, kAll<int>);
  io.Int("swept", e.swept, kAll<uint32_t>);
  io.Int("offered_port", e.offered_port, kAll<uint16_t>);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::UserSignal> e) {
  io.Int("signo", e.signo, kSignals);
}
template <typename Io>
void Fields(Io&, Of<Io, event::ReaderGone>) {}
template <typename Io>
void Fields(Io& io, Of<Io, event::OutputDamaged> e) {
  Part(io, "why", e.why);
}
template <typename Io>
void Fields(Io& io, Of<Io, event::OutputBlocked> e) {
  io.Flag("blocked", e.is_blocked);
}
template <typename Io>
void Fields(Io&, Of<Io, event::Tick>) {}

template <typename Io>
void Fields(Io& io, Of<Io, RecordedEnd> end) {
  io.Int("exit_code", end.exit_code, {0, 255});
  Code(io, end.error);
  io.Int("generation", end.generation, kAll<Generation>);
  io.Int("size", end.size, {0, kMaxRanks});
  io.Int("resets", end.resets, kAll<uint32_t>);
  io.Word("stale_events", end.stale_events);
}

// Creates the alternative with that index.
template <size_t... kIndices>
ElasticEvent EmptyEvent(size_t index, std::index_sequence<kIndices...>) {
  ElasticEvent event;
  (void)((kIndices == index ? (event.emplace<kIndices>(), true) : false) || ...);
  return event;
}

Json Begin(std::string_view kind, Duration at) {
  Json object;
  FieldsOut(object).Time("t", at, kTimes);
  object["event"] = kind;
  return object;
}

}  // namespace record

using record::FieldsIn;
using record::FieldsOut;

RecordedEnd EndOf(const Verdict& verdict, const ElasticSnapshot& snapshot, Duration at) {
  return {.at = at,
          .exit_code = verdict.exit_code,
          .error = verdict.error.code(),
          .generation = snapshot.generation,
          .size = snapshot.size,
          .resets = snapshot.resets,
          .stale_events = snapshot.stale_events};
}

std::string EncodeHeader(const RecordHeader& header) {
  Json object;
  object["schema"] = kRecordSchema;
  object["build"] = header.build;
  object["job_id"] = header.job_id;
  object["jitter_seed"] = header.jitter_seed;
  FieldsOut policy(object["policy"]);
  Fields(policy, header.policy);
  return DumpJson(object);
}

std::string EncodeEvent(const ElasticEvent& event, Duration at) {
  Json object = record::Begin(NameOf(event), at);
  FieldsOut out(object);
  std::visit([&out](const auto& e) { Fields(out, e); }, event);
  return DumpJson(object);
}

std::string EncodeEnd(const RecordedEnd& end) {
  Json object = record::Begin(record::kEnd, end.at);
  FieldsOut out(object);
  Fields(out, end);
  return DumpJson(object);
}

Status RecordDecoder::Wrong(std::string_view what) const {
  return {ErrorCode::kSpecInvalid, fmt::format("{}:{}: {}", file_name_, line_, what)};
}

Result<Json> RecordDecoder::Parse(ByteView text) const {
  Result<Json> object = ParseJson(text, kMaxRecordLineBytes);
  if (!object.ok()) return Wrong(object.status().message());
  if (!object->is_object()) return Wrong("no JSON object");
  return object;
}

Result<RecordHeader> RecordDecoder::Header(ByteView line) {
  ++line_;
  HVDRAY_ASSIGN_OR_RETURN(const Json object, Parse(line));
  if (const auto schema = object.find("schema"); schema == object.end()) {
    return Wrong("no recording: it has no schema");
  } else if (*schema != kRecordSchema) {
    return Wrong(fmt::format("not of schema {}", kRecordSchema));
  }
  RecordHeader header;
  FieldsIn in(object, /*is_lenient=*/false);
  in.Text("build", header.build);
  in.Text("job_id", header.job_id);
  in.Word("jitter_seed", header.jitter_seed);
  if (const Json* found = in.Find("policy")) {
    FieldsIn policy(*found, /*is_lenient=*/true);
    Fields(policy, header.policy);
    in.Adopt("policy", policy);
  }
  if (!in.fault().empty()) return Wrong(in.fault());
  const Status possible = CheckElasticPolicy(header.policy);
  if (!possible.ok()) return Wrong(possible.message());
  return header;
}

Result<RecordLine> RecordDecoder::Next(ByteView line) {
  ++line_;
  HVDRAY_ASSIGN_OR_RETURN(const Json object, Parse(line));
  FieldsIn in(object, /*is_lenient=*/false);
  Duration at{};
  std::string kind;
  in.Time("t", at, record::kTimes);
  in.Text("event", kind);
  if (!in.fault().empty()) return Wrong(in.fault());
  if (at < last_) return Wrong("its time is before that of the line above");
  if (has_ended_) return Wrong("the job has ended in the line above");
  last_ = at;
  if (kind == record::kEnd) {
    RecordedEnd end{.at = at};
    Fields(in, end);
    if (!in.fault().empty()) return Wrong(in.fault());
    has_ended_ = true;
    return RecordLine(end);
  }
  const auto name = std::find(record::kEvents.begin(), record::kEvents.end(), kind);
  if (name == record::kEvents.end()) return Wrong("its event is none that is known");
  RecordedEvent recorded{at,
                         record::EmptyEvent(static_cast<size_t>(name - record::kEvents.begin()),
                                            std::make_index_sequence<record::kEvents.size()>())};
  std::visit([&in](auto& e) { Fields(in, e); }, recorded.event);
  if (!in.fault().empty()) return Wrong(in.fault());
  return RecordLine(std::move(recorded));
}

std::string_view NameOf(const ElasticEvent& event) { return record::kEvents[event.index()]; }

}  // namespace hvdray
