// SPDX-License-Identifier: Apache-2.0
// Runs one agent on its stream: session, signals, cgroup, exit. Shared by both ways to become an
// agent: agent_main.h, on stdin and stdout, and dialled_agent.h, on a Ray node.
#ifndef HVDRAY_AGENT_AGENT_RUN_H_
#define HVDRAY_AGENT_AGENT_RUN_H_

#include <memory>

#include "agent/agent_session.h"
#include "agent/lifelines.h"
#include "base/byte_stream.h"
#include "base/loop.h"

namespace hvdray {

/// The build that Hello reports.
extern const char kAgentBuild[];

/// Prints `status` on stderr; returns kHvdrayFailed.
int FailAgent(const Status& status);

/// How RunAgentSession() ended.
struct AgentEnd {
  int exit_code = kHvdrayFailed;
  Status why;  ///< Why the agent gave up; ok: the launcher released it.
};

/// Runs `loop` until the job is over on this host. Blocks. Repeats of a signal within
/// `signal_merge` count as one. Fills in the rest of `options`: build, directories, facts.
/// Loop and lifelines outlive the call.
AgentEnd RunAgentSession(Loop& loop, std::unique_ptr<ByteStream> stream, Lifelines& lifelines,
                         AgentSessionOptions options, Duration signal_merge);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_RUN_H_
