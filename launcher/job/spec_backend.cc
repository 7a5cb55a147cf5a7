// SPDX-License-Identifier: Apache-2.0
// Whether the slots of a --cluster file come from the Ray that runs there, or by SSH.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/job/spec_builder.h"

namespace hvdray {
namespace {

Status WithoutCluster(const LayerStack& job, const JobSpec& spec) {
  const RawOption* backend = SaidForThisJob(job, OptionId::kBackend);
  if (backend == nullptr || *spec.ray.backend == Backend::kSsh || *spec.ray.is_wanted) return {};
  return {ErrorCode::kUsage, fmt::format("{} has a meaning only with --cluster", backend->label),
          "--ray-address URL names a Ray cluster without a file"};
}

bool NamesOtherHosts(const LayerStack& job) {
  return SaidForThisJob(job, OptionId::kHosts) != nullptr ||
         SaidForThisJob(job, OptionId::kHostfile) != nullptr ||
         SaidForThisJob(job, OptionId::kHostDiscoveryScript) != nullptr;
}

Result<std::string> Ask(const ClusterHosts& cluster, const ResolverFiles& files,
                        const JobSpec& spec) {
  if (cluster.head.empty() && !cluster.hosts_status.ok()) {
    const Status& why = cluster.hosts_status;
    return Status(why.code(), why.message(),
                  "--ray-address URL names its Ray; or list its hosts: provider: {type: local, "
                  "head_ip: ..., worker_ips: [...]}, or -H");
  }
  if (cluster.head.empty()) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{}: only its provider knows where the head is", *spec.cluster_file),
                  "--ray-address URL names its Ray");
  }
  JobSpec login = spec;
  TakeLogin(cluster, &login);
  return files.find_ray(cluster, login);
}

}  // namespace

Status ChooseBackend(const LayerStack& job, const std::optional<ClusterHosts>& cluster,
                     const ResolverFiles& files, JobSpec* spec,
                     std::vector<std::string>* warnings) {
  RaySpec& ray = spec->ray;
  if (!cluster) return WithoutCluster(job, *spec);
  if (*ray.is_wanted && !ray.address->empty()) return {};
  const bool must = *ray.is_wanted || *ray.backend == Backend::kRay;
  if (!must && (*ray.backend == Backend::kSsh || NamesOtherHosts(job))) return {};
  if (!files.find_ray) {
    if (!must) return {};
    return {ErrorCode::kNotSupported,
            fmt::format("{} has no meaning here: hosts are looked at by SSH",
                        *ray.is_wanted ? ray.is_wanted.origin() : ray.backend.origin()),
            "hvdray slots --ray says what a cluster has free"};
  }
  // A question about options is no reason to dial anybody.
  if (!must && spec->print_config->has_value()) return {};
  Result<std::string> url = Ask(*cluster, files, *spec);
  if (url.ok()) {
    if (!*ray.is_wanted) ray.is_wanted.Set(true, "the Ray of " + *spec->cluster_file);
    ray.address.Set(std::move(url).value(), *spec->cluster_file);
    return {};
  }
  if (must || !cluster->hosts_status.ok()) return std::move(url).status();
  warnings->push_back(fmt::format("{}; its hosts are reached by SSH (--backend ssh does not ask)",
                                  url.status().message()));
  return {};
}

}  // namespace hvdray
