// SPDX-License-Identifier: Apache-2.0
// Which network interface the workers of each host use, from the facts that agents report. Pure;
// the engine then tests the connections.
#ifndef HVDRAY_LAUNCHER_JOB_NIC_SELECT_H_
#define HVDRAY_LAUNCHER_JOB_NIC_SELECT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/message.h"

namespace hvdray {

/// Where the workers of a job may ever run. A process keeps its interface for life.
enum class HostSpread : uint8_t {
  kOneMachine,    ///< A fixed host list whose names are all this machine's.
  kManyMachines,  ///< There are others, or some may join.
};

/// A host and its interfaces; borrows them.
struct HostNics {
  std::string host;
  std::span<const wire::InterfaceFacts> interfaces;
};

/// What the workers of one host are told.
struct NicChoice {
  std::string gloo_interface;   ///< HOROVOD_GLOO_IFACE
  std::string nccl_interfaces;  ///< NCCL_SOCKET_IFNAME; "=…" if a plain name would match others.
  std::string address;          ///< Its IPv4 address; MASTER_ADDR if rank 0 is on this host.
  bool operator==(const NicChoice&) const = default;
};

/// One choice per host, in order; the same facts always give the same choice.
/// - `wanted` (--network-interfaces) wins. Each host takes its usable names in that order, but a
/// name
///   that all hosts have comes first.
/// - kOneMachine: loopback.
/// - Otherwise an interface that is up and whose first IPv4 address (the one that Gloo takes) is
///   neither loopback nor link-local. It prefers an address that no other host has (a container
///   bridge has the same one everywhere), then a subnet that all hosts share; among those a name
///   that all hosts have, then hardware, speed, the default route, and the name. A single host
///   takes the interface of its default route, or loopback if it has nothing else.
/// Errors: kNoUsableInterface with the host's interfaces, or with the command that brings loopback
/// up.
Result<std::vector<NicChoice>> SelectNics(std::span<const HostNics> hosts,
                                          std::span<const std::string> wanted, HostSpread spread);

/// kNoUsableInterface for a host that others can't reach, with its interfaces. Pure.
Status NoSharedInterface(const HostNics& host);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_NIC_SELECT_H_
