// SPDX-License-Identifier: Apache-2.0
// The agents of a job on the launcher's side: started through a transport, greeted, watched.
// Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_AGENT_SET_H_
#define HVDRAY_LAUNCHER_ENGINE_AGENT_SET_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "cluster/transport/transport.h"
#include "wire/link.h"

namespace hvdray {

/// Agents exit at once after Bye; this limits the wait for one that does not.
inline constexpr Duration kAgentsCloseLimit = std::chrono::seconds(5);

/// The ways to agents; AgentSet, or a test. Agents are identified by their numbers.
class AgentLinks {
 public:
  /// Queues the message; drops it when the agent is lost or not ready.
  virtual void Send(int host, wire::Message message) = 0;
  /// As wire::Link::HasControlRoom(); also true where Send() drops messages.
  virtual bool HasControlRoom(int host) const = 0;
  /// As wire::Link::HasOutputRoom(); also true where Send() drops messages.
  virtual bool HasOutputRoom(int host) const = 0;
  /// The agent accepts deflated values in KvReply.
  virtual bool TakesDeflated(int host) const = 0;
  /// It takes wire::MapObject. False until it has found our memory.
  virtual bool SharesMemory(int host) const = 0;

 protected:
  ~AgentLinks() = default;
};

/// Owns the links and carriers of all agents. Never blocks. Threads: the loop's. A host is
/// identified by its index in `hosts`, or by what Add() returned.
class AgentSet final : public AgentLinks {
 public:
  /// What the set tells, from the loop; OnLost() also from within Reject().
  class Owner {
   public:
    /// Hello has arrived and Welcome is on its way: the agent accepts a generation now.
    virtual void OnReady(int host, const wire::HostFacts& facts) = 0;
    /// Once per agent: it did not start, or its link closed or fell silent. Never after Close().
    virtual void OnLost(int host, Status why) = 0;
    /// Every message that AgentSet does not handle itself.
    virtual void OnMessage(int host, wire::Message&& message) = 0;
    /// A line that the host printed before its agent's first frame (a login banner, for example).
    virtual void OnNoise(int /*host*/, ByteView /*line*/) {}
    /// HasControlRoom() has become true again.
    virtual void OnControlRoom(int /*host*/) {}
    /// HasOutputRoom() has become true again.
    virtual void OnOutputRoom(int /*host*/) {}

   protected:
    ~Owner() = default;
  };

  /// `build`: our version, for Hello. `welcome`: sent to each agent with the host's name filled in.
  /// Loop, transport and owner outlive it.
  AgentSet(Loop& loop, Transport& transport, std::vector<std::string> hosts, std::string build,
           wire::Welcome welcome, Owner& owner);
  ~AgentSet();
  AgentSet(const AgentSet&) = delete;
  AgentSet& operator=(const AgentSet&) = delete;

  /// Agents of this machine may map this process's memory from now on: see SharesMemory(). Errors:
  /// kOutOfResources, kSystem.
  Status OfferMemory();
  /// Agents that speak no version of the protocol from this one on are lost, with
  /// kProtocolMismatch. Before any is started.
  void RequireVersion(uint16_t version) { min_version_ = version; }
  /// Starts the agents of all `hosts`; answered by OnReady() or OnLost() for each.
  void StartAll();
  /// Adds an agent, maybe of a host that had one before; returns its number.
  int Add(std::string host);
  /// Once for each host. The answer is OnReady() or OnLost(), unless Release() or Close() comes
  /// first.
  void Start(int host);
  /// Sends Bye to this agent if it is ready, else stops waiting for it. The owner hears nothing of
  /// it afterwards.
  void Release(int host);
  void Send(int host, wire::Message message) override;
  /// As Send() to each agent: those that are lost or not ready never get it.
  void SendAll(const wire::Message& message);
  bool IsReady(int host) const;
  bool HasControlRoom(int host) const override;
  bool HasOutputRoom(int host) const override;
  bool TakesDeflated(int host) const override;
  bool SharesMemory(int host) const override;
  /// The agent's build as its Hello has it; empty before it is ready.
  const std::string& BuildOf(int host) const;
  /// The host violated the protocol: sends its agent a Bye with `why`, then counts it as lost.
  void Reject(int host, Status why);
  /// All sent messages have left this process.
  bool IsFlushed() const;
  /// Sends Bye to all, waits up to `limit` for their carriers to end, then calls `done`.
  void Close(Duration limit, std::function<void()> done);
  /// Once the loop has stopped, with agents that still start. As Transport::Close().
  void EndStarts() { transport_.Close(); }

 private:
  enum class State : uint8_t { kStarting, kGreeting, kReady, kLost, kClosing, kGone };
  class Agent;
  void OnStarted(int host, Result<AgentStart> start);
  void Greet(int host, const wire::Hello& hello);
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
  UniqueFd token_;  // what agents look for
  uint16_t min_version_ = wire::kMinVersion;
  Owner& owner_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::function<void()> on_all_gone_;
  Watch close_timer_;
  Watch lost_timer_;  // of Close(): meanwhile it waits for lost agents' carriers, too
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_AGENT_SET_H_
