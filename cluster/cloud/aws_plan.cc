// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/yaml_writer.h"
#include "cluster/cloud/aws_query.h"

namespace hvdray {
namespace {

constexpr int kMaxKeyNames = 600;
constexpr std::string_view kNewestImage = "latest_dlami";

struct ImageRow {
  std::string_view region, image;
};

/// Ray's default images, of 2023: only where the current one can't be asked for.
constexpr ImageRow kOldImages[] = {
    {"us-west-2", "ami-0a2b85e15b7c0ac34"},      {"us-east-1", "ami-0271ce88f6c03e149"},
    {"us-east-2", "ami-0ce21b0ce8e0f5a37"},      {"us-west-1", "ami-030896954b2b72361"},
    {"ca-central-1", "ami-044b98bea12677052"},   {"eu-central-1", "ami-004d285ecf53fb335"},
    {"eu-west-1", "ami-0e17ed40febe794a6"},      {"eu-west-2", "ami-0ad9e6b9d4e22df1a"},
    {"eu-west-3", "ami-05698775025146698"},      {"sa-east-1", "ami-004b19c7ed8d790bc"},
    {"ap-northeast-1", "ami-03e45b1f18378ea97"}, {"ap-northeast-2", "ami-095bae3e623e2ff99"},
    {"ap-northeast-3", "ami-02fd0ba69c1ef37ad"}, {"ap-southeast-1", "ami-03ef1223872072e95"},
    {"ap-southeast-2", "ami-0bcf4f75e44e0a866"}};

using Action = ProviderStep::Action;

std::string TextAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> TextsAt(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

void AddOnce(Json& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), Json(text)) == list.end()) list.push_back(text);
}

template <typename Range>
std::string Joined(const Range& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

Status Fault(const std::string& type, std::string what, std::string hint = {}) {
  return {ErrorCode::kSpecInvalid, fmt::format("node type {}: {}", type, what), std::move(hint)};
}

/// Subnets and groups of interfaces, raised to the node_config as Ray does. Each interface needs
/// both, since RunInstances takes them nowhere else then.
Status RaiseInterfaces(AwsTypeInput& type) {
  const auto interfaces = type.node_config.find("NetworkInterfaces");
  if (interfaces == type.node_config.end()) return {};
  if (!interfaces->is_array()) return Fault(type.name, "NetworkInterfaces is not a list");
  Json subnets = Json::array(), groups = Json::array();
  for (const Json& each : *interfaces) {
    const std::string subnet = each.is_object() ? TextAt(each, "SubnetId") : "";
    const std::vector<std::string> own =
        each.is_object() ? TextsAt(each, "Groups") : std::vector<std::string>();
    if (subnet.empty() || own.empty()) {
      return Fault(type.name, "a network interface needs SubnetId and Groups");
    }
    AddOnce(subnets, subnet);
    for (const std::string& group : own) AddOnce(groups, group);
  }
  for (const char* key : {"SubnetIds", "SecurityGroupIds", "SubnetId"}) {
    if (!type.node_config.contains(key)) continue;
    return Fault(type.name, fmt::format("{} beside NetworkInterfaces", key),
                 "put it into each interface: SubnetId and Groups");
  }
  type.node_config["SubnetIds"] = std::move(subnets);
  type.node_config["SecurityGroupIds"] = std::move(groups);
  return {};
}

/// Chooses one thing after the other; each step sees the earlier ones' choices.
class Planner {
 public:
  Planner(const AwsInput& input, const AwsFacts& facts) : input_(input), facts_(facts) {
    for (const AwsTypeInput& type : input.types) {
      plan_.types.push_back(
          {.name = type.name, .node_config = type.node_config, .resources = type.resources});
    }
  }

  Result<AwsPlan> Run() {
    ChooseProfile();
    HVDRAY_RETURN_IF_ERROR(ChooseKey());
    HVDRAY_RETURN_IF_ERROR(ChooseSubnets());
    ChooseGroups();
    HVDRAY_RETURN_IF_ERROR(ChooseImages());
    HVDRAY_RETURN_IF_ERROR(FillResources());
    return std::move(plan_);
  }

 private:
  void Add(Action action, std::string what, std::string name, std::string detail = {}) {
    plan_.shown.steps.push_back({action, std::move(what), std::move(name), std::move(detail)});
  }

  bool HasInTemplate(const AwsTypePlan& type, const std::string& key) const {
    const auto found = facts_.template_keys.find(type.name);
    return found != facts_.template_keys.end() && found->second.contains(key);
  }

  void ChooseProfile() {
    for (const AwsTypePlan& type : plan_.types) {
      if (type.name != input_.head_type) continue;
      if (type.node_config.contains("IamInstanceProfile") ||
          HasInTemplate(type, "iamInstanceProfile")) {
        return Add(Action::kKeep, "instance profile", "of the file", "for the head");
      }
    }
    plan_.uses_profile = true;
    plan_.makes_profile = !facts_.profile;
    plan_.adds_role = !facts_.profile || facts_.profile->roles.empty();
    plan_.makes_role = plan_.adds_role && !facts_.has_role;
    plan_.attaches_policies = plan_.makes_role || (plan_.adds_role && facts_.is_role_ours);
    if (facts_.profile) plan_.profile_arn = facts_.profile->arn;
    Add(plan_.makes_profile ? Action::kCreate
        : plan_.adds_role   ? Action::kChange
                            : Action::kKeep,
        "instance profile", std::string(kAwsProfileName),
        plan_.makes_role  ? "for the head, with a new role for EC2 and S3"
        : plan_.adds_role ? "for the head, with the role of that name"
                          : "for the head");
  }

  Status ChooseKey() {
    if (!input_.private_key.empty()) {
      for (const AwsTypePlan& type : plan_.types) {
        if (type.node_config.contains("KeyName") || type.node_config.contains("UserData") ||
            HasInTemplate(type, "keyName") || HasInTemplate(type, "userData")) {
          continue;
        }
        return Fault(type.name, "node_config has no KeyName, beside auth.ssh_private_key",
                     "name the key pair whose private key that is, or remove ssh_private_key: "
                     "hvdray then makes a pair");
      }
      Add(Action::kKeep, "key pair", "of the file", input_.private_key);
      return {};
    }
    for (int i = 0; i < kMaxKeyNames; ++i) {
      const std::string name = AwsKeyName(input_, i);
      const bool is_there =
          std::ranges::find(facts_.keys, name, &AwsKeyPair::name) != facts_.keys.end();
      const bool has_file = facts_.key_files.contains(name + ".pem");
      if (is_there != has_file) continue;  // one half of a pair is of no use
      plan_.key_name = name;
      plan_.makes_key = !is_there;
      for (AwsTypePlan& type : plan_.types) type.node_config["KeyName"] = name;
      Add(is_there ? Action::kKeep : Action::kCreate, "key pair", name,
          fmt::format("private key in ~/.ssh/{}.pem", name));
      return {};
    }
    return {ErrorCode::kSpecInvalid,
            fmt::format("none of {} key pairs in {} has its private key in ~/.ssh", kMaxKeyNames,
                        input_.region),
            "delete key pairs that are not in use, or set auth.ssh_private_key and KeyName"};
  }

  /// The VPC of all groups that the file names; empty: it names none.
  Result<std::string> VpcOfGivenGroups() const {
    std::string vpc, first;
    for (const AwsTypePlan& type : plan_.types) {
      for (const std::string& id : TextsAt(type.node_config, "SecurityGroupIds")) {
        const auto group = std::ranges::find(facts_.groups, id, &AwsSecurityGroup::id);
        if (group == facts_.groups.end()) {
          return Fault(type.name, fmt::format("no security group {} in {}", id, input_.region));
        }
        if (vpc.empty()) {
          vpc = group->vpc_id;
          first = id;
        } else if (vpc != group->vpc_id) {
          return Fault(type.name,
                       fmt::format("security groups {} and {} are in two VPCs, {} and {}", first,
                                   id, vpc, group->vpc_id),
                       "all nodes must be in one VPC");
        }
      }
    }
    return vpc;
  }

  /// Usable ones of `candidates`, best first.
  Result<std::vector<AwsSubnet>> Usable(const AwsTypePlan& type,
                                        const std::vector<AwsSubnet>& candidates,
                                        const std::string& vpc) const {
    std::vector<AwsSubnet> usable;
    int elsewhere = 0, without_addresses = 0;
    for (const AwsSubnet& subnet : candidates) {
      if (!vpc.empty() && subnet.vpc_id != vpc) {
        ++elsewhere;
      } else if (!input_.use_internal_ips && !subnet.maps_public_address) {
        ++without_addresses;
      } else if (subnet.state == "available") {
        usable.push_back(subnet);
      }
    }
    if (usable.empty()) {
      std::string hint = "create a default VPC (`aws ec2 create-default-vpc`), or set SubnetIds";
      if (without_addresses > 0) {
        hint = fmt::format("{} without public addresses: provider.use_internal_ips uses them",
                           Count(without_addresses, "subnet"));
      } else if (elsewhere > 0) {
        hint = fmt::format("{} in other VPCs than {}, the security group's",
                           Count(elsewhere, "subnet"), vpc);
      }
      return Fault(type.name, fmt::format("no usable subnet in {}", input_.region),
                   std::move(hint));
    }
    std::ranges::stable_sort(usable, std::greater(), &AwsSubnet::zone);
    if (input_.zones.empty()) return usable;
    std::vector<AwsSubnet> ordered;
    for (const std::string& zone : input_.zones) {
      std::ranges::copy_if(usable, std::back_inserter(ordered),
                           [&zone](const AwsSubnet& subnet) { return subnet.zone == zone; });
    }
    if (!ordered.empty()) return ordered;
    std::set<std::string> zones;
    for (const AwsSubnet& subnet : usable) zones.insert(subnet.zone);
    return Fault(
        type.name,
        fmt::format("no usable subnet in {} (provider.availability_zone)", Joined(input_.zones)),
        fmt::format("there are subnets in {}", Joined(zones)));
  }

  Status ChooseSubnetsOf(AwsTypePlan& type, std::string& vpc) {
    const std::vector<std::string> given = TextsAt(type.node_config, "SubnetIds");
    std::vector<AwsSubnet> candidates;
    for (const std::string& id : given) {
      const auto subnet = std::ranges::find(facts_.subnets, id, &AwsSubnet::id);
      if (subnet == facts_.subnets.end()) {
        return Fault(type.name, fmt::format("no subnet {} in {}", id, input_.region));
      }
      candidates.push_back(*subnet);
    }
    HVDRAY_ASSIGN_OR_RETURN(std::vector<AwsSubnet> usable,
                            Usable(type, given.empty() ? facts_.subnets : candidates, vpc));
    type.vpc_id = usable[0].vpc_id;
    std::erase_if(usable, [&type](const AwsSubnet& each) { return each.vpc_id != type.vpc_id; });
    if (!given.empty() && usable.size() != given.size()) {
      std::set<std::string> lost(given.begin(), given.end());
      for (const AwsSubnet& subnet : usable) lost.erase(subnet.id);
      return Fault(type.name, fmt::format("not usable: {}", Joined(lost)),
                   "SubnetIds must be available, in one VPC, in provider.availability_zone, and "
                   "give public addresses unless use_internal_ips is set");
    }
    Json ids = Json::array();
    std::vector<std::string> shown;
    shown.reserve(usable.size());
    for (const AwsSubnet& subnet : usable) {
      ids.push_back(subnet.id);
      shown.push_back(fmt::format("{} ({})", subnet.id, subnet.zone));
    }
    // In the order of the file, where it has them: Ray hashes the list as it is.
    if (given.empty()) type.node_config["SubnetIds"] = std::move(ids);
    if (vpc.empty()) vpc = type.vpc_id;
    Add(Action::kKeep, "subnets", type.name, Joined(shown));
    return {};
  }

  /// Types whose subnets the file has come first: they decide the VPC of the others.
  Status ChooseSubnets() {
    HVDRAY_ASSIGN_OR_RETURN(std::string vpc, VpcOfGivenGroups());
    for (const bool is_given : {true, false}) {
      for (AwsTypePlan& type : plan_.types) {
        if (type.node_config.contains("SubnetIds") != is_given) continue;
        if (HasInTemplate(type, "networkInterfaceSet")) continue;
        if (type.node_config.contains("SubnetId")) {
          type.node_config["SubnetIds"] = Json::array({type.node_config["SubnetId"]});
        }
        HVDRAY_RETURN_IF_ERROR(ChooseSubnetsOf(type, vpc));
      }
    }
    return {};
  }

  void ChooseGroups() {
    plan_.group_name =
        input_.group_name.empty() ? "ray-autoscaler-" + input_.cluster_name : input_.group_name;
    for (AwsTypePlan& type : plan_.types) {
      const bool is_given = type.node_config.contains("SecurityGroupIds") ||
                            HasInTemplate(type, "securityGroupIdSet") || type.vpc_id.empty();
      if (is_given) {
        Add(Action::kKeep, "security group", "of the file",
            fmt::format("for {}: {}", type.name,
                        Joined(TextsAt(type.node_config, "SecurityGroupIds"))));
        continue;
      }
      type.needs_group = true;
      if (plan_.groups.contains(type.vpc_id)) continue;
      AwsPlan::Group& chosen = plan_.groups[type.vpc_id];
      for (const AwsSecurityGroup& group : facts_.groups) {
        if (group.name != plan_.group_name || group.vpc_id != type.vpc_id) continue;
        chosen.id = group.id;
        chosen.needs_rules = !group.has_rules;
      }
      if (chosen.id.empty()) chosen.needs_rules = true;
      Add(chosen.id.empty()    ? Action::kCreate
          : chosen.needs_rules ? Action::kChange
                               : Action::kKeep,
          "security group", plan_.group_name,
          fmt::format(
              "{}: {}", type.vpc_id,
              chosen.needs_rules ? "everything from itself, SSH from anywhere" : chosen.id));
    }
  }

  /// The image of this cluster's machines of a type; empty: there are none. A newer default must
  /// not make a running head look like one of another file.
  std::string ImageInUse(const std::string& type) const {
    for (const AwsInstance& node : facts_.nodes) {
      const auto tag = node.tags.find(std::string(kTagNodeType));
      if (tag != node.tags.end() && tag->second == type) return node.image_id;
    }
    return {};
  }

  Status ChooseImages() {
    for (AwsTypePlan& type : plan_.types) {
      const std::string given = TextAt(type.node_config, "ImageId");
      if (!given.empty() && Lower(given) != kNewestImage) {
        Add(Action::kKeep, "image", given, "for " + type.name);
        continue;
      }
      if (given.empty() && HasInTemplate(type, "imageId")) continue;
      std::string image = ImageInUse(type.name);
      std::string detail = "for " + type.name + ", as on its machines";
      if (image.empty() && facts_.current_image) {
        image = *facts_.current_image;
        detail = "for " + type.name + ", Amazon's current Deep Learning image";
      }
      if (image.empty()) {
        const auto row = std::ranges::find(kOldImages, input_.region, &ImageRow::region);
        if (row == std::end(kOldImages)) {
          return Fault(type.name, fmt::format("no default image for region {}", input_.region),
                       "set ImageId in its node_config");
        }
        image = row->image;
        detail = "for " + type.name + ", Ray's default of 2023";
        plan_.shown.warnings.push_back(
            fmt::format("node type {}: Amazon's current Deep Learning image could not be looked "
                        "up (SSM); using Ray's old default {}. Set ImageId to choose one",
                        type.name, image));
      }
      type.node_config["ImageId"] = image;
      Add(Action::kKeep, "image", image, std::move(detail));
    }
    return {};
  }

  Status FillResources() {
    for (AwsTypePlan& type : plan_.types) {
      const std::string name = TextAt(type.node_config, "InstanceType");
      if (name.empty()) {
        if (HasInTemplate(type, "instanceType")) continue;
        return Fault(type.name, "node_config has no InstanceType");
      }
      const auto found = facts_.machine_types.find(name);
      if (found == facts_.machine_types.end()) {
        return Fault(type.name,
                     fmt::format("no InstanceType {} in {}", ShownText(name), input_.region),
                     "see https://aws.amazon.com/ec2/instance-types, or another region");
      }
      const AwsInstanceType& machine = found->second;
      // What the file says wins; emplace() keeps it.
      type.resources.emplace("CPU", machine.cpus);
      if (type.name != input_.head_type) {
        constexpr double kMebibyte = 1 << 20;
        constexpr double kShare = 0.7;  // Ray leaves the rest to the object store
        const double bytes = static_cast<double>(machine.memory_mib) * kMebibyte;
        type.resources.emplace("memory", static_cast<int64_t>(bytes * kShare));
      }
      if (machine.gpus.empty() || machine.gpus[0].count == 0) continue;
      type.resources.emplace("GPU", machine.gpus[0].count);
      type.resources.emplace("accelerator_type:" + machine.gpus[0].name, 1);
    }
    return {};
  }

  const AwsInput& input_;
  const AwsFacts& facts_;
  AwsPlan plan_;
};

}  // namespace

Result<AwsInput> ToAwsInput(const ClusterSpec& spec) {
  AwsInput input;
  input.cluster_name = spec.cluster_name;
  input.region = spec.provider.region;
  input.zones = spec.provider.availability_zones;
  input.use_internal_ips = spec.provider.use_internal_ips;
  input.key_name = spec.provider.key_name;
  input.private_key = spec.auth.ssh_private_key;
  input.group_name = spec.provider.security_group_name;
  for (const YamlNode& rule : spec.provider.security_group_rules) {
    if (rule.kind() != YamlNode::Kind::kMap) return rule.Error("an IpPermission is a map");
    input.group_rules.push_back(YamlJson(rule));
  }
  input.head_type = spec.head_node_type;
  for (const ClusterNodeType& type : spec.node_types) {
    HVDRAY_RETURN_IF_ERROR(CheckAwsNodeConfig(type.node_config));
    AwsTypeInput& added = input.types.emplace_back();
    added.name = type.name;
    added.node_config = Json::object();
    for (const YamlNode::Entry& entry : type.node_config) {
      added.node_config[entry.key] = YamlJson(entry.value);
    }
    added.resources = type.resources;
    for (const char* key : {"MinCount", "MaxCount", "ClientToken", "DryRun"}) {
      if (!added.node_config.contains(key)) continue;
      return Fault(type.name, fmt::format("node_config has {}", key), "hvdray sets that itself");
    }
    HVDRAY_RETURN_IF_ERROR(RaiseInterfaces(added));
  }
  return input;
}

Result<AwsPlan> PlanAws(const AwsInput& input, const AwsFacts& facts) {
  return Planner(input, facts).Run();
}

std::vector<PreparedNode> PreparedAwsNodes(const AwsInput& input, const AwsPlan& plan,
                                           const std::map<std::string, std::string>& group_ids,
                                           const std::string& profile_arn, const Json& auth) {
  std::vector<PreparedNode> nodes;
  for (const AwsTypePlan& type : plan.types) {
    PreparedNode node;
    node.node_type = type.name;
    node.node_config = type.node_config;
    node.resources = type.resources;
    if (type.needs_group) {
      node.node_config["SecurityGroupIds"] = Json::array({group_ids.at(type.vpc_id)});
    }
    node.launch_hash = RayLaunchHash(node.node_config, auth);
    if (type.name == input.head_type) {
      PreparedNode head = node;
      head.kind = ClusterNodeKind::kHead;
      if (plan.uses_profile) head.node_config["IamInstanceProfile"] = Json{{"Arn", profile_arn}};
      head.launch_hash = RayLaunchHash(head.node_config, auth);
      nodes.insert(nodes.begin(), std::move(head));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Json AwsGroupRules(const std::string& group_id, const Json& more) {
  constexpr int kSshPort = 22;
  Json rules = Json::array();
  rules.push_back({{"IpProtocol", "-1"},
                   {"FromPort", -1},
                   {"ToPort", -1},
                   {"UserIdGroupPairs", Json::array({Json{{"GroupId", group_id}}})}});
  rules.push_back({{"IpProtocol", "tcp"},
                   {"FromPort", kSshPort},
                   {"ToPort", kSshPort},
                   {"IpRanges", Json::array({Json{{"CidrIp", "0.0.0.0/0"}}})}});
  for (const Json& rule : more) rules.push_back(rule);
  return rules;
}

std::string AwsKeyName(const AwsInput& input, int i) {
  if (input.key_name.empty()) {
    return i == 0 ? fmt::format("ray-autoscaler_{}", input.region)
                  : fmt::format("ray-autoscaler_{}_{}", i, input.region);
  }
  return i == 0 ? input.key_name : fmt::format("{}_key-{}", input.key_name, i);
}

bool IsAwsKeyName(const AwsInput& input, std::string_view name) {
  for (int i = 0; i < kMaxKeyNames; ++i) {
    if (AwsKeyName(input, i) == name) return true;
  }
  return false;
}

Json AwsTagSpecifications(const ProviderTags& tags, const Json& node_config) {
  ProviderTags merged = tags;
  Json others = Json::array();
  const auto given = node_config.find("TagSpecifications");
  if (given != node_config.end() && given->is_array()) {
    for (const Json& each : *given) {
      if (!each.is_object() || TextAt(each, "ResourceType") != "instance") {
        others.push_back(each);
        continue;
      }
      const auto list = each.find("Tags");
      if (list == each.end() || !list->is_array()) continue;
      for (const Json& tag : *list) {
        if (tag.is_object()) merged[TextAt(tag, "Key")] = TextAt(tag, "Value");
      }
    }
  }
  Json list = Json::array();
  for (const auto& [key, value] : merged) list.push_back({{"Key", key}, {"Value", value}});
  Json all = Json::array();
  all.push_back({{"ResourceType", "instance"}, {"Tags", std::move(list)}});
  for (Json& each : others) all.push_back(std::move(each));
  return all;
}

Json AwsLaunchConfig(const Json& node_config, const std::string& subnet, int count,
                     const ProviderTags& tags, bool is_on_demand) {
  Json config = node_config;
  config.erase("SubnetIds");
  if (config.contains("NetworkInterfaces")) {
    config.erase("SecurityGroupIds");
  } else if (!subnet.empty()) {
    config["SubnetId"] = subnet;
  }
  if (is_on_demand) config.erase("InstanceMarketOptions");
  config["TagSpecifications"] = AwsTagSpecifications(tags, node_config);
  config["MinCount"] = count;
  config["MaxCount"] = count;
  return config;
}

bool IsAwsSpot(const Json& node_config) {
  const auto market = node_config.find("InstanceMarketOptions");
  return market != node_config.end() && market->is_object() &&
         TextAt(*market, "MarketType") == "spot";
}

std::vector<std::string> AwsSubnets(const Json& node_config) {
  std::vector<std::string> subnets = TextsAt(node_config, "SubnetIds");
  if (node_config.contains("NetworkInterfaces") || subnets.empty()) return {""};
  return subnets;
}

ProviderTags AwsNodeTags(const std::string& cluster, const CreateRequest& request) {
  const PreparedNode& node = request.node;
  const std::string kind(KindWord(node.kind));
  ProviderTags tags = {{std::string(kTagCluster), cluster},
                       {std::string(kTagKind), kind},
                       {std::string(kTagNodeType), node.node_type},
                       {std::string(kTagLaunchHash), node.launch_hash},
                       {std::string(kTagStatus), std::string(kNewNodeStatus)},
                       {std::string(kTagName), fmt::format("ray-{}-{}", cluster, kind)},
                       {std::string(kTagRequest), request.request_id}};
  for (const auto& [key, value] : request.tags) tags[key] = value;
  return tags;
}

std::optional<CloudNode> ToCloudNode(const AwsInstance& instance) {
  const auto tag = [&instance](std::string_view key) {
    const auto found = instance.tags.find(std::string(key));
    return found == instance.tags.end() ? std::string() : found->second;
  };
  CloudNode node;
  if (instance.state == "pending") {
    node.state = CloudState::kPending;
  } else if (instance.state == "running") {
    node.state = CloudState::kRunning;
  } else if (instance.state == "stopping") {
    node.state = CloudState::kStopping;
  } else if (instance.state == "stopped") {
    node.state = CloudState::kStopped;
  } else if (instance.state == "shutting-down") {
    node.state = CloudState::kEnding;
  } else {
    return std::nullopt;
  }
  node.id = instance.id;
  node.kind = tag(kTagKind) == "head" ? ClusterNodeKind::kHead : ClusterNodeKind::kWorker;
  node.node_type = tag(kTagNodeType);
  node.launch_hash = tag(kTagLaunchHash);
  node.status = tag(kTagStatus);
  node.state_reason = instance.state_reason;
  node.internal_address = instance.private_address;
  node.external_address = instance.public_address;
  node.machine_type = instance.type;
  node.zone = instance.zone;
  node.image = instance.image_id;
  node.launch_time = instance.launch_time;
  node.key_name = instance.key_name;
  node.is_spot = instance.is_spot;
  node.tags = instance.tags;
  return node;
}

}  // namespace hvdray
