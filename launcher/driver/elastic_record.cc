// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/json_fields.h"

namespace hvdray {
namespace {

constexpr FieldRange kNotNegative = {0, INT32_MAX};
constexpr FieldRange kRanks = {1, kMaxRanks};
constexpr FieldRange kTimes = {0, kLongestRecordedTime.count()};
constexpr FieldRange kSignals = {1, 64};
constexpr int64_t kLatestSecond = int64_t{1} << 40;
constexpr size_t kMaxListedHosts = 100'000;
constexpr int64_t kMaxListedSlots = 1'048'576;
constexpr size_t kMaxNameBytes = 1024;

constexpr std::array<std::string_view, 6> kStages = {"none",        "fork",   "folder",
                                                     "descriptors", "limits", "exec"};
// In the order of ElasticEvent's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<ElasticEvent>> kEvents = {
    "hosts_discovered", "discovery_failed", "host_ready",
    "host_lost",        "process_started",  "process_exited",
    "process_erred",    "worker_arrived",   "worker_met",
    "worker_connected", "rank_asked",       "addresses",
    "host_copying",     "host_leaving",     "host_stopped",
    "signal",           "reader_gone",      "output_damaged",
    "output_blocked",   "dismissed",        "tick"};
constexpr std::string_view kEnd = "end";
constexpr std::string_view kSomeError = "an error";  // its text is not recorded
static_assert(std::is_same_v<std::variant_alternative_t<0, ElasticEvent>, event::HostsDiscovered>);
static_assert(std::is_same_v<std::variant_alternative_t<20, ElasticEvent>, event::Tick>);

template <typename Io>
void Fields(Io& io, FieldsOf<Io, ElasticPolicy> policy) {
  if constexpr (!Io::kIsWriter) io.KeepDefaults();  // recordings may be older than a setting
  io.Choice("mode", policy.mode, kElasticModeWords);
  io.Int("np", policy.np, kRanks);
  io.Int("min_np", policy.min_np, kRanks);
  io.Maybe("max_np", policy.max_np, [](auto& item, auto& np) { item.Int({}, np, kRanks); });
  io.Maybe("reset_limit", policy.reset_limit,
           [](auto& item, auto& limit) { item.Int({}, limit, kAnyOf<uint32_t>); });
  io.Int("max_restarts", policy.max_restarts, kAnyOf<uint32_t>);
  io.Maybe("cooldown", policy.cooldown, [](auto& part, auto& range) {
    part.Time("lower_ns", range.lower, kTimes);
    part.Time("upper_ns", range.upper, kTimes);
  });
  io.Choice("success", policy.success, kSuccessRuleWords);
  io.Int("join_retries", policy.join_retries, kNotNegative);
  io.Flag("breaks_connections", policy.breaks_connections);
  io.Flag("repairs_meetings", policy.repairs_barriers);
  io.Choice("join", policy.join, kJoinModeWords);
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
  io.Time("list_settle_ns", policy.list_settle, kTimes);
  io.Time("moment_ns", policy.moment, kTimes);
  io.Int("master_port", policy.master_port, kAnyOf<uint16_t>);
  io.Int("last_generation", policy.last_generation, kAnyOf<Generation>);
  io.Int("first_worker", policy.first_worker, kAnyOf<uint32_t>);
}

// A code by its name, which is stable.
template <typename Io>
void Code(Io& io, FieldsOf<Io, ErrorCode> code) {
  std::string name(code == ErrorCode::kOk ? "ok" : InfoOf(code).name);
  io.Text("code", name);
  if constexpr (!Io::kIsWriter) {
    const auto catalogue = ErrorCatalogue();
    const auto info = std::find_if(catalogue.begin(), catalogue.end(),
                                   [&name](const ErrorInfo& i) { return i.name == name; });
    io.Require("code", name == "ok" || info != catalogue.end(), "must be a known error");
    code = info == catalogue.end() ? ErrorCode::kOk : info->code;
  }
}

template <typename Io>
void Why(Io& io, FieldsOf<Io, Status> why) {
  io.Object("why", why, [](auto& part, auto& status) {
    ErrorCode code = status.code();
    auto [message, hint] = std::pair(status.message(), status.hint());  // Read into, or written.
    Code(part, code);
    part.Text("message", message);
    part.Text("hint", hint);
    if constexpr (!Io::kIsWriter) status = Status(code, std::move(message), std::move(hint));
  });
}

// Names are printed to users.
bool IsName(std::string_view name) {
  const auto is_wrong = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; };
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::none_of(name.begin(), name.end(), is_wrong);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::HostsDiscovered> e) {
  io.Flag("final", e.is_final);
  int64_t slots = 0;
  io.List("hosts", e.hosts, kMaxListedHosts, [&slots](auto& item, auto& host) {
    item.Text("host", host.host);
    item.Int("slots", host.slots, {0, kMaxRanks});
    item.Text("address", host.address.name);
    item.Text("user", host.address.user);
    item.Int("port", host.address.port, kAnyOf<uint16_t>);
    slots += host.slots;
    item.Require("host", IsName(host.host), "must be a name");
    item.Require("slots", slots <= kMaxListedSlots, "must not bring the list over 1048576 slots");
  });
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::DiscoveryFailed> e) {
  Why(io, e.why);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::HostReady> e) {
  io.Int("host", e.host, kAnyOf<int>);
  io.Text("host_name", e.facts.host_name);
  io.Int("offered_port", e.facts.offered_port, kAnyOf<uint16_t>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::HostLost> e) {
  io.Int("host", e.host, kAnyOf<int>);
  Why(io, e.why);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::ProcessStarted> e) {
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
  io.Int("pid", e.pid, kAnyOf<uint32_t>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::ProcessExited> e) {
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
  io.Int("exit_code", e.status.exit_code, {0, 255});
  io.Int("signal", e.status.signal, {0, kSignals.max});
  io.Flag("core", e.status.has_core);
  io.Flag("oom", e.status.is_oom);
  io.Choice("stage", e.status.stage, kStages);
  io.Int("errno", e.status.error, kAnyOf<int32_t>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::WorkerArrived> e) {
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::ProcessErred> e) {
  bool is_error = !e.error.text.empty();
  int64_t age_ns = e.age ? std::clamp<int64_t>(e.age->count(), 0, kTimes.max) : -1;
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
  io.Flag("error", is_error);
  io.Text("peer_words", e.error.peer_words);
  io.Int("age_ns", age_ns, {-1, kTimes.max});
  if constexpr (!Io::kIsWriter) {
    if (is_error) e.error.text = kSomeError;
    if (age_ns >= 0) e.age = Duration(age_ns);
  }
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::WorkerMet> e) {
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::WorkerConnected> e) {
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::RankAsked> e) {
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::AddressesRegistered> e) {
  io.Int("worker", e.worker, kAnyOf<WorkerId>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::HostCopying> e) {
  io.Int("host", e.host, kAnyOf<int>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::HostLeaving> e) {
  io.Int("host", e.host, kAnyOf<int>);
  io.Time("in_ns", e.in, {-kTimes.max, kTimes.max});
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::GenerationStopped> e) {
  io.Int("generation", e.generation, kAnyOf<Generation>);
  io.Int("host", e.host, kAnyOf<int>);
  io.Int("swept", e.swept, kAnyOf<uint32_t>);
  io.Int("offered_port", e.offered_port, kAnyOf<uint16_t>);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::UserSignal> e) {
  io.Int("signo", e.signo, kSignals);
}
template <typename Io>
void Fields(Io&, FieldsOf<Io, event::ReaderGone>) {}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::OutputDamaged> e) {
  Why(io, e.why);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::OutputBlocked> e) {
  io.Flag("blocked", e.is_blocked);
}
template <typename Io>
void Fields(Io& io, FieldsOf<Io, event::Dismissed> e) {
  io.Time("grace_ns", e.grace, kTimes);
}
template <typename Io>
void Fields(Io&, FieldsOf<Io, event::Tick>) {}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, RecordedEnd> end) {
  io.Int("exit_code", end.exit_code, {0, 255});
  Code(io, end.error);
  io.Int("generation", end.generation, kAnyOf<Generation>);
  io.Int("size", end.size, {0, kMaxRanks});
  io.Int("resets", end.resets, kAnyOf<uint32_t>);
  io.Word("stale_events", end.stale_events);
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, RecordHeader> header) {
  io.Text("build", header.build);
  io.Text("job_id", header.job_id);
  io.Word("jitter_seed", header.jitter_seed);
  io.Object("policy", header.policy, [](auto& part, auto& policy) { Fields(part, policy); });
}

// Creates the alternative with that index.
template <size_t... kIndices>
ElasticEvent EmptyEvent(size_t index, std::index_sequence<kIndices...>) {
  ElasticEvent event;
  (void)((kIndices == index ? (event.emplace<kIndices>(), true) : false) || ...);
  return event;
}

// One line, which begins with its time and kind.
template <typename T>
std::string EncodeLine(std::string_view kind, Duration at, const T& value) {
  return WriteFields([&](FieldWriter& io) {
    io.Time("t", at, kTimes);
    io.Text("event", kind);
    Fields(io, value);
  });
}

}  // namespace

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
  return WriteFields([&](FieldWriter& io) {
    io.Text("schema", kRecordSchema);
    Fields(io, header);
  });
}

std::string EncodeEvent(const ElasticEvent& event, Duration at) {
  return std::visit([&](const auto& e) { return EncodeLine(Name(event), at, e); }, event);
}

std::string EncodeEnd(const RecordedEnd& end) { return EncodeLine(kEnd, end.at, end); }

Status RecordDecoder::Wrong(std::string_view what) const {
  return {ErrorCode::kSpecInvalid, fmt::format("{}:{}: {}", file_name_, line_, what)};
}

Result<Json> RecordDecoder::Parse(ByteView text) const {
  Result<Json> object = ParseJson(text, kMaxRecordLineBytes);
  if (!object.ok()) return Wrong(object.status().message());
  if (!object->is_object()) return Wrong("the line must be a JSON object");
  return object;
}

Result<RecordHeader> RecordDecoder::Header(ByteView line) {
  ++line_;
  HVDRAY_ASSIGN_OR_RETURN(const Json object, Parse(line));
  if (const auto schema = object.find("schema"); schema == object.end()) {
    return Wrong("this is not a recording: schema is missing");
  } else if (*schema != kRecordSchema) {
    return Wrong(fmt::format("schema must be {}", kRecordSchema));
  }
  RecordHeader header;
  const Status status = ReadFields(object, FieldReader::Missing::kIsFault,
                                   [&](FieldReader& io) { Fields(io, header); });
  if (!status.ok()) return Wrong(status.message());
  const Status possible = CheckElasticPolicy(header.policy);
  if (!possible.ok()) return Wrong(possible.message());
  return header;
}

Result<RecordLine> RecordDecoder::Next(ByteView line) {
  ++line_;
  HVDRAY_ASSIGN_OR_RETURN(const Json object, Parse(line));
  Status status;
  FieldReader io(object, FieldReader::Missing::kIsFault, status);
  Duration at{};
  std::string kind;
  io.Time("t", at, kTimes);
  io.Text("event", kind);
  if (!status.ok()) return Wrong(status.message());
  if (at < last_) return Wrong("its time is before that of the line above");
  if (has_ended_) return Wrong("the job has ended in the line above");
  last_ = at;
  if (kind == kEnd) {
    RecordedEnd end{.at = at};
    Fields(io, end);
    if (!status.ok()) return Wrong(status.message());
    has_ended_ = true;
    return RecordLine(end);
  }
  const auto name = std::find(kEvents.begin(), kEvents.end(), kind);
  if (name == kEvents.end()) return Wrong("event must be a known kind");
  RecordedEvent recorded{at, EmptyEvent(static_cast<size_t>(name - kEvents.begin()),
                                        std::make_index_sequence<kEvents.size()>())};
  std::visit([&io](auto& e) { Fields(io, e); }, recorded.event);
  if (!status.ok()) return Wrong(status.message());
  return RecordLine(std::move(recorded));
}

std::string_view Name(const ElasticEvent& event) { return kEvents[event.index()]; }

}  // namespace hvdray
