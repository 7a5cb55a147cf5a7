// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_query.h"

#include <gtest/gtest.h>

#include <string>

#include "base/yaml_writer.h"

namespace hvdray {
namespace {

YamlNode Parsed(const std::string& text) {
  auto node = ParseYaml(text, "f.yaml");
  EXPECT_TRUE(node.ok()) << node.status().ToString();
  return *node;
}

std::string FormText(const Json& object) {
  AwsForm form;
  AddAwsObject(form, object);
  std::string text;
  for (const auto& [name, value] : form) text += name + "=" + value + "\n";
  return text;
}

TEST(AwsQueryTest, FormsEncodeAllButUnreservedCharacters) {
  EXPECT_EQ(EncodeAwsForm({{"A.1", "a b+c/d=&~_-."}, {"B", "\xC3\xA4"}}),
            "A.1=a%20b%2Bc%2Fd%3D%26~_-.&B=%C3%A4");
  EXPECT_EQ(EncodeAwsForm({}), "");
}

TEST(AwsQueryTest, ListsAndFiltersAreNumberedFromOne) {
  AwsForm form;
  AddAwsList(form, "InstanceId", {"i-1", "i-2"});
  AddAwsFilter(form, "a", {"x", "y"});
  AddAwsFilter(form, "b", {"z"});
  EXPECT_EQ(EncodeAwsForm(form),
            "InstanceId.1=i-1&InstanceId.2=i-2&Filter.1.Name=a&Filter.1.Value.1=x&"
            "Filter.1.Value.2=y&Filter.2.Name=b&Filter.2.Value.1=z");
}

TEST(AwsQueryTest, ObjectsAreFlattenedUnderTheNamesOfTheQueryApi) {
  const YamlNode node = Parsed(R"(
BlockDeviceMappings: [{DeviceName: /dev/sda1, Ebs: {VolumeSize: 140, Encrypted: yes}}]
SecurityGroupIds: [sg-1, sg-2]
NetworkInterfaces: [{DeviceIndex: 0, Groups: [sg-3], PrivateIpAddresses: [{Primary: true}]}]
TagSpecifications: [{ResourceType: volume, Tags: [{Key: a, Value: "1"}]}]
Monitoring: {Enabled: false}
Placement: ~
UserData: "#!/bin/sh\n"
)");
  EXPECT_EQ(FormText(YamlJson(node)),
            "BlockDeviceMapping.1.DeviceName=/dev/sda1\n"
            "BlockDeviceMapping.1.Ebs.VolumeSize=140\n"
            "BlockDeviceMapping.1.Ebs.Encrypted=true\n"
            "SecurityGroupId.1=sg-1\nSecurityGroupId.2=sg-2\n"
            "NetworkInterface.1.DeviceIndex=0\nNetworkInterface.1.SecurityGroupId.1=sg-3\n"
            "NetworkInterface.1.PrivateIpAddresses.1.Primary=true\n"
            "TagSpecification.1.ResourceType=volume\n"
            "TagSpecification.1.Tag.1.Key=a\nTagSpecification.1.Tag.1.Value=1\n"
            "Monitoring.Enabled=false\nUserData=IyEvYmluL3NoCg==\n");
}

TEST(AwsQueryTest, AMistypedParameterIsRefusedWithItsPlaceAndAnUnknownOnePasses) {
  const Status status = CheckAwsNodeConfig(Parsed("InstanceTpye: m5.large").entries());
  EXPECT_EQ(status.code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(status.message(), "f.yaml:1:1: RunInstances has no parameter 'InstanceTpye'");
  EXPECT_EQ(status.hint(), "did you mean InstanceType?");
  EXPECT_TRUE(CheckAwsNodeConfig(Parsed("SubnetIds: []\nQuantumOfTomorrow: 1").entries()).ok());
}

TEST(AwsQueryTest, JsonIsThatOfPython) {
  // As printed by python3 -c 'import json; print(json.dumps(..., sort_keys=True))'.
  const Json value = {{"b", {1, 2.5, 1.0, -3}},
                      {"a", "\xC3\xA4\"\\\n\x01\x7F\xF0\x9F\x98\x80/"},
                      {"A", nullptr},
                      {"c", {{"t", true}}},
                      {"d", Json::array()}};
  EXPECT_EQ(PythonJson(value), R"({"A": null, "a": "\u00e4\"\\\n\u0001\u007f\ud83d\ude00/", )"
                               R"("b": [1, 2.5, 1.0, -3], "c": {"t": true}, "d": []})");
}

TEST(AwsQueryTest, TheLaunchHashIsThatOfRay) {
  // As hash_launch_conf() of Ray 2.60.0 gives it; provider_test.py compares whole files.
  EXPECT_EQ(
      RayLaunchHash({{"InstanceType", "m5.large"}, {"ImageId", "ami-1"}}, {{"ssh_user", "ubuntu"}}),
      "7ut6ubm9g51o1t6dcgbvor462v0g98hiftful2e54papabmsma60");
}

}  // namespace
}  // namespace hvdray
