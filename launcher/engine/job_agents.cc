// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/job_agents.h"

#include <string>
#include <vector>

#include "launcher/engine/generation_start.h"
#include "launcher/engine/job_console.h"

namespace hvdray {
namespace {

wire::Welcome WelcomeFor(const LaunchPlan& plan, bool is_elastic) {
  wire::Welcome welcome = ToWelcome(plan);
  welcome.is_elastic = is_elastic;
  return welcome;
}

}  // namespace

JobAgents::JobAgents(Loop& loop, Transport& transport, const LaunchPlan& plan,
                     ObjectFeed::Hosts kind, Listener& listener, KvBridge::Hold hold,
                     KvBridge::Listener* workers)
    : listener_(listener),
      agents_(loop, transport,
              kind == ObjectFeed::Hosts::kFixed ? Names(plan.hosts) : std::vector<std::string>(),
              plan.build, WelcomeFor(plan, kind == ObjectFeed::Hosts::kElastic), *this),
      kv_(agents_, hold, workers),
      objects_(kind, agents_) {}

}  // namespace hvdray
