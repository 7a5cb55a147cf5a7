// SPDX-License-Identifier: Apache-2.0
// The agents of a job on the launcher's side: started through a transport, greeted, watched.
// Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_AGENT_SET_H_
#define HVDRAY_LAUNCHER_ENGINE_AGENT_SET_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "cluster/transport.h"
#include "wire/link.h"

namespace hvdray {

/// Agents exit at once after Bye; this limits the wait for one that does not.
inline constexpr Duration kAgentsCloseLimit = std::chrono::seconds(5);

/// Called from the loop. `host` is the agent's index.
struct AgentSetHandlers {
  /// Hello has arrived and Welcome is on its way: the agent accepts a generation now.
  std::function<void(int host, const wire::HostFacts& facts)> on_ready;
  /// Once per agent: it did not start, or its link closed or fell silent. Never after Close().
  std::function<void(int host, Status why)> on_lost;
  /// Every message that AgentSet does not handle itself.
  std::function<void(int host, wire::Message&& message)> on_message;
  /// A line that the host printed before its agent's first frame (a login banner, for example).
  std::function<void(int host, ByteView line)> on_noise;
  /// HasControlRoom() has become true again.
  std::function<void(int host)> on_control_room;
};

/// Owns the links and carriers of all agents. Never blocks. Threads: the loop's. A host is
/// identified by its index in `hosts`, or by what Add() returned.
class AgentSet {
 public:
  /// `build`: our version, for Hello. `welcome`: sent to each agent with the host's name filled in.
  /// Loop and transport outlive it.
  AgentSet(Loop& loop, Transport& transport, std::vector<std::string> hosts, std::string build,
           wire::Welcome welcome, AgentSetHandlers handlers);
  ~AgentSet();
  AgentSet(const AgentSet&) = delete;
  AgentSet& operator=(const AgentSet&) = delete;

  /// Starts the agents of all `hosts`; answered by on_ready or on_lost for each.
  void StartAll();
  /// Adds an agent, maybe of a host that had one before; returns its number. Start() starts it.
  int Add(std::string host);
  void Start(int host);
  /// Sends Bye to this agent if it is ready, else stops waiting for it. No handler is called for it
  /// afterwards.
  void Release(int host);
  /// Queues the message; drops it when the host is lost or not ready.
  void Send(int host, wire::Message message);
  void SendAll(const wire::Message& message);
  bool IsReady(int host) const;
  /// As wire::Link::HasControlRoom(); also true where Send() drops messages.
  bool HasControlRoom(int host) const;
  /// The agent accepts deflated values in KvReply.
  bool TakesDeflated(int host) const;
  /// The agent's build as its Hello has it; empty before it is ready.
  const std::string& BuildOf(int host) const;
  /// The host violated the protocol: sends its agent a Bye with `why`, then counts it as lost.
  void Reject(int host, Status why);
  /// All sent messages have left this process.
  bool IsFlushed() const;
  /// Sends Bye to all, waits up to `limit` for their carriers to end, then calls `done`.
  void Close(Duration limit, std::function<void()> done);

 private:
  enum class State : uint8_t { kStarting, kGreeting, kReady, kLost, kClosing, kGone };
  struct Agent;
  void OnStarted(int host, Result<AgentStart> start);
  void OnMessage(int host, wire::Message&& message);
  void OnLinkClosed(int host, Status why);
  void OnCarrierExited(int host, Status how);
  void Lose(int host, Status why);
  void SayBye(Agent& agent, Duration limit);
  /// Destroys the carrier of a finished agent once it has ended: it holds descriptors.
  void ReleaseCarrier(Agent& agent);
  void CheckAllGone();

  Loop& loop_;
  Transport& transport_;
  std::string build_;
  wire::Welcome welcome_;
  AgentSetHandlers handlers_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::function<void()> on_all_gone_;
  Watch close_timer_;
  Watch lost_timer_;  // of Close(): meanwhile it waits for lost agents' carriers, too
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_AGENT_SET_H_
