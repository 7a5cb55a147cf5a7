// SPDX-License-Identifier: Apache-2.0
// A host and its slots: sources of hosts list them, placement assigns them. Plain values.
#ifndef HVDRAY_BASE_HOST_SLOTS_H_
#define HVDRAY_BASE_HOST_SLOTS_H_

#include <cstdint>
#include <string>

namespace hvdray {

/// How a transport reaches a host, as the user gave it beside the host's plain name. Each part may
/// be left out.
struct HostAddress {
  std::string name;   ///< What to dial if not the plain name. IPv6 without brackets.
  std::string user;   ///< Login name. Empty: the transport's default.
  uint16_t port = 0;  ///< 0: the transport's default.
  /// The name in known_hosts, where the address may be another machine's tomorrow. Empty: the
  /// transport's default.
  std::string host_key_alias = {};
  /// The user asked for a login or port, so even this machine is reached by SSH.
  bool has_login() const { return !user.empty() || port != 0; }
  bool operator==(const HostAddress&) const = default;
};

/// A host as the scheduler names it, and its slots.
struct HostSlots {
  std::string host;  ///< Plain name, as workers see it (HOROVOD_HOSTNAME): no ':', '/', ',', blank.
  int slots = 0;     ///< Room for this many workers; 0 is allowed.
  HostAddress address{};
  /// The name or address that a transport connects to.
  const std::string& dial_name() const { return address.name.empty() ? host : address.name; }
  bool operator==(const HostSlots&) const = default;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HOST_SLOTS_H_
