// SPDX-License-Identifier: Apache-2.0
// Agents on this machine: hvdray-agent as a child, its frames over a socketpair.
#ifndef HVDRAY_CLUSTER_TRANSPORT_LOCAL_TRANSPORT_H_
#define HVDRAY_CLUSTER_TRANSPORT_LOCAL_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "cluster/transport/transport.h"

namespace hvdray {

/// `agent_path`: the executable; `agent_arguments`: its arguments. The loop outlives the transport.
std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, std::string agent_path,
                                              std::vector<std::string> agent_arguments = {});

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_LOCAL_TRANSPORT_H_
