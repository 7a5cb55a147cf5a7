// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "cluster/cluster_spec.h"

namespace {

/// What holds for every file that is accepted.
void CheckSpec(const hvdray::ClusterSpec& spec) {
  if (spec.cluster_name.empty() || spec.provider_type.empty()) std::abort();
  if (spec.min_workers < 0 || spec.min_workers > spec.max_workers) std::abort();
  int64_t least = 0;
  for (const hvdray::ClusterNodeType& type : spec.node_types) {
    if (type.min_workers > type.max_workers) std::abort();
    least += type.min_workers;
  }
  if (least > spec.max_workers) std::abort();
  const auto hosts = hvdray::ClusterHostsOf(spec, 1);
  if (!hosts.ok()) return;
  if (!spec.is_local() || hosts->empty()) std::abort();
  std::set<std::string> addresses;
  for (const hvdray::ClusterHost& host : *hosts) {
    if (host.slots < 1 || host.address.empty() || host.address[0] == '-') std::abort();
    if (!addresses.insert(host.address).second) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The look-up of each key is quadratic; what takes long in larger inputs is only that.
  if (size > 64 * 1024) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spec = hvdray::ParseClusterSpec(text, "c.yaml");
  if (spec.ok()) {
    CheckSpec(*spec);
  } else if (spec.status().code() != hvdray::ErrorCode::kSpecInvalid ||
             spec.status().message().find('\n') != std::string::npos) {
    std::abort();
  }
  return 0;
}
