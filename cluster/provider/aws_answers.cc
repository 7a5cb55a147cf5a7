// SPDX-License-Identifier: Apache-2.0
#include "cluster/provider/aws_answers.h"

#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxErrorBytes = size_t{1} << 20;
constexpr size_t kShownBytes = 200;

std::string TextOfKey(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// {"__type": "com.amazon…#ParameterNotFound", "message": "…"}
AwsError JsonError(const Json& json) {
  AwsError error;
  error.code = TextOfKey(json, "__type");
  error.code.erase(0, error.code.rfind('#') + 1);
  error.message = TextOfKey(json, "message");
  if (error.message.empty()) error.message = TextOfKey(json, "Message");
  return error;
}

AwsInstance InstanceIn(const XmlElement& item) {
  AwsInstance instance;
  instance.id = item.TextAt("instanceId");
  instance.state = item.TextAt("instanceState/name");
  instance.state_reason = ShownLine(item.TextAt("stateReason/message"));
  instance.public_address = item.TextAt("ipAddress");
  instance.private_address = item.TextAt("privateIpAddress");
  instance.type = item.TextAt("instanceType");
  instance.zone = item.TextAt("placement/availabilityZone");
  instance.image_id = item.TextAt("imageId");
  instance.key_name = item.TextAt("keyName");
  instance.profile_arn = item.TextAt("iamInstanceProfile/arn");
  instance.launch_time = item.TextAt("launchTime");
  // AWS sends both, some imitations of it only one.
  instance.is_spot =
      item.TextAt("instanceLifecycle") == "spot" || !item.TextAt("spotInstanceRequestId").empty();
  instance.tags = TagsIn(item);
  return instance;
}

}  // namespace

AwsError ParseAwsError(ByteView body) {
  AwsError error;
  if (const Result<XmlElement> answer = ParseXml(body, kMaxErrorBytes); answer.ok()) {
    // <Response><Errors><Error> of EC2, <ErrorResponse><Error> of the others.
    const XmlElement* found = answer->Find("Errors/Error");
    if (found == nullptr) found = answer->Find("Error");
    if (found != nullptr) error = {found->TextAt("Code"), found->TextAt("Message")};
  } else if (const Result<Json> json = ParseJson(body, kMaxErrorBytes);
             json.ok() && json->is_object()) {
    error = JsonError(*json);
  }
  // Not a page for browsers, as a proxy sends it.
  if (error.code.empty() && error.message.empty() && !body.starts_with('<')) {
    error.message = body.substr(0, kShownBytes);
  }
  error.code = ShownText(error.code, kShownBytes);
  error.message = ShownLine(error.message);
  return error;
}

std::vector<AwsInstance> InstancesIn(const XmlElement& answer) {
  std::vector<AwsInstance> instances;
  const auto take = [&instances](const XmlElement& reservation) {
    for (const XmlElement* item : reservation.ItemsAt("instancesSet")) {
      AwsInstance instance = InstanceIn(*item);
      if (!instance.id.empty()) instances.push_back(std::move(instance));
    }
  };
  take(answer);
  for (const XmlElement* reservation : answer.ItemsAt("reservationSet")) take(*reservation);
  return instances;
}

std::vector<AwsSubnet> SubnetsIn(const XmlElement& answer) {
  std::vector<AwsSubnet> subnets;
  for (const XmlElement* item : answer.ItemsAt("subnetSet")) {
    subnets.push_back({.id = item->TextAt("subnetId"),
                       .vpc_id = item->TextAt("vpcId"),
                       .zone = item->TextAt("availabilityZone"),
                       .state = item->TextAt("state"),
                       .maps_public_address = item->TextAt("mapPublicIpOnLaunch") == "true"});
  }
  return subnets;
}

std::vector<AwsSecurityGroup> SecurityGroupsIn(const XmlElement& answer) {
  std::vector<AwsSecurityGroup> groups;
  for (const XmlElement* item : answer.ItemsAt("securityGroupInfo")) {
    groups.push_back({.id = item->TextAt("groupId"),
                      .name = item->TextAt("groupName"),
                      .vpc_id = item->TextAt("vpcId"),
                      .has_rules = !item->ItemsAt("ipPermissions").empty(),
                      .tags = TagsIn(*item)});
  }
  return groups;
}

std::vector<AwsKeyPair> KeyPairsIn(const XmlElement& answer) {
  std::vector<AwsKeyPair> keys;
  for (const XmlElement* item : answer.ItemsAt("keySet")) {
    keys.push_back({.name = item->TextAt("keyName"), .tags = TagsIn(*item)});
  }
  return keys;
}

std::vector<AwsInstanceType> InstanceTypesIn(const XmlElement& answer) {
  std::vector<AwsInstanceType> types;
  const auto number = [](const XmlElement& from, std::string_view path) {
    return ParseInteger<int64_t>(from.TextAt(path)).value_or(0);
  };
  for (const XmlElement* item : answer.ItemsAt("instanceTypeSet")) {
    AwsInstanceType& type = types.emplace_back();
    type.name = item->TextAt("instanceType");
    type.cpus = number(*item, "vCpuInfo/defaultVCpus");
    type.memory_mib = number(*item, "memoryInfo/sizeInMiB");
    for (const XmlElement* gpu : item->ItemsAt("gpuInfo/gpus")) {
      type.gpus.push_back({.name = gpu->TextAt("name"),
                           .manufacturer = gpu->TextAt("manufacturer"),
                           .count = number(*gpu, "count")});
    }
  }
  return types;
}

AwsInstanceProfile InstanceProfileIn(const XmlElement& answer) {
  AwsInstanceProfile profile;
  const XmlElement* found = answer.Find("GetInstanceProfileResult/InstanceProfile");
  if (found == nullptr) found = answer.Find("CreateInstanceProfileResult/InstanceProfile");
  if (found == nullptr) return profile;
  profile.name = found->TextAt("InstanceProfileName");
  profile.arn = found->TextAt("Arn");
  for (const XmlElement* role : found->ItemsAt("Roles", "member")) {
    profile.roles.push_back(role->TextAt("RoleName"));
  }
  profile.tags = TagsIn(*found);
  return profile;
}

std::map<std::string, std::string> TagsIn(const XmlElement& object) {
  std::map<std::string, std::string> tags;
  for (const XmlElement* tag : object.ItemsAt("tagSet"))
    tags[tag->TextAt("key")] = tag->TextAt("value");
  for (const XmlElement* tag : object.ItemsAt("Tags", "member")) {
    tags[tag->TextAt("Key")] = tag->TextAt("Value");
  }
  return tags;
}

}  // namespace hvdray
