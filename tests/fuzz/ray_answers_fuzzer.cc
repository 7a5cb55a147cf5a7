// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "cluster/ray/ray_answers.h"
#include "cluster/ray/ray_facts.h"
#include "cluster/ray/ray_report.h"
#include "launcher/job/ray_address.h"

namespace {

void Require(bool is_true) {
  if (!is_true) std::abort();
}

/// Whatever nodes and use are made of, what is free is not more than what is there, and what is
/// printed is one line a thing and JSON that can be read again.
void CheckCluster(const std::string& body) {
  hvdray::RaySnapshot cluster;
  cluster.address = *hvdray::ParseRayAddress("http://h");
  const auto nodes = hvdray::ParseRayNodes(body);
  const auto status = hvdray::ParseRayClusterStatus(body);
  if (nodes.ok()) cluster.nodes = *nodes;
  if (status.ok()) cluster.status = *status;
  const auto summary = hvdray::ParseRayNodeSummary(body);
  if (summary.ok() && !cluster.status.has_report) {
    cluster.status = hvdray::StatusOfNodes(*summary, {});
  }
  hvdray::UndoCamelCase(cluster.nodes, cluster.status);
  hvdray::FillFree(cluster.status, cluster.nodes);
  for (const hvdray::RayNode& node : cluster.nodes) {
    Require(!node.id.empty());
    Require(node.free.size() == (node.is_free_known ? node.total.size() : 0));
    for (const auto& [name, amount] : node.free) Require(!(amount > node.total.at(name)));
  }
  const hvdray::RayAsk ask;
  Require(hvdray::ParseJson(hvdray::RayStatusJson(cluster), size_t{64} << 20).ok());
  Require(hvdray::ParseJson(hvdray::RaySlotsJson(cluster, ask), size_t{64} << 20).ok());
  Require(hvdray::RayStatusText(cluster).find('\x1b') == std::string::npos);
  Require(hvdray::RaySlotsText(cluster, ask).find('\x1b') == std::string::npos);
}

void CheckAddress(const std::string& text) {
  const auto address = hvdray::ParseRayAddress(text);
  if (!address.ok()) return;
  const auto again = hvdray::ParseRayAddress(address->Url());
  Require(again.ok() && again->Url() == address->Url() && again->host == address->host &&
          again->port == address->port && again->is_tls == address->is_tls);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  CheckCluster(body);
  CheckAddress(body);
  (void)hvdray::ParseRayVersion(body).ok();
  (void)hvdray::ParseRayPlacementGroups(body).ok();
  (void)hvdray::ParseRayJobs(body).ok();
  const auto job = hvdray::ParseRayJob(body);
  Require(!job.ok() || !job->status_text.empty());
  const auto id = hvdray::ParseSubmission(body);
  Require(!id.ok() || !id->empty());
  const std::string line = hvdray::LastLine(body);
  Require(line.size() < 1300 && line.find('\n') == std::string::npos);
  (void)hvdray::ResolveRayHeaders(body, hvdray::Environment()).ok();
  return 0;
}
