// SPDX-License-Identifier: Apache-2.0
// What an agent knows of its host and tells in its Hello. Values.
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

struct InterfaceFacts {
  std::string name;
  std::vector<InterfaceAddress> addresses;  ///< In the kernel's order: Gloo takes the first.
  bool is_up = false;
  bool is_loopback = false;
  bool is_virtual = false;  ///< Bridge, veth, tunnel and the like.
  int64_t speed_mbps = 0;   ///< 0: unknown.
  bool has_default_route = false;
  bool operator==(const InterfaceFacts&) const = default;
};

/// What an agent knows of its host and says first, so that no fact costs a round trip.
struct HostFacts {
  std::string host_name;   ///< gethostname()
  std::string machine;     ///< uname -m
  std::string system;      ///< uname -s
  uint32_t cpu_count = 0;  ///< Those this process may run on.
  uint32_t agent_pid = 0;
  uint16_t offered_port = 0;     ///< Held for MASTER_PORT of the first generation.
  uint16_t probe_port = 0;       ///< Listens until the first generation starts; 0: does not.
  uint64_t open_file_limit = 0;  ///< Hard limit.
  std::string cleanup;           ///< "cgroup", "subreaper": how orphans will be found.
  std::vector<InterfaceFacts> interfaces;
  bool operator==(const HostFacts&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_HOST_FACTS_H_
