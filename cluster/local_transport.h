// SPDX-License-Identifier: Apache-2.0
// Agents on this machine: hvdray-agent as a child, its frames over a socketpair.
#ifndef HVDRAY_CLUSTER_LOCAL_TRANSPORT_H_
#define HVDRAY_CLUSTER_LOCAL_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "cluster/transport.h"

namespace hvdray {

/// `agent_path`: the executable; `agent_arguments`: its arguments. The loop outlives the transport.
std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, std::string agent_path,
                                              std::vector<std::string> agent_arguments = {});

/// True for names and addresses of this machine: "localhost", its host name, 127.0.0.0/8, ::1, an
/// address of one of its interfaces, or a name that resolves to one. May block in name lookup.
bool IsThisMachine(const std::string& host);

/// kNone: never resolve names, because another program does (names of pods, for instance).
enum class NameLookup : uint8_t { kNone, kSystem };
/// IsThisMachine() for many hosts, in parallel; the result is in their order. Blocks.
std::vector<bool> AreThisMachine(const std::vector<std::string>& hosts, NameLookup lookup);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_LOCAL_TRANSPORT_H_
