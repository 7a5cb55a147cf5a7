// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/broker_messages.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/json_fields.h"

namespace hvdray {
namespace {

constexpr FieldRange kPids = {0, INT32_MAX};
constexpr FieldRange kSignals = {1, 64};
constexpr FieldRange kNeeded = {.min = 1};
constexpr std::string_view kGroupStates[] = {"pending", "created", "rescheduling", "removed",
                                             "failed"};

constexpr auto kText = [](auto& io, auto& text) { io.Text({}, text); };
constexpr auto kNumber = [](auto& io, auto& number) { io.Number({}, number); };

void Fields(FieldReader& io, BrokerHello& hello) {
  io.Text("ray", hello.ray, kNeeded);
  io.Text("python", hello.python);
  io.Text("node_id", hello.node_id, kNeeded);
  io.Text("node_ip", hello.node_ip, kNeeded);
  io.Text("logs", hello.logs, kNeeded);
  io.Text("submission_id", hello.submission_id);
  io.Int("raylet_pid", hello.raylet_pid, kPids);
  io.Flag("is_in_group", hello.is_in_group);
  io.Flag("has_directory", hello.has_directory);
}

void Fields(FieldReader& io, RayNode& node) {
  node.is_alive = false;  // unless the message says so
  io.Text("id", node.id, kNeeded);
  io.Text("ip", node.ip);
  io.Flag("is_alive", node.is_alive);
  io.Table("total", node.total, kNumber);
  io.Table("free", node.free, kNumber);
  io.Table("labels", node.labels, kText);
  if (io.Has("leaves_at")) io.Number("leaves_at", node.leaves_at.emplace());
}

void Fields(FieldReader& io, BrokerGroup& group) {
  io.Text("name", group.name, kNeeded);
  io.Require("state", io.Has("state"), "is missing");
  io.Choice("state", group.state, kGroupStates);
  io.Text("reason", group.reason);
  io.Text("text", group.text);
  io.List("bundles", group.bundles, kAnyCount, kText);
}

void Fields(FieldReader& io, BrokerEndpointStarted& started) {
  io.Text("node_id", started.node_id, kNeeded);
  io.Text("ip", started.ip);
  io.Text("hostname", started.hostname);
  io.List("gpus", started.gpus, kAnyCount, kText);
  io.Int("pid", started.pid, kPids);
}

BrokerEvent Endpoint(FieldReader& io) {
  constexpr std::string_view kStates[] = {"started", "ended"};
  int endpoint = 0;
  bool is_ended = false;
  for (const char* key : {"endpoint", "state"}) io.Require(key, io.Has(key), "is missing");
  io.Int("endpoint", endpoint, {0, kMaxBrokerEndpoint});
  io.Choice("state", is_ended, kStates);
  if (is_ended) {
    BrokerEndpointEnded ended{endpoint, {}};
    io.Text("text", ended.text);
    return ended;
  }
  BrokerEndpointStarted started{.endpoint = endpoint};
  Fields(io, started);
  return started;
}

// The value of a message's only key.
BrokerEvent Event(FieldReader& io, const std::string& kind) {
  BrokerEvent event;
  const auto read = [](auto& part, auto& value) { Fields(part, value); };
  if (kind == "hello") {
    io.Object("hello", event.emplace<BrokerHello>(), read);
  } else if (kind == "nodes") {
    io.List("nodes", event.emplace<BrokerNodes>(), kAnyCount, read);
  } else if (kind == "group") {
    io.Object("group", event.emplace<BrokerGroup>(), read);
  } else if (kind == "endpoint") {
    io.Object("endpoint", event, [](auto& part, auto& value) { value = Endpoint(part); });
  } else if (kind == "signal") {
    io.Int("signal", event.emplace<BrokerSignal>().signo, kSignals);
  } else if (kind == "stop") {
    io.Object("stop", event.emplace<BrokerSignal>(), [](auto& part, auto& signal) {
      part.Int("signo", signal.signo, kSignals);
      part.Text("why", signal.why);
    });
  } else {
    io.Refuse({}, "unknown kind of message");
  }
  return event;
}

/// Formats one message in ASCII, so that the reader's encoding doesn't matter.
template <typename T, typename List>
std::string Line(const char* kind, const T& value, const List& fields) {
  return WriteFields([&](FieldWriter& io) { io.Object(kind, value, fields); },
                     FieldWriter::Escape::kNonAscii) +
         "\n";
}

}  // namespace

Result<BrokerEvent> ParseBrokerEvent(ByteView line) {
  HVDRAY_ASSIGN_OR_RETURN(const Json message, ParseJson(line, kMaxBrokerLine));
  if (!message.is_object() || message.size() != 1) {
    return Status(ErrorCode::kProtocolError, "not an object of one key");
  }
  BrokerEvent event;
  HVDRAY_RETURN_IF_ERROR(
      ReadFields(message, FieldReader::Missing::kKeepsDefault,
                 [&](FieldReader& io) { event = Event(io, message.begin().key()); }));
  return event;
}

std::string FormatBrokerReserve(const BrokerReserve& reserve) {
  return Line("reserve", reserve, [](FieldWriter& io, const BrokerReserve& r) {
    io.Text("name", r.name);
    io.List("bundles", r.bundles, kAnyCount,
            [](auto& item, auto& amounts) { item.Table({}, amounts, kNumber); });
    io.Text("strategy", r.strategy);
    if (r.selectors.empty()) return io.Raw("selectors", "null");
    io.List("selectors", r.selectors, kAnyCount,
            [](auto& item, auto& labels) { item.Table({}, labels, kText); });
  });
}

std::string FormatBrokerRelease(const std::string& group) {
  return Line("release", group, [](FieldWriter& io, auto& name) { io.Text("name", name); });
}

std::string FormatBrokerWatch() { return "{\"watch\":{}}\n"; }

std::string FormatBrokerRest() { return "{\"rest\":{}}\n"; }

std::string FormatBrokerEndpoint(const BrokerEndpoint& endpoint) {
  return Line("endpoint", endpoint, [](FieldWriter& io, const BrokerEndpoint& e) {
    io.Int("endpoint", e.endpoint);
    io.Text("name", e.group);
    io.List("bundles", e.bundles, kAnyCount, [](auto& item, auto& b) { item.Int({}, b); });
    io.List("argv", e.argv, kAnyCount, kText);
    io.Text("stdin", e.input);
    if (e.runtime_env.empty()) return;
    const Result<Json> environment = ParseJson(e.runtime_env);
    if (environment.ok()) io.Document("runtime_env", *environment);
  });
}

std::string FormatBrokerCloseEndpoint(int endpoint) {
  return Line("close_endpoint", endpoint,
              [](FieldWriter& io, auto& number) { io.Int("endpoint", number); });
}

}  // namespace hvdray
