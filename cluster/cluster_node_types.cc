#include "cluster/cluster_node_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/nearest.h"
#include "base/shown_text.h"
#include "cluster/cluster_schema.h"

namespace hvdray {
namespace {

constexpr std::string_view kLegacyHead = "ray-legacy-head-node-type";
constexpr std::string_view kLegacyWorker = "ray-legacy-worker-node-type";
constexpr std::string_view kAwsHead = "ray.head.default";  // Of Ray's defaults for aws.
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

/// Providers that ask the cloud what a machine has.
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
                      "say what a machine has, as in resources: {CPU: 8}");
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

/// The workers that the types ask for at least have to fit.
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
        "{}: {} has no effect beside available_node_types: give it per type", entry->where, key));
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

/// `node` without its resources, which Ray now wants beside it.
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
                "give both, or available_node_types");
  }
  for (const std::string_view key : {"available_node_types", "head_node_type"}) {
    const YamlNode* node = root.Find(key);
    if (node == nullptr || (node->kind() == YamlNode::Kind::kMap && !IsGiven(node))) continue;
    return node->Error(fmt::format("{} and head_node exclude each other", key),
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

Status RaiseToInitialWorkers(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode::Entry* entry = FindEntry(root, "initial_workers");
  if (entry == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(const int64_t initial, CountOr(root, "initial_workers", 0));
  spec.min_workers = std::max(spec.min_workers, std::min(initial, spec.max_workers));
  spec.warnings.push_back(
      fmt::format("{}: initial_workers is of older Ray versions: min_workers is now {}",
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
