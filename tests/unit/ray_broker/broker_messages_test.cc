// SPDX-License-Identifier: Apache-2.0
// What ray_driver.py says is taken whole or refused with the key that is wrong; what it is told is
// one ASCII line.
#include "cluster/ray/broker_messages.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace hvdray {
namespace {

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

std::string Refusal(const std::string& line) {
  const Result<BrokerEvent> event = ParseBrokerEvent(line);
  if (event.ok()) return "none";
  EXPECT_EQ(event.status().code(), ErrorCode::kProtocolError);
  return event.status().message();
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
  EXPECT_EQ(Refusal("{\"hello\""), "invalid JSON at byte 9");
  for (const char* line : {"[]", "17", "{}", R"({"signal": 15, "nodes": []})"}) {
    EXPECT_EQ(Refusal(line), "not an object of one key") << line;
  }
  EXPECT_EQ(Refusal(R"({"goodbye": {}})"), "unknown kind of message");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"hello": 1})", "hello must be an object"},
      {R"({"hello": {}})", "hello.ray must be a string that is not empty"},
      {R"({"hello": {"ray": 2}})", "hello.ray must be a string"},
      {R"({"hello": {"ray": "2", "node_id": "a", "node_ip": "b", "logs": "c", "raylet_pid": -1}})",
       "hello.raylet_pid must be within 0 to 2147483647"},
      {R"({"nodes": {}})", "nodes must be a list"},
      {R"({"nodes": [1]})", "nodes[0] must be an object"},
      {R"({"nodes": [{"ip": "x"}]})", "nodes[0].id must be a string that is not empty"},
      {R"({"nodes": [{"id": "x", "is_alive": 1}]})", "nodes[0].is_alive must be true or false"},
      {R"({"nodes": [{"id": "x", "total": []}]})", "nodes[0].total must be an object"},
      {R"({"nodes": [{"id": "x", "free": {"CPU": "1"}}]})", "nodes[0].free.CPU must be a number"},
      {R"({"nodes": [{"id": "x", "labels": {"a": 1}}]})", "nodes[0].labels.a must be a string"},
      {R"({"group": {"name": "g"}})", "group.state is missing"},
      {R"({"group": {"name": "g", "state": "odd"}})",
       "group.state must be one of pending, created, rescheduling, removed, failed"},
      {R"({"group": {"name": "g", "state": "created", "bundles": "a"}})",
       "group.bundles must be a list"},
      {R"({"group": {"name": "g", "state": "created", "bundles": [null]}})",
       "group.bundles[0] must be a string"},
      {R"({"endpoint": {"state": "ended"}})", "endpoint.endpoint is missing"},
      {R"({"endpoint": {"endpoint": 65536, "state": "ended"}})",
       "endpoint.endpoint must be within 0 to 65535"},
      {R"({"endpoint": {"endpoint": 1, "state": "odd"}})",
       "endpoint.state must be one of started, ended"},
      {R"({"endpoint": {"endpoint": 1, "state": "started"}})",
       "endpoint.node_id must be a string that is not empty"},
      {R"({"signal": 0})", "signal must be within 1 to 64"},
      {R"({"signal": "TERM"})", "signal must be a whole number"}};
  for (const auto& [line, fault] : cases) {
    EXPECT_EQ(Refusal(line), fault) << line;
  }
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
