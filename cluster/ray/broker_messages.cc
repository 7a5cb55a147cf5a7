// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/broker_messages.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "base/json.h"

namespace hvdray {
namespace {

constexpr int64_t kMaxPid = INT32_MAX;

Status Wrong(std::string_view key, std::string_view wanted) {
  return {ErrorCode::kProtocolError, fmt::format("JSON key {} is not {}", key, wanted)};
}

/// The object under a required key.
Result<const Json*> ObjectAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return Wrong(key, "an object");
  return &*found;
}

Result<std::string> Text(const Json& object, const char* key) {
  return JsonString(object, key, {});
}

Result<std::string> NeededText(const Json& object, const char* key) {
  HVDRAY_ASSIGN_OR_RETURN(std::string text, JsonString(object, key, {}));
  if (text.empty()) return Wrong(key, "a non-empty string");
  return text;
}

Result<std::vector<std::string>> Texts(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end()) return texts;
  if (!found->is_array()) return Wrong(key, "an array");
  for (const Json& item : *found) {
    if (!item.is_string()) return Wrong(key, "an array of strings");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Result<BrokerAmounts> Amounts(const Json& object, const char* key) {
  BrokerAmounts amounts;
  const auto found = object.find(key);
  if (found == object.end()) return amounts;
  if (!found->is_object()) return Wrong(key, "an object");
  for (const auto& [name, amount] : found->items()) {
    if (!amount.is_number()) return Wrong(key, "an object of numbers");
    amounts[name] = amount.get<double>();
  }
  return amounts;
}

Result<BrokerLabels> Labels(const Json& object, const char* key) {
  BrokerLabels labels;
  const auto found = object.find(key);
  if (found == object.end()) return labels;
  if (!found->is_object()) return Wrong(key, "an object");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) return Wrong(key, "an object of strings");
    labels[name] = value.get<std::string>();
  }
  return labels;
}

Result<int> Pid(const Json& object, const char* key) {
  HVDRAY_ASSIGN_OR_RETURN(const int64_t pid, JsonInt(object, key, 0, 0, kMaxPid));
  return static_cast<int>(pid);
}

Result<BrokerEvent> ParseHello(const Json& body) {
  BrokerHello hello;
  HVDRAY_ASSIGN_OR_RETURN(hello.ray, NeededText(body, "ray"));
  HVDRAY_ASSIGN_OR_RETURN(hello.python, Text(body, "python"));
  HVDRAY_ASSIGN_OR_RETURN(hello.node_id, NeededText(body, "node_id"));
  HVDRAY_ASSIGN_OR_RETURN(hello.node_ip, NeededText(body, "node_ip"));
  HVDRAY_ASSIGN_OR_RETURN(hello.logs, NeededText(body, "logs"));
  HVDRAY_ASSIGN_OR_RETURN(hello.submission_id, Text(body, "submission_id"));
  HVDRAY_ASSIGN_OR_RETURN(hello.raylet_pid, Pid(body, "raylet_pid"));
  return BrokerEvent(std::move(hello));
}

Result<BrokerNode> ParseNode(const Json& item) {
  if (!item.is_object()) return Wrong("nodes", "an array of objects");
  BrokerNode node;
  HVDRAY_ASSIGN_OR_RETURN(node.id, NeededText(item, "id"));
  HVDRAY_ASSIGN_OR_RETURN(node.ip, Text(item, "ip"));
  HVDRAY_ASSIGN_OR_RETURN(node.is_alive, JsonBool(item, "is_alive", false));
  HVDRAY_ASSIGN_OR_RETURN(node.total, Amounts(item, "total"));
  HVDRAY_ASSIGN_OR_RETURN(node.free, Amounts(item, "free"));
  HVDRAY_ASSIGN_OR_RETURN(node.labels, Labels(item, "labels"));
  if (const auto leaves = item.find("leaves_at"); leaves != item.end()) {
    if (!leaves->is_number()) return Wrong("leaves_at", "a number");
    node.leaves_at = leaves->get<double>();
  }
  return node;
}

Result<BrokerEvent> ParseNodes(const Json& list) {
  if (!list.is_array()) return Wrong("nodes", "an array");
  BrokerNodes nodes;
  for (const Json& item : list) {
    HVDRAY_ASSIGN_OR_RETURN(BrokerNode node, ParseNode(item));
    nodes.nodes.push_back(std::move(node));
  }
  return BrokerEvent(std::move(nodes));
}

Result<BrokerGroupState> ParseGroupState(const std::string& name) {
  if (name == "pending") return BrokerGroupState::kPending;
  if (name == "created") return BrokerGroupState::kCreated;
  if (name == "rescheduling") return BrokerGroupState::kRescheduling;
  if (name == "removed") return BrokerGroupState::kRemoved;
  if (name == "failed") return BrokerGroupState::kFailed;
  return Wrong("state", "a group state");
}

Result<BrokerEvent> ParseGroup(const Json& body) {
  BrokerGroup group;
  HVDRAY_ASSIGN_OR_RETURN(group.name, NeededText(body, "name"));
  HVDRAY_ASSIGN_OR_RETURN(const std::string state, NeededText(body, "state"));
  HVDRAY_ASSIGN_OR_RETURN(group.state, ParseGroupState(state));
  HVDRAY_ASSIGN_OR_RETURN(group.reason, Text(body, "reason"));
  HVDRAY_ASSIGN_OR_RETURN(group.text, Text(body, "text"));
  HVDRAY_ASSIGN_OR_RETURN(group.bundles, Texts(body, "bundles"));
  return BrokerEvent(std::move(group));
}

Result<BrokerEvent> ParseEndpoint(const Json& body) {
  HVDRAY_ASSIGN_OR_RETURN(const int64_t endpoint,
                          JsonInt(body, "seat", -1, -1, kMaxBrokerEndpoint));
  if (endpoint < 0) return Wrong("seat", "a seat number");
  HVDRAY_ASSIGN_OR_RETURN(const std::string state, NeededText(body, "state"));
  if (state == "ended") {
    HVDRAY_ASSIGN_OR_RETURN(std::string text, Text(body, "text"));
    return BrokerEvent(BrokerEndpointEnded{static_cast<int>(endpoint), std::move(text)});
  }
  if (state != "started") return Wrong("state", "a seat state");
  BrokerEndpointStarted started;
  started.endpoint = static_cast<int>(endpoint);
  HVDRAY_ASSIGN_OR_RETURN(started.node_id, NeededText(body, "node_id"));
  HVDRAY_ASSIGN_OR_RETURN(started.ip, Text(body, "ip"));
  HVDRAY_ASSIGN_OR_RETURN(started.hostname, Text(body, "hostname"));
  HVDRAY_ASSIGN_OR_RETURN(started.gpus, Texts(body, "gpus"));
  HVDRAY_ASSIGN_OR_RETURN(started.pid, Pid(body, "pid"));
  return BrokerEvent(std::move(started));
}

Result<BrokerEvent> ParseEvent(const Json& message) {
  if (!message.is_object() || message.size() != 1) {
    return Status(ErrorCode::kProtocolError, "not an object of one key");
  }
  const std::string& kind = message.begin().key();
  if (kind == "nodes") return ParseNodes(message.begin().value());
  if (kind == "signal") {
    HVDRAY_ASSIGN_OR_RETURN(const int64_t signo, JsonInt(message, "signal", 0, 1, 64));
    return BrokerEvent(BrokerSignal{static_cast<int>(signo)});
  }
  if (kind == "stop") {
    HVDRAY_ASSIGN_OR_RETURN(const Json* body, ObjectAt(message, "stop"));
    HVDRAY_ASSIGN_OR_RETURN(const int64_t signo, JsonInt(*body, "signo", 0, 1, 64));
    HVDRAY_ASSIGN_OR_RETURN(std::string why, Text(*body, "why"));
    return BrokerEvent(BrokerSignal{static_cast<int>(signo), std::move(why)});
  }
  if (kind == "hello" || kind == "group" || kind == "seat") {
    HVDRAY_ASSIGN_OR_RETURN(const Json* body, ObjectAt(message, kind.c_str()));
    if (kind == "hello") return ParseHello(*body);
    return kind == "group" ? ParseGroup(*body) : ParseEndpoint(*body);
  }
  return Status(ErrorCode::kProtocolError, "unknown kind of message");
}

/// Formats one message in ASCII, so that the reader's encoding doesn't matter.
std::string Line(const char* kind, Json body) {
  Json message;
  message[kind] = std::move(body);
  return message.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

template <typename Map>
Json Objects(const std::vector<Map>& maps) {
  Json list = Json::array();
  for (const Map& map : maps) {
    Json object = Json::object();
    for (const auto& [name, value] : map) object[name] = value;
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace

Result<BrokerEvent> ParseBrokerEvent(ByteView line) {
  HVDRAY_ASSIGN_OR_RETURN(const Json message, ParseJson(line, kMaxBrokerLine));
  return ParseEvent(message);
}

std::string FormatBrokerReserve(const BrokerReserve& reserve) {
  Json body;
  body["name"] = reserve.name;
  body["bundles"] = Objects(reserve.bundles);
  body["strategy"] = reserve.strategy;
  body["selectors"] = reserve.selectors.empty() ? Json(nullptr) : Objects(reserve.selectors);
  return Line("reserve", std::move(body));
}

std::string FormatBrokerRelease(const std::string& group) {
  return Line("release", {{"name", group}});
}

std::string FormatBrokerWatch() { return Line("watch", Json::object()); }

std::string FormatBrokerRest() { return Line("rest", Json::object()); }

std::string FormatBrokerEndpoint(const BrokerEndpoint& endpoint) {
  Json body;
  body["seat"] = endpoint.endpoint;
  body["name"] = endpoint.group;
  body["bundles"] = endpoint.bundles;
  body["argv"] = endpoint.argv;
  body["stdin"] = endpoint.input;
  if (!endpoint.runtime_env.empty()) {
    Result<Json> environment = ParseJson(endpoint.runtime_env);
    if (environment.ok()) body["runtime_env"] = std::move(environment).value();
  }
  return Line("seat", std::move(body));
}

std::string FormatBrokerCloseEndpoint(int endpoint) { return Line("unseat", {{"seat", endpoint}}); }

}  // namespace hvdray
