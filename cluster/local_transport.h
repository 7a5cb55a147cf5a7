// Agents on this machine: hvdray-agent as a child, its frames over a socketpair.
#ifndef HVDRAY_CLUSTER_LOCAL_TRANSPORT_H_
#define HVDRAY_CLUSTER_LOCAL_TRANSPORT_H_

#include <memory>
#include <string>

#include "base/loop.h"
#include "cluster/transport.h"

namespace hvdray {

/// `agent_path`: the executable. The loop outlives the transport.
std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, std::string agent_path);

/// True for names and addresses of this machine: "localhost", its host name, 127.0.0.0/8, ::1, an
/// address on one of its interfaces, or a name that resolves to one. May block in name look-up.
bool IsThisMachine(const std::string& host);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_LOCAL_TRANSPORT_H_
