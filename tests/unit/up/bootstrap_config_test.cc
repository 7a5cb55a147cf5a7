// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/bootstrap_config.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace hvdray {
namespace {

constexpr std::string_view kFile = R"(cluster_name: c
provider: {type: aws, region: r}
auth: {ssh_user: u, ssh_proxy_command: ssh -W %h:%p jump}
max_workers: 3
head_node_type: h
available_node_types:
  h: {node_config: {InstanceType: m}, resources: {}}
  w: {node_config: {InstanceType: m}, resources: {}, min_workers: 1, labels: {zone: a}}
file_mounts: {"~/code": ./code}
setup_commands: [one]
head_setup_commands: [two]
worker_setup_commands: [three]
hvdray: {slots_per_host: 4}
)";

class BootstrapConfigTest : public testing::Test {
 protected:
  BootstrapConfigTest() : spec_(*ParseClusterSpec(kFile, "c.yaml")) {
    prepared_.private_key_path = "/home/u/.ssh/k.pem";
    prepared_.nodes = {{.node_type = "h",
                        .kind = ClusterNodeKind::kHead,
                        .node_config = Json{{"KeyName", "k"}},
                        .resources = {{"CPU", 2}}},
                       {.node_type = "w",
                        .kind = ClusterNodeKind::kWorker,
                        .node_config = Json{{"KeyName", "kw"}},
                        .resources = {{"CPU", 8}, {"GPU", 1}}}};
  }
  ClusterSpec spec_;
  PreparedCluster prepared_;
};

TEST_F(BootstrapConfigTest, HasWhatTheProviderFilledInAndPathsOfTheHead) {
  const Json config = *ParseJson(BootstrapConfig(spec_, prepared_));
  EXPECT_EQ(config["available_node_types"]["h"]["node_config"]["KeyName"], "k");
  EXPECT_EQ(config["available_node_types"]["w"]["resources"]["GPU"], 1);
  EXPECT_EQ(config["auth"]["ssh_private_key"], "~/ray_bootstrap_key.pem");
  EXPECT_FALSE(config["auth"].contains("ssh_proxy_command")) << "the head reaches them directly";
  EXPECT_EQ(config["file_mounts"], (Json{{"~/code", "~/code"}}));
  EXPECT_EQ(config["head_setup_commands"], (Json{"one", "two"}));
  EXPECT_EQ(config["worker_setup_commands"], (Json{"one", "three"}));
  EXPECT_EQ(config["max_workers"], 3);
  EXPECT_FALSE(config.contains("hvdray")) << "Ray refuses unknown keys";
}

TEST_F(BootstrapConfigTest, ExportsSayWhatTheMachineIs) {
  CloudNode node;
  node.id = "i-1";
  node.node_type = "w";
  node.machine_type = "m5.large";
  EXPECT_EQ(RayExports(spec_, prepared_, node),
            (std::vector<std::string>{"RAY_CLOUD_INSTANCE_ID=i-1", "RAY_NODE_TYPE_NAME=w",
                                      "RAY_CLOUD_INSTANCE_TYPE_NAME=m5.large",
                                      R"(RAY_OVERRIDE_RESOURCES={"CPU":8,"GPU":1})",
                                      R"(RAY_OVERRIDE_LABELS={"zone":"a"})"}));
}

}  // namespace
}  // namespace hvdray
