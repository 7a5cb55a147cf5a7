// SPDX-License-Identifier: Apache-2.0
// The agent's side of the link to the launcher: gives messages to Preparation, GangSet, HostRelay
// and Survivors, and stops everything when the link is lost, so that a crashed launcher leaves
// nothing behind.
//
// What always holds: before Welcome there is no gang; once it is leaving, no message has an effect;
// on_done comes when the link is closed and no process is left.
#ifndef HVDRAY_AGENT_AGENT_SESSION_H_
#define HVDRAY_AGENT_AGENT_SESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/gang_set.h"
#include "agent/host_facts.h"
#include "agent/host_relay.h"
#include "agent/inspector.h"
#include "agent/leave_socket.h"
#include "agent/object_store.h"
#include "agent/preparation.h"
#include "agent/survivors.h"
#include "base/byte_stream.h"
#include "base/loop.h"
#include "wire/link.h"

namespace hvdray {

/// What a session knows before the launcher speaks.
struct AgentSessionOptions {
  std::string build;                ///< "hvdray 0.1.0"
  std::string cgroup_directory;     ///< Exists and is ours; empty: generations get no cgroup.
  wire::HostFacts facts;            ///< The session fills in ports and cleanup.
  std::string leave_directory;      ///< For LeaveSocket, in an elastic job; empty: no socket.
  bool has_probe_listener = false;  ///< Other hosts may probe this one until workers start.
  /// `--keep-processes`: the workers are commands whose daemons outlive this agent.
  bool keeps_processes = false;
  NodeShare node;  ///< On a Ray node, and with keeps_processes; elsewhere empty.
};

/// Owns the link, the relay and the gangs. Threads: the loop's.
class AgentSession final : private wire::Link::Owner, private GangSet::Owner {
 public:
  /// `on_done(exit_code)`: the link is closed and none of our processes is left. Called once. 0:
  /// the launcher sent Bye; 125: the link was lost or broken. The loop outlives the session.
  AgentSession(Loop& loop, std::unique_ptr<ByteStream> stream, AgentSessionOptions options,
               std::function<void(int exit_code)> on_done);
  ~AgentSession();

  /// Opens the ports and sends Hello.
  void Start();
  /// Sends Bye with `why` at once, so that the launcher knows the cause before it sees workers end;
  /// then stops the gang with the grace of Welcome and reports `exit_code` to on_done. A second
  /// call force stops: the grace becomes 0.
  void Leave(const Status& why, int exit_code);
  /// The host goes away after `notice`. In an elastic job, sends HostLeaving; the launcher then
  /// moves our workers out of the job and releases us. Leaves by itself after `notice`, or at a
  /// second call. In other jobs, and without running workers, the same as LeaveUnlessEnding().
  void Retire(Duration notice, const Status& why, int exit_code);
  /// For a signal, which what ends a login or a batch job sends to all processes of a job: gives
  /// the launcher, which may have got it too, kStopPatience to stop the workers in good order. If
  /// it does not, or starts others, the same as Leave(). A second call, or one without workers:
  /// Leave() at once.
  void LeaveUnlessEnding(const Status& why, int exit_code);

  /// Why the session gave up; ok: the launcher released it, or it still runs.
  const Status& why() const { return why_; }

  /// Requests dropped because their generation was over.
  uint64_t stale_requests() const {
    return stale_requests_ + preparation_.stale_requests() +
           (gangs_ ? gangs_->stale_requests() : 0);
  }

 private:
  void OnMessage(wire::Message&& message) override;
  void OnClosed(Status why) override;
  void OnOutputRoom() override {
    if (gangs_) gangs_->OnOutputRoom();
  }
  // Errors: kProtocolError, at which the session leaves.
  Status On(Generation generation, wire::Hello&& hello);
  Status On(Generation generation, wire::Welcome&& welcome);
  Status On(Generation generation, wire::Inspect&& inspect);
  Status On(Generation generation, wire::StartGeneration&& start);
  Status On(Generation generation, wire::Warm&& order);
  Status On(Generation generation, wire::StopGeneration&& stop);
  Status On(Generation generation, wire::StopWorkers&& stop);
  Status On(Generation generation, wire::BreakConnections&& order);
  Status On(Generation generation, wire::Notify&& notice);
  Status On(Generation generation, wire::Credit&& credit);
  Status On(Generation generation, wire::Stdin&& input);
  Status On(Generation generation, wire::Signal&& signal);
  Status On(Generation generation, wire::ObjectPiece&& piece);
  Status On(Generation generation, wire::MapObject&& map);
  Status On(Generation generation, wire::GiveObject&& give);
  Status On(Generation generation, wire::DropObject&& drop);
  /// Messages for Preparation and HostRelay. Those of the other direction are unreachable, as the
  /// link rejects them.
  template <typename T>
  Status On(Generation generation, T&& message);

  void OnReaped(int worker) override {
    if (survivors_) survivors_->Forget(worker);
  }
  void OnStopped(Generation generation, uint32_t swept) override;
  void OnIdle() override { FinishIfIdle(); }
  void OpenLeaveSocket();
  void StopGangs();
  void FinishIfIdle();
  /// The gang of that generation with that worker; nullptr counts the request as stale.
  LocalGang* GangOf(Generation generation, int worker);
  bool IsStale(Generation generation) const { return gangs_ && gangs_->IsStale(generation); }
  Status CountStale();
  void HoldPort();

  Loop& loop_;
  AgentSessionOptions options_;
  std::function<void(int)> on_done_;
  std::unique_ptr<wire::Link> link_;  // Sends nothing more once it is closing or closed.
  std::optional<wire::Welcome> welcome_;
  std::unique_ptr<HostRelay> relay_;    // Since Welcome.
  std::unique_ptr<GangSet> gangs_;      // The same.
  std::optional<Survivors> survivors_;  // The same, in an elastic job.
  ObjectStore objects_;
  std::unique_ptr<LeaveSocket> leave_socket_;
  std::optional<HeldPort> port_;
  std::unique_ptr<Inspector> inspector_;
  Preparation preparation_;
  uint64_t stale_requests_ = 0;
  bool is_leaving_ = false;
  bool is_link_closed_ = false;
  int exit_code_ = 0;
  Status why_;
  Watch done_timer_;
  Watch retire_timer_;
  Watch patience_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_SESSION_H_
