// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/cluster_file.h"

#include <fmt/format.h>

#include "base/log.h"
#include "launcher/job/spec_builder.h"

namespace hvdray {

Result<ClusterSpec> ReadClusterFile(std::string_view command, const std::string& path,
                                    const LayerStack& said) {
  ClusterOverrides overrides;
  if (const RawOption* name = said.Find(OptionId::kClusterName)) {
    overrides.cluster_name = name->last();
    HVDRAY_RETURN_IF_ERROR(CheckClusterName(name->last()).WithContext(name->label));
  }
  if (const RawOption* least = said.Find(OptionId::kMinWorkers)) {
    HVDRAY_ASSIGN_OR_RETURN(overrides.min_workers, WholeOf(OptionId::kMinWorkers, *least));
  }
  if (const RawOption* most = said.Find(OptionId::kMaxWorkers)) {
    HVDRAY_ASSIGN_OR_RETURN(overrides.max_workers, WholeOf(OptionId::kMaxWorkers, *most));
  }
  HVDRAY_ASSIGN_OR_RETURN(ClusterSpec spec, LoadClusterSpec(path, overrides));
  if (spec.run) HVDRAY_RETURN_IF_ERROR(CheckRunSection(*spec.run));
  for (const std::string& warning : spec.warnings) {
    Tell(LogLevel::kWarning, fmt::format("hvdray {}", command), warning);
  }
  return spec;
}

}  // namespace hvdray
