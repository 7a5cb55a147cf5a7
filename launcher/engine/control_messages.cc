// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/control_messages.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "base/json_fields.h"
#include "launcher/job/placement.h"
#include "launcher/job/value_text.h"
#include "wire/message.h"

namespace hvdray {
namespace {

// Of gangs and objects.
constexpr FieldRange kNumbers = {1, std::numeric_limits<int64_t>::max()};
constexpr size_t kMaxObjects = 4096;
constexpr size_t kMaxVariables = 4096;
constexpr size_t kMaxHosts = kMaxRanks;
constexpr int64_t kMaxModuleName = 256;
constexpr FieldRange kTimestamps = {0, int64_t{1} << 53};
// An hour: more is a mistake.
constexpr double kMaxGraceSeconds = 3600;

/// "all", or a list of ranks, each once is enough.
void Recipients(FieldReader& io, const Json& head, control::Ranks& to) {
  const auto given = head.find("to");
  if (given != head.end() && *given == "all") return;
  io.List("to", to, kMaxRanks, [](auto& item, int& rank) {
    item.Int({}, rank, {0, kMaxRanks - 1});
  });
  io.Require("to", !to.empty(), "must be \"all\" or a list of ranks");
}

void Variables(FieldReader& io, std::map<std::string, std::string>& env) {
  if (!io.Has("env")) return;
  io.Table("env", env, [](auto& item, std::string& value) { item.Text({}, value); });
  io.Require("env", env.size() <= kMaxVariables, "must have at most 4096 variables");
  for (const auto& [name, value] : env) {
    const bool is_valid = !name.empty() && name.find('=') == std::string::npos &&
                          name.find('\0') == std::string::npos &&
                          value.find('\0') == std::string::npos;
    io.Require("env", is_valid, "must have names without '=', and no NUL");
  }
}

void Objects(FieldReader& io, std::vector<int64_t>& objects) {
  if (!io.Has("objects")) return;
  io.List("objects", objects, kMaxObjects,
          [](auto& item, int64_t& object) { item.Int({}, object, kNumbers); });
}

void Read(FieldReader& io, const Json& /*head*/, control::Hello& hello) {
  io.Int("protocol", hello.protocol, {1, 1 << 30});
  if (io.Has("client")) io.Shown("client", hello.client, {0, 256});
}

void Read(FieldReader& io, const Json& head, control::Start& start) {
  io.Int("gang", start.gang, kNumbers);
  if (io.Has("np")) io.Int("np", start.np, {1, kMaxRanks});
  Variables(io, start.env);
  Objects(io, start.objects);
  const auto data = head.find("data");
  start.has_data = data != head.end() || head.contains("blob");
  if (data != head.end()) start.data = *data;
}

void Read(FieldReader& io, const Json& head, control::Send& send) {
  io.Int("gang", send.gang, kNumbers);
  Recipients(io, head, send.to);
  Objects(io, send.objects);
  if (const auto data = head.find("data"); data != head.end()) send.data = *data;
}

void Read(FieldReader& io, const Json& head, control::Signal& signal) {
  io.Int("gang", signal.gang, kNumbers);
  Recipients(io, head, signal.to);
  io.Int("signo", signal.signo, {1, NSIG - 1});
}

void Read(FieldReader& io, const Json& /*head*/, control::Stop& stop) {
  io.Int("gang", stop.gang, kNumbers);
  if (io.Has("interrupt")) io.Flag("interrupt", stop.is_sigint_first);
  if (!io.Has("grace_s")) return;
  double seconds = 0;
  io.Number("grace_s", seconds);
  io.Require("grace_s", seconds >= 0 && seconds <= kMaxGraceSeconds, "must be from 0 to 3600");
  stop.grace = std::chrono::duration_cast<Duration>(Seconds(seconds));
}

void Read(FieldReader& io, const Json& /*head*/, control::Put& put) {
  io.Int("object", put.object, kNumbers);
  if (io.Has("memory")) io.Flag("memory", put.is_memory);
}

void Read(FieldReader& io, const Json& /*head*/, control::Drop& drop) {
  io.Int("object", drop.object, kNumbers);
}

void Read(FieldReader& io, const Json& /*head*/, control::Hosts& hosts) {
  io.List("hosts", hosts.hosts, kMaxHosts, [](auto& item, std::string& host) {
    item.Text({}, host, {1, 1024});
    item.Require({}, host.find('\n') == std::string::npos, "must be one line");
  });
  if (io.Has("final")) io.Flag("final", hosts.is_final);
}

void Read(FieldReader& io, const Json& head, control::Notify& notify) {
  io.Int("gang", notify.gang, kNumbers);
  Recipients(io, head, notify.to);
  io.Int("timestamp", notify.timestamp, kTimestamps);
}

void Read(FieldReader& io, const Json& /*head*/, control::Warm& warm) {
  io.List("preload", warm.preload, wire::kMaxPreload, [](auto& item, std::string& module) {
    item.Text({}, module, {1, kMaxModuleName});
    std::vector<std::string> names;
    const std::string_view name = std::string_view(module).substr(module.starts_with('?') ? 1 : 0);
    const bool is_name = AddModules(name, 1, names).ok() && names.front() == name;
    item.Require({}, is_name && name != wire::kPreloadAuto, "must be the name of a module");
  });
  io.Require("preload", !warm.preload.empty(), "must name a module");
  Variables(io, warm.env);
}

void Read(FieldReader& /*io*/, const Json& /*head*/, control::Flush& /*flush*/) {}

void Read(FieldReader& io, const Json& /*head*/, control::Credit& credit) {
  io.Word("bytes", credit.bytes);
}

void Read(FieldReader& /*io*/, const Json& /*head*/, control::Bye& /*bye*/) {}

template <typename Request>
Result<ControlRequest> ReadAs(const Json& head, Request request = {}) {
  HVDRAY_RETURN_IF_ERROR(ReadFields(head, FieldReader::Missing::kIsFault,
                                    [&](FieldReader& io) { Read(io, head, request); }));
  return ControlRequest(std::move(request));
}

Result<ControlRequest> ReadTyped(std::string_view type, const Json& head, Duration grace) {
  if (type == "hello") return ReadAs<control::Hello>(head);
  if (type == "start") return ReadAs<control::Start>(head);
  if (type == "send") return ReadAs<control::Send>(head);
  if (type == "signal") return ReadAs<control::Signal>(head);
  if (type == "stop") return ReadAs<control::Stop>(head, {.grace = grace});
  if (type == "put") return ReadAs<control::Put>(head);
  if (type == "drop") return ReadAs<control::Drop>(head);
  if (type == "hosts") return ReadAs<control::Hosts>(head);
  if (type == "notify") return ReadAs<control::Notify>(head);
  if (type == "warm") return ReadAs<control::Warm>(head);
  if (type == "flush") return ReadAs<control::Flush>(head);
  if (type == "credit") return ReadAs<control::Credit>(head);
  if (type == "bye") return ReadAs<control::Bye>(head);
  return Status(ErrorCode::kProtocolError, "no such type");
}

}  // namespace

Json RefusedMessage(const Json& about, const Status& why) {
  Json refused;
  refused["type"] = "refused";
  refused["about"] = about;
  refused["code"] = ErrorLabel(why.code());
  refused["message"] = why.message();
  refused["hint"] = why.hint();
  return refused;
}

Json HelloMessage(std::string_view build, std::string_view job_id) {
  Json hello;
  hello["type"] = "hello";
  hello["protocol"] = kControlProtocol;
  hello["build"] = build;
  hello["job_id"] = job_id;
  hello["pid"] = ::getpid();
  return hello;
}

Json FlushedMessage() {
  Json flushed;
  flushed["type"] = "flushed";
  return flushed;
}

Json ByeMessage(int exit_code) {
  Json bye;
  bye["type"] = "bye";
  bye["exit"] = exit_code;
  return bye;
}

std::string* BlobOf(ControlRequest& request) {
  if (auto* start = std::get_if<control::Start>(&request)) return &start->blob;
  if (auto* send = std::get_if<control::Send>(&request)) return &send->blob;
  return nullptr;
}

Result<ControlRequest> ReadControlRequest(std::string_view type, const Json& head, uint64_t blob,
                                          Duration grace) {
  const auto named = [type](Status why) {
    return std::move(why).WithContext(fmt::format("\"{}\"", type.substr(0, 40)));
  };
  Result<ControlRequest> request = ReadTyped(type, head, grace);
  if (!request.ok()) return named(request.status());
  if (auto* put = std::get_if<control::Put>(&*request)) {
    put->size = blob;
    if (!put->is_memory || blob == 0) return request;
    return named({ErrorCode::kProtocolError, "memory and a blob"});
  }
  const uint64_t most = BlobOf(*request) != nullptr ? kMaxControlBlob : 0;
  if (blob > most) {
    return named({ErrorCode::kProtocolError,
                  fmt::format("a blob of {} bytes, at most {} allowed", blob, most)});
  }
  return request;
}

}  // namespace hvdray
