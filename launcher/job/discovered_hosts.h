// What a host discovery script printed. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_DISCOVERED_HOSTS_H_
#define HVDRAY_LAUNCHER_JOB_DISCOVERED_HOSTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// A host a line, "host" or "host:slots", written as in -H (user@host, [IPv6], node[01-32],
/// ssh://host:port:slots). Blanks around a line, empty lines and CRLF do not count; no line at all
/// is a list without hosts. `default_slots`: of a host without a number (--slots-per-host).
/// A host that comes again keeps its place; its first line counts, and if the others say something
/// else `*warning` says which (a job that runs does not end for that).
/// Errors: kSpecInvalid "line N: …": garbage, too many colons, no number, over kMaxSlots or
/// kMaxHosts, a host without slots and no default. Then nothing of the list is taken: half a list
/// would look like hosts that are gone.
/// Source: Horovod spec 3.2.
Result<std::vector<HostSlots>> ParseDiscoveredHosts(std::string_view text,
                                                    std::optional<int> default_slots,
                                                    std::string* warning);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_DISCOVERED_HOSTS_H_
