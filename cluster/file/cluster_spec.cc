// SPDX-License-Identifier: Apache-2.0
#include "cluster/file/cluster_spec.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "base/fd.h"
#include "base/tcp_address.h"
#include "base/text.h"
#include "cluster/file/cluster_schema.h"

namespace hvdray {
namespace {

// Memory is counted in bytes.
constexpr int64_t kMaxResource = int64_t{1} << 53;

constexpr size_t kMaxNameBytes = 100;

/// A string of `map`, empty when absent. The schema check has verified its type.
std::string ToText(const YamlNode& map, std::string_view key) {
  const YamlNode* node = map.Find(key);
  return node == nullptr ? std::string() : node->text();
}

Status ReadAuth(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode* auth = root.Find("auth");
  if (auth == nullptr) return {};
  spec.auth.ssh_user = ToText(*auth, "ssh_user");
  // ssh refuses these before it opens its log, and ends with 255, which may be a command's own.
  if (spec.auth.ssh_user.starts_with('-') ||
      spec.auth.ssh_user.find_first_of("'`\"\\;&<>|(){}\n") != std::string::npos) {
    return auth->Find("ssh_user")
        ->Error(
            fmt::format("auth.ssh_user '{}' is not a user name", ShownText(spec.auth.ssh_user)));
  }
  spec.auth.ssh_private_key = ToText(*auth, "ssh_private_key");
  spec.auth.ssh_public_key = ToText(*auth, "ssh_public_key");
  spec.auth.ssh_proxy_command = ToText(*auth, "ssh_proxy_command");
  const YamlNode* use_id = auth->Find("ssh_proxy_use_node_id");
  if (use_id == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(spec.auth.is_proxied_by_node_id, use_id->AsBool("ssh_proxy_use_node_id"));
  if (spec.auth.is_proxied_by_node_id && spec.auth.ssh_proxy_command.empty()) {
    return use_id->Error("auth.ssh_proxy_use_node_id needs ssh_proxy_command");
  }
  return {};
}

/// A type's own image needs the container that the whole cluster names.
Status CheckTypeImages(const YamlNode& root) {
  const YamlNode* types = root.Find("available_node_types");
  if (types == nullptr) return {};
  for (const YamlNode::Entry& type : types->entries()) {
    const YamlNode* docker = type.value.Find("docker");
    if (docker == nullptr || ToText(*docker, "worker_image").empty()) continue;
    return docker->Find("worker_image")
        ->Error(fmt::format("available_node_types.{}.docker has a worker_image, but there is no "
                            "docker.container_name",
                            ShownText(type.key)),
                "set container_name and image in the section docker, too");
  }
  return {};
}

/// A container needs a name, and an image or both images. Empty strings count as absent.
Status CheckDocker(const YamlNode& root) {
  const YamlNode* docker = root.Find("docker");
  if (docker == nullptr) return CheckTypeImages(root);
  const bool has_name = !ToText(*docker, "container_name").empty();
  const bool has_both =
      !ToText(*docker, "head_image").empty() && !ToText(*docker, "worker_image").empty();
  const bool has_image = !ToText(*docker, "image").empty() || has_both;
  if (has_name != has_image) {
    return docker->Error(has_name ? "docker has a container_name but no image"
                                  : "docker has an image but no container_name",
                         "set container_name and image (or head_image and worker_image), or none");
  }
  return has_name ? Status() : CheckTypeImages(root);
}

Status ReadProviderType(const YamlNode& provider, ClusterSpec& spec) {
  const YamlNode& type = *provider.Find("type");
  spec.provider_type = type.text();
  const std::vector<std::string_view> known = ClusterProviders();
  if (std::ranges::find(known, spec.provider_type) == known.end()) {
    const std::string nearest = Nearest(spec.provider_type.substr(0, 80), known);
    return type.Error(fmt::format("unknown provider.type '{}'", ShownText(spec.provider_type)),
                      nearest.empty() ? fmt::format("types are {}", fmt::join(known, ", "))
                                      : fmt::format("did you mean {}?", nearest));
  }
  if (spec.provider_type == "external" && ToText(provider, "module").empty()) {
    return provider.Error("provider.module is missing: type external needs it");
  }
  return {};
}

Status ReadName(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode& name = *root.Find("cluster_name");
  spec.cluster_name = name.text();
  if (spec.cluster_name.empty()) return name.Error("cluster_name is empty");
  const Status is_name = CheckClusterName(spec.cluster_name);
  return is_name.ok() ? is_name : name.Error("cluster_name " + is_name.message(), is_name.hint());
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
  std::map<std::string, std::string> places = {{HostNameKey(spec.head_ip), head.Where()}};
  const YamlNode& workers = *provider.Find("worker_ips");
  for (const YamlNode& worker : workers.items()) {
    HVDRAY_RETURN_IF_ERROR(CheckAddress(worker, "provider.worker_ips"));
    const auto [first, is_new] = places.emplace(HostNameKey(worker.text()), worker.Where());
    if (!is_new) {
      return worker.Error(
          fmt::format("host {} is listed twice, first at {}", worker.text(), first->second));
    }
    spec.worker_ips.push_back(worker.text());
  }
  spec.external_head_ip = ToText(provider, "external_head_ip");
  if (spec.external_head_ip.empty()) return {};
  return CheckAddress(*provider.Find("external_head_ip"), "provider.external_head_ip");
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

/// A coordinator has the hosts, so the file has to say how many of them.
Status ReadCoordinated(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode* max = root.Find("max_workers");
  if (max == nullptr) {
    return root.Find("provider")
        ->Error("max_workers is missing: a coordinator_address needs it",
                "add max_workers: 4 at the top");
  }
  HVDRAY_ASSIGN_OR_RETURN(spec.max_workers, CountOr(root, "max_workers", 0));
  HVDRAY_ASSIGN_OR_RETURN(spec.min_workers, CountOr(root, "min_workers", 0));
  if (spec.min_workers <= spec.max_workers) return {};
  return root.Find("min_workers")
      ->Error(fmt::format("min_workers ({}) is above max_workers ({})", spec.min_workers,
                          spec.max_workers));
}

Status ReadLocal(const YamlNode& root, const YamlNode& provider, ClusterSpec& spec) {
  spec.coordinator_address = ToText(provider, "coordinator_address");
  const bool has_hosts =
      provider.Find("head_ip") != nullptr && provider.Find("worker_ips") != nullptr;
  if (!has_hosts) {
    if (!spec.coordinator_address.empty()) return ReadCoordinated(root, spec);
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

/// The list of strings under `key`; leaves `list` alone when absent.
void ReadList(const YamlNode& map, std::string_view key, std::vector<std::string>& list) {
  const YamlNode* node = map.Find(key);
  if (node == nullptr) return;
  list.clear();
  for (const YamlNode& item : node->items()) list.push_back(item.text());
}

void ReadList(const YamlNode& map, std::string_view key,
              std::optional<std::vector<std::string>>& list) {
  if (map.Find(key) != nullptr) ReadList(map, key, list.emplace());
}

template <typename Bool>
Status ReadFlag(const YamlNode& map, std::string_view key, Bool& flag) {
  const YamlNode* node = map.Find(key);
  if (node == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(flag, node->AsBool(key));
  return {};
}

Status ReadNumber(const YamlNode& map, std::string_view key, double& number) {
  const YamlNode* node = map.Find(key);
  if (node == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(number, node->AsDouble(key));
  return {};
}

Status ReadDocker(const YamlNode& map, ClusterDocker& docker) {
  const YamlNode* node = map.Find("docker");
  if (node == nullptr) return {};
  docker.image = ToText(*node, "image");
  docker.container_name = ToText(*node, "container_name");
  ReadList(*node, "run_options", docker.run_options);
  docker.head_image = ToText(*node, "head_image");
  ReadList(*node, "head_run_options", docker.head_run_options);
  docker.worker_image = ToText(*node, "worker_image");
  ReadList(*node, "worker_run_options", docker.worker_run_options);
  HVDRAY_RETURN_IF_ERROR(ReadFlag(*node, "pull_before_run", docker.pull_before_run));
  HVDRAY_RETURN_IF_ERROR(ReadFlag(*node, "disable_automatic_runtime_detection",
                                  docker.disable_automatic_runtime_detection));
  HVDRAY_RETURN_IF_ERROR(
      ReadFlag(*node, "disable_shm_size_detection", docker.disable_shm_size_detection));
  return ReadFlag(*node, "use_podman", docker.use_podman);
}

/// Splits "us-west-2a,us-west-2b".
std::vector<std::string> Zones(std::string_view text) {
  std::vector<std::string> zones;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view zone = Trimmed(text.substr(0, comma));
    if (!zone.empty()) zones.emplace_back(zone);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return zones;
}

/// Each zone belongs to the region: EC2 says so only after keys and groups have been made.
Status CheckZones(const YamlNode& node, const ClusterProvider& provider) {
  for (const std::string& zone : provider.availability_zones) {
    if (zone.starts_with(provider.region) && zone.size() > provider.region.size()) continue;
    return node.Find("availability_zone")
        ->Error(fmt::format("availability_zone {} is not in region {}", ShownText(zone),
                            ShownText(provider.region)),
                fmt::format("for example {}a", ShownText(provider.region)));
  }
  return {};
}

Status ReadProvider(const YamlNode& node, ClusterSpec& spec) {
  ClusterProvider& provider = spec.provider;
  HVDRAY_RETURN_IF_ERROR(ReadFlag(node, "use_internal_ips", provider.use_internal_ips));
  HVDRAY_RETURN_IF_ERROR(ReadFlag(node, "use_external_head_ip", provider.use_external_head_ip));
  HVDRAY_RETURN_IF_ERROR(ReadFlag(node, "disable_node_updaters", provider.disable_node_updaters));
  HVDRAY_RETURN_IF_ERROR(
      ReadFlag(node, "disable_launch_config_check", provider.disable_launch_config_check));
  HVDRAY_RETURN_IF_ERROR(ReadFlag(node, "foreground_node_launch", provider.foreground_node_launch));
  HVDRAY_RETURN_IF_ERROR(ReadFlag(node, "worker_liveness_check", provider.worker_liveness_check));
  HVDRAY_RETURN_IF_ERROR(ReadFlag(node, "cache_stopped_nodes", provider.cache_stopped_nodes));
  provider.region = ToText(node, "region");
  provider.availability_zones = Zones(ToText(node, "availability_zone"));
  if (const YamlNode* key = node.Find("key_pair")) provider.key_name = ToText(*key, "key_name");
  if (const YamlNode* group = node.Find("security_group")) {
    provider.security_group_name = ToText(*group, "GroupName");
    if (const YamlNode* rules = group->Find("IpPermissions")) {
      provider.security_group_rules = rules->items();
    }
  }
  if (const YamlNode* credentials = node.Find("aws_credentials")) {
    for (const YamlNode::Entry& entry : credentials->entries()) {
      provider.aws_credentials[entry.key] = entry.value.text();
    }
  }
  if (const YamlNode* cloudwatch = node.Find("cloudwatch")) provider.cloudwatch = *cloudwatch;
  return spec.provider_type == "aws" ? CheckZones(node, provider) : Status();
}

Status ReadSetup(const YamlNode& root, ClusterSpec& spec) {
  if (const YamlNode* mounts = root.Find("file_mounts")) {
    for (const YamlNode::Entry& entry : mounts->entries()) {
      spec.file_mounts.push_back({entry.key, entry.value.text()});
    }
  }
  ReadList(root, "cluster_synced_files", spec.cluster_synced_files);
  HVDRAY_RETURN_IF_ERROR(
      ReadFlag(root, "file_mounts_sync_continuously", spec.file_mounts_sync_continuously));
  ReadList(root, "rsync_exclude", spec.rsync_exclude);
  ReadList(root, "rsync_filter", spec.rsync_filter);
  ReadList(root, "initialization_commands", spec.commands.initialization);
  ReadList(root, "setup_commands", spec.commands.setup);
  ReadList(root, "head_setup_commands", spec.commands.head_setup);
  ReadList(root, "worker_setup_commands", spec.commands.worker_setup);
  ReadList(root, "head_start_ray_commands", spec.commands.head_start);
  ReadList(root, "worker_start_ray_commands", spec.commands.worker_start);
  HVDRAY_RETURN_IF_ERROR(ReadNumber(root, "upscaling_speed", spec.upscaling_speed));
  HVDRAY_RETURN_IF_ERROR(ReadNumber(root, "idle_timeout_minutes", spec.idle_timeout_minutes));
  return ReadDocker(root, spec.docker);
}

Status ReadHvdray(const YamlNode& root, ClusterSpec& spec) {
  const YamlNode* ours = root.Find("hvdray");
  if (ours == nullptr) return {};
  if (const YamlNode* slots = ours->Find("slots_per_host")) {
    HVDRAY_ASSIGN_OR_RETURN(spec.slots_per_host, slots->AsInt("hvdray.slots_per_host", 1,
                                                              std::numeric_limits<int>::max()));
  }
  HVDRAY_RETURN_IF_ERROR(ReadFlag(*ours, "on_demand_fallback", spec.falls_back_to_on_demand));
  if (const YamlNode* run = ours->Find("run")) spec.run = *run;
  return {};
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
                                  type.min_workers, type.max_workers),
                      fmt::format("set max_workers: {} or lower min_workers", type.min_workers));
  }
  if (const YamlNode* resources = node.Find("resources")) {
    HVDRAY_RETURN_IF_ERROR(ReadResources(*resources, type));
  } else if (!KnowsResources(spec.provider_type)) {
    return node.Error(fmt::format("{}.resources is missing", name),
                      "list what a machine has, for example resources: {CPU: 8}");
  }
  type.node_config = node.Find("node_config")->entries();
  if (const YamlNode* labels = node.Find("labels")) {
    for (const YamlNode::Entry& label : labels->entries()) {
      type.labels[label.key] = label.value.text();
    }
  }
  const YamlNode* idle = node.Find("idle_timeout_s");
  if (idle != nullptr && !idle->IsNull()) {
    HVDRAY_ASSIGN_OR_RETURN(type.idle_timeout_s, idle->AsDouble("idle_timeout_s"));
  }
  if (const YamlNode* priority = node.Find("priority")) {
    HVDRAY_ASSIGN_OR_RETURN(type.priority,
                            priority->AsInt("priority", std::numeric_limits<int32_t>::min(),
                                            std::numeric_limits<int32_t>::max()));
  }
  ReadList(node, "initialization_commands", type.initialization_commands);
  ReadList(node, "worker_setup_commands", type.worker_setup_commands);
  HVDRAY_RETURN_IF_ERROR(ReadDocker(node, type.docker));
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

/// With a key of the user's own, EC2 has to be told its name, type by type.
Status CheckKeyNames(const YamlNode& root, const ClusterSpec& spec) {
  if (spec.provider_type != "aws" || spec.auth.ssh_private_key.empty()) return {};
  for (const YamlNode::Entry& entry : root.Find("available_node_types")->entries()) {
    const YamlNode& config = *entry.value.Find("node_config");
    if (config.Find("KeyName") != nullptr || config.Find("UserData") != nullptr) continue;
    return root.Find("auth")
        ->Find("ssh_private_key")
        ->Error(fmt::format("auth.ssh_private_key needs KeyName in the node_config of every type, "
                            "but {} has none",
                            ShownText(entry.key)),
                "KeyName: the name of this key pair in EC2; or remove ssh_private_key, and a key "
                "pair is created");
  }
  return {};
}

YamlNode WithCount(const YamlNode& map, std::string_view key, int64_t count) {
  return WithEntry(map, key, YamlNode::Scalar(std::to_string(count), /*is_quoted=*/false, map));
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

/// Of a document with the defaults of its provider. `modern`: the same without.
Status ReadTypes(const YamlNode& root, const YamlNode& modern, ClusterSpec& spec) {
  HVDRAY_ASSIGN_OR_RETURN(spec.max_workers, CountOr(root, "max_workers", kDefaultMaxWorkers));
  const YamlNode* types = root.Find("available_node_types");
  if (types == nullptr || types->entries().empty()) return {};
  spec.head_node_type = ToText(root, "head_node_type");
  HVDRAY_RETURN_IF_ERROR(CheckHeadType(modern, *types, spec));
  for (const YamlNode::Entry& entry : types->entries()) {
    HVDRAY_ASSIGN_OR_RETURN(ClusterNodeType type, ReadNodeType(entry, spec));
    spec.min_workers += type.min_workers;
    spec.node_types.push_back(std::move(type));
  }
  return CheckSum(*types, spec);
}

}  // namespace

Status CheckClusterName(std::string_view name) {
  const bool is_plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
  if (is_plain && !name.empty() && name.front() != '.' && name.front() != '-' &&
      name.size() <= kMaxNameBytes) {
    return {};
  }
  return {ErrorCode::kUsage, fmt::format("'{}' is not a name", ShownText(name)),
          fmt::format("at most {} letters, digits, '.', '_' and '-', not beginning with '.' or '-'",
                      kMaxNameBytes)};
}

Result<ClusterSpec> ParseClusterSpec(std::string_view text, std::string file_name,
                                     const ClusterOverrides& overrides) {
  ClusterSpec spec;
  HVDRAY_ASSIGN_OR_RETURN(const YamlNode root,
                          ParseYaml(text, std::move(file_name), &spec.warnings));
  HVDRAY_RETURN_IF_ERROR(CheckClusterSchema(root, spec.warnings));
  HVDRAY_RETURN_IF_ERROR(ReadProviderType(*root.Find("provider"), spec));
  HVDRAY_ASSIGN_OR_RETURN(YamlNode modern,
                          ModernCluster(WithSchemaTypes(root), overrides, spec.warnings));
  modern = WithSchemaTypes(modern);  // once more: with the types from head_node
  YamlNode document = WithClusterDefaults(modern);
  HVDRAY_RETURN_IF_ERROR(CheckIntegers(document));
  HVDRAY_RETURN_IF_ERROR(ReadName(document, spec));
  const YamlNode& provider = *document.Find("provider");
  HVDRAY_RETURN_IF_ERROR(ReadProvider(provider, spec));
  HVDRAY_RETURN_IF_ERROR(ReadAuth(document, spec));
  HVDRAY_RETURN_IF_ERROR(CheckDocker(document));
  HVDRAY_RETURN_IF_ERROR(spec.is_local() ? ReadLocal(document, provider, spec)
                                         : ReadTypes(document, modern, spec));
  HVDRAY_RETURN_IF_ERROR(CheckKeyNames(document, spec));
  HVDRAY_RETURN_IF_ERROR(ReadSetup(document, spec));
  HVDRAY_RETURN_IF_ERROR(ReadHvdray(document, spec));
  if (!spec.head_ip.empty()) {
    // As capped. Once more, for the order of the keys.
    document = WithCount(document, "min_workers", spec.min_workers);
    document = WithClusterDefaults(WithCount(document, "max_workers", spec.max_workers));
  }
  spec.is_translated = std::ranges::any_of(root.entries(), [&modern](const YamlNode::Entry& entry) {
    return modern.Find(entry.key) == nullptr;
  });
  spec.modern = std::move(modern);
  spec.resolved = std::move(document);
  return spec;
}

Result<ClusterSpec> LoadClusterSpec(const std::string& path, const ClusterOverrides& overrides) {
  if (path.starts_with("http://") || path.starts_with("https://")) {
    return Status(ErrorCode::kUsage, fmt::format("{} is a URL, not a file", ShownText(path)),
                  fmt::format("download it first, and read it: curl -fLO {}", ShownText(path)));
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxYamlBytes));
  return ParseClusterSpec(text, path, overrides);
}

Result<std::vector<ClusterHost>> ToClusterHosts(const ClusterSpec& spec, int default_slots) {
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

}  // namespace hvdray
