// SPDX-License-Identifier: Apache-2.0
// What AWS's query APIs answer: the fields in use, out of XML. Pure. An element that is missing
// leaves its field empty: AWS leaves out what does not apply.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_ANSWERS_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_ANSWERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/xml.h"

namespace hvdray {

/// AWS's own words about a refused request.
struct AwsError {
  std::string code;     ///< "InsufficientInstanceCapacity"; empty: the answer has none.
  std::string message;  ///< One line, fit to be shown.
};

// All that an answer says is foreign text. Ids, names and addresses are empty here unless they are
// such; tags and names in words are cleaned for the terminal (ShownLine()).

/// A virtual machine. Addresses are literals, launch_time is as AWS writes it.
struct AwsInstance {
  std::string id;
  std::string state;  ///< pending, running, shutting-down, terminated, stopping or stopped.
  std::string state_reason;
  std::string public_address, private_address;
  std::string type, zone, image_id, key_name, profile_arn;
  std::string launch_time;
  bool is_spot = false;
  std::map<std::string, std::string> tags;
};

/// A network that instances are put into.
struct AwsSubnet {
  std::string id, vpc_id, zone;
  std::string state;                 ///< pending or available.
  bool maps_public_address = false;  ///< New instances get a public address.
};

/// A set of firewall rules of one VPC.
struct AwsSecurityGroup {
  std::string id, name, vpc_id;
  bool has_rules = false;  ///< For what comes in.
  std::map<std::string, std::string> tags;
};

/// A key pair that EC2 knows: its name, never its key.
struct AwsKeyPair {
  std::string name;
  std::map<std::string, std::string> tags;
};

/// The GPUs of one model in a machine type.
struct AwsGpu {
  std::string name, manufacturer;  ///< "A100", "NVIDIA"
  int64_t count = 0;
};

/// What a machine type has.
struct AwsInstanceType {
  std::string name;  ///< "m5.large"
  int64_t cpus = 0;  ///< Virtual ones.
  int64_t memory_mib = 0;
  std::vector<AwsGpu> gpus;
};

/// What an instance carries to act as a role.
struct AwsInstanceProfile {
  std::string name, arn;
  std::vector<std::string> roles;  ///< Names.
  std::map<std::string, std::string> tags;
};

/// The error of an answer with a status of 300 or more: EC2's form, IAM's, or SSM's JSON. Never
/// fails: an unknown form gives an empty code and the first bytes as message.
AwsError ParseAwsError(ByteView body);

/// Of DescribeInstances (all reservations) and RunInstances.
std::vector<AwsInstance> InstancesIn(const XmlElement& answer);
/// Of DescribeSubnets.
std::vector<AwsSubnet> SubnetsIn(const XmlElement& answer);
/// Of DescribeSecurityGroups.
std::vector<AwsSecurityGroup> SecurityGroupsIn(const XmlElement& answer);
/// Of CreateSecurityGroup, and of one group.
std::string GroupIdIn(const XmlElement& answer);
/// Of an item of DescribeRegions: it becomes part of a host's name.
std::string RegionNameIn(const XmlElement& region);
/// Of DescribeKeyPairs; without pairs whose name can't be a file's.
std::vector<AwsKeyPair> KeyPairsIn(const XmlElement& answer);
/// Of DescribeInstanceTypes.
std::vector<AwsInstanceType> InstanceTypesIn(const XmlElement& answer);
/// Of GetInstanceProfile and CreateInstanceProfile.
AwsInstanceProfile InstanceProfileIn(const XmlElement& answer);
/// Tags of an IAM object (Tags/member) or an EC2 one (tagSet/item).
std::map<std::string, std::string> TagsIn(const XmlElement& object);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_ANSWERS_H_
