// SPDX-License-Identifier: Apache-2.0
#include "cluster/file/cluster_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "base/yaml_scalar.h"

namespace hvdray {
namespace {

constexpr std::string_view kProviders[] = {
    "local",    "aws",     "gcp",      "azure", "vsphere",        "aliyun",
    "external", "kuberay", "readonly", "spark", "fake_multinode", "fake_multinode_docker"};

enum class ValueType : uint8_t {
  kString,
  kBool,
  kInt,
  kNumber,        ///< At least 0.
  kNumberOrNull,  ///< At least 0, or null.
  kList,
  kStrings,
  kMap,
  kStringMap,
  kCountMap,  ///< Names to integers, at least 0.
  kObject,    ///< A map with its own table of keys.
  kObjects,   ///< Names to such maps.
};

enum class Presence : uint8_t { kOptional, kRequired };

/// How an object treats keys that are not in its table.
enum class Unknown : uint8_t { kRefused, kAccepted };

/// The providers, among those that hvdray itself drives, that know a key.
enum class Only : uint8_t { kAny, kLocal, kAws, kOther };

struct ObjectRule;

struct KeyRule {
  std::string_view name;
  ValueType type = ValueType::kString;
  Presence presence = Presence::kOptional;
  const ObjectRule* object = nullptr;
  int64_t min = 0;
  int64_t max = std::numeric_limits<int32_t>::max();
  std::string_view warning = {};  ///< For an outdated key that still works or is harmless.
  bool is_old = false;            ///< Of older Ray versions: translated.
  Only only = Only::kAny;         ///< Of a key of `provider`.
  std::string_view help = {};
};

struct ObjectRule {
  std::span<const KeyRule> keys;
  Unknown unknown = Unknown::kRefused;
};

using Type = ValueType;
constexpr Presence kRequired = Presence::kRequired;
// Memory is counted in bytes.
constexpr int64_t kMaxCount = int64_t{1} << 53;

// A row a key reads as the table that it is.
// clang-format off
constexpr KeyRule kAuthKeys[] = {
    {.name = "ssh_user", .help = "User on the nodes. Default on aws: ubuntu; on-prem: ssh's own."},
    {.name = "ssh_private_key",
     .help = "Key file. Default on aws: a key pair is created; on-prem: ssh's own identities."},
    {.name = "ssh_public_key", .help = "Read by the providers azure and gcp."},
    {.name = "ssh_proxy_command", .help = "ssh's ProxyCommand, with %h and %p."},
    {.name = "ssh_proxy_use_node_id", .type = Type::kBool,
     .help = "%h is the instance's ID instead of its address. Needs ssh_proxy_command."},
};
constexpr ObjectRule kAuth{kAuthKeys};

constexpr KeyRule kDockerKeys[] = {
    {.name = "image", .help = "Image of all nodes. Needs container_name."},
    {.name = "container_name",
     .help = "Set-up and start commands run in this container. Needs image, or head_image and worker_image."},
    {.name = "pull_before_run", .type = Type::kBool, .help = "Pull the image before each start. Default: true."},
    {.name = "run_options", .type = Type::kStrings, .help = "Options of docker run."},
    {.name = "head_image", .help = "Image of the head, instead of image."},
    {.name = "head_run_options", .type = Type::kStrings, .help = "Added to run_options on the head."},
    {.name = "worker_image", .help = "Image of the workers, instead of image."},
    {.name = "worker_run_options", .type = Type::kStrings, .help = "Added to run_options on workers."},
    {.name = "disable_automatic_runtime_detection", .type = Type::kBool,
     .help = "Do not add --runtime=nvidia by itself. Default: false."},
    {.name = "disable_shm_size_detection", .type = Type::kBool,
     .help = "Do not add --shm-size by itself. Default: false."},
    {.name = "use_podman", .type = Type::kBool, .help = "Call podman instead of docker. Default: false."},
};
constexpr ObjectRule kDocker{kDockerKeys};

constexpr KeyRule kKeyPairKeys[] = {
    {.name = "key_name", .help = "Name of the key pair that is used or created."},
};
constexpr ObjectRule kKeyPair{kKeyPairKeys, Unknown::kAccepted};

constexpr KeyRule kSecurityGroupKeys[] = {
    {.name = "GroupName",
     .help = "Name of the security group. Default: ray-autoscaler-<cluster_name>."},
    {.name = "IpPermissions", .type = Type::kList,
     .help = "Further inbound rules, as EC2's API has them."},
};
constexpr ObjectRule kSecurityGroup{kSecurityGroupKeys};

constexpr KeyRule kProviderKeys[] = {
    {.name = "type", .presence = kRequired,
     .help = "local (machines of your own), aws; the others are left to a real ray command."},
    {.name = "module", .only = Only::kOther, .help = "Python class of type external."},
    {.name = "use_internal_ips", .type = Type::kBool,
     .help = "Reach the nodes by their internal addresses. Default: false."},
    {.name = "use_external_head_ip", .type = Type::kBool,
     .help = "With use_internal_ips: reach the head by its external address. Default: false."},
    {.name = "disable_node_updaters", .type = Type::kBool,
     .help = "The head's autoscaler sets no nodes up."},
    {.name = "disable_launch_config_check", .type = Type::kBool,
     .help = "The head's autoscaler keeps nodes whose node_config has changed."},
    {.name = "foreground_node_launch", .type = Type::kBool,
     .help = "The head's autoscaler launches nodes one batch after another."},
    {.name = "worker_liveness_check", .type = Type::kBool,
     .help = "The head's autoscaler restarts Ray on silent workers. Default: true."},
    {.name = "head_ip", .only = Only::kLocal, .help = "Name or address of the head."},
    {.name = "worker_ips", .type = Type::kStrings, .only = Only::kLocal,
     .help = "Names or addresses of the workers, each once; [] if the head is the only host."},
    {.name = "external_head_ip", .only = Only::kLocal,
     .help = "The head's address from outside its network."},
    {.name = "coordinator_address", .only = Only::kLocal,
     .help = "Instead of head_ip and worker_ips: Ray's coordinator server, HOST:PORT. Left to a real ray command."},
    {.name = "region", .only = Only::kAws, .help = "AWS region. Default: us-west-2."},
    {.name = "availability_zone", .only = Only::kAws,
     .help = "Zones of the region, separated by commas, tried in this order. Default: any."},
    {.name = "cache_stopped_nodes", .type = Type::kBool, .only = Only::kAws,
     .help = "down stops on-demand instances instead of terminating them, and up starts them again. Default: true."},
    {.name = "key_pair", .type = Type::kObject, .object = &kKeyPair, .only = Only::kAws,
     .help = "Key pair."},
    {.name = "security_group", .type = Type::kObject, .object = &kSecurityGroup, .only = Only::kAws,
     .help = "Security group."},
    {.name = "aws_credentials", .type = Type::kStringMap, .only = Only::kAws,
     .help = "Credentials as boto3 names them. Better: a profile or the environment."},
    {.name = "cloudwatch", .type = Type::kMap, .only = Only::kAws,
     .help = "CloudWatch's agent, dashboard and alarms, for the head's autoscaler."},
};
constexpr ObjectRule kProvider{kProviderKeys, Unknown::kAccepted};

constexpr KeyRule kNodeTypeDockerKeys[] = {
    {.name = "pull_before_run", .type = Type::kBool, .help = "As in docker, for workers of this type."},
    {.name = "worker_image", .help = "As in docker, for workers of this type."},
    {.name = "worker_run_options", .type = Type::kStrings, .help = "As in docker, for workers of this type."},
};
constexpr ObjectRule kNodeTypeDocker{kNodeTypeDockerKeys};

constexpr KeyRule kNodeTypeKeys[] = {
    {.name = "node_config", .type = Type::kMap, .presence = kRequired,
     .help = "The provider's own words for such a machine; on aws the parameters of RunInstances."},
    {.name = "resources", .type = Type::kCountMap,
     .help = "What Ray may place on it, whole numbers. Default on aws: those of the instance type."},
    {.name = "min_workers", .type = Type::kInt, .help = "Workers of this type to start. Default: 0."},
    {.name = "max_workers", .type = Type::kInt,
     .help = "Limit of this type. Default: 0 for the head's type, else the cluster's max_workers."},
    {.name = "idle_timeout_s", .type = Type::kNumberOrNull,
     .help = "Seconds until the head's autoscaler removes an idle node of this type. Default, and null: idle_timeout_minutes."},
    {.name = "priority", .type = Type::kInt, .min = std::numeric_limits<int32_t>::min(),
     .help = "The head's autoscaler launches the highest that fits first."},
    {.name = "labels", .type = Type::kStringMap, .help = "Ray's labels of these nodes."},
    {.name = "initialization_commands", .type = Type::kStrings,
     .help = "Instead of the cluster's list, for workers of this type."},
    {.name = "worker_setup_commands", .type = Type::kStrings,
     .help = "Instead of setup_commands and worker_setup_commands, for workers of this type."},
    {.name = "docker", .type = Type::kObject, .object = &kNodeTypeDocker,
     .help = "The container of workers of this type."},
};
constexpr ObjectRule kNodeType{kNodeTypeKeys};

constexpr KeyRule kHvdrayKeys[] = {
    {.name = "slots_per_host", .type = Type::kInt, .min = 1, .max = 65536,
     .help = "Workers of hvdray run on each host. Default: the CPUs of this machine."},
    {.name = "on_demand_fallback", .type = Type::kBool,
     .help = "up takes on-demand machines where no zone has a spot one. Default: false."},
    {.name = "run", .type = Type::kMap, .help = "A job: the keys of a job file."},
};
constexpr ObjectRule kHvdray{kHvdrayKeys};

constexpr std::string_view kOldHead =
    "is from older Ray versions: write it as available_node_types.NAME.node_config, with "
    "head_node_type: NAME (hvdray cluster migrate rewrites the file)";
constexpr std::string_view kOldWorkers =
    "is from older Ray versions: write it as available_node_types.NAME.node_config";

constexpr KeyRule kTopKeys[] = {
    {.name = "cluster_name", .help = "Letters, digits, '.', '_' and '-'. Default: default."},
    {.name = "provider", .type = Type::kObject, .presence = kRequired, .object = &kProvider,
     .help = "Where the machines come from."},
    {.name = "auth", .type = Type::kObject, .object = &kAuth, .help = "How to log in."},
    {.name = "min_workers", .type = Type::kInt,
     .help = "Workers that down --keep-min-workers leaves; up starts max_workers. Default: max_workers. Only on-prem: "
             "elsewhere each type has its own."},
    {.name = "max_workers", .type = Type::kInt,
     .help = "Limit of all types together, without the head. Default on aws: 2; on-prem: all worker_ips."},
    {.name = "upscaling_speed", .type = Type::kNumber,
     .help = "How many nodes the head's autoscaler adds at once, as a multiple of the running ones. Default: 1.0."},
    {.name = "idle_timeout_minutes", .type = Type::kNumber,
     .help = "Minutes until the head's autoscaler removes an idle worker. Default: 5."},
    {.name = "head_node_type", .help = "The head's type. Default on aws: ray.head.default."},
    {.name = "available_node_types", .type = Type::kObjects, .object = &kNodeType,
     .help = "Kinds of machines by name. Not on-prem. Default on aws: ray.head.default and ray.worker.default."},
    {.name = "docker", .type = Type::kObject, .object = &kDocker, .help = "A container on every node."},
    {.name = "file_mounts", .type = Type::kStringMap, .help = "Copied to every node: remote path: local path."},
    {.name = "cluster_synced_files", .type = Type::kStrings,
     .help = "The head's autoscaler copies them from the head to the workers that it starts. Others get file_mounts alone."},
    {.name = "file_mounts_sync_continuously", .type = Type::kBool,
     .help = "The head's autoscaler keeps the workers' copies current. Default: false."},
    {.name = "rsync_exclude", .type = Type::kStrings, .help = "Patterns of files that are not copied."},
    {.name = "rsync_filter", .type = Type::kStrings,
     .help = "Names of files with such patterns, looked for in every directory: [.gitignore]."},
    {.name = "initialization_commands", .type = Type::kStrings,
     .help = "Run first, on the host even with docker."},
    {.name = "setup_commands", .type = Type::kStrings,
     .help = "Run on every node. Default on aws: installs Ray 2.60.0 where there is none."},
    {.name = "head_setup_commands", .type = Type::kStrings,
     .help = "Run on the head after setup_commands. Default on aws: installs boto3 where there is none."},
    {.name = "worker_setup_commands", .type = Type::kStrings, .help = "Run on workers after setup_commands."},
    {.name = "head_start_ray_commands", .type = Type::kStrings,
     .help = "Start Ray on the head. Default: ray stop, ray start --head."},
    {.name = "worker_start_ray_commands", .type = Type::kStrings,
     .help = "Start Ray on workers. Default: ray stop, ray start --address=$RAY_HEAD_IP:6379."},
    {.name = "metadata", .type = Type::kMap, .help = "Your own notes. Without effect."},
    {.name = "no_restart", .type = Type::kBool,
     .help = "Without effect: internal to Ray. Use up --no-restart."},
    {.name = "hvdray", .type = Type::kObject, .object = &kHvdray,
     .help = "Only for hvdray; not in what Ray sees."},
    {.name = "head_node", .type = Type::kMap, .warning = kOldHead, .is_old = true,
     .help = "Becomes the type ray-legacy-head-node-type, and head_node_type its name."},
    {.name = "worker_nodes", .type = Type::kMap, .warning = kOldWorkers, .is_old = true,
     .help = "Becomes the type ray-legacy-worker-node-type, with the cluster's min_workers and max_workers."},
    {.name = "initial_workers", .type = Type::kInt, .is_old = true, .help = "Raises min_workers."},
    {.name = "autoscaling_mode",
     .warning = "is from older Ray versions and has no effect: upscaling_speed has replaced it",
     .is_old = true, .help = "Dropped. Now: upscaling_speed."},
    {.name = "target_utilization_fraction", .type = Type::kNumber,
     .warning = "is from older Ray versions and has no effect: upscaling_speed has replaced it",
     .is_old = true, .help = "Dropped. Now: upscaling_speed."},
    {.name = "worker_default_node_type",
     .warning = "is from older Ray versions and has no effect: write min_workers into that type",
     .is_old = true, .help = "Dropped. Now: min_workers of the type."},
};
// clang-format on
constexpr ObjectRule kTop{kTopKeys};

/// Names of text in the parameters of RunInstances and in IpPermissions, wherever they stand there:
/// no name is text in one place and a number in another. SubnetIds is Ray's own.
/// Source: botocore's model of ec2, 2016-11-15; provider_test.py compares.
constexpr std::string_view kAwsText[] = {"AdditionalInfo",
                                         "Affinity",
                                         "AmdSevSnp",
                                         "Arn",
                                         "AutoRecovery",
                                         "AvailabilityZone",
                                         "AvailabilityZoneId",
                                         "BandwidthWeighting",
                                         "CapacityReservationId",
                                         "CapacityReservationPreference",
                                         "CapacityReservationResourceGroupArn",
                                         "CidrIp",
                                         "CidrIpv6",
                                         "CpuCredits",
                                         "Description",
                                         "DeviceName",
                                         "GroupId",
                                         "GroupName",
                                         "Groups",
                                         "HostId",
                                         "HostResourceGroupArn",
                                         "HostnameType",
                                         "HttpEndpoint",
                                         "HttpProtocolIpv6",
                                         "HttpTokens",
                                         "ImageId",
                                         "InstanceInitiatedShutdownBehavior",
                                         "InstanceInterruptionBehavior",
                                         "InstanceMetadataTags",
                                         "InstanceType",
                                         "InterfaceType",
                                         "IpProtocol",
                                         "Ipv4Prefix",
                                         "Ipv6Address",
                                         "Ipv6Prefix",
                                         "KernelId",
                                         "Key",
                                         "KeyName",
                                         "KmsKeyId",
                                         "LaunchTemplateId",
                                         "LaunchTemplateName",
                                         "LicenseConfigurationArn",
                                         "MarketType",
                                         "MaxPrice",
                                         "MetricCategoryIds",
                                         "Name",
                                         "NestedVirtualization",
                                         "NetworkInterfaceId",
                                         "NoDevice",
                                         "OutpostArn",
                                         "PeeringStatus",
                                         "PrefixListId",
                                         "Principal",
                                         "PrivateIpAddress",
                                         "RamdiskId",
                                         "ResourceType",
                                         "SecondarySubnetId",
                                         "SecurityGroupIds",
                                         "SecurityGroups",
                                         "SnapshotId",
                                         "SpotInstanceType",
                                         "SpreadDomain",
                                         "SubnetId",
                                         "SubnetIds",
                                         "Tenancy",
                                         "Type",
                                         "UserData",
                                         "UserId",
                                         "ValidUntil",
                                         "Value",
                                         "Version",
                                         "VirtualName",
                                         "VolumeType",
                                         "VpcId",
                                         "VpcPeeringConnectionId"};

bool IsAwsText(std::string_view key) { return std::ranges::binary_search(kAwsText, key); }

const KeyRule* FindRule(const ObjectRule& object, std::string_view name) {
  for (const KeyRule& rule : object.keys) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

std::string Join(const std::string& path, std::string_view key) {
  return path.empty() ? ShownText(key) : fmt::format("{}.{}", path, ShownText(key));
}

Status UnknownKey(const YamlNode::Entry& entry, std::span<const std::string_view> names,
                  const std::string& path) {
  constexpr size_t kMostListed = 12;
  const std::string nearest = Nearest(std::string_view(entry.key).substr(0, 80), names);
  return {ErrorCode::kSpecInvalid,
          fmt::format("{}: unknown key '{}'{}", entry.where, ShownText(entry.key),
                      path.empty() ? "" : " in " + path),
          !nearest.empty()              ? fmt::format("did you mean {}?", nearest)
          : names.size() <= kMostListed ? fmt::format("keys are {}", fmt::join(names, ", "))
                                        : "configs/schema/cluster.schema.json has all keys"};
}

template <typename T>
Status ToStatus(const Result<T>& result) {
  return result.status();
}

class SchemaChecker {
 public:
  explicit SchemaChecker(std::vector<std::string>& warnings) : warnings_(warnings) {}

  Status CheckObject(const YamlNode& node, const ObjectRule& object, const std::string& path) {
    HVDRAY_RETURN_IF_ERROR(CheckIsMap(node, path));
    for (const YamlNode::Entry& entry : node.entries()) {
      const KeyRule* rule = FindRule(object, entry.key);
      if (rule == nullptr) {
        if (object.unknown == Unknown::kRefused) return UnknownKey(entry, Names(object), path);
        continue;
      }
      HVDRAY_RETURN_IF_ERROR(CheckValue(entry.value, *rule, Join(path, entry.key)));
      const bool is_empty_map =
          entry.value.kind() == YamlNode::Kind::kMap && entry.value.entries().empty();
      if (!rule->warning.empty() && !is_empty_map) {
        warnings_.push_back(fmt::format("{}: {} {}", entry.where, entry.key, rule->warning));
      }
    }
    for (const KeyRule& rule : object.keys) {
      if (rule.presence == kRequired && node.Find(rule.name) == nullptr) {
        return node.Error(fmt::format("{} is missing", Join(path, rule.name)));
      }
    }
    return {};
  }

  /// The keys of a provider that hvdray drives itself: no others, and a warning for one that only
  /// another provider reads.
  Status CheckProvider(const YamlNode& node) {
    const std::string& type = node.Find("type")->text();
    if (type != "local" && type != "aws") return {};
    const Only own = type == "local" ? Only::kLocal : Only::kAws;
    std::vector<std::string_view> names;
    for (const KeyRule& rule : kProvider.keys) {
      if (rule.only == Only::kAny || rule.only == own) names.push_back(rule.name);
    }
    for (const YamlNode::Entry& entry : node.entries()) {
      if (std::ranges::find(names, entry.key) != names.end()) continue;
      if (FindRule(kProvider, entry.key) == nullptr) return UnknownKey(entry, names, "provider");
      warnings_.push_back(fmt::format("{}: provider.{} has no effect with provider type {}",
                                      entry.where, entry.key, type));
    }
    return {};
  }

 private:
  static std::vector<std::string_view> Names(const ObjectRule& object) {
    std::vector<std::string_view> names;
    names.reserve(object.keys.size());
    for (const KeyRule& rule : object.keys) names.push_back(rule.name);
    return names;
  }

  static Status WrongKind(const YamlNode& node, const std::string& path, std::string_view wanted) {
    std::string_view is = "a plain value";
    if (node.kind() == YamlNode::Kind::kNull) is = "empty";
    if (node.kind() == YamlNode::Kind::kSequence) is = "a list";
    if (node.kind() == YamlNode::Kind::kMap) is = "a map";
    return node.Error(fmt::format("{} is {}, not {}", path.empty() ? "the file" : path, is, wanted),
                      node.IsNull() && !path.empty() ? "remove the key or give it a value" : "");
  }

  static Status CheckIsMap(const YamlNode& node, const std::string& path) {
    return node.kind() == YamlNode::Kind::kMap ? Status() : WrongKind(node, path, "a map");
  }

  static Status CheckNumber(const YamlNode& node, const std::string& path) {
    HVDRAY_ASSIGN_OR_RETURN(const double value, node.AsDouble(path));
    if (value >= 0) return {};
    return node.Error(fmt::format("{} is {}, but must be at least 0", path, node.text()));
  }

  Status CheckMapValues(const YamlNode& node, const KeyRule& rule, const std::string& path) {
    HVDRAY_RETURN_IF_ERROR(CheckIsMap(node, path));
    for (const YamlNode::Entry& entry : node.entries()) {
      const std::string name = Join(path, entry.key);
      Status status;
      if (rule.type == Type::kStringMap) status = ToStatus(entry.value.AsString(name));
      if (rule.type == Type::kCountMap) status = ToStatus(WholeOf(entry.value, name, 0, kMaxCount));
      if (rule.type == Type::kObjects) status = CheckObject(entry.value, *rule.object, name);
      HVDRAY_RETURN_IF_ERROR(status);
    }
    return {};
  }

  Status CheckValue(const YamlNode& node, const KeyRule& rule, const std::string& path) {
    switch (rule.type) {
      case Type::kString:
        return ToStatus(node.AsString(path));
      case Type::kBool:
        return ToStatus(node.AsBool(path));
      case Type::kInt:
        return ToStatus(WholeOf(node, path, rule.min, rule.max));
      case Type::kNumberOrNull:
        return node.IsNull() ? Status() : CheckNumber(node, path);
      case Type::kNumber:
        return CheckNumber(node, path);
      case Type::kList:
        return node.kind() == YamlNode::Kind::kSequence ? Status()
                                                        : WrongKind(node, path, "a list");
      case Type::kStrings:
        return ToStatus(node.AsStrings(path));
      case Type::kMap:
        return CheckIsMap(node, path);
      case Type::kStringMap:
      case Type::kCountMap:
      case Type::kObjects:
        return CheckMapValues(node, rule, path);
      case Type::kObject:
        return CheckObject(node, *rule.object, path);
    }
    return {};
  }

  std::vector<std::string>& warnings_;
};

/// A value in the type of its key. Only text that some reader types is changed: the file's own
/// style stays.
YamlNode AsText(const YamlNode& node) {
  const bool is_plain = node.kind() == YamlNode::Kind::kScalar && !node.is_quoted();
  if (!is_plain || !IsTypedWithoutQuotes(node.text())) return node;
  return YamlNode::Scalar(node.text(), /*is_quoted=*/true, node);
}

/// "4" for +4, 0x4 and 4.0.
YamlNode AsWhole(const YamlNode& node) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const Result<int64_t> whole = WholeOf(node, "", kMin, -(kMin + 1));
  if (!whole.ok()) return node;
  return YamlNode::Scalar(std::to_string(*whole), /*is_quoted=*/false, node);
}

/// "1000.0" for 1e3, which PyYAML takes for text.
YamlNode AsNumber(const YamlNode& node) {
  const Result<double> number = node.AsDouble("");
  const bool is_text = std::holds_alternative<std::string>(TypeScalar(node));
  if (!number.ok() || !is_text) return node;
  return YamlNode::Scalar(FloatText(*number), /*is_quoted=*/false, node);
}

/// `node` with each value of its list or map passed through `change`, which also gets the key.
template <typename Change>
YamlNode WithValues(const YamlNode& node, const Change& change) {
  if (node.kind() == YamlNode::Kind::kSequence) {
    std::vector<YamlNode> items;
    items.reserve(node.items().size());
    for (const YamlNode& item : node.items()) items.push_back(change(std::string(), item));
    return YamlNode::Sequence(std::move(items), node);
  }
  if (node.kind() != YamlNode::Kind::kMap) return node;
  std::vector<YamlNode::Entry> entries;
  entries.reserve(node.entries().size());
  for (const YamlNode::Entry& entry : node.entries()) {
    entries.push_back({entry.key, entry.where, change(entry.key, entry.value)});
  }
  return YamlNode::Map(std::move(entries), node);
}

YamlNode Typed(const YamlNode& node, const ObjectRule& object);

YamlNode Typed(const YamlNode& node, const KeyRule& rule) {
  switch (rule.type) {
    case Type::kBool:
    case Type::kList:
    case Type::kMap:
      return node;
    case Type::kString:
      return AsText(node);
    case Type::kInt:
      return AsWhole(node);
    case Type::kNumber:
    case Type::kNumberOrNull:
      return AsNumber(node);
    case Type::kStrings:
    case Type::kStringMap:
      return WithValues(node,
                        [](const std::string&, const YamlNode& each) { return AsText(each); });
    case Type::kCountMap:
      return WithValues(node,
                        [](const std::string&, const YamlNode& each) { return AsWhole(each); });
    case Type::kObject:
      return Typed(node, *rule.object);
    case Type::kObjects:
      return WithValues(node, [&rule](const std::string&, const YamlNode& each) {
        return Typed(each, *rule.object);
      });
  }
  return node;
}

YamlNode Typed(const YamlNode& node, const ObjectRule& object) {
  return WithValues(node, [&object](const std::string& key, const YamlNode& value) {
    const KeyRule* rule = FindRule(object, key);
    return rule == nullptr ? value : Typed(value, *rule);
  });
}

/// The parameters of RunInstances and of security group rules that are text, and lists of text: for
/// these, boto3 refuses a number. `is_text`: the key that led here is one.
YamlNode WithAwsText(const YamlNode& node, bool is_text) {
  if (node.kind() == YamlNode::Kind::kScalar) return is_text ? AsText(node) : node;
  return WithValues(node, [is_text](const std::string& key, const YamlNode& value) {
    return WithAwsText(value, key.empty() ? is_text : IsAwsText(key));
  });
}

/// `node` with what stands at `path` changed; "*" is any key.
template <typename Change>
YamlNode WithChangeAt(const YamlNode& node, std::span<const std::string_view> path,
                      const Change& change) {
  if (path.empty()) return change(node);
  return WithValues(node, [&](const std::string& key, const YamlNode& value) {
    const bool is_there = key == path[0] || path[0] == "*";
    return is_there ? WithChangeAt(value, path.subspan(1), change) : value;
  });
}

Json Schema(const ObjectRule& object);

/// Text keys take any scalar, as AsString() does.
Json AnyScalar() { return {{"type", Json::array({"string", "number", "boolean"})}}; }

Json Schema(const KeyRule& rule) {
  switch (rule.type) {
    case Type::kString:
      return AnyScalar();
    case Type::kBool:
      return {{"type", "boolean"}};
    case Type::kInt:
      return {{"type", "integer"}, {"minimum", rule.min}, {"maximum", rule.max}};
    case Type::kNumber:
      return {{"type", "number"}, {"minimum", 0}};
    case Type::kNumberOrNull:
      return {{"type", Json::array({"number", "null"})}, {"minimum", 0}};
    case Type::kList:
      return {{"type", "array"}};
    case Type::kStrings:
      return {{"type", "array"}, {"items", AnyScalar()}};
    case Type::kMap:
      return {{"type", "object"}};
    case Type::kStringMap:
      return {{"type", "object"}, {"additionalProperties", AnyScalar()}};
    case Type::kCountMap:
      return {
          {"type", "object"},
          {"additionalProperties", {{"type", "integer"}, {"minimum", 0}, {"maximum", kMaxCount}}}};
    case Type::kObject:
      return Schema(*rule.object);
    case Type::kObjects:
      return {{"type", "object"}, {"additionalProperties", Schema(*rule.object)}};
  }
  return {};
}

Json Schema(const ObjectRule& object) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}};
  Json required = Json::array();
  for (const KeyRule& rule : object.keys) {
    std::string help(rule.help);
    if (rule.only == Only::kLocal) help += " Only of type local.";
    if (rule.only == Only::kAws) help += " Only of type aws.";
    Json key = {{"description", help}};
    if (rule.is_old) key["deprecated"] = true;
    key.update(Schema(rule));
    schema["properties"][std::string(rule.name)] = std::move(key);
    if (rule.presence == kRequired) required.push_back(rule.name);
  }
  if (!required.empty()) schema["required"] = std::move(required);
  if (object.unknown == Unknown::kRefused) schema["additionalProperties"] = false;
  return schema;
}

}  // namespace

Result<int64_t> WholeOf(const YamlNode& node, std::string_view name, int64_t min, int64_t max) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const Result<double> number = node.AsDouble(name);
  const bool is_whole = number.ok() && *number == std::floor(*number) && std::abs(*number) < kExact;
  if (!is_whole || std::holds_alternative<int64_t>(TypeScalar(node))) {
    return node.AsInt(name, min, max);
  }
  const std::string text = std::to_string(static_cast<int64_t>(*number));
  return YamlNode::Scalar(text, /*is_quoted=*/false, node).AsInt(name, min, max);
}

Status CheckClusterSchema(const YamlNode& root, std::vector<std::string>& warnings) {
  SchemaChecker checker(warnings);
  HVDRAY_RETURN_IF_ERROR(checker.CheckObject(root, kTop, ""));
  return checker.CheckProvider(*root.Find("provider"));
}

YamlNode WithSchemaTypes(const YamlNode& root) {
  using Path = std::vector<std::string_view>;
  const std::array<Path, 2> aws_paths = {Path{"available_node_types", "*", "node_config"},
                                         Path{"provider", "security_group", "IpPermissions"}};
  YamlNode typed = Typed(root, kTop);
  if (root.Find("provider")->Find("type")->text() != "aws") return typed;
  for (const Path& path : aws_paths) {
    typed =
        WithChangeAt(typed, path, [](const YamlNode& node) { return WithAwsText(node, false); });
  }
  return typed;
}

std::vector<std::string_view> ClusterProviders() {
  return {std::begin(kProviders), std::end(kProviders)};
}

std::vector<std::string_view> ClusterTopKeys() {
  std::vector<std::string_view> names;
  names.reserve(std::size(kTopKeys));
  for (const KeyRule& rule : kTopKeys) names.push_back(rule.name);
  return names;
}

std::string ClusterJsonSchema(const Json& run) {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "A cluster file of hvdray"}};
  schema.update(Schema(kTop));
  Json& properties = schema["properties"];
  properties["hvdray"]["properties"]["run"].update(run);
  Json types = Json::array();
  for (const std::string_view type : kProviders) types.push_back(type);
  properties["provider"]["properties"]["type"] = {
      {"description", FindRule(kProvider, "type")->help}, {"enum", std::move(types)}};
  return DumpJson(schema, 2) + "\n";
}

}  // namespace hvdray
