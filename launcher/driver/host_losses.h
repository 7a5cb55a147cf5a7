// Hosts that were lost for the same reason are told of once, however many they are. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_HOST_LOSSES_H_
#define HVDRAY_LAUNCHER_DRIVER_HOST_LOSSES_H_

#include <span>
#include <string>
#include <vector>

#include "launcher/driver/verdict.h"

namespace hvdray {

struct LostHost {
  std::string name;
  Status why;  ///< Not ok.
};

/// Puts alike losses together, in the order of their first host. Alike: the same code, and the same
/// message once the host's own name and all addresses are taken out of it. What only one host has
/// keeps its words; for more, HOST stands for the name and ADDRESS for addresses that differ. At
/// most `max_kinds` reasons are given in words, then one more entry counts the others and names
/// their hosts.
std::vector<HostLoss> GroupLosses(std::span<const LostHost> lost, size_t max_kinds = 5);

/// `why`, with the host's name in its message.
Status ErrorOfHost(const std::string& name, const Status& why);

/// Hosts, at least one, that had neither become ready nor failed when the others' failure ended the
/// job.
HostLoss SilentHosts(std::vector<std::string> hosts);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_HOST_LOSSES_H_
