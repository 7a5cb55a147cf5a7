// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/cluster_nodes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/environ.h"
#include "base/log.h"
#include "base/text.h"
#include "cluster/cloud/aws_provider.h"
#include "cluster/cloud/cloud_hosts.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

int CpusOfThisMachine() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

ClusterNodes NodesOfFile(const ClusterSpec& file, const std::vector<ClusterHost>& hosts) {
  ClusterNodes nodes;
  for (const ClusterHost& host : hosts) {
    nodes.workers.push_back({host.address, MakeHostSlots(host.address, host.slots)});
  }
  nodes.head = std::move(nodes.workers.front());
  nodes.workers.erase(nodes.workers.begin());
  if (!file.external_head_ip.empty()) {
    nodes.head.address = file.external_head_ip;
    nodes.head.host.address.name = file.external_head_ip;
  }
  return nodes;
}

/// Empty: not here.
std::string KeyFile(const CloudNode& node) {
  if (node.key_name.empty()) return {};
  const std::string home = Environment::FromProcess().GetOr("HOME", "");
  std::string path = fmt::format("{}/.ssh/{}.pem", home, node.key_name);
  return ::access(path.c_str(), F_OK) == 0 ? path : std::string();
}

ClusterNodes NodesOfCloud(const std::string& path, const ClusterSpec& file,
                          std::vector<CloudNode> cloud) {
  ClusterNodes nodes;
  const auto node_of = [&file](const CloudNode& node) {
    return ClusterNode{CloudAddress(file, node),
                       CloudHost(file, node, CloudSlots(file, node, CpusOfThisMachine()))};
  };
  const Result<const CloudNode*> head = LiveHead(file, cloud);
  if (head.ok()) {
    nodes.head = node_of(**head);
    if (file.auth.ssh_private_key.empty()) nodes.key_file = KeyFile(**head);
  } else {
    const Status& why = head.status();
    nodes.head_status = {why.code(), fmt::format("{}: {}", path, why.message()),
                         why.hint().empty() ? fmt::format("hvdray up {}", path) : why.hint()};
  }
  for (const CloudNode& node : cloud) {
    if (node.kind != ClusterNodeKind::kWorker || !node.is_live()) continue;
    if (!CloudAddress(file, node).empty()) nodes.workers.push_back(node_of(node));
  }
  nodes.cloud = std::move(cloud);
  return nodes;
}

}  // namespace

bool HasProvider(const ClusterSpec& file) { return file.provider_type == "aws"; }

Result<ClusterNodes> FindClusterNodes(std::string_view command, const std::string& path,
                                      const ClusterSpec& file) {
  if (!HasProvider(file)) {
    const Result<std::vector<ClusterHost>> hosts = ToClusterHosts(file, CpusOfThisMachine());
    if (hosts.ok()) return NodesOfFile(file, *hosts);
    const std::string who = file.is_local()
                                ? "its coordinator"
                                : fmt::format("provider {}", ShownText(file.provider_type));
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{}: only {} knows its machines", path, who),
                  "a file of provider local names them: head_ip, worker_ips");
  }
  const auto note = [command = fmt::format("hvdray {}", command)](const std::string& line) {
    Tell(LogLevel::kInfo, command, line);
  };
  Result<std::unique_ptr<Provider>> provider =
      MakeAwsProvider(file, Environment::FromProcess(), note);
  if (!provider.ok()) return std::move(provider).status().WithContext(path);
  Result<std::vector<CloudNode>> cloud = (*provider)->List();
  if (!cloud.ok()) return std::move(cloud).status().WithContext(path);
  return NodesOfCloud(path, file, std::move(cloud).value());
}

void TakeNodes(const ClusterNodes& nodes, ClusterHosts* cluster) {
  cluster->hosts_status = nodes.head_status;
  cluster->hosts.clear();
  cluster->head.reset();
  if (!nodes.head_status.ok()) return;
  cluster->head = nodes.head.host;
  cluster->hosts.push_back(nodes.head.host);
  for (const ClusterNode& worker : nodes.workers) cluster->hosts.push_back(worker.host);
  cluster->is_dashboard_hidden = !nodes.cloud.empty();
  if (!nodes.key_file.empty()) cluster->ssh_identity_file = nodes.key_file;
}

}  // namespace hvdray
