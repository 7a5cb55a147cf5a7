#include "cluster/cluster_spec.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/fd.h"
#include "base/nearest.h"
#include "base/shown_text.h"
#include "cluster/cluster_node_types.h"
#include "cluster/cluster_schema.h"

namespace hvdray {
namespace {

constexpr std::string_view kProviders[] = {
    "local",    "aws",     "gcp",      "azure", "vsphere",        "aliyun",
    "external", "kuberay", "readonly", "spark", "fake_multinode", "fake_multinode_docker"};

/// A text of `map`, empty when absent. The schema has seen to its type.
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

/// A container needs a name and its image or images; empty texts count as none.
Status CheckDocker(const YamlNode& root) {
  const YamlNode* docker = root.Find("docker");
  if (docker == nullptr) return {};
  const bool has_name = !TextOf(*docker, "container_name").empty();
  const bool has_both =
      !TextOf(*docker, "head_image").empty() && !TextOf(*docker, "worker_image").empty();
  const bool has_image = !TextOf(*docker, "image").empty() || has_both;
  if (has_name == has_image) return {};
  return docker->Error(has_name ? "docker has a container_name and no image"
                                : "docker has an image and no container_name",
                       "give container_name and image (or head_image and worker_image), or none");
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

/// Names and addresses, IPv6 among them; nothing that ssh or a shell would take for something else.
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

/// A worker that is listed twice, or is the head as well, would be set up twice at once.
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
            fmt::format("{}: {} does not go with provider type local", entry->where, key),
            "its hosts are provider.head_ip and provider.worker_ips: remove the key"};
  }
  return {};
}

/// The count under `key`, brought down to the number of worker addresses.
Result<int64_t> CappedCount(const YamlNode& root, std::string_view key, int64_t fallback,
                            ClusterSpec& spec) {
  const YamlNode* node = root.Find(key);
  if (node == nullptr) return fallback;
  HVDRAY_ASSIGN_OR_RETURN(const int64_t count,
                          node->AsInt(key, 0, std::numeric_limits<int32_t>::max()));
  const auto hosts = static_cast<int64_t>(spec.worker_ips.size());
  if (count <= hosts) return count;
  spec.warnings.push_back(
      fmt::format("{}: {} is {}, but worker_ips are {}", node->Where(), key, count, hosts));
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
        fmt::format("hosts of a cluster of provider type {} are not in its file",
                    spec.provider_type),
        "name them with provider: {type: local, head_ip: …, worker_ips: […]}, or with -H");
  }
  if (spec.head_ip.empty()) {
    return Status(ErrorCode::kNotSupported,
                  "hosts of a cluster with a coordinator_address are not in its file",
                  "name them with head_ip and worker_ips, or with -H");
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
