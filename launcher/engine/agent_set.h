// The agents of a job as the launcher holds them: started through a transport, greeted, watched.
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

/// Agents end at once after Bye; this is for one that does not.
inline constexpr Duration kAgentsCloseLimit = std::chrono::seconds(5);

struct AgentSetHandlers {
  /// Hello has come and Welcome is on its way: the agent takes a generation now.
  std::function<void(int host, const wire::HostFacts& facts)> on_ready;
  /// Once per host: it did not start, its link closed or fell silent. Never after Close().
  std::function<void(int host, Status why)> on_lost;
  std::function<void(int host, wire::Message&& message)> on_message;
  /// A line the host printed before its agent spoke (login banner and the like).
  std::function<void(int host, ByteView line)> on_noise;
  /// HasControlRoom() is true again.
  std::function<void(int host)> on_control_room;
};

/// Threads: the loop's. Hosts are named by their index in `hosts`; those that were added later by
/// what Add() gave.
class AgentSet {
 public:
  /// `welcome`: sent to each agent with the host's name filled in. Loop and transport outlive it.
  AgentSet(Loop& loop, Transport& transport, std::vector<std::string> hosts, std::string build,
           wire::Welcome welcome, AgentSetHandlers handlers);
  ~AgentSet();
  AgentSet(const AgentSet&) = delete;
  AgentSet& operator=(const AgentSet&) = delete;

  void StartAll();
  /// One more, also of a host that had one before; returns its number.
  int Add(std::string host);
  void Start(int host);
  /// Says Bye to this one alone, if it is ready, or stops waiting for it. No handler is called for
  /// it any more.
  void Release(int host);
  /// Dropped when the host is lost or not ready.
  void Send(int host, wire::Message message);
  void SendAll(const wire::Message& message);
  bool IsReady(int host) const;
  /// As wire::Link; true also where Send() drops what it is given.
  bool HasControlRoom(int host) const;
  /// The agent reads values of KvReply that are deflated.
  bool TakesDeflated(int host) const;
  /// What the agent calls itself; empty before it is ready.
  const std::string& BuildOf(int host) const;
  /// The host broke the rules: tells its agent so by a Bye, then counts it as lost.
  void Reject(int host, Status why);
  /// Nothing that was sent waits here any more.
  bool IsFlushed() const;
  /// Says Bye to all, waits until their carriers have ended, at most until `limit`; then `done`.
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
  /// Lets go of the carrier of an agent that is over, once it has ended: it holds descriptors.
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
  Watch lost_timer_;  // of Close(): while it runs, lost agents' carriers are waited for too
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_AGENT_SET_H_
