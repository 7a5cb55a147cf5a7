// SPDX-License-Identifier: Apache-2.0
// The executable hvdray-agent. No logic here.
#include "agent/agent_main.h"

#include <span>
#include <string_view>
#include <vector>

#include "base/signals.h"
#include "base/standard_streams.h"
#include "cluster/ray/ray_launch.h"

int main(int argc, char** argv) {
  hvdray::FillStandardStreams();
  hvdray::RestoreSignals();
  // The driver of a job on Ray is not an agent: it has no keeper and forks nothing.
  const std::vector<std::string_view> words(argv, argv + argc);
  if (words.size() > 1 && words[1] == "launch") {
    return hvdray::RayLaunchMain(std::span(words).subspan(2));
  }
  return hvdray::AgentMain(argc, argv);
}
