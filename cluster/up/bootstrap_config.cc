// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/bootstrap_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/yaml_writer.h"
#include "cluster/file/cluster_form.h"

namespace hvdray {
namespace {

/// The list under `key`, with that of setup_commands before it.
void JoinSetup(Json& config, const char* key) {
  Json joined = config.value("setup_commands", Json::array());
  for (const Json& command : config.value(key, Json::array())) joined.push_back(command);
  config[key] = std::move(joined);
}

/// A machine of each type as a worker; the head's type may have none.
const PreparedNode* PreparedFor(const PreparedCluster& prepared, std::string_view type,
                                ClusterNodeKind kind) {
  const auto found = std::ranges::find_if(prepared.nodes, [&](const PreparedNode& node) {
    return node.node_type == type && node.kind == kind;
  });
  return found == prepared.nodes.end() ? nullptr : &*found;
}

template <typename Value>
std::string ExportOf(std::string_view name, const std::map<std::string, Value>& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[key] = value;
  return fmt::format("{}={}", name, DumpJson(object));
}

}  // namespace

std::string BootstrapConfig(const ClusterSpec& spec, const PreparedCluster& prepared) {
  Json config = YamlJson(RayCluster(*spec.resolved));
  Json& types = config["available_node_types"];
  for (const ClusterNodeType& type : spec.node_types) {
    const ClusterNodeKind kind =
        type.name == spec.head_node_type ? ClusterNodeKind::kHead : ClusterNodeKind::kWorker;
    const PreparedNode* node = PreparedFor(prepared, type.name, kind);
    if (node == nullptr) continue;
    Json& entry = types[type.name];
    entry["node_config"] = node->node_config;
    entry["resources"] = Json::object();
    for (const auto& [name, amount] : node->resources) entry["resources"][name] = amount;
  }
  JoinSetup(config, "head_setup_commands");
  JoinSetup(config, "worker_setup_commands");
  Json& auth = config["auth"];
  auth.erase("ssh_proxy_command");
  auth.erase("ssh_proxy_use_node_id");
  if (!prepared.private_key_path.empty()) {
    auth["ssh_private_key"] = fmt::format("~/{}", kBootstrapKeyName);
  }
  Json mounts = Json::object();
  for (const ClusterFileMount& mount : spec.file_mounts) mounts[mount.remote] = mount.remote;
  config["file_mounts"] = std::move(mounts);
  config["no_restart"] = false;
  return DumpJson(config, 1);
}

std::vector<std::string> RayExports(const ClusterSpec& spec, const PreparedCluster& prepared,
                                    const CloudNode& node) {
  std::vector<std::string> exports = {
      fmt::format("RAY_CLOUD_INSTANCE_ID={}", node.id),
      fmt::format("RAY_NODE_TYPE_NAME={}", node.node_type),
      fmt::format("RAY_CLOUD_INSTANCE_TYPE_NAME={}", node.machine_type)};
  if (node.kind == ClusterNodeKind::kHead && IsAutoscaled(spec)) {
    exports.emplace_back("RAY_enable_autoscaler_v2=1");
  }
  const PreparedNode* prepared_node = PreparedFor(prepared, node.node_type, node.kind);
  if (prepared_node != nullptr && !prepared_node->resources.empty()) {
    exports.push_back(ExportOf("RAY_OVERRIDE_RESOURCES", prepared_node->resources));
  }
  const auto type = std::ranges::find(spec.node_types, node.node_type, &ClusterNodeType::name);
  if (type != spec.node_types.end() && !type->labels.empty()) {
    exports.push_back(ExportOf("RAY_OVERRIDE_LABELS", type->labels));
  }
  return exports;
}

}  // namespace hvdray
