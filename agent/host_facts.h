// What an agent knows of its host: addresses, interfaces, processors, limits, a free port. Uses
// system calls only: the static agent has no name service.
#ifndef HVDRAY_AGENT_HOST_FACTS_H_
#define HVDRAY_AGENT_HOST_FACTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "wire/message.h"

namespace hvdray {

/// A TCP port that nobody else gets from the kernel while this lives, and that a program which sets
/// SO_REUSEADDR (torch's store) can still bind: bound to 0.0.0.0 with SO_REUSEADDR, not listening.
class HeldPort {
 public:
  /// Errors: kOutOfResources, kSystem, kAddressInUse when no port is free.
  static Result<HeldPort> Hold();
  uint16_t port() const { return port_; }

 private:
  HeldPort(UniqueFd socket, uint16_t port) : socket_(std::move(socket)), port_(port) {}
  UniqueFd socket_;
  uint16_t port_;
};

/// The interfaces that are up and have an IPv4 address, and loopback in any state, with these
/// addresses, in the kernel's order, as many as KeepWithinHello() lets through. What can't be
/// learnt of one is left at its default.
std::vector<wire::InterfaceFacts> ListInterfaces();

/// A Hello has 64 KiB: hosts of containers and VLANs have interfaces by the thousand.
inline constexpr size_t kMaxInterfaces = 128;
inline constexpr size_t kMaxInterfaceAddresses = 256;  ///< Of all interfaces together.

/// Drops what is above the two limits, last of all loopback, before it what has a default route,
/// before that what is no software. The order stays. Pure.
std::vector<wire::InterfaceFacts> KeepWithinHello(std::vector<wire::InterfaceFacts> interfaces);

/// Names with a default route, from the text of /proc/net/route. Pure.
std::set<std::string> ParseDefaultRoutes(std::string_view route);

/// Everything but offered_port and cleanup.
wire::HostFacts GatherHostFacts();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_HOST_FACTS_H_
