// A host and its room for workers: what sources of hosts list and placement divides. A plain value.
#ifndef HVDRAY_BASE_HOST_SLOTS_H_
#define HVDRAY_BASE_HOST_SLOTS_H_

#include <string>

#include "base/host_address.h"

namespace hvdray {

/// A host as the scheduler names it and its room for workers. slots may be 0.
struct HostSlots {
  std::string host;  ///< Plain name, as workers see it (HOROVOD_HOSTNAME): no ':', '/', ',', blank.
  int slots = 0;
  HostAddress address{};  ///< How a transport reaches it.
  const std::string& dial_name() const { return address.name.empty() ? host : address.name; }
  bool operator==(const HostSlots&) const = default;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HOST_SLOTS_H_
