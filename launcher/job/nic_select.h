// SPDX-License-Identifier: Apache-2.0
// Which network interface the workers of each host use. Pure: from the facts that agents report;
// whether packets really pass is proved elsewhere.
#ifndef HVDRAY_LAUNCHER_JOB_NIC_SELECT_H_
#define HVDRAY_LAUNCHER_JOB_NIC_SELECT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/message.h"

namespace hvdray {

/// A process keeps its interface for life, so what counts is where workers may ever be.
enum class HostSpread : uint8_t {
  kOneMachine,    ///< A static job, or a fixed host list, whose names are all this machine's.
  kManyMachines,  ///< Others are there already or may join.
};

struct HostNics {
  std::string host;
  std::span<const wire::InterfaceFacts> interfaces;
};

struct NicChoice {
  std::string gloo_interface;   ///< HOROVOD_GLOO_IFACE
  std::string nccl_interfaces;  ///< NCCL_SOCKET_IFNAME; "=…" where a plain name would match more.
  std::string address;          ///< Its IPv4 address: MASTER_ADDR if rank 0 is on this host.
  bool operator==(const NicChoice&) const = default;
};

/// One choice per host, in order; the same for the same facts. Source: Horovod spec 5.
/// - `wanted` (--network-interfaces) wins: per host its usable names, the one that all hosts have
///   before others, else in its order.
/// - kOneMachine: loopback.
/// - Else an interface that is up and has an IPv4 address that is neither loopback nor link-local.
///   First comes what speaks for a way between the hosts: an address that no other host has (a
///   container bridge has the same everywhere), a subnet that all share. Of those a name that all
///   hosts have, then hardware, speed, default route, name. A single host takes the default route's
///   interface, and loopback when it has no other.
/// Errors: kNoUsableInterface with the host's interfaces, or with what would bring loopback up.
Result<std::vector<NicChoice>> SelectNics(std::span<const HostNics> hosts,
                                          std::span<const std::string> wanted, HostSpread spread);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_NIC_SELECT_H_
