// SPDX-License-Identifier: Apache-2.0
// `hvdray rendezvous`: the key-value server alone, for workers that something else starts.
#ifndef HVDRAY_CMD_RENDEZVOUS_COMMAND_H_
#define HVDRAY_CMD_RENDEZVOUS_COMMAND_H_

#include <span>
#include <string>

namespace hvdray {

/// Serves until SIGINT, SIGTERM or SIGHUP, then answers what is held and returns 128 + signal; a
/// second signal ends it at once. Prints to stdout, when it listens, "ADDRESS PORT" and then the
/// variables a worker needs, NAME=VALUE each. args: without the command's name.
/// Returns 2 for wrong options, 125 when it can't listen, 141 when nobody reads its stdout.
int RendezvousCommand(std::span<const std::string> args);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RENDEZVOUS_COMMAND_H_
