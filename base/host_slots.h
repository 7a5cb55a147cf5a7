// A host and its room for workers: what sources of hosts list and placement divides. A plain value.
#ifndef HVDRAY_BASE_HOST_SLOTS_H_
#define HVDRAY_BASE_HOST_SLOTS_H_

#include <cstdint>
#include <string>

namespace hvdray {

// How a machine is reached, apart from how the job calls it. A plain value that hosts' lists make
// and transports use.

/// What was said beside the plain name of a host; each part may be left out.
struct HostAddress {
  std::string name;   ///< What to dial, where it is not the plain name: IPv6, without brackets.
  std::string user;   ///< Login name. Empty: the transport's own default.
  uint16_t port = 0;  ///< 0: the transport's own default.
  /// A certain user or port was asked for, so a process of this machine will not do.
  bool has_login() const { return !user.empty() || port != 0; }
  bool operator==(const HostAddress&) const = default;
};

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
