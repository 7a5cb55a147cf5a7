// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "base/yaml_writer.h"
#include "cluster/file/cluster_form.h"
#include "cluster/file/cluster_spec.h"

namespace {

/// The resolved form is one that can be read again, and means the same; the modern form, too. Nodes
/// of a local cluster start no autoscaler.
void CheckForms(const hvdray::ClusterSpec& spec) {
  const std::string resolved = hvdray::YamlText(*spec.resolved);
  // Values that the file shares by aliases are written out, and may become too many to be read.
  if (resolved.size() > hvdray::kMaxYamlBytes / 4) return;
  for (const hvdray::YamlNode& form : {*spec.resolved, *spec.modern}) {
    const auto again = hvdray::ParseClusterSpec(hvdray::YamlText(form), "again.yaml");
    // A translation puts what was nested deep already two levels deeper.
    if (!again.ok() && again.status().message().find("nested more than") != std::string::npos)
      return;
    if (!again.ok() || hvdray::YamlText(*again->resolved) != resolved) std::abort();
  }
  for (const auto kind : {hvdray::ClusterNodeKind::kHead, hvdray::ClusterNodeKind::kWorker}) {
    const hvdray::ClusterNodeSetup setup = hvdray::ToClusterNodeSetup(spec, kind, "w");
    if (!spec.is_local()) continue;
    for (const std::string& command : setup.start_commands) {
      if (command.find("--autoscaling-config") != std::string::npos) std::abort();
    }
  }
}

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
  CheckForms(spec);
  const auto hosts = hvdray::ToClusterHosts(spec, 1);
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
