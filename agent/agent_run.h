// One agent's life once its stream is there: session, signals, cgroup, end. For both ways to become
// an agent (agent.cc: on stdin and stdout; dialled_agent.cc: on Ray).
#ifndef HVDRAY_AGENT_AGENT_RUN_H_
#define HVDRAY_AGENT_AGENT_RUN_H_

#include <memory>

#include "agent/agent_session.h"
#include "agent/lifelines.h"
#include "base/byte_stream.h"
#include "base/loop.h"

namespace hvdray {

inline constexpr int kAgentUsage = 2;
inline constexpr int kAgentFailed = 125;
inline constexpr char kAgentBuild[] = "hvdray " HVDRAY_VERSION;

/// Says it on stderr; returns kAgentFailed.
int FailAgent(const Status& status);

struct AgentEnd {
  int exit_code = kAgentFailed;
  Status why;  ///< Why it gave up; ok: the launcher released it.
};

/// Runs `loop` until the job is over here. `signal_merge`: a signal that comes again within that
/// time is the same one. Fills in the rest of `options`.
AgentEnd RunAgentSession(Loop& loop, std::unique_ptr<ByteStream> stream, Lifelines& lifelines,
                         AgentSessionOptions options, Duration signal_merge);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_RUN_H_
