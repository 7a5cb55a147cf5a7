// SPDX-License-Identifier: Apache-2.0
// Gathers facts of the agent's host: addresses, interfaces, processors, limits, a free port. Uses
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

/// Reserves a TCP port: bound to 0.0.0.0 with SO_REUSEADDR, not listening. While this lives, the
/// kernel assigns the port to no other socket, yet a program that sets SO_REUSEADDR (torch's store)
/// can bind it.
class HeldPort {
 public:
  /// Reserves a free port of the kernel's choice.
  /// Errors: kOutOfResources, kSystem, kAddressInUse when no port is free.
  static Result<HeldPort> Hold();
  uint16_t port() const { return port_; }

 private:
  HeldPort(UniqueFd socket, uint16_t port) : socket_(std::move(socket)), port_(port) {}
  UniqueFd socket_;
  uint16_t port_;
};

/// The interfaces that are up and have an IPv4 address, and loopback in any state, with their
/// addresses, in the kernel's order, within the limits of KeepWithinHello(). Unknown properties
/// keep their defaults; empty if the kernel does not answer.
std::vector<wire::InterfaceFacts> ListInterfaces();

/// These limits keep Hello below 64 KiB: a host with containers or VLANs may have thousands of
/// interfaces.
inline constexpr size_t kMaxInterfaces = 128;
inline constexpr size_t kMaxInterfaceAddresses = 256;  ///< Of all interfaces together.

/// Drops interfaces and addresses above the two limits. Prefers to keep loopback, then interfaces
/// with a default route, then hardware interfaces. Keeps the order. Pure.
std::vector<wire::InterfaceFacts> KeepWithinHello(std::vector<wire::InterfaceFacts> interfaces);

/// Names of interfaces with a default route, from the text of /proc/net/route. Pure.
std::set<std::string> ParseDefaultRoutes(std::string_view route);

/// All facts but offered_port, probe_port and cleanup, which the session fills in.
wire::HostFacts GatherHostFacts();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_HOST_FACTS_H_
