// The wildcards of SSH's files.
#ifndef HVDRAY_CLUSTER_SSH_PATTERN_H_
#define HVDRAY_CLUSTER_SSH_PATTERN_H_

#include <string_view>

namespace hvdray {

/// True when `pattern` ('*': any run of characters, '?': any one) is all of `text`. Takes time
/// proportional to the product of the lengths at most. Pure. Source: ssh_config(5), PATTERNS.
bool MatchesPattern(std::string_view pattern, std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_PATTERN_H_
