// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_answers.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

XmlElement Parsed(const std::string& text) {
  auto root = ParseXml(text);
  EXPECT_TRUE(root.ok()) << root.status().ToString();
  return root.ok() ? *root : XmlElement();
}

TEST(AwsAnswersTest, InstancesOfAllReservationsAreFound) {
  const auto instances = InstancesIn(Parsed(R"(
<DescribeInstancesResponse><reservationSet>
<item><instancesSet><item>
  <instanceId>i-1</instanceId><imageId>ami-1</imageId><instanceType>m5.large</instanceType>
  <instanceState><code>16</code><name>running</name></instanceState><keyName>k</keyName>
  <ipAddress>54.1.2.3</ipAddress><privateIpAddress>10.0.0.1</privateIpAddress>
  <placement><availabilityZone>us-west-2a</availabilityZone></placement>
  <iamInstanceProfile><arn>arn:p</arn></iamInstanceProfile>
  <tagSet><item><key>Name</key><value>n</value></item></tagSet>
</item></instancesSet></item>
<item><instancesSet>
<item><instanceId>i-2</instanceId><instanceLifecycle>spot</instanceLifecycle></item>
<item><instanceId>i-3</instanceId><spotInstanceRequestId>sir-1</spotInstanceRequestId>
  <stateReason><message>Server.SpotInstanceTermination: gone</message></stateReason></item>
<item/>
</instancesSet></item></reservationSet></DescribeInstancesResponse>)"));
  ASSERT_EQ(instances.size(), 3U);
  EXPECT_EQ(instances[0].state, "running");
  EXPECT_EQ(instances[0].public_address, "54.1.2.3");
  EXPECT_EQ(instances[0].private_address, "10.0.0.1");
  EXPECT_EQ(instances[0].zone, "us-west-2a");
  EXPECT_EQ(instances[0].profile_arn, "arn:p");
  EXPECT_EQ(instances[0].tags.at("Name"), "n");
  EXPECT_FALSE(instances[0].is_spot);
  EXPECT_TRUE(instances[1].is_spot);
  EXPECT_TRUE(instances[2].is_spot);
  EXPECT_EQ(instances[2].state_reason, "Server.SpotInstanceTermination: gone");
}

TEST(AwsAnswersTest, WhatIsNoAddressAndNoNameIsDropped) {
  for (const char* bad :
       {"-oProxyCommand=id", "../../id", "a b/c", "x\xE2\x80\xAEy", "1.2.3.4;id"}) {
    const auto instances = InstancesIn(
        Parsed("<R><instancesSet><item><instanceId>i-1</instanceId><imageId>" + std::string(bad) +
               "</imageId><keyName>" + bad + "</keyName><ipAddress>" + bad + "</ipAddress>" +
               "<privateIpAddress>" + bad + "</privateIpAddress><instanceType>" + bad +
               "</instanceType></item><item><instanceId>" + bad +
               "</instanceId></item></instancesSet></R>"));
    ASSERT_EQ(instances.size(), 1U) << bad;
    EXPECT_EQ(instances[0].public_address + instances[0].private_address + instances[0].image_id +
                  instances[0].type,
              "")
        << bad;
    EXPECT_EQ(instances[0].key_name.find('/'), std::string::npos);
    EXPECT_EQ(
        RegionNameIn(Parsed("<item><regionName>" + std::string(bad) + "</regionName></item>")), "");
  }
  const auto keys =
      KeyPairsIn(Parsed("<R><keySet><item><keyName>../id_rsa</keyName></item><item><keyName>a key "
                        "(1)</keyName></item>"
                        "</keySet></R>"));
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].name, "a key (1)");
  const auto v6 = InstancesIn(Parsed(
      "<R><instancesSet><item><instanceId>i-1</instanceId><ipAddress>2001:db8::1</ipAddress></item>"
      "</instancesSet></R>"));
  EXPECT_EQ(v6.at(0).public_address, "2001:db8::1");
}

TEST(AwsAnswersTest, TextOfAnAnswerDoesNotReachTheTerminalAsItIs) {
  const auto groups = SecurityGroupsIn(Parsed(
      "<R><securityGroupInfo><item><groupId>sg-1</groupId><groupName>a\xE2\x80\xAE"
      "b</groupName><tagSet><item><key>k</key><value>v\xC2\x9Bw</value></item></tagSet></item>"
      "</securityGroupInfo></R>"));
  EXPECT_EQ(groups.at(0).name, "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(groups[0].tags.at("k"), "v\\xc2\\x9bw");
}

TEST(AwsAnswersTest, MachineTypesHaveTheirGpus) {
  const auto types = InstanceTypesIn(Parsed(R"(<R><instanceTypeSet>
<item><instanceType>g4dn.xlarge</instanceType><vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo>
<memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo><gpuInfo><gpus><item><count>1</count>
<manufacturer>NVIDIA</manufacturer><name>T4</name></item></gpus></gpuInfo></item>
<item><instanceType>odd</instanceType><vCpuInfo><defaultVCpus>many</defaultVCpus></vCpuInfo></item>
</instanceTypeSet></R>)"));
  ASSERT_EQ(types.size(), 2U);
  EXPECT_EQ(types[0].cpus, 4);
  EXPECT_EQ(types[0].memory_mib, 16384);
  ASSERT_EQ(types[0].gpus.size(), 1U);
  EXPECT_EQ(types[0].gpus[0].name, "T4");
  EXPECT_EQ(types[0].gpus[0].count, 1);
  EXPECT_EQ(types[1].cpus, 0);
}

TEST(AwsAnswersTest, AProfileHasItsRolesAndTags) {
  const auto profile = InstanceProfileIn(Parsed(R"(
<GetInstanceProfileResponse><GetInstanceProfileResult><InstanceProfile><Arn>arn:p</Arn>
<InstanceProfileName>n</InstanceProfileName><Roles><member><RoleName>r</RoleName></member></Roles>
<Tags><member><Key>a</Key><Value>b</Value></member></Tags>
</InstanceProfile></GetInstanceProfileResult></GetInstanceProfileResponse>)"));
  EXPECT_EQ(profile.arn, "arn:p");
  EXPECT_EQ(profile.roles, std::vector<std::string>{"r"});
  EXPECT_EQ(profile.tags.at("a"), "b");
}

TEST(AwsAnswersTest, ErrorsOfAllThreeFormsAreRead) {
  const AwsError ec2 = ParseAwsError(
      "<Response><Errors><Error><Code>C</Code><Message>m</Message></Error></Errors></Response>");
  EXPECT_EQ(ec2.code + " " + ec2.message, "C m");
  const AwsError iam = ParseAwsError(
      "<ErrorResponse><Error><Type>Sender</Type><Code>C</Code><Message>m\x1b[1m</Message></Error>"
      "</ErrorResponse>");
  EXPECT_EQ(iam.code, "C");
  EXPECT_EQ(iam.message.find('\x1b'), std::string::npos);
  const AwsError ssm =
      ParseAwsError(R"({"__type": "com.amazonaws.ssm#ParameterNotFound", "message": "m"})");
  EXPECT_EQ(ssm.code + " " + ssm.message, "ParameterNotFound m");
}

TEST(AwsAnswersTest, WhatIsNoErrorOfAmazonsIsShownInShort) {
  EXPECT_EQ(ParseAwsError("Bad Gateway\n").message, "Bad Gateway ");
  EXPECT_EQ(ParseAwsError("<!doctype html><html><br>").message, "");
  EXPECT_LE(ParseAwsError(std::string(100'000, 'x')).message.size(), 250U);
  EXPECT_EQ(ParseAwsError("").code, "");
}

}  // namespace
}  // namespace hvdray
