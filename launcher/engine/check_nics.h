// The interfaces that a job would use, worked out so that one unfit host does not hide the others'.
// Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_CHECK_NICS_H_
#define HVDRAY_LAUNCHER_ENGINE_CHECK_NICS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/job/nic_select.h"

namespace hvdray {

struct CheckedNics {
  std::vector<std::optional<NicChoice>> choices;  ///< One a host, in order.
  std::vector<Status> why;                        ///< The same: why it has none.
  Status all;  ///< Why nobody has one, where that is no single host's fault.
};

/// As SelectNics(), but hosts without a usable interface are left out of the choice of the others.
/// `planned`: hosts of the job, of which those that are lost are not in `hosts`.
CheckedNics SelectNicsOfEach(std::span<const HostNics> hosts, size_t planned,
                             std::span<const std::string> wanted, HostSpread spread);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_CHECK_NICS_H_
