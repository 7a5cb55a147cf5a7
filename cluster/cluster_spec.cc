// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_spec.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <span>

#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kProviders[] = {
    "local",    "aws",     "gcp",      "azure", "vsphere",        "aliyun",
    "external", "kuberay", "readonly", "spark", "fake_multinode", "fake_multinode_docker"};

/// A string of `map`, empty when absent. The schema check has verified its type.
std::string TextOf(const YamlNode& map, std::string_view key) {
  const YamlNode* node = map.Find(key);
  return node == nullptr ? std::string() : node->text();
}

Status ReadAuth(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode* auth = root.Find("auth");
  if (auth == nullptr) return {};
  spec.auth.ssh_user = TextOf(*auth, "ssh_user");
  spec.auth.ssh_private_key = TextOf(*auth, "ssh_private_key");
  spec.auth.ssh_public_key = TextOf(*auth, "ssh_public_key");
  spec.auth.ssh_proxy_command = TextOf(*auth, "ssh_proxy_command");
  const YamlNode* use_id = auth->Find("ssh_proxy_use_node_id");
  if (use_id == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(spec.auth.is_proxied_by_node_id, use_id->AsBool("ssh_proxy_use_node_id"));
  if (spec.auth.is_proxied_by_node_id && spec.auth.ssh_proxy_command.empty()) {
    return use_id->Error("auth.ssh_proxy_use_node_id needs ssh_proxy_command");
  }
  return {};
}

/// A container needs a name, and an image or both images. Empty strings count as absent.
Status CheckDocker(const YamlNode& root) {
  const YamlNode* docker = root.Find("docker");
  if (docker == nullptr) return {};
  const bool has_name = !TextOf(*docker, "container_name").empty();
  const bool has_both =
      !TextOf(*docker, "head_image").empty() && !TextOf(*docker, "worker_image").empty();
  const bool has_image = !TextOf(*docker, "image").empty() || has_both;
  if (has_name == has_image) return {};
  return docker->Error(has_name ? "docker has a container_name but no image"
                                : "docker has an image but no container_name",
                       "set container_name and image (or head_image and worker_image), or none");
}

Status ReadProvider(const YamlNode& provider, ClusterSpec& spec) {
  const YamlNode& type = *provider.Find("type");
  spec.provider_type = type.text();
  if (std::find(std::begin(kProviders), std::end(kProviders), spec.provider_type) ==
      std::end(kProviders)) {
    const std::string nearest = Nearest(spec.provider_type.substr(0, 80), kProviders);
    return type.Error(fmt::format("unknown provider.type '{}'", ShownText(spec.provider_type)),
                      nearest.empty() ? fmt::format("types are {}", fmt::join(kProviders, ", "))
                                      : fmt::format("did you mean {}?", nearest));
  }
  if (spec.provider_type == "external" && TextOf(provider, "module").empty()) {
    return provider.Error("provider.module is missing: type external needs it");
  }
  return {};
}

/// Names and addresses, including IPv6; nothing that ssh or a shell would interpret otherwise.
bool IsAddress(std::string_view address) {
  if (address.empty() || address.size() > 253 || address[0] == '-') return false;
  const bool is_plain = std::all_of(address.begin(), address.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':';
  });
  if (!is_plain || address.find(':') == std::string_view::npos) return is_plain;
  in6_addr binary{};
  return ::inet_pton(AF_INET6, std::string(address).c_str(), &binary) == 1;
}

Status CheckAddress(const YamlNode& node, const std::string& name) {
  if (IsAddress(node.text())) return {};
  return node.Error(fmt::format("{} '{}' is not an address", name, ShownText(node.text())),
                    "a host name or an IP address, without user and port");
}

/// Refuses a worker that is listed twice or is also the head: it would be set up twice at once.
Status ReadAddresses(const YamlNode& provider, ClusterSpec& spec) {
  const YamlNode& head = *provider.Find("head_ip");
  HVDRAY_RETURN_IF_ERROR(CheckAddress(head, "provider.head_ip"));
  spec.head_ip = head.text();
  std::map<std::string, std::string> places = {{spec.head_ip, head.Where()}};
  const YamlNode& workers = *provider.Find("worker_ips");
  for (const YamlNode& worker : workers.items()) {
    HVDRAY_RETURN_IF_ERROR(CheckAddress(worker, "provider.worker_ips"));
    const auto [first, is_new] = places.emplace(worker.text(), worker.Where());
    if (!is_new) {
      return worker.Error(
          fmt::format("host {} is listed twice, first at {}", worker.text(), first->second));
    }
    spec.worker_ips.push_back(worker.text());
  }
  spec.external_head_ip = TextOf(provider, "external_head_ip");
  if (spec.external_head_ip.empty()) return {};
  return CheckAddress(*provider.Find("external_head_ip"), "provider.external_head_ip");
}

Status RefuseNodeTypes(const YamlNode& root) {
  for (const std::string_view key : {"available_node_types", "head_node", "worker_nodes"}) {
    const YamlNode::Entry* entry = FindEntry(root, key);
    if (entry == nullptr || entry->value.entries().empty()) continue;
    return {ErrorCode::kSpecInvalid,
            fmt::format("{}: {} is not valid with provider type local", entry->where, key),
            "remove the key: the hosts are provider.head_ip and provider.worker_ips"};
  }
  return {};
}

/// The count under `key`, limited to the number of worker addresses.
Result<int64_t> CappedCount(const YamlNode& root, std::string_view key, int64_t fallback,
                            ClusterSpec& spec) {
  const YamlNode* node = root.Find(key);
  if (node == nullptr) return fallback;
  HVDRAY_ASSIGN_OR_RETURN(const int64_t count,
                          node->AsInt(key, 0, std::numeric_limits<int32_t>::max()));
  const auto hosts = static_cast<int64_t>(spec.worker_ips.size());
  if (count <= hosts) return count;
  spec.warnings.push_back(
      fmt::format("{}: {} is {}, but worker_ips has {}", node->Where(), key, count, hosts));
  return hosts;
}

Status ReadLocal(const YamlNode& root, const YamlNode& provider, ClusterSpec& spec) {
  HVDRAY_RETURN_IF_ERROR(RefuseNodeTypes(root));
  spec.coordinator_address = TextOf(provider, "coordinator_address");
  const bool has_hosts =
      provider.Find("head_ip") != nullptr && provider.Find("worker_ips") != nullptr;
  if (!has_hosts) {
    if (!spec.coordinator_address.empty()) return {};
    const bool has_head = provider.Find("head_ip") != nullptr;
    return provider.Error(
        fmt::format("provider.{} is missing: type local needs head_ip and worker_ips",
                    has_head ? "worker_ips" : "head_ip"),
        has_head ? "worker_ips: [] if the head is the only host" : "");
  }
  HVDRAY_RETURN_IF_ERROR(ReadAddresses(provider, spec));
  const auto hosts = static_cast<int64_t>(spec.worker_ips.size());
  HVDRAY_ASSIGN_OR_RETURN(spec.max_workers, CappedCount(root, "max_workers", hosts, spec));
  HVDRAY_ASSIGN_OR_RETURN(spec.min_workers,
                          CappedCount(root, "min_workers", spec.max_workers, spec));
  HVDRAY_RETURN_IF_ERROR(RaiseToInitialWorkers(root, spec));
  if (spec.min_workers > spec.max_workers) {
    return root.Find("min_workers")
        ->Error(fmt::format("min_workers ({}) is above max_workers ({})", spec.min_workers,
                            spec.max_workers));
  }
  if (spec.max_workers < hosts) {
    spec.warnings.push_back(fmt::format("{}: max_workers leaves {} of worker_ips unused",
                                        root.Find("max_workers")->Where(),
                                        hosts - spec.max_workers));
  }
  return {};
}

Status ReadHvdray(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode* ours = root.Find("hvdray");
  if (ours == nullptr) return {};
  if (const YamlNode* slots = ours->Find("slots_per_host")) {
    HVDRAY_ASSIGN_OR_RETURN(spec.slots_per_host, slots->AsInt("hvdray.slots_per_host", 1,
                                                              std::numeric_limits<int>::max()));
  }
  if (const YamlNode* run = ours->Find("run")) spec.run = *run;
  return {};
}

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

struct ObjectRule;

struct KeyRule {
  std::string_view name;
  ValueType type = ValueType::kString;
  Presence presence = Presence::kOptional;
  const ObjectRule* object = nullptr;
  int64_t min = 0;
  int64_t max = std::numeric_limits<int32_t>::max();
  std::string_view warning = {};  ///< For an outdated key that still works or is harmless.
};

struct ObjectRule {
  std::span<const KeyRule> keys;
  Unknown unknown = Unknown::kRefused;
};

using Type = ValueType;
constexpr Presence kRequired = Presence::kRequired;

constexpr KeyRule kAuthKeys[] = {
    {.name = "ssh_user", .type = Type::kString},
    {.name = "ssh_private_key", .type = Type::kString},
    {.name = "ssh_public_key", .type = Type::kString},
    {.name = "ssh_proxy_command", .type = Type::kString},
    {.name = "ssh_proxy_use_node_id", .type = Type::kBool},
};
constexpr ObjectRule kAuth{kAuthKeys};

constexpr KeyRule kDockerKeys[] = {
    {.name = "image", .type = Type::kString},
    {.name = "container_name", .type = Type::kString},
    {.name = "pull_before_run", .type = Type::kBool},
    {.name = "run_options", .type = Type::kStrings},
    {.name = "head_image", .type = Type::kString},
    {.name = "head_run_options", .type = Type::kStrings},
    {.name = "worker_image", .type = Type::kString},
    {.name = "worker_run_options", .type = Type::kStrings},
    {.name = "disable_automatic_runtime_detection", .type = Type::kBool},
    {.name = "disable_shm_size_detection", .type = Type::kBool},
    {.name = "use_podman", .type = Type::kBool},
};
constexpr ObjectRule kDocker{kDockerKeys};

constexpr KeyRule kKeyPairKeys[] = {{.name = "key_name", .type = Type::kString}};
constexpr ObjectRule kKeyPair{kKeyPairKeys, Unknown::kAccepted};

constexpr KeyRule kSecurityGroupKeys[] = {
    {.name = "GroupName", .type = Type::kString},
    {.name = "IpPermissions", .type = Type::kList},
};
constexpr ObjectRule kSecurityGroup{kSecurityGroupKeys};

constexpr KeyRule kProviderKeys[] = {
    {.name = "type", .type = Type::kString, .presence = kRequired},
    {.name = "module", .type = Type::kString},
    {.name = "use_internal_ips", .type = Type::kBool},
    {.name = "use_external_head_ip", .type = Type::kBool},
    {.name = "disable_node_updaters", .type = Type::kBool},
    {.name = "disable_launch_config_check", .type = Type::kBool},
    {.name = "foreground_node_launch", .type = Type::kBool},
    {.name = "worker_liveness_check", .type = Type::kBool},
    {.name = "head_ip", .type = Type::kString},
    {.name = "worker_ips", .type = Type::kStrings},
    {.name = "external_head_ip", .type = Type::kString},
    {.name = "coordinator_address", .type = Type::kString},
    {.name = "region", .type = Type::kString},
    {.name = "availability_zone", .type = Type::kString},
    {.name = "cache_stopped_nodes", .type = Type::kBool},
    {.name = "key_pair", .type = Type::kObject, .object = &kKeyPair},
    {.name = "security_group", .type = Type::kObject, .object = &kSecurityGroup},
    {.name = "aws_credentials", .type = Type::kMap},
    {.name = "cloudwatch", .type = Type::kMap},
};
constexpr ObjectRule kProvider{kProviderKeys, Unknown::kAccepted};

constexpr KeyRule kNodeTypeDockerKeys[] = {
    {.name = "pull_before_run", .type = Type::kBool},
    {.name = "worker_image", .type = Type::kString},
    {.name = "worker_run_options", .type = Type::kStrings},
};
constexpr ObjectRule kNodeTypeDocker{kNodeTypeDockerKeys};

constexpr KeyRule kNodeTypeKeys[] = {
    {.name = "node_config", .type = Type::kMap, .presence = kRequired},
    {.name = "resources", .type = Type::kCountMap},
    {.name = "min_workers", .type = Type::kInt},
    {.name = "max_workers", .type = Type::kInt},
    {.name = "idle_timeout_s", .type = Type::kNumberOrNull},
    {.name = "priority",
     .type = Type::kInt,
     .min = std::numeric_limits<int32_t>::min(),
     .max = std::numeric_limits<int32_t>::max()},
    {.name = "labels", .type = Type::kStringMap},
    {.name = "initialization_commands", .type = Type::kStrings},
    {.name = "worker_setup_commands", .type = Type::kStrings},
    {.name = "docker", .type = Type::kObject, .object = &kNodeTypeDocker},
};
constexpr ObjectRule kNodeType{kNodeTypeKeys};

constexpr KeyRule kHvdrayKeys[] = {
    {.name = "slots_per_host", .type = Type::kInt, .min = 1, .max = 65536},
    {.name = "run", .type = Type::kMap},
};
constexpr ObjectRule kHvdray{kHvdrayKeys};

constexpr std::string_view kOldIgnored = "is from older Ray versions and has no effect";
constexpr std::string_view kOldNodes =
    "is from older Ray versions: treated as a type of available_node_types";

constexpr KeyRule kTopKeys[] = {
    {.name = "cluster_name", .type = Type::kString},
    {.name = "min_workers", .type = Type::kInt},
    {.name = "max_workers", .type = Type::kInt},
    {.name = "upscaling_speed", .type = Type::kNumber},
    {.name = "idle_timeout_minutes", .type = Type::kNumber},
    {.name = "provider", .type = Type::kObject, .presence = kRequired, .object = &kProvider},
    {.name = "auth", .type = Type::kObject, .object = &kAuth},
    {.name = "docker", .type = Type::kObject, .object = &kDocker},
    {.name = "head_node_type", .type = Type::kString},
    {.name = "available_node_types", .type = Type::kObjects, .object = &kNodeType},
    {.name = "file_mounts", .type = Type::kStringMap},
    {.name = "cluster_synced_files", .type = Type::kStrings},
    {.name = "file_mounts_sync_continuously", .type = Type::kBool},
    {.name = "rsync_exclude", .type = Type::kStrings},
    {.name = "rsync_filter", .type = Type::kStrings},
    {.name = "metadata", .type = Type::kMap},
    {.name = "initialization_commands", .type = Type::kStrings},
    {.name = "setup_commands", .type = Type::kStrings},
    {.name = "head_setup_commands", .type = Type::kStrings},
    {.name = "worker_setup_commands", .type = Type::kStrings},
    {.name = "head_start_ray_commands", .type = Type::kStrings},
    {.name = "worker_start_ray_commands", .type = Type::kStrings},
    {.name = "no_restart", .type = Type::kBool},
    {.name = "hvdray", .type = Type::kObject, .object = &kHvdray},
    {.name = "head_node", .type = Type::kMap, .warning = kOldNodes},
    {.name = "worker_nodes", .type = Type::kMap, .warning = kOldNodes},
    {.name = "initial_workers", .type = Type::kInt},
    {.name = "autoscaling_mode", .type = Type::kString, .warning = kOldIgnored},
    {.name = "target_utilization_fraction", .type = Type::kNumber, .warning = kOldIgnored},
    {.name = "worker_default_node_type", .type = Type::kString, .warning = kOldIgnored},
};
constexpr ObjectRule kTop{kTopKeys};

const KeyRule* FindRule(const ObjectRule& object, std::string_view name) {
  for (const KeyRule& rule : object.keys) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

template <typename T>
Status StatusOf(const Result<T>& result) {
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
        if (object.unknown == Unknown::kRefused) return UnknownKey(entry, object, path);
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

 private:
  static std::string Join(const std::string& path, std::string_view key) {
    return path.empty() ? ShownText(key) : fmt::format("{}.{}", path, ShownText(key));
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

  static Status UnknownKey(const YamlNode::Entry& entry, const ObjectRule& object,
                           const std::string& path) {
    std::vector<std::string_view> names;
    for (const KeyRule& rule : object.keys) names.push_back(rule.name);
    const std::string nearest = Nearest(std::string_view(entry.key).substr(0, 80), names);
    return {ErrorCode::kSpecInvalid,
            fmt::format("{}: unknown key '{}'{}", entry.where, ShownText(entry.key),
                        path.empty() ? "" : " in " + path),
            nearest.empty() ? fmt::format("keys are {}", fmt::join(names, ", "))
                            : fmt::format("did you mean {}?", nearest)};
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
      if (rule.type == Type::kStringMap) status = StatusOf(entry.value.AsString(name));
      if (rule.type == Type::kCountMap) status = StatusOf(entry.value.AsInt(name, 0, kMaxCount));
      if (rule.type == Type::kObjects) status = CheckObject(entry.value, *rule.object, name);
      HVDRAY_RETURN_IF_ERROR(status);
    }
    return {};
  }

  Status CheckValue(const YamlNode& node, const KeyRule& rule, const std::string& path) {
    switch (rule.type) {
      case Type::kString:
        return StatusOf(node.AsString(path));
      case Type::kBool:
        return StatusOf(node.AsBool(path));
      case Type::kInt:
        return StatusOf(node.AsInt(path, rule.min, rule.max));
      case Type::kNumberOrNull:
        return node.IsNull() ? Status() : CheckNumber(node, path);
      case Type::kNumber:
        return CheckNumber(node, path);
      case Type::kList:
        return node.kind() == YamlNode::Kind::kSequence ? Status()
                                                        : WrongKind(node, path, "a list");
      case Type::kStrings:
        return StatusOf(node.AsStrings(path));
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

  // Memory is counted in bytes.
  static constexpr int64_t kMaxCount = int64_t{1} << 53;

  std::vector<std::string>& warnings_;
};

constexpr std::string_view kLegacyHead = "ray-legacy-head-node-type";
constexpr std::string_view kLegacyWorker = "ray-legacy-worker-node-type";
constexpr std::string_view kAwsHead = "ray.head.default";  // from Ray's defaults for aws
constexpr int64_t kDefaultMaxWorkers = 2;
constexpr int64_t kMaxWorkers = std::numeric_limits<int32_t>::max();
// Memory is counted in bytes.
constexpr int64_t kMaxResource = int64_t{1} << 53;

bool IsGiven(const YamlNode* node) { return node != nullptr && !node->entries().empty(); }

Result<int64_t> CountOr(const YamlNode& map, std::string_view key, int64_t fallback) {
  const YamlNode* node = map.Find(key);
  if (node == nullptr) return fallback;
  return node->AsInt(key, 0, kMaxWorkers);
}

Status ReadResources(const YamlNode& node, ClusterNodeType& type) {
  if (node.kind() != YamlNode::Kind::kMap) return node.Error("resources is not a map");
  for (const YamlNode::Entry& entry : node.entries()) {
    HVDRAY_ASSIGN_OR_RETURN(
        const int64_t count,
        entry.value.AsInt("resources." + ShownText(entry.key), 0, kMaxResource));
    type.resources[entry.key] = count;
  }
  return {};
}

/// Whether the provider asks its cloud for the resources of a machine.
bool KnowsResources(std::string_view provider) {
  constexpr std::array<std::string_view, 4> kClouds = {"aws", "gcp", "azure", "vsphere"};
  return std::find(kClouds.begin(), kClouds.end(), provider) != kClouds.end();
}

Result<ClusterNodeType> ReadNodeType(const YamlNode::Entry& entry, const ClusterSpec& spec) {
  ClusterNodeType type;
  type.name = entry.key;
  const bool is_head = entry.key == spec.head_node_type;
  const YamlNode& node = entry.value;
  HVDRAY_ASSIGN_OR_RETURN(type.min_workers, CountOr(node, "min_workers", 0));
  HVDRAY_ASSIGN_OR_RETURN(type.max_workers,
                          CountOr(node, "max_workers", is_head ? 0 : spec.max_workers));
  const std::string name = "available_node_types." + ShownText(entry.key);
  if (type.min_workers > type.max_workers) {
    return node.Error(fmt::format("{}: min_workers ({}) is above max_workers ({})", name,
                                  type.min_workers, type.max_workers));
  }
  if (const YamlNode* resources = node.Find("resources")) {
    HVDRAY_RETURN_IF_ERROR(ReadResources(*resources, type));
  } else if (!KnowsResources(spec.provider_type)) {
    return node.Error(fmt::format("{}.resources is missing", name),
                      "list what a machine has, for example resources: {CPU: 8}");
  }
  type.node_config = node.Find("node_config")->entries();
  return type;
}

Status CheckHeadType(const YamlNode& root, const YamlNode& types, const ClusterSpec& spec) {
  if (types.Find(spec.head_node_type) != nullptr) return {};
  const YamlNode* head = root.Find("head_node_type");
  if (head == nullptr) {
    return types.Error("head_node_type is missing", "name one of available_node_types");
  }
  std::vector<std::string_view> names;
  for (const YamlNode::Entry& entry : types.entries()) {
    names.push_back(std::string_view(entry.key).substr(0, 80));
  }
  const std::string nearest = Nearest(spec.head_node_type.substr(0, 80), names);
  return head->Error(fmt::format("head_node_type '{}' is not among available_node_types",
                                 ShownText(spec.head_node_type)),
                     nearest.empty() ? "" : fmt::format("did you mean {}?", ShownText(nearest)));
}

/// The minimums of all types together must fit into max_workers.
Status CheckSum(const YamlNode& place, const ClusterSpec& spec) {
  int64_t sum = 0;
  for (const ClusterNodeType& type : spec.node_types) sum += type.min_workers;
  if (sum <= spec.max_workers) return {};
  return place.Error(fmt::format("min_workers of all types add up to {}, but max_workers is {}",
                                 sum, spec.max_workers),
                     fmt::format("set max_workers: {} or lower min_workers", sum));
}

void WarnNoEffect(const YamlNode& root, std::string_view key, ClusterSpec& spec) {
  if (const YamlNode::Entry* entry = FindEntry(root, key)) {
    spec.warnings.push_back(fmt::format(
        "{}: {} has no effect with available_node_types: set it per type", entry->where, key));
  }
}

Status ReadTypes(const YamlNode& root, const YamlNode& types, ClusterSpec& spec) {
  HVDRAY_RETURN_IF_ERROR(CheckHeadType(root, types, spec));
  for (const std::string_view key : {"min_workers", "initial_workers"}) {
    WarnNoEffect(root, key, spec);
  }
  for (const YamlNode::Entry& entry : types.entries()) {
    HVDRAY_ASSIGN_OR_RETURN(ClusterNodeType type, ReadNodeType(entry, spec));
    spec.min_workers += type.min_workers;
    spec.node_types.push_back(std::move(type));
  }
  return CheckSum(types, spec);
}

/// Splits the resources off `node`: in the current form they are a sibling of node_config.
Result<ClusterNodeType> FromLegacy(std::string_view name, const YamlNode& node) {
  ClusterNodeType type;
  type.name = name;
  for (const YamlNode::Entry& entry : node.entries()) {
    if (entry.key == "resources") {
      HVDRAY_RETURN_IF_ERROR(ReadResources(entry.value, type));
    } else {
      type.node_config.push_back(entry);
    }
  }
  return type;
}

Status ReadLegacyTypes(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode* head = root.Find("head_node");
  const YamlNode* workers = root.Find("worker_nodes");
  if (head == nullptr || workers == nullptr) {
    return (head != nullptr ? head : workers)
        ->Error(fmt::format("{} without {}", head != nullptr ? "head_node" : "worker_nodes",
                            head != nullptr ? "worker_nodes" : "head_node"),
                "set both, or available_node_types");
  }
  for (const std::string_view key : {"available_node_types", "head_node_type"}) {
    const YamlNode* node = root.Find(key);
    if (node == nullptr || (node->kind() == YamlNode::Kind::kMap && !IsGiven(node))) continue;
    return node->Error(fmt::format("{} and head_node are mutually exclusive", key),
                       "head_node is the old form: remove it and worker_nodes");
  }
  HVDRAY_ASSIGN_OR_RETURN(spec.min_workers, CountOr(root, "min_workers", 0));
  HVDRAY_RETURN_IF_ERROR(RaiseToInitialWorkers(root, spec));
  HVDRAY_ASSIGN_OR_RETURN(ClusterNodeType head_type, FromLegacy(kLegacyHead, *head));
  HVDRAY_ASSIGN_OR_RETURN(ClusterNodeType worker_type, FromLegacy(kLegacyWorker, *workers));
  worker_type.min_workers = spec.min_workers;
  worker_type.max_workers = spec.max_workers;
  spec.head_node_type = kLegacyHead;
  spec.node_types = {std::move(head_type), std::move(worker_type)};
  return CheckSum(*workers, spec);
}

}  // namespace

Result<ClusterSpec> ParseClusterSpec(std::string_view text, std::string file_name) {
  HVDRAY_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, std::move(file_name)));
  ClusterSpec spec;
  HVDRAY_RETURN_IF_ERROR(CheckClusterSchema(root, spec.warnings));
  if (const YamlNode* name = root.Find("cluster_name")) {
    if (name->text().empty()) return name->Error("cluster_name is empty");
    spec.cluster_name = name->text();
  }
  const YamlNode& provider = *root.Find("provider");
  HVDRAY_RETURN_IF_ERROR(ReadProvider(provider, spec));
  HVDRAY_RETURN_IF_ERROR(ReadAuth(root, spec));
  HVDRAY_RETURN_IF_ERROR(CheckDocker(root));
  HVDRAY_RETURN_IF_ERROR(spec.is_local() ? ReadLocal(root, provider, spec)
                                         : ReadNodeTypes(root, spec));
  HVDRAY_RETURN_IF_ERROR(ReadHvdray(root, spec));
  return spec;
}

Result<ClusterSpec> LoadClusterSpec(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxYamlBytes));
  return ParseClusterSpec(text, path);
}

Result<std::vector<ClusterHost>> ClusterHostsOf(const ClusterSpec& spec, int default_slots) {
  if (!spec.is_local()) {
    return Status(
        ErrorCode::kNotSupported,
        fmt::format("a cluster file with provider type {} does not list its hosts",
                    spec.provider_type),
        "list them with provider: {type: local, head_ip: …, worker_ips: […]}, or with -H");
  }
  if (spec.head_ip.empty()) {
    return Status(ErrorCode::kNotSupported,
                  "a cluster file with a coordinator_address does not list its hosts",
                  "list them with head_ip and worker_ips, or with -H");
  }
  const int slots = spec.slots_per_host.value_or(default_slots);
  std::vector<ClusterHost> hosts = {{spec.head_ip, slots}};
  for (const std::string& worker : spec.worker_ips) {
    if (static_cast<int64_t>(hosts.size()) > spec.max_workers) break;
    hosts.push_back({worker, slots});
  }
  return hosts;
}

const YamlNode::Entry* FindEntry(const YamlNode& map, std::string_view key) {
  for (const YamlNode::Entry& entry : map.entries()) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Status CheckClusterSchema(const YamlNode& root, std::vector<std::string>& warnings) {
  return SchemaChecker(warnings).CheckObject(root, kTop, "");
}

Status RaiseToInitialWorkers(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode::Entry* entry = FindEntry(root, "initial_workers");
  if (entry == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(const int64_t initial, CountOr(root, "initial_workers", 0));
  spec.min_workers = std::max(spec.min_workers, std::min(initial, spec.max_workers));
  spec.warnings.push_back(
      fmt::format("{}: initial_workers is from older Ray versions: min_workers is now {}",
                  entry->where, spec.min_workers));
  return {};
}

Status ReadNodeTypes(const YamlNode& root, ClusterSpec& spec) {
  HVDRAY_ASSIGN_OR_RETURN(spec.max_workers, CountOr(root, "max_workers", kDefaultMaxWorkers));
  const bool is_aws = spec.provider_type == "aws";
  const YamlNode* head = root.Find("head_node_type");
  if (head != nullptr || is_aws) {
    spec.head_node_type = head != nullptr ? head->text() : std::string(kAwsHead);
  }
  const YamlNode* types = root.Find("available_node_types");
  if (IsGiven(root.Find("head_node")) || IsGiven(root.Find("worker_nodes"))) {
    return ReadLegacyTypes(root, spec);
  }
  if (IsGiven(types)) return ReadTypes(root, *types, spec);
  if (head != nullptr && !(is_aws && spec.head_node_type == kAwsHead)) {
    return head->Error("head_node_type without available_node_types");
  }
  spec.head_node_type.clear();
  HVDRAY_ASSIGN_OR_RETURN(spec.min_workers, CountOr(root, "min_workers", 0));
  HVDRAY_RETURN_IF_ERROR(RaiseToInitialWorkers(root, spec));
  if (spec.min_workers <= spec.max_workers) return {};
  return root.Find("min_workers")
      ->Error(fmt::format("min_workers ({}) is above max_workers ({})", spec.min_workers,
                          spec.max_workers));
}

}  // namespace hvdray
