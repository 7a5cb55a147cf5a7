// SPDX-License-Identifier: Apache-2.0
#include "cluster/file/cluster_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/status.h"
#include "cluster/file/cluster_schema.h"

namespace hvdray {
namespace {

using Entry = YamlNode::Entry;

constexpr std::string_view kLegacyHead = "ray-legacy-head-node-type";
constexpr std::string_view kLegacyWorker = "ray-legacy-worker-node-type";
constexpr std::string_view kAwsHead = "ray.head.default";
constexpr std::string_view kAwsWorker = "ray.worker.default";
constexpr int64_t kMaxWorkers = std::numeric_limits<int32_t>::max();

constexpr std::string_view kAwsTypes = R"yaml(
ray.head.default:
  resources: {}
  node_config:
    InstanceType: m5.large
    BlockDeviceMappings:
      - DeviceName: /dev/sda1
        Ebs: {VolumeSize: 256}
ray.worker.default:
  resources: {}
  min_workers: 0
  node_config:
    InstanceType: m5.large
    InstanceMarketOptions: {MarketType: spot}
)yaml";

constexpr std::string_view kCommonDefaults = R"yaml(
cluster_name: default
auth: {}
upscaling_speed: 1.0
idle_timeout_minutes: 5
docker: {}
file_mounts: {}
cluster_synced_files: []
file_mounts_sync_continuously: false
rsync_exclude: []
rsync_filter: []
initialization_commands: []
worker_setup_commands: []
)yaml";

constexpr std::string_view kLocalDefaults = R"yaml(
setup_commands: []
head_setup_commands: []
head_start_ray_commands:
  - ray stop
  - ulimit -c unlimited; ray start --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
  - ray stop
  - ray start --address=$RAY_HEAD_IP:6379
)yaml";

constexpr std::string_view kAwsDefaults = R"yaml(
max_workers: 2
head_node_type: ray.head.default
setup_commands:
  - command -v ray || pip install -U 'ray[default]==2.60.0'
head_setup_commands:
  - python3 -c 'import boto3' || pip install 'boto3>=1.4.8'
head_start_ray_commands:
  - ray stop
  - ulimit -n 65536; ray start --head --port=6379 --object-manager-port=8076 --autoscaling-config=~/ray_bootstrap_config.yaml
worker_start_ray_commands:
  - ray stop
  - ulimit -n 65536; ray start --address=$RAY_HEAD_IP:6379 --object-manager-port=8076
)yaml";

YamlNode BuiltIn(std::string_view text) {
  const Result<YamlNode> node = ParseYaml(text, "built-in defaults");
  HVDRAY_CHECK(node.ok());
  return *node;
}

bool IsGiven(const YamlNode* node) { return node != nullptr && !node->entries().empty(); }

YamlNode Without(const YamlNode& map, std::string_view key) {
  std::vector<Entry> entries = map.entries();
  std::erase_if(entries, [key](const Entry& entry) { return entry.key == key; });
  return YamlNode::Map(std::move(entries), map);
}

YamlNode CountNode(int64_t value, const YamlNode& at) {
  return YamlNode::Scalar(std::to_string(value), /*is_quoted=*/false, at);
}

/// `map` with those entries of `defaults` whose keys it lacks.
YamlNode Filled(YamlNode map, const YamlNode& defaults) {
  for (const Entry& entry : defaults.entries()) {
    if (map.Find(entry.key) == nullptr) map = WithEntry(map, entry.key, entry.value);
  }
  return map;
}

bool IsLocal(const YamlNode& root) {
  return root.Find("provider")->Find("type")->text() == "local";
}
bool IsAws(const YamlNode& root) { return root.Find("provider")->Find("type")->text() == "aws"; }

/// A step of the translation: takes a document, leaves one without some of the old keys.
class Moderniser {
 public:
  Moderniser(YamlNode root, const ClusterOverrides& overrides, std::vector<std::string>& warnings)
      : root_(std::move(root)), overrides_(overrides), warnings_(warnings) {}

  Result<YamlNode> Run() {
    for (const std::string_view key :
         {"autoscaling_mode", "target_utilization_fraction", "worker_default_node_type"}) {
      root_ = Without(root_, key);
    }
    ApplyOverrides();
    const bool is_legacy = IsGiven(root_.Find("head_node")) || IsGiven(root_.Find("worker_nodes"));
    // Empty, as old examples have them, they say nothing.
    if (!is_legacy) root_ = Without(Without(root_, "head_node"), "worker_nodes");
    if (IsLocal(root_)) {
      HVDRAY_RETURN_IF_ERROR(RefuseNodeTypes());
      HVDRAY_RETURN_IF_ERROR(RaiseMinimum());
    } else if (is_legacy) {
      WarnMoved(kLegacyWorker);
      HVDRAY_RETURN_IF_ERROR(RaiseMinimum());
      HVDRAY_RETURN_IF_ERROR(TranslateNodes());
    } else if (IsGiven(root_.Find("available_node_types"))) {
      HVDRAY_RETURN_IF_ERROR(SetTypeMinimum());
      DropWithWarning("has no effect with available_node_types: set it per type");
    } else {
      HVDRAY_RETURN_IF_ERROR(RefuseLoneHeadType());
      HVDRAY_RETURN_IF_ERROR(MoveMinimum());
    }
    return root_;
  }

 private:
  void ApplyOverrides() {
    if (overrides_.cluster_name) {
      root_ = WithEntry(root_, "cluster_name",
                        YamlNode::Scalar(*overrides_.cluster_name, /*is_quoted=*/true, root_));
    }
    if (overrides_.max_workers) {
      root_ = WithEntry(root_, "max_workers", CountNode(*overrides_.max_workers, root_));
    }
    if (overrides_.min_workers && !IsGiven(root_.Find("available_node_types"))) {
      root_ = WithEntry(root_, "min_workers", CountNode(*overrides_.min_workers, root_));
    }
  }

  Status RefuseNodeTypes() const {
    for (const std::string_view key : {"available_node_types", "head_node", "worker_nodes"}) {
      const Entry* entry = FindEntry(root_, key);
      if (entry == nullptr || entry->value.entries().empty()) continue;
      return {ErrorCode::kSpecInvalid,
              fmt::format("{}: {} is not valid with provider type local", entry->where, key),
              "remove the key: the hosts are provider.head_ip and provider.worker_ips"};
    }
    return {};
  }

  /// Raises min_workers to initial_workers, within max_workers.
  Status RaiseMinimum() {
    const Entry* entry = FindEntry(root_, "initial_workers");
    if (entry == nullptr) return {};
    const std::string where = entry->where;
    const YamlNode at = entry->value;
    const int64_t limit = IsLocal(root_) ? kMaxWorkers : kDefaultMaxWorkers;
    HVDRAY_ASSIGN_OR_RETURN(const int64_t max, CountOr(root_, "max_workers", limit));
    HVDRAY_ASSIGN_OR_RETURN(const int64_t initial, CountOr(root_, "initial_workers", 0));
    // On-prem, the default is all hosts: nothing to raise.
    const bool is_all = IsLocal(root_) && root_.Find("min_workers") == nullptr;
    HVDRAY_ASSIGN_OR_RETURN(int64_t min, CountOr(root_, "min_workers", 0));
    root_ = Without(root_, "initial_workers");
    std::string now = "all worker_ips are started";
    if (!is_all) {
      min = std::max(min, std::min(initial, max));
      root_ = WithEntry(root_, "min_workers", CountNode(min, at));
      now = fmt::format("min_workers is now {}", min);
    }
    warnings_.push_back(
        fmt::format("{}: initial_workers is from older Ray versions: {}", where, now));
    return {};
  }

  /// Splits the resources off `node`: in the modern form they stand beside node_config.
  Entry LegacyType(std::string_view name, const YamlNode& node, int64_t min, int64_t max) const {
    std::vector<Entry> type;
    const std::string where = node.Where();
    type.push_back({"node_config", where, Without(node, "resources")});
    if (const YamlNode* resources = node.Find("resources")) {
      type.push_back({"resources", resources->Where(), *resources});
    } else if (!IsAws(root_)) {
      // Ray's schema wants them of each type, and its older translation gave none.
      type.push_back({"resources", where, YamlNode::Map({}, node)});
    }
    type.push_back({"min_workers", where, CountNode(min, node)});
    type.push_back({"max_workers", where, CountNode(max, node)});
    return {std::string(name), where, YamlNode::Map(std::move(type), node)};
  }

  Status TranslateNodes() {
    const YamlNode* head = root_.Find("head_node");
    const YamlNode* workers = root_.Find("worker_nodes");
    if (head == nullptr || workers == nullptr) {
      const bool has_head = head != nullptr;
      return (has_head ? head : workers)
          ->Error(fmt::format("{} without {}", has_head ? "head_node" : "worker_nodes",
                              has_head ? "worker_nodes" : "head_node"),
                  "set both, or available_node_types");
    }
    for (const std::string_view key : {"available_node_types", "head_node_type"}) {
      const YamlNode* node = root_.Find(key);
      if (node == nullptr || (node->kind() == YamlNode::Kind::kMap && !IsGiven(node))) continue;
      return node->Error(fmt::format("{} and head_node are mutually exclusive", key),
                         "head_node is the old form: remove it and worker_nodes");
    }
    HVDRAY_RETURN_IF_ERROR(CheckOldResources(*head));
    HVDRAY_RETURN_IF_ERROR(CheckOldResources(*workers));
    HVDRAY_ASSIGN_OR_RETURN(const int64_t max, CountOr(root_, "max_workers", kDefaultMaxWorkers));
    HVDRAY_ASSIGN_OR_RETURN(const int64_t min, CountOr(root_, "min_workers", 0));
    std::vector<Entry> types = {LegacyType(kLegacyHead, *head, 0, 0),
                                LegacyType(kLegacyWorker, *workers, min, max)};
    PutTypes(kLegacyHead, YamlNode::Map(std::move(types), *workers), *head);
    return {};
  }

  /// The schema cannot: to it, the old sections are the provider's own words.
  static Status CheckOldResources(const YamlNode& node) {
    const YamlNode* resources = node.Find("resources");
    if (resources == nullptr) return {};
    if (resources->kind() != YamlNode::Kind::kMap)
      return resources->Error("resources is not a map");
    for (const Entry& entry : resources->entries()) {
      HVDRAY_RETURN_IF_ERROR(
          WholeOf(entry.value, "resources." + entry.key, 0, int64_t{1} << 53).status());
    }
    return {};
  }

  Status RefuseLoneHeadType() const {
    const YamlNode* head = root_.Find("head_node_type");
    if (head == nullptr || (IsAws(root_) && head->text() == kAwsHead)) return {};
    return head->Error("head_node_type without available_node_types");
  }

  /// Without types, a minimum needs the provider's default ones written out.
  Status MoveMinimum() {
    if (!IsAws(root_)) {
      DropWithWarning("has no effect without available_node_types: set it per type");
      return {};
    }
    WarnMoved(kAwsWorker);
    HVDRAY_RETURN_IF_ERROR(RaiseMinimum());
    if (root_.Find("min_workers") == nullptr) return {};
    HVDRAY_ASSIGN_OR_RETURN(const int64_t min, CountOr(root_, "min_workers", 0));
    const YamlNode at = *root_.Find("min_workers");
    YamlNode types = BuiltIn(kAwsTypes);
    const YamlNode workers = WithEntry(*types.Find(kAwsWorker), "min_workers", CountNode(min, at));
    types = WithEntry(types, kAwsWorker, YamlNode::Map(workers.entries(), at));
    PutTypes(kAwsHead, YamlNode::Map(types.entries(), at), at);
    return {};
  }

  void PutTypes(std::string_view head_type, YamlNode types, const YamlNode& at) {
    const YamlNode before = root_;  // `at` lies in it
    root_ = Without(root_, "min_workers");
    // In the places of what they replace.
    std::vector<Entry> entries = Without(root_, "available_node_types").entries();
    for (Entry& entry : entries) {
      if (entry.key == "head_node") entry.key = "head_node_type";
      if (entry.key == "worker_nodes") entry.key = "available_node_types";
    }
    root_ = YamlNode::Map(std::move(entries), root_);
    root_ = WithEntry(root_, "head_node_type",
                      YamlNode::Scalar(std::string(head_type), /*is_quoted=*/true, at));
    root_ = WithEntry(root_, "available_node_types", std::move(types));
  }

  /// --min-workers where the file has types.
  Status SetTypeMinimum() {
    if (!overrides_.min_workers) return {};
    const YamlNode& types = *root_.Find("available_node_types");
    const YamlNode* head = root_.Find("head_node_type");
    const std::string head_type = head != nullptr ? head->text() : std::string(kAwsHead);
    std::vector<Entry> workers = types.entries();
    std::erase_if(workers, [&](const Entry& entry) { return entry.key == head_type; });
    if (workers.size() != 1) {
      return {ErrorCode::kUsage,
              fmt::format("flag --min-workers needs one type of workers, but {} has {}",
                          types.Where(), workers.size()),
              "set min_workers of each type in the file"};
    }
    const YamlNode type = WithEntry(workers[0].value, "min_workers",
                                    CountNode(*overrides_.min_workers, workers[0].value));
    root_ = WithEntry(root_, "available_node_types", WithEntry(types, workers[0].key, type));
    return {};
  }

  void WarnMoved(std::string_view type) {
    const Entry* entry = FindEntry(root_, "min_workers");
    if (entry == nullptr || overrides_.min_workers) return;
    warnings_.push_back(
        fmt::format("{}: min_workers is from older Ray versions: write it as "
                    "available_node_types.{}.min_workers",
                    entry->where, type));
  }

  void DropWithWarning(std::string_view why) {
    for (const std::string_view key : {"min_workers", "initial_workers"}) {
      if (const Entry* entry = FindEntry(root_, key)) {
        warnings_.push_back(fmt::format("{}: {} {}", entry->where, key, why));
      }
      root_ = Without(root_, key);
    }
  }

  YamlNode root_;
  const ClusterOverrides& overrides_;
  std::vector<std::string>& warnings_;
};

/// Keys in the schema's order.
YamlNode Sorted(const YamlNode& document) {
  std::vector<Entry> entries;
  entries.reserve(document.entries().size());
  for (const std::string_view key : ClusterTopKeys()) {
    if (const Entry* entry = FindEntry(document, key)) entries.push_back(*entry);
  }
  return YamlNode::Map(std::move(entries), document);
}

/// The types with their limits and resources written out.
YamlNode FilledTypes(const YamlNode& types, const std::string& head_type, const YamlNode& max) {
  std::vector<Entry> filled;
  for (const Entry& entry : types.entries()) {
    YamlNode type = entry.value;
    const YamlNode* idle = type.Find("idle_timeout_s");
    if (idle != nullptr && idle->IsNull()) type = Without(type, "idle_timeout_s");
    std::vector<Entry> defaults = {
        {"resources", type.Where(), YamlNode::Map({}, type)},
        {"min_workers", type.Where(), CountNode(0, type)},
        {"max_workers", type.Where(), entry.key == head_type ? CountNode(0, type) : max}};
    type = Filled(std::move(type), YamlNode::Map(std::move(defaults), entry.value));
    filled.push_back({entry.key, entry.where, std::move(type)});
  }
  return YamlNode::Map(std::move(filled), types);
}

YamlNode WithAwsDefaults(const YamlNode& modern) {
  YamlNode document = Filled(modern, BuiltIn(kAwsDefaults));
  document = WithEntry(document, "provider",
                       Filled(*document.Find("provider"),
                              BuiltIn("{region: us-west-2, cache_stopped_nodes: true}")));
  document =
      WithEntry(document, "auth", Filled(*document.Find("auth"), BuiltIn("ssh_user: ubuntu")));
  if (!IsGiven(document.Find("available_node_types"))) {
    document = WithEntry(document, "available_node_types", BuiltIn(kAwsTypes));
  }
  return WithEntry(
      document, "available_node_types",
      FilledTypes(*document.Find("available_node_types"), document.Find("head_node_type")->text(),
                  *document.Find("max_workers")));
}

}  // namespace

Result<YamlNode> ModernCluster(const YamlNode& root, const ClusterOverrides& overrides,
                               std::vector<std::string>& warnings) {
  return Moderniser(root, overrides, warnings).Run();
}

YamlNode WithClusterDefaults(const YamlNode& modern) {
  if (IsAws(modern)) return Sorted(WithAwsDefaults(Filled(modern, BuiltIn(kCommonDefaults))));
  if (IsLocal(modern)) {
    const YamlNode document = Filled(modern, BuiltIn(kCommonDefaults));
    return Sorted(Filled(document, BuiltIn(kLocalDefaults)));
  }
  return Sorted(Filled(modern, BuiltIn("cluster_name: default")));
}

YamlNode RayCluster(const YamlNode& document) { return Without(document, "hvdray"); }

YamlNode HvdrayCluster(const YamlNode& document) {
  constexpr std::string_view kKey = "head_start_ray_commands";
  const YamlNode* commands = document.Find(kKey);
  if (commands == nullptr || !IsLocal(document)) return document;
  std::vector<YamlNode> ours;
  ours.reserve(commands->items().size());
  for (const YamlNode& command : commands->items()) {
    ours.push_back(
        YamlNode::Scalar(WithoutAutoscaling(command.text()), command.is_quoted(), command));
  }
  return WithEntry(document, kKey, YamlNode::Sequence(std::move(ours), *commands));
}

std::string WithoutAutoscaling(std::string command) {
  constexpr std::string_view kOption = "--autoscaling-config";
  for (size_t at = command.find(kOption); at != std::string::npos; at = command.find(kOption, at)) {
    size_t end = at + kOption.size();
    if (end < command.size() && command[end] == '=') {
      ++end;
    } else {
      end = std::min(command.find_first_not_of(' ', end), command.size());
    }
    if (end < command.size() && (command[end] == '"' || command[end] == '\'')) {
      end = std::min(command.find(command[end], end + 1), command.size() - 1) + 1;
    }
    end = std::min(command.find_first_of(" \t\n;&|", end), command.size());
    while (at > 0 && command[at - 1] == ' ') --at;
    command.erase(at, end - at);
  }
  return command;
}

Result<int64_t> CountOr(const YamlNode& map, std::string_view key, int64_t fallback) {
  const YamlNode* node = map.Find(key);
  if (node == nullptr) return fallback;
  return node->AsInt(key, 0, kMaxWorkers);
}

const YamlNode::Entry* FindEntry(const YamlNode& map, std::string_view key) {
  for (const Entry& entry : map.entries()) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

YamlNode WithEntry(const YamlNode& map, std::string_view key, YamlNode value) {
  std::vector<Entry> entries = map.entries();
  const auto found = std::ranges::find(entries, key, &Entry::key);
  if (found != entries.end()) {
    found->value = std::move(value);
  } else {
    std::string where = value.Where();
    entries.push_back({std::string(key), std::move(where), std::move(value)});
  }
  return YamlNode::Map(std::move(entries), map);
}

}  // namespace hvdray
