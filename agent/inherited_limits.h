// Undoes what a process that Ray has started inherits and a training process should not: blocked
// signals, a soft limit of open files, niceness, being the kernel's first victim.
#ifndef HVDRAY_AGENT_INHERITED_LIMITS_H_
#define HVDRAY_AGENT_INHERITED_LIMITS_H_

#include <string>
#include <vector>

namespace hvdray {

/// For this process and all that it starts later. What the system does not allow is left; one line
/// a thing says so in the result. Call before there are threads. Source: Ray 2.60 spec 2.2.
std::vector<std::string> RepairInheritedLimits();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_INHERITED_LIMITS_H_
