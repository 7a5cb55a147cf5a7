// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hvdray {
namespace {

AwsInput Input() {
  AwsInput input;
  input.cluster_name = "c";
  input.region = "us-west-2";
  input.head_type = "head";
  input.types = {{"head", {{"InstanceType", "m5.large"}, {"ImageId", "ami-1"}}, {}},
                 {"gpu", {{"InstanceType", "g4dn.xlarge"}, {"ImageId", "ami-1"}}, {{"GPU", 2}}}};
  return input;
}

AwsFacts Facts() {
  AwsFacts facts;
  facts.subnets = {{"subnet-a", "vpc-1", "us-west-2a", "available", true},
                   {"subnet-c", "vpc-1", "us-west-2c", "available", true},
                   {"subnet-x", "vpc-1", "us-west-2d", "pending", true},
                   {"subnet-p", "vpc-1", "us-west-2d", "available", false},
                   {"subnet-2", "vpc-2", "us-west-2b", "available", true}};
  facts.machine_types = {{"m5.large", {"m5.large", 2, 8192, {}}},
                         {"g4dn.xlarge", {"g4dn.xlarge", 4, 16384, {{"T4", "NVIDIA", 1}}}}};
  return facts;
}

AwsPlan Planned(const AwsInput& input, const AwsFacts& facts) {
  auto plan = PlanAws(input, facts);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? *plan : AwsPlan();
}

Status Refused(const AwsInput& input, const AwsFacts& facts) {
  const auto plan = PlanAws(input, facts);
  EXPECT_FALSE(plan.ok());
  return plan.status();
}

std::string Subnets(const AwsTypePlan& type) { return DumpJson(type.node_config["SubnetIds"]); }

TEST(AwsPlanTest, SubnetsAreTakenFromZToAInTheVpcOfTheFirst) {
  const AwsPlan plan = Planned(Input(), Facts());
  EXPECT_EQ(Subnets(plan.types[0]), R"(["subnet-c","subnet-a"])");
  EXPECT_EQ(Subnets(plan.types[1]), R"(["subnet-c","subnet-a"])");
  EXPECT_EQ(plan.types[0].vpc_id, "vpc-1");
}

TEST(AwsPlanTest, ZonesOfTheFileDecideTheOrderAndTheVpc) {
  AwsInput input = Input();
  input.zones = {"us-west-2a", "us-west-2c"};
  EXPECT_EQ(Subnets(Planned(input, Facts()).types[0]), R"(["subnet-a","subnet-c"])");
  input.zones = {"us-west-2b", "us-west-2c"};
  EXPECT_EQ(Subnets(Planned(input, Facts()).types[0]), R"(["subnet-2"])");
  input.zones = {"us-west-2z"};
  const Status status = Refused(input, Facts());
  EXPECT_EQ(status.message(),
            "node type head: no usable subnet in us-west-2z (provider.availability_zone)");
  EXPECT_EQ(status.hint(), "there are subnets in us-west-2a, us-west-2b, us-west-2c");
}

TEST(AwsPlanTest, InternalAddressesMakePrivateSubnetsUsable) {
  AwsInput input = Input();
  input.use_internal_ips = true;
  EXPECT_EQ(Subnets(Planned(input, Facts()).types[0]), R"(["subnet-p","subnet-c","subnet-a"])");
  AwsFacts facts = Facts();
  for (AwsSubnet& subnet : facts.subnets) subnet.maps_public_address = false;
  EXPECT_EQ(Refused(Input(), facts).hint(),
            "5 subnets without public addresses: provider.use_internal_ips uses them");
}

TEST(AwsPlanTest, SubnetsOfTheFileDecideTheVpcOfOtherTypes) {
  AwsInput input = Input();
  input.types[1].node_config["SubnetIds"] = {"subnet-2"};
  const AwsPlan plan = Planned(input, Facts());
  EXPECT_EQ(Subnets(plan.types[0]), R"(["subnet-2"])");
  EXPECT_EQ(plan.groups.size(), 1U);
  EXPECT_TRUE(plan.groups.contains("vpc-2"));
}

TEST(AwsPlanTest, UnusableSubnetsOfTheFileAreRefused) {
  AwsInput input = Input();
  input.types[1].node_config["SubnetIds"] = {"subnet-a", "subnet-x"};
  EXPECT_EQ(Refused(input, Facts()).message(), "node type gpu: not usable: subnet-x");
  input.types[1].node_config["SubnetIds"] = {"subnet-0"};
  EXPECT_EQ(Refused(input, Facts()).message(), "node type gpu: no subnet subnet-0 in us-west-2");
}

TEST(AwsPlanTest, GroupsOfTheFileDecideTheVpcAndMustShareIt) {
  AwsInput input = Input();
  AwsFacts facts = Facts();
  facts.groups = {{"sg-1", "one", "vpc-2"}, {"sg-2", "two", "vpc-1"}};
  input.types[0].node_config["SecurityGroupIds"] = {"sg-1"};
  const AwsPlan plan = Planned(input, facts);
  EXPECT_EQ(Subnets(plan.types[1]), R"(["subnet-2"])");
  EXPECT_FALSE(plan.types[0].needs_group);
  EXPECT_TRUE(plan.types[1].needs_group);
  input.types[1].node_config["SecurityGroupIds"] = {"sg-2"};
  EXPECT_EQ(Refused(input, facts).message(),
            "node type gpu: security groups sg-1 and sg-2 are in two VPCs, vpc-2 and vpc-1");
  input.types[1].node_config["SecurityGroupIds"] = {"sg-3"};
  EXPECT_EQ(Refused(input, facts).message(), "node type gpu: no security group sg-3 in us-west-2");
}

TEST(AwsPlanTest, AnExistingGroupIsUsedAndGetsRulesOnlyIfItHasNone) {
  AwsFacts facts = Facts();
  facts.groups = {{"sg-9", "ray-autoscaler-c", "vpc-2", true},
                  {"sg-1", "ray-autoscaler-c", "vpc-1", false}};
  AwsPlan plan = Planned(Input(), facts);
  EXPECT_EQ(plan.groups.at("vpc-1").id, "sg-1");
  EXPECT_TRUE(plan.groups.at("vpc-1").needs_rules);
  facts.groups[1].has_rules = true;
  plan = Planned(Input(), facts);
  EXPECT_FALSE(plan.groups.at("vpc-1").needs_rules);
}

TEST(AwsPlanTest, AKeyPairNeedsBothHalvesOrNeither) {
  AwsFacts facts = Facts();
  AwsPlan plan = Planned(Input(), facts);
  EXPECT_EQ(plan.key_name, "ray-autoscaler_us-west-2");
  EXPECT_TRUE(plan.makes_key);
  facts.keys = {{"ray-autoscaler_us-west-2", {}}};
  plan = Planned(Input(), facts);
  EXPECT_EQ(plan.key_name, "ray-autoscaler_1_us-west-2");
  facts.key_files = {"ray-autoscaler_1_us-west-2.pem"};
  plan = Planned(Input(), facts);
  EXPECT_EQ(plan.key_name, "ray-autoscaler_2_us-west-2");
  facts.key_files.insert("ray-autoscaler_us-west-2.pem");
  plan = Planned(Input(), facts);
  EXPECT_EQ(plan.key_name, "ray-autoscaler_us-west-2");
  EXPECT_FALSE(plan.makes_key);
  EXPECT_EQ(plan.types[1].node_config["KeyName"], "ray-autoscaler_us-west-2");
  AwsInput input = Input();
  input.key_name = "mine";
  EXPECT_EQ(AwsKeyName(input, 0), "mine");
  EXPECT_EQ(AwsKeyName(input, 2), "mine_key-2");
}

TEST(AwsPlanTest, AKeyOfTheFileNeedsItsNameInEachType) {
  AwsInput input = Input();
  input.private_key = "~/k.pem";
  input.types[0].node_config["KeyName"] = "k";
  EXPECT_EQ(Refused(input, Facts()).message(),
            "node type gpu: node_config has no KeyName, beside auth.ssh_private_key");
  input.types[1].node_config["UserData"] = "#!/bin/sh";
  const AwsPlan plan = Planned(input, Facts());
  EXPECT_EQ(plan.key_name, "");
  EXPECT_FALSE(plan.types[1].node_config.contains("KeyName"));
}

TEST(AwsPlanTest, OnlyTheHeadGetsTheInstanceProfile) {
  AwsFacts facts = Facts();
  AwsPlan plan = Planned(Input(), facts);
  EXPECT_TRUE(plan.makes_profile && plan.makes_role && plan.adds_role && plan.attaches_policies);
  const auto nodes = PreparedAwsNodes(Input(), plan, {{"vpc-1", "sg-1"}}, "arn:p", Json::object());
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].kind, ClusterNodeKind::kHead);
  EXPECT_EQ(nodes[0].node_config["IamInstanceProfile"]["Arn"], "arn:p");
  EXPECT_FALSE(nodes[1].node_config.contains("IamInstanceProfile"));
  EXPECT_NE(nodes[0].launch_hash, nodes[1].launch_hash);
  EXPECT_EQ(DumpJson(nodes[2].node_config["SecurityGroupIds"]), R"(["sg-1"])");

  facts.profile = AwsInstanceProfile{.name = "n", .arn = "arn:q", .roles = {}};
  facts.has_role = true;
  plan = Planned(Input(), facts);
  EXPECT_TRUE(!plan.makes_profile && !plan.makes_role && plan.adds_role);
  EXPECT_FALSE(plan.attaches_policies);  // somebody's own role stays as it is
  facts.is_role_ours = true;
  EXPECT_TRUE(Planned(Input(), facts).attaches_policies);
  facts.profile->roles = {"r"};
  EXPECT_FALSE(Planned(Input(), facts).adds_role);

  AwsInput input = Input();
  input.types[0].node_config["IamInstanceProfile"] = {{"Name", "own"}};
  EXPECT_FALSE(Planned(input, Facts()).uses_profile);
}

TEST(AwsPlanTest, ADefaultImageStaysThatOfTheMachinesThatRun) {
  AwsInput input = Input();
  for (AwsTypeInput& type : input.types) type.node_config.erase("ImageId");
  input.types[1].node_config["ImageId"] = "latest_dlami";
  AwsFacts facts = Facts();
  facts.current_image = "ami-new";
  facts.nodes = {{.id = "i-1", .image_id = "ami-old", .tags = {{"ray-user-node-type", "head"}}}};
  AwsPlan plan = Planned(input, facts);
  EXPECT_EQ(plan.types[0].node_config["ImageId"], "ami-old");
  EXPECT_EQ(plan.types[1].node_config["ImageId"], "ami-new");
  EXPECT_TRUE(plan.shown.warnings.empty());
  facts.current_image.reset();
  plan = Planned(input, facts);
  EXPECT_EQ(plan.types[1].node_config["ImageId"], "ami-0a2b85e15b7c0ac34");
  EXPECT_EQ(plan.shown.warnings.size(), 1U);
  input.region = "eu-north-1";
  EXPECT_EQ(Refused(input, facts).message(),
            "node type gpu: no default image for region eu-north-1");
}

TEST(AwsPlanTest, ResourcesAreThoseOfTheMachineUnderThoseOfTheFile) {
  const AwsPlan plan = Planned(Input(), Facts());
  EXPECT_EQ(plan.types[0].resources, (std::map<std::string, int64_t>{{"CPU", 2}}));
  EXPECT_EQ(plan.types[1].resources,
            (std::map<std::string, int64_t>{
                {"CPU", 4}, {"GPU", 2}, {"accelerator_type:T4", 1}, {"memory", 12025908428}}));
}

TEST(AwsPlanTest, ATemplateKeepsWhatItSets) {
  AwsInput input = Input();
  input.types[1].node_config = {{"LaunchTemplate", {{"LaunchTemplateName", "t"}}}};
  AwsFacts facts = Facts();
  facts.template_keys["gpu"] = {"imageId", "instanceType", "networkInterfaceSet"};
  const AwsPlan plan = Planned(input, facts);
  EXPECT_FALSE(plan.types[1].node_config.contains("ImageId"));
  EXPECT_FALSE(plan.types[1].node_config.contains("SubnetIds"));
  EXPECT_FALSE(plan.types[1].needs_group);
  EXPECT_EQ(AwsSubnets(plan.types[1].node_config), std::vector<std::string>{""});
}

TEST(AwsPlanTest, RulesAreTheGroupItselfSshAndThoseOfTheFile) {
  const Json rules = AwsGroupRules("sg-1", Json::array({{{"IpProtocol", "udp"}}}));
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0]["UserIdGroupPairs"][0]["GroupId"], "sg-1");
  EXPECT_EQ(rules[1]["FromPort"], 22);
  EXPECT_EQ(rules[2]["IpProtocol"], "udp");
}

TEST(AwsPlanTest, TagsOfTheFileOverrideOursOnInstancesOnly) {
  const Json config = {
      {"TagSpecifications",
       {{{"ResourceType", "instance"},
         {"Tags", {{{"Key", "Name"}, {"Value", "mine"}}, {{"Key", "x"}, {"Value", "y"}}}}},
        {{"ResourceType", "volume"}, {"Tags", Json::array()}}}}};
  const Json merged = AwsTagSpecifications({{"Name", "ray"}, {"a", "b"}}, config);
  EXPECT_EQ(DumpJson(merged),
            R"([{"ResourceType":"instance","Tags":[{"Key":"Name","Value":"mine"},)"
            R"({"Key":"a","Value":"b"},{"Key":"x","Value":"y"}]},)"
            R"({"ResourceType":"volume","Tags":[]}])");
}

TEST(AwsPlanTest, ALaunchHasOneSubnetAndAllOrNothing) {
  const Json config = {{"SubnetIds", {"a", "b"}},
                       {"SecurityGroupIds", {"sg"}},
                       {"InstanceMarketOptions", {{"MarketType", "spot"}}}};
  EXPECT_TRUE(IsAwsSpot(config));
  const Json launch = AwsLaunchConfig(config, "b", 3, {}, /*is_on_demand=*/true);
  EXPECT_EQ(launch["SubnetId"], "b");
  EXPECT_FALSE(launch.contains("SubnetIds"));
  EXPECT_EQ(launch["MinCount"], 3);
  EXPECT_EQ(launch["MaxCount"], 3);
  EXPECT_FALSE(IsAwsSpot(launch));
  Json interfaces = config;
  interfaces["NetworkInterfaces"] = Json::array({{{"SubnetId", "a"}}});
  const Json without = AwsLaunchConfig(interfaces, "", 1, {}, false);
  EXPECT_FALSE(without.contains("SubnetId"));
  EXPECT_FALSE(without.contains("SecurityGroupIds"));
  EXPECT_TRUE(IsAwsSpot(without));
}

TEST(AwsPlanTest, InterfacesAreRaisedAndMustHaveBoth) {
  const auto input = [](const std::string& interfaces) {
    const auto spec = ParseClusterSpec(
        "cluster_name: c\nmax_workers: 1\nprovider: {type: aws}\nhead_node_type: h\n"
        "available_node_types: {h: {resources: {}, node_config: {InstanceType: x, "
        "NetworkInterfaces: " +
            interfaces + "}}}",
        "c.yaml");
    EXPECT_TRUE(spec.ok()) << spec.status().ToString();
    return ToAwsInput(*spec);
  };
  const auto raised = input("[{SubnetId: s, Groups: [g, h]}, {SubnetId: s, Groups: [g]}]");
  ASSERT_TRUE(raised.ok()) << raised.status().ToString();
  EXPECT_EQ(DumpJson(raised->types[0].node_config["SubnetIds"]), R"(["s"])");
  EXPECT_EQ(DumpJson(raised->types[0].node_config["SecurityGroupIds"]), R"(["g","h"])");
  EXPECT_EQ(input("[{SubnetId: s}]").status().message(),
            "node type h: a network interface needs SubnetId and Groups");
}

TEST(AwsPlanTest, TerminatedInstancesAreNoNodes) {
  EXPECT_EQ(ToCloudNode({.id = "i", .state = "terminated"}), std::nullopt);
  const auto node = ToCloudNode({.id = "i",
                                 .state = "stopping",
                                 .tags = {{"ray-node-type", "head"}, {"ray-node-status", "s"}}});
  ASSERT_TRUE(node);
  EXPECT_EQ(node->kind, ClusterNodeKind::kHead);
  EXPECT_EQ(node->status, "s");
  EXPECT_FALSE(node->is_live());
}

}  // namespace
}  // namespace hvdray
