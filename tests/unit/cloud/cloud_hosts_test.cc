// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/cloud_hosts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hvdray {
namespace {

CloudNode Node(const std::string& id, ClusterNodeKind kind, CloudState state) {
  CloudNode node;
  node.id = id;
  node.kind = kind;
  node.state = state;
  node.node_type = "gpu";
  node.internal_address = "10.0.0.1";
  node.external_address = "203.0.113.1";
  return node;
}

const CloudNode kHead = Node("i-head", ClusterNodeKind::kHead, CloudState::kRunning);
const CloudNode kWorker = Node("i-worker", ClusterNodeKind::kWorker, CloudState::kRunning);

TEST(CloudHostsTest, TheFileSaysWhichAddressIsUsed) {
  struct Row {
    bool use_internal_ips, use_external_head_ip;
    std::string head, worker;
  };
  const Row rows[] = {{false, false, "203.0.113.1", "203.0.113.1"},
                      {false, true, "203.0.113.1", "203.0.113.1"},
                      {true, false, "10.0.0.1", "10.0.0.1"},
                      {true, true, "203.0.113.1", "10.0.0.1"}};
  for (const Row& row : rows) {
    ClusterSpec spec;
    spec.provider.use_internal_ips = row.use_internal_ips;
    spec.provider.use_external_head_ip = row.use_external_head_ip;
    EXPECT_EQ(CloudAddress(spec, kHead), row.head);
    EXPECT_EQ(CloudAddress(spec, kWorker), row.worker);
    EXPECT_EQ(CloudHost(spec, kHead, 1).dial_name(), row.head);
    EXPECT_EQ(CloudHost(spec, kHead, 1).host, "10.0.0.1") << "as Ray has it";
  }
}

TEST(CloudHostsTest, TheHostKeyGoesByTheIdAndAProxyMayDialIt) {
  ClusterSpec spec;
  const HostSlots host = CloudHost(spec, kHead, 4);
  EXPECT_EQ(host.address.host_key_alias, "i-head");
  EXPECT_EQ(host.slots, 4);
  spec.auth.is_proxied_by_node_id = true;
  EXPECT_EQ(CloudHost(spec, kHead, 4).dial_name(), "i-head");
}

TEST(CloudHostsTest, SlotsComeFromTheFileElseFromTheType) {
  ClusterSpec spec;
  EXPECT_EQ(CloudSlots(spec, kWorker, 7), 7);
  ClusterNodeType& type = spec.node_types.emplace_back();
  type.name = "gpu";
  EXPECT_EQ(CloudSlots(spec, kWorker, 7), 7);
  type.resources = {{"CPU", 16}};
  EXPECT_EQ(CloudSlots(spec, kWorker, 7), 16);
  spec.slots_per_host = 2;
  EXPECT_EQ(CloudSlots(spec, kWorker, 7), 2);
}

TEST(CloudHostsTest, TheHeadIsTheOneThatLives) {
  const ClusterSpec spec;
  const CloudNode stopped = Node("i-old", ClusterNodeKind::kHead, CloudState::kStopped);
  const std::vector<CloudNode> nodes = {stopped, kHead, kWorker};
  const Result<const CloudNode*> head = LiveHead(spec, nodes);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(*head, &nodes[1]);
}

TEST(CloudHostsTest, WithoutOneLiveHeadTheErrorNamesThoseThereAre) {
  const ClusterSpec spec;
  const auto message = [&spec](const std::vector<CloudNode>& nodes) {
    const Status status = LiveHead(spec, nodes).status();
    EXPECT_EQ(status.code(), ErrorCode::kHostUnreachable);
    return status.message();
  };
  EXPECT_EQ(message({}), "cluster default has no head");
  EXPECT_EQ(message({kWorker}), "cluster default has no head");
  const CloudNode stopped = Node("i-old", ClusterNodeKind::kHead, CloudState::kStopped);
  EXPECT_EQ(message({stopped}), "cluster default has no head, i-old is stopped");
  CloudNode second = kHead;
  second.id = "i-second";
  EXPECT_EQ(message({kHead, second}), "cluster default has 2 heads: i-head, i-second");
  CloudNode young = Node("i-young", ClusterNodeKind::kHead, CloudState::kPending);
  young.external_address.clear();
  EXPECT_EQ(message({young}),
            "the head of cluster default, i-young, is pending and has no address yet");
}

TEST(CloudHostsTest, AMachineIsCalledByItsIdAndBothAddresses) {
  for (const char* word : {"i-worker", "10.0.0.1", "203.0.113.1"}) {
    EXPECT_TRUE(IsCalled(kWorker, word)) << word;
  }
  EXPECT_FALSE(IsCalled(kWorker, "10.0.0.2"));
  CloudNode young = kWorker;
  young.external_address.clear();
  EXPECT_FALSE(IsCalled(young, ""));
}

}  // namespace
}  // namespace hvdray
