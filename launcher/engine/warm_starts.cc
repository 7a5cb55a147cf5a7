// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/warm_starts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"

namespace hvdray {

std::optional<std::string> WarmStarts::OnWarmed(std::string_view host, const wire::Warmed& warmed) {
  if (warmed.is_warm) {
    Log(LogLevel::kInfo, "launcher", "{} has imported {} in {} ms", host,
        warmed.modules.empty() ? "nothing" : fmt::format("{}", fmt::join(warmed.modules, ", ")),
        warmed.took_ms);
    return std::nullopt;
  }
  std::string text =
      fmt::format("--preload: the workers on host {} start cold: {}", host, warmed.why);
  if (said_.insert(warmed.why).second) return text;
  Log(LogLevel::kInfo, "launcher", "{}", text);
  return std::nullopt;
}

}  // namespace hvdray
