// SPDX-License-Identifier: Apache-2.0
// What an agent knows about its host and reports in its Hello. Values.
#ifndef HVDRAY_WIRE_HOST_FACTS_H_
#define HVDRAY_WIRE_HOST_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hvdray::wire {

/// One IPv4 address of an interface.
struct InterfaceAddress {
  std::string address;  ///< "10.0.0.5"
  int prefix_length = 0;
  bool operator==(const InterfaceAddress&) const = default;
};

/// A network interface that is up and has an IPv4 address, or loopback.
struct InterfaceFacts {
  std::string name;
  std::vector<InterfaceAddress> addresses;  ///< In the kernel's order; Gloo uses the first.
  bool is_up = false;
  bool is_loopback = false;
  bool is_virtual = false;  ///< Bridge, veth, tunnel and the like.
  int64_t speed_mbps = 0;   ///< 0: unknown.
  bool has_default_route = false;
  bool operator==(const InterfaceFacts&) const = default;
};

/// Sent with the first frame, so that no fact costs a round trip.
struct HostFacts {
  std::string host_name;   ///< gethostname()
  std::string machine;     ///< uname -m
  std::string system;      ///< uname -s
  uint32_t cpu_count = 0;  ///< CPUs that this process may run on.
  uint32_t agent_pid = 0;
  uint16_t offered_port = 0;  ///< Reserved for MASTER_PORT of the first generation.
  uint16_t probe_port = 0;    ///< Accepts connections until the first generation starts; 0: none.
  bool measures = false;      ///< This agent takes a Probe with a token.
  uint64_t open_file_limit = 0;  ///< The hard limit.
  std::string cleanup;           ///< How orphans are found: "cgroup" or "subreaper".
  std::vector<InterfaceFacts> interfaces;
  bool operator==(const HostFacts&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_HOST_FACTS_H_
