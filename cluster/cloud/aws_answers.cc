// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_answers.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxErrorBytes = size_t{1} << 20;
constexpr size_t kShownBytes = 200;
constexpr size_t kMaxNameBytes = 2048;  // of an ARN
constexpr std::string_view kInKeyNames = " ()[]{}~!#$%^&;'";

std::string TextOfKey(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The text of an id, a name, a word or an ARN; empty if it is none: it becomes part of file names,
/// host names and messages. Key pairs may have blanks in their names.
std::string NameIn(const XmlElement& from, std::string_view path, std::string_view more = "") {
  const std::string& text = from.TextAt(path);
  const auto is_fit = [more](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:@+=,").find(c) != std::string_view::npos ||
           more.find(c) != std::string_view::npos;
  };
  const bool is_name = !text.empty() && text[0] != '-' && text[0] != '.' &&
                       text.size() <= kMaxNameBytes && std::ranges::all_of(text, is_fit);
  return is_name ? text : std::string();
}

/// A literal address; empty if it is none.
std::string AddressIn(const XmlElement& from, std::string_view path) {
  const std::string& text = from.TextAt(path);
  in6_addr bytes{};
  const bool is_address = ::inet_pton(AF_INET, text.c_str(), &bytes) == 1 ||
                          ::inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
  return is_address ? text : std::string();
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
  instance.id = NameIn(item, "instanceId");
  instance.state = NameIn(item, "instanceState/name");
  instance.state_reason = ShownLine(item.TextAt("stateReason/message"));
  instance.public_address = AddressIn(item, "ipAddress");
  instance.private_address = AddressIn(item, "privateIpAddress");
  instance.type = NameIn(item, "instanceType");
  instance.zone = NameIn(item, "placement/availabilityZone");
  instance.image_id = NameIn(item, "imageId");
  instance.key_name = NameIn(item, "keyName", kInKeyNames);
  instance.profile_arn = NameIn(item, "iamInstanceProfile/arn", "/");
  instance.launch_time = NameIn(item, "launchTime");
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
    subnets.push_back({.id = NameIn(*item, "subnetId"),
                       .vpc_id = NameIn(*item, "vpcId"),
                       .zone = NameIn(*item, "availabilityZone"),
                       .state = NameIn(*item, "state"),
                       .maps_public_address = item->TextAt("mapPublicIpOnLaunch") == "true"});
  }
  return subnets;
}

std::vector<AwsSecurityGroup> SecurityGroupsIn(const XmlElement& answer) {
  std::vector<AwsSecurityGroup> groups;
  for (const XmlElement* item : answer.ItemsAt("securityGroupInfo")) {
    groups.push_back({.id = GroupIdIn(*item),
                      .name = ShownLine(item->TextAt("groupName")),
                      .vpc_id = NameIn(*item, "vpcId"),
                      .has_rules = !item->ItemsAt("ipPermissions").empty(),
                      .tags = TagsIn(*item)});
  }
  return groups;
}

std::vector<AwsKeyPair> KeyPairsIn(const XmlElement& answer) {
  std::vector<AwsKeyPair> keys;
  for (const XmlElement* item : answer.ItemsAt("keySet")) {
    AwsKeyPair key{.name = NameIn(*item, "keyName", kInKeyNames), .tags = TagsIn(*item)};
    if (!key.name.empty()) keys.push_back(std::move(key));
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
    type.name = NameIn(*item, "instanceType");
    type.cpus = number(*item, "vCpuInfo/defaultVCpus");
    type.memory_mib = number(*item, "memoryInfo/sizeInMiB");
    for (const XmlElement* gpu : item->ItemsAt("gpuInfo/gpus")) {
      type.gpus.push_back({.name = ShownLine(gpu->TextAt("name")),
                           .manufacturer = ShownLine(gpu->TextAt("manufacturer")),
                           .count = number(*gpu, "count")});
    }
  }
  return types;
}

std::string GroupIdIn(const XmlElement& answer) { return NameIn(answer, "groupId"); }

std::string RegionNameIn(const XmlElement& region) {
  std::string name = NameIn(region, "regionName");
  if (name.find_first_of("_.:@+=,") != std::string::npos) name.clear();
  return name;
}

AwsInstanceProfile InstanceProfileIn(const XmlElement& answer) {
  AwsInstanceProfile profile;
  const XmlElement* found = answer.Find("GetInstanceProfileResult/InstanceProfile");
  if (found == nullptr) found = answer.Find("CreateInstanceProfileResult/InstanceProfile");
  if (found == nullptr) return profile;
  profile.name = NameIn(*found, "InstanceProfileName");
  profile.arn = NameIn(*found, "Arn", "/");
  for (const XmlElement* role : found->ItemsAt("Roles", "member")) {
    std::string name = NameIn(*role, "RoleName");
    if (!name.empty()) profile.roles.push_back(std::move(name));
  }
  profile.tags = TagsIn(*found);
  return profile;
}

std::map<std::string, std::string> TagsIn(const XmlElement& object) {
  std::map<std::string, std::string> tags;
  for (const XmlElement* tag : object.ItemsAt("tagSet"))
    tags[ShownLine(tag->TextAt("key"))] = ShownLine(tag->TextAt("value"));
  for (const XmlElement* tag : object.ItemsAt("Tags", "member")) {
    tags[ShownLine(tag->TextAt("Key"))] = ShownLine(tag->TextAt("Value"));
  }
  return tags;
}

}  // namespace hvdray
