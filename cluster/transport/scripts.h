// SPDX-License-Identifier: Apache-2.0
// Programs for /bin/sh that lie beside this file, as of this build. Each says what it does.
#ifndef HVDRAY_CLUSTER_TRANSPORT_SCRIPTS_H_
#define HVDRAY_CLUSTER_TRANSPORT_SCRIPTS_H_

#include <string_view>

namespace hvdray {

// In one line, for login shells that quote no newline.
std::string_view AgentBootstrapScript();
std::string_view FindRayScript();
std::string_view ListeningPortScript();
std::string_view PutFileScript();

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_SCRIPTS_H_
