// SPDX-License-Identifier: Apache-2.0
// What the name of a host means on this machine: whether it is this machine, and its addresses.
#ifndef HVDRAY_CLUSTER_TRANSPORT_THIS_MACHINE_H_
#define HVDRAY_CLUSTER_TRANSPORT_THIS_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hvdray {

/// True for names and addresses of this machine: "localhost", its host name, 127.0.0.0/8, ::1, an
/// address of one of its interfaces, or a name that resolves to one. May block in name lookup.
bool IsThisMachine(const std::string& host);

/// kNone: never resolve names, because another program does (names of pods, for instance).
enum class NameLookup : uint8_t { kNone, kSystem };
/// IsThisMachine() for many hosts, in parallel; the result is in their order. Blocks.
std::vector<bool> AreThisMachine(const std::vector<std::string>& hosts, NameLookup lookup);

/// The addresses that `host` has for this machine, as text; empty: none is known. Blocks.
std::vector<std::string> AddressesOf(const std::string& host);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_THIS_MACHINE_H_
