// SPDX-License-Identifier: Apache-2.0
// The test binary in another role: a worker that behaves as a test wants it, or the agent itself.
#ifndef HVDRAY_TESTS_UNIT_AGENT_PROBE_H_
#define HVDRAY_TESTS_UNIT_AGENT_PROBE_H_

#include <string>
#include <vector>

namespace hvdray {

/// argv of a process that runs RunProbe(words).
std::vector<std::string> ProbeCommand(std::vector<std::string> words);

/// What main() does when it was started by such a command. Returns the exit code.
int RunProbe(int argc, char** argv);

/// The first word that tells main() to become a probe.
inline constexpr char kProbeFlag[] = "--as-probe";

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_AGENT_PROBE_H_
