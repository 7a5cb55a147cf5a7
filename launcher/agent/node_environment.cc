#include "launcher/agent/node_environment.h"

#include <string_view>

namespace hvdray {
namespace {

bool IsRays(std::string_view entry, RayNames names) {
  return (names == RayNames::kDropped && entry.starts_with("RAY_")) ||
         entry.starts_with("OMP_NUM_THREADS=") || entry == "PYTHONWARNINGS=ignore" ||
         entry.starts_with("PYTHONBREAKPOINT=ray.");
}

}  // namespace

std::vector<std::string> WithoutRay(const std::vector<std::string>& environment, RayNames names) {
  std::vector<std::string> kept;
  for (const std::string& entry : environment) {
    if (!IsRays(entry, names)) kept.push_back(entry);
  }
  return kept;
}

std::string VisibleGpus(wire::GpuVisibility visibility, const std::vector<std::string>& gpus,
                        int local_rank, int local_size) {
  if (visibility == wire::GpuVisibility::kInherited || gpus.empty()) return {};
  size_t first = 0;
  size_t count = gpus.size();
  if (visibility == wire::GpuVisibility::kRank && local_size > 0) {
    const auto workers = static_cast<size_t>(local_size);
    const auto worker = static_cast<size_t>(local_rank) % workers;
    count = gpus.size() / workers;
    first = worker * count;
    if (count == 0) {
      count = 1;
      first = worker * gpus.size() / workers;
    }
  }
  std::string value;
  for (size_t i = first; i < first + count; ++i) {
    if (!value.empty()) value += ',';
    value += gpus[i];
  }
  return value;
}

}  // namespace hvdray
