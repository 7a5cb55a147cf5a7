// SPDX-License-Identifier: Apache-2.0
// Runs one agent on its stream: session, signals, cgroup, exit. Shared by both ways to become an
// agent: AgentMain() below, on stdin and stdout, and dialled_agent.h, on a Ray node.
#ifndef HVDRAY_AGENT_AGENT_RUN_H_
#define HVDRAY_AGENT_AGENT_RUN_H_

#include <memory>

#include "agent/agent_session.h"
#include "agent/lifelines.h"
#include "base/byte_stream.h"
#include "base/loop.h"

namespace hvdray {

// The exit code for wrong usage; the build that Hello reports.
inline constexpr int kAgentUsage = 2;
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

// The per-host program: hvdray-agent, or `hvdray agent`, which runs the same function.

/// Speaks the agent protocol (docs/protocol.md) on descriptors 0 and 1 until the launcher says Bye
/// or the link is lost. The calling process becomes the keeper; the agent is its child. Returns the
/// exit code: 0, 2 (usage), 125 (link lost), 128+n after signal n. Call before starting threads.
int AgentMain(int argc, char** argv);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_RUN_H_
