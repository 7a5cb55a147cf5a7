#include "cluster/cluster_schema.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <span>

#include "base/nearest.h"
#include "base/shown_text.h"

namespace hvdray {
namespace {

enum class ValueType : uint8_t {
  kString,
  kBool,
  kInt,
  kNumber,        ///< At least 0.
  kNumberOrNull,  ///< The same, or nothing.
  kList,
  kStrings,
  kMap,
  kStringMap,
  kCountMap,  ///< Names to integers, at least 0.
  kObject,    ///< A map with keys of its own.
  kObjects,   ///< Names to such maps.
};

enum class Presence : uint8_t { kOptional, kRequired };

/// Of an object: what becomes of a key that is not in the table.
enum class Unknown : uint8_t { kRefused, kAccepted };

struct ObjectRule;

struct KeyRule {
  std::string_view name;
  ValueType type = ValueType::kString;
  Presence presence = Presence::kOptional;
  const ObjectRule* object = nullptr;
  int64_t min = 0;
  int64_t max = std::numeric_limits<int32_t>::max();
  std::string_view warning = {};  ///< The key works, or is harmless, but is out of use.
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

constexpr std::string_view kOldIgnored = "is of older Ray versions and has no effect";
constexpr std::string_view kOldNodes =
    "is of older Ray versions: taken as a type of available_node_types";

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
    return node.Error(fmt::format("{} is {}, not at least 0", path, node.text()));
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

}  // namespace

const YamlNode::Entry* FindEntry(const YamlNode& map, std::string_view key) {
  for (const YamlNode::Entry& entry : map.entries()) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Status CheckClusterSchema(const YamlNode& root, std::vector<std::string>& warnings) {
  return SchemaChecker(warnings).CheckObject(root, kTop, "");
}

}  // namespace hvdray
