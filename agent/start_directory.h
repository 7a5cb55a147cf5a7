// SPDX-License-Identifier: Apache-2.0
// Whether workers may start in the directory that the launcher names.
#ifndef HVDRAY_AGENT_START_DIRECTORY_H_
#define HVDRAY_AGENT_START_DIRECTORY_H_

#include <string>

#include "wire/message.h"

namespace hvdray {

/// Why `directory` is not trusted, in a sentence for the log. Empty: it is, or it is missing, or
/// `trust` does not ask for it.
std::string DistrustOfDirectory(const std::string& directory, const wire::DirectoryTrust& trust);

/// Replaces an optional directory that is missing or not trusted by the agent's own, and logs why.
/// Returns the errno with which workers can't start in a directory that is not optional, EPERM if
/// it is not trusted; 0: they can, or it is missing, which chdir() will say.
int SettleStartDirectory(wire::StartGeneration& start);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_START_DIRECTORY_H_
