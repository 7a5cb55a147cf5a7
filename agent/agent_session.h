// One agent's side of its link: turns messages into what the gang, the relay and the host must do,
// and ends everything when the link is lost (style P6).
#ifndef HVDRAY_AGENT_AGENT_SESSION_H_
#define HVDRAY_AGENT_AGENT_SESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/control_socket.h"
#include "agent/elastic_duties.h"
#include "agent/folder_receiver.h"
#include "agent/gang_set.h"
#include "agent/host_facts.h"
#include "agent/inspector.h"
#include "agent/prober.h"
#include "base/byte_stream.h"
#include "base/loop.h"
#include "rendezvous/relay.h"
#include "wire/link.h"

namespace hvdray {

struct AgentSessionOptions {
  std::string build;                ///< "hvdray 0.1.0"
  std::string cgroup_folder;        ///< Exists and is ours; empty: generations get no cgroup.
  wire::HostFacts facts;            ///< Ports and cleanup are filled in by the session.
  std::string control_folder;       ///< For ControlSocket, in an elastic job; empty: none.
  bool has_probe_listener = false;  ///< Neighbours may probe this host until workers start.
  NodeShare node;                   ///< On Ray; else empty.
};

/// Threads: the loop's.
class AgentSession : private KvUpstream {
 public:
  /// `on_done(exit_code)`: the link is closed and nothing that we started is left. Once, from the
  /// loop; may destroy the session. 0: the launcher said Bye; 125: the link was lost or broken.
  AgentSession(Loop& loop, std::unique_ptr<ByteStream> stream, AgentSessionOptions options,
               std::function<void(int exit_code)> on_done);
  ~AgentSession() override;

  void Start();
  /// Says Bye with `why` at once, so that the launcher knows the cause before it sees workers end;
  /// then stops the gang with the grace of Welcome, and is done with `exit_code`. A second call
  /// takes the grace away.
  void Leave(const Status& why, int exit_code);
  /// The host goes away in a while. In an elastic job the launcher is told, moves its workers out
  /// of the job and releases us; we leave by ourselves when that time is over, or at a second call.
  /// In others, and before a worker was started, as Leave().
  void Retire(Duration notice, const Status& why, int exit_code);

  /// Why it gave up; ok: it was released, or still runs.
  const Status& why() const { return why_; }

  /// Requests of a generation that is over, dropped.
  uint64_t stale_requests() const {
    return stale_requests_ + (gangs_ ? gangs_->stale_requests() : 0);
  }

 private:
  void OnMessage(wire::Message&& message);
  void On(Generation generation, wire::Hello&& hello);
  void On(Generation generation, wire::Welcome&& welcome);
  void On(Generation generation, wire::Probe&& probe);
  void On(Generation generation, wire::Inspect&& inspect);
  void On(Generation generation, wire::FolderList&& list);
  void On(Generation generation, wire::File&& file);
  void On(Generation generation, wire::StartGeneration&& start);
  void On(Generation generation, wire::StopGeneration&& stop);
  void On(Generation generation, wire::StopWorkers&& stop);
  void On(Generation generation, wire::BreakConnections&& order);
  void On(Generation generation, wire::Notify&& notice);
  void On(Generation generation, wire::Credit&& credit);
  void On(Generation generation, wire::Stdin&& input);
  void On(Generation generation, wire::Signal&& signal);
  void On(Generation generation, wire::KvReply&& reply);
  void On(Generation generation, wire::KvReset&& reset);
  /// Messages of the other direction; the link lets none of them through.
  template <typename T>
  void On(Generation generation, T&& other);

  void Ask(KvQuestion question) override;
  void Arrived(int worker) override;
  void OnLinkClosed(const Status& why);
  void SendStopped(Generation generation, uint32_t swept);
  void Send(Generation generation, wire::Body body);
  void MakeGangs();
  void OpenControl();
  void StopGangs();
  void FinishIfIdle();
  /// Of this generation and with this worker; else counts the request as stale.
  LocalGang* GangOf(Generation generation, int worker);
  bool IsStale(Generation generation) const { return gangs_ && gangs_->IsStale(generation); }
  void CountStale(Generation /*generation*/) { ++stale_requests_; }
  void HoldPort();
  /// Nothing of the probe stays open on the network, and no file half written.
  void EndPreparation();

  Loop& loop_;
  AgentSessionOptions options_;
  std::function<void(int)> on_done_;
  std::unique_ptr<wire::Link> link_;
  std::optional<wire::Welcome> welcome_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<GangSet> gangs_;          // From Welcome on.
  std::unique_ptr<ElasticDuties> elastic_;  // Likewise, in an elastic job.
  std::unique_ptr<ControlSocket> control_;
  std::optional<HeldPort> port_;
  std::unique_ptr<ProbeListener> probe_listener_;
  std::unique_ptr<Inspector> inspector_;
  std::unique_ptr<Prober> prober_;  // once it has answered, a mark that this was done
  std::unique_ptr<FolderReceiver> folder_receiver_;
  uint64_t stale_requests_ = 0;
  bool is_leaving_ = false;
  int exit_code_ = 0;
  Status why_;
  Watch close_timer_;
  Watch done_timer_;
  Watch retire_timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_SESSION_H_
