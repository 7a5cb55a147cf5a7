// SPDX-License-Identifier: Apache-2.0
// Which key pair, subnets, security group, image and instance profile a cluster gets: as Ray
// chooses them, so that both see one cluster. Pure: facts in, plan out.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_PLAN_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_PLAN_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cluster/cloud/aws_answers.h"
#include "cluster/cloud/provider.h"

namespace hvdray {

inline constexpr std::string_view kAwsProfileName = "ray-autoscaler-v1";  ///< And its role's.
inline constexpr std::string_view kAwsGroupText = "Auto-created security group for Ray workers";
/// On key pairs, profiles and roles that hvdray made: only such are purged.
inline constexpr std::string_view kAwsMadeByTag = "hvdray-made-for";

/// A node type as the file has it.
// clang-tidy sees a throw in the move of nlohmann's JSON, which is noexcept.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct AwsTypeInput {
  std::string name;
  Json node_config;
  std::map<std::string, int64_t> resources;
};

/// What the cluster file asks for.
struct AwsInput {
  std::string cluster_name;
  std::string region;
  std::vector<std::string> zones;  ///< In order of preference; empty: any.
  bool use_internal_ips = false;
  std::string key_name;              ///< key_pair.key_name; empty: Ray's.
  std::string private_key;           ///< auth.ssh_private_key; empty: one is made.
  std::string group_name;            ///< security_group.GroupName; empty: Ray's.
  Json group_rules = Json::array();  ///< security_group.IpPermissions
  std::string head_type;
  std::vector<AwsTypeInput> types;
};

/// Reads the input out of a file's contents.
/// Errors: kSpecInvalid for a node_config that can't work, with its place where there is one.
Result<AwsInput> ToAwsInput(const ClusterSpec& spec);

/// What AWS and this machine have.
struct AwsFacts {
  std::vector<AwsSubnet> subnets;             ///< All of the region.
  std::vector<AwsSecurityGroup> groups;       ///< At least those of the input's names and ids.
  std::vector<AwsKeyPair> keys;               ///< All of the region.
  std::set<std::string> key_files;            ///< Names in ~/.ssh.
  std::optional<AwsInstanceProfile> profile;  ///< kAwsProfileName; nullopt: there is none.
  bool has_role = false;                      ///< Likewise, the role.
  bool is_role_ours = false;                  ///< It has kAwsMadeByTag.
  std::vector<AwsInstance> nodes;             ///< Of this cluster, not terminated.
  std::map<std::string, AwsInstanceType> machine_types;  ///< By name.
  /// What a type's LaunchTemplate sets, by type: "imageId", "keyName", ….
  std::map<std::string, std::set<std::string>> template_keys;
  std::optional<std::string> current_image;  ///< Amazon's Deep Learning image of today.
};

/// A node type, with all that is known before anything is made.
struct AwsTypePlan {
  std::string name;
  Json node_config;
  std::string vpc_id;        ///< Of its subnets; empty: a template or interface has them.
  bool needs_group = false;  ///< The cluster's security group of that VPC is put in.
  std::map<std::string, int64_t> resources;
};

struct AwsPlan {
  std::string key_name;  ///< Put into every type; empty: the file or ssh has the keys.
  bool makes_key = false;
  std::string group_name;
  struct Group {
    std::string id;  ///< Empty: to be made.
    bool needs_rules = false;
  };
  std::map<std::string, Group> groups;  ///< By VPC; those that are needed.
  bool uses_profile = false;            ///< kAwsProfileName, on the head.
  bool makes_profile = false, makes_role = false, adds_role = false;
  bool attaches_policies = false;  ///< To a role that is ours, perhaps only half made.
  std::string profile_arn;         ///< Empty unless it is there already.
  std::vector<AwsTypePlan> types;
  ProviderPlan shown;
};

/// Errors: kSpecInvalid: no usable subnet, subnets of two VPCs, a group that does not exist, a type
/// without KeyName beside auth.ssh_private_key, an InstanceType that the region does not have, no
/// image for the region.
Result<AwsPlan> PlanAws(const AwsInput& input, const AwsFacts& facts);

/// The nodes to create, once everything is there. `group_ids`: by VPC. `auth`: for the launch hash.
std::vector<PreparedNode> PreparedAwsNodes(const AwsInput& input, const AwsPlan& plan,
                                           const std::map<std::string, std::string>& group_ids,
                                           const std::string& profile_arn, const Json& auth);

/// The rules of a new group: everything from itself, SSH from anywhere, then the file's.
Json AwsGroupRules(const std::string& group_id, const Json& more);

/// Name number `i` of the key pairs that are tried.
std::string AwsKeyName(const AwsInput& input, int i);
/// It is one of them.
bool IsAwsKeyName(const AwsInput& input, std::string_view name);

/// `user_tags` of a node_config's TagSpecifications laid over `tags`: those of instances override,
/// those of other resources stay apart. The whole list, for RunInstances.
Json AwsTagSpecifications(const ProviderTags& tags, const Json& node_config);

/// The form of one RunInstances: `count` machines or none, in `subnet` (empty: the interfaces or
/// the template have it).
Json AwsLaunchConfig(const Json& node_config, const std::string& subnet, int count,
                     const ProviderTags& tags, bool is_on_demand);

/// node_config asks for spot machines.
bool IsAwsSpot(const Json& node_config);

/// Subnets to try, in order; one empty name where a template or interface has it.
std::vector<std::string> AwsSubnets(const Json& node_config);

/// The tags of a new node, as Ray sets them (provider.h), with the Name "ray-<cluster>-head" or
/// "ray-<cluster>-worker". Those of `request` replace them.
ProviderTags AwsNodeTags(const std::string& cluster, const CreateRequest& request);

/// The instance as a cluster node. nullopt: it is terminated, or no node of a cluster.
std::optional<CloudNode> ToCloudNode(const AwsInstance& instance);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_PLAN_H_
