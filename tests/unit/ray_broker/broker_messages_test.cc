// SPDX-License-Identifier: Apache-2.0
// What ray_driver.py says is taken whole or refused with the key that is wrong; what it is told is
// one ASCII line.
#include "cluster/ray/broker_messages.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/ray_broker.txt");

template <typename Event>
Event Parsed(const std::string& line) {
  Result<BrokerEvent> event = ParseBrokerEvent(line);
  if (!event.ok()) {
    ADD_FAILURE() << event.status().ToString();
    return {};
  }
  EXPECT_TRUE(std::holds_alternative<Event>(*event)) << line;
  return std::get<Event>(std::move(event).value());
}

/// Expects that `line` is refused, naming the key that is wrong.
void ExpectRefused(const std::string& line, std::string_view key) {
  ExpectFault(line, ParseBrokerEvent(line).status(), ErrorCode::kProtocolError, key);
}

TEST(BrokerMessagesTest, HelloSaysWhereTheDriverIs) {
  const auto hello = Parsed<BrokerHello>(
      R"({"hello": {"ray": "2.60.0", "python": "3.11.2", "node_id": "ab", "node_ip": "10.0.0.10",)"
      R"( "logs": "/tmp/ray/s/logs", "submission_id": "raysubmit_1", "raylet_pid": 17}})");
  EXPECT_EQ(hello.ray, "2.60.0");
  EXPECT_EQ(hello.python, "3.11.2");
  EXPECT_EQ(hello.node_id, "ab");
  EXPECT_EQ(hello.node_ip, "10.0.0.10");
  EXPECT_EQ(hello.logs, "/tmp/ray/s/logs");
  EXPECT_EQ(hello.submission_id, "raysubmit_1");
  EXPECT_EQ(hello.raylet_pid, 17);
  EXPECT_FALSE(hello.is_in_group || hello.has_directory) << "unless it says so";
  const auto within = Parsed<BrokerHello>(
      R"({"hello": {"ray": "2.60.0", "node_id": "ab", "node_ip": "10.0.0.10", "logs": "/l",)"
      R"( "is_in_group": true, "has_directory": true}})");
  EXPECT_TRUE(within.is_in_group && within.has_directory);
}

TEST(BrokerMessagesTest, NodesHaveWhatTheyHaveAndWhatIsFree) {
  const auto nodes = Parsed<BrokerNodes>(
      R"({"nodes": [{"id": "a", "ip": "10.0.0.10", "is_alive": true, "total": {"CPU": 2, "x": 0.5},)"
      R"( "free": {"CPU": 1.5}, "labels": {"zone": "b"}}, {"id": "c"}]})");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].id, "a");
  EXPECT_EQ(nodes[0].ip, "10.0.0.10");
  EXPECT_TRUE(nodes[0].is_alive);
  EXPECT_EQ(nodes[0].total, (RayAmounts{{"CPU", 2}, {"x", 0.5}}));
  EXPECT_EQ(nodes[0].free, (RayAmounts{{"CPU", 1.5}}));
  EXPECT_EQ(nodes[0].labels, (RayLabels{{"zone", "b"}}));
  EXPECT_FALSE(nodes[1].is_alive);
}

TEST(BrokerMessagesTest, EachStateOfAGroupIsKnown) {
  const std::pair<const char*, BrokerGroupState> states[] = {
      {"pending", BrokerGroupState::kPending},
      {"created", BrokerGroupState::kCreated},
      {"rescheduling", BrokerGroupState::kRescheduling},
      {"removed", BrokerGroupState::kRemoved},
      {"failed", BrokerGroupState::kFailed}};
  for (const auto& [name, state] : states) {
    const auto group = Parsed<BrokerGroup>(
        std::string(R"({"group": {"name": "g", "reason": "NO_RESOURCES", "text": "t",)"
                    R"( "bundles": ["ab", ""], "state": ")") +
        name + "\"}}");
    EXPECT_EQ(group.state, state);
    EXPECT_EQ(group.name, "g");
    EXPECT_EQ(group.reason, "NO_RESOURCES");
    EXPECT_EQ(group.text, "t");
    EXPECT_EQ(group.bundles, (std::vector<std::string>{"ab", ""}));
  }
}

TEST(BrokerMessagesTest, EndpointsStartAndEnd) {
  const auto started = Parsed<BrokerEndpointStarted>(
      R"({"endpoint": {"endpoint": 3, "state": "started", "node_id": "ab", "ip": "10.0.0.11",)"
      R"( "hostname": "node1", "gpus": ["0", "MIG-1"], "pid": 4711}})");
  EXPECT_EQ(started.endpoint, 3);
  EXPECT_EQ(started.node_id, "ab");
  EXPECT_EQ(started.ip, "10.0.0.11");
  EXPECT_EQ(started.hostname, "node1");
  EXPECT_EQ(started.gpus, (std::vector<std::string>{"0", "MIG-1"}));
  EXPECT_EQ(started.pid, 4711);
  const auto ended = Parsed<BrokerEndpointEnded>(
      R"({"endpoint": {"endpoint": 65535, "state": "ended", "text": "ActorDiedError: x"}})");
  EXPECT_EQ(ended.endpoint, 65535);
  EXPECT_EQ(ended.text, "ActorDiedError: x");
  EXPECT_EQ(Parsed<BrokerSignal>(R"({"signal": 15})").signo, 15);
  const auto stop = Parsed<BrokerSignal>(R"({"stop": {"signo": 15, "why": "it is time"}})");
  EXPECT_EQ(stop.signo, 15);
  EXPECT_EQ(stop.why, "it is time");
}

TEST(BrokerMessagesTest, WhatIsWrongIsNamed) {
  ExpectRefused("{\"hello\"", "invalid JSON at byte");
  for (const char* line : {"[]", "17", "{}", R"({"signal": 15, "nodes": []})"}) {
    ExpectRefused(line, "not an object");
  }
  ExpectRefused(R"({"goodbye": {}})", "unknown kind");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"hello": 1})", "hello"},
      {R"({"hello": {}})", "hello.ray"},
      {R"({"hello": {"ray": 2}})", "hello.ray"},
      {R"({"hello": {"ray": "2", "node_id": "a", "node_ip": "b", "logs": "c", "raylet_pid": -1}})",
       "hello.raylet_pid"},
      {R"({"nodes": {}})", "nodes"},
      {R"({"nodes": [1]})", "nodes[0]"},
      {R"({"nodes": [{"ip": "x"}]})", "nodes[0].id"},
      {R"({"nodes": [{"id": "x", "is_alive": 1}]})", "nodes[0].is_alive"},
      {R"({"nodes": [{"id": "x", "total": []}]})", "nodes[0].total"},
      {R"({"nodes": [{"id": "x", "free": {"CPU": "1"}}]})", "nodes[0].free.CPU"},
      {R"({"nodes": [{"id": "x", "labels": {"a": 1}}]})", "nodes[0].labels.a"},
      {R"({"group": {"name": "g"}})", "group.state"},
      {R"({"group": {"name": "g", "state": "odd"}})", "group.state"},
      {R"({"group": {"name": "g", "state": "created", "bundles": "a"}})", "group.bundles"},
      {R"({"group": {"name": "g", "state": "created", "bundles": [null]}})", "group.bundles[0]"},
      {R"({"endpoint": {"state": "ended"}})", "endpoint.endpoint"},
      {R"({"endpoint": {"endpoint": 65536, "state": "ended"}})", "endpoint.endpoint"},
      {R"({"endpoint": {"endpoint": 1, "state": "odd"}})", "endpoint.state"},
      {R"({"endpoint": {"endpoint": 1, "state": "started"}})", "endpoint.node_id"},
      {R"({"signal": 0})", "signal"},
      {R"({"signal": "TERM"})", "signal"}};
  for (const auto& [line, key] : cases) ExpectRefused(line, key);
}

TEST(BrokerMessagesTest, OrdersAreLinesOfAscii) {
  EXPECT_EQ(FormatBrokerReserve({"g\u00fc", {{{"CPU", 1}}, {{"GPU", 0.5}}}, "PACK", {}}),
            "{\"reserve\":{\"name\":\"g\\u00fc\",\"bundles\":[{\"CPU\":1.0},{\"GPU\":0.5}],"
            "\"strategy\":\"PACK\",\"selectors\":null}}\n");
  EXPECT_EQ(FormatBrokerReserve({"g", {{{"CPU", 2}}}, "SPREAD", {{{"zone", "a"}}}}),
            "{\"reserve\":{\"name\":\"g\",\"bundles\":[{\"CPU\":2.0}],\"strategy\":\"SPREAD\","
            "\"selectors\":[{\"zone\":\"a\"}]}}\n");
  EXPECT_EQ(FormatBrokerRelease("g"), "{\"release\":{\"name\":\"g\"}}\n");
  EXPECT_EQ(FormatBrokerWatch(), "{\"watch\":{}}\n");
  EXPECT_EQ(
      FormatBrokerEndpoint({2, "g", {0, 3}, {"a", "b\n"}, "k"}),
      "{\"endpoint\":{\"endpoint\":2,\"name\":\"g\",\"bundles\":[0,3],\"argv\":[\"a\",\"b\\n\"],"
      "\"stdin\":\"k\"}}\n");
  EXPECT_EQ(FormatBrokerCloseEndpoint(2), "{\"close_endpoint\":{\"endpoint\":2}}\n");
}

TEST(BrokerMessagesTest, BytesThatAreNotUtf8DoNotSpoilALine) {
  const std::string line = FormatBrokerRelease("a\xff\xfe");
  EXPECT_EQ(line, "{\"release\":{\"name\":\"a\\ufffd\\ufffd\"}}\n");
}

}  // namespace
}  // namespace hvdray
