// SPDX-License-Identifier: Apache-2.0
// The result of --preload on each host, for the user. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_WARM_STARTS_H_
#define HVDRAY_LAUNCHER_ENGINE_WARM_STARTS_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "wire/message.h"

namespace hvdray {

/// Threads: one.
class WarmStarts {
 public:
  /// What the user must be told: why the workers of `host` start cold, unless it was said of
  /// another host. Logs the rest.
  std::optional<std::string> OnWarmed(std::string_view host, const wire::Warmed& warmed);

 private:
  std::set<std::string> said_;  // reasons
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_WARM_STARTS_H_
