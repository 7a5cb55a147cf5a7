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

/// `agent_path`: the executable; agent_arguments: the words behind it. The loop outlives the
/// transport.
std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, std::string agent_path,
                                              std::vector<std::string> agent_arguments = {});

/// True for names and addresses of this machine: "localhost", its host name, 127.0.0.0/8, ::1, an
/// address on one of its interfaces, or a name that resolves to one. May block in name look-up.
bool IsThisMachine(const std::string& host);

/// kNone: names are somebody else's (pods, say) and are not looked up at all.
enum class NameLookup : uint8_t { kNone, kSystem };
/// The same for many at once, in parallel.
std::vector<bool> AreThisMachine(const std::vector<std::string>& hosts, NameLookup lookup);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_LOCAL_TRANSPORT_H_
