// How the driver on Ray reaches the agent of a host: it has ray_driver.py start one in the seat of
// the host, and lets it in when it dials.
#ifndef HVDRAY_CLUSTER_RAY_RAY_TRANSPORT_H_
#define HVDRAY_CLUSTER_RAY_RAY_TRANSPORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "cluster/ray/ray_broker.h"
#include "cluster/ray/seat_listener.h"
#include "cluster/transport.h"

namespace hvdray {

/// Where the agent of a host sits.
struct RaySeatPlace {
  std::string group;
  std::vector<int> bundles;  ///< All on one node; the agent's actor sits in the first.
  /// Where they are; Ray moves them when it loses the node. Empty: wherever the agent starts.
  std::string node_id = {};
  bool operator==(const RaySeatPlace&) const = default;
};

struct RayTransportOptions {
  /// Where agents dial, as literals with ports ("10.0.0.10:40001,...").
  std::string dial;
  std::string key_line;                  ///< 64 hex digits: each agent's first line on stdin.
  std::string runtime_env;               ///< JSON: Ray's, of the agents. Empty: that of the job.
  std::vector<std::string> agent_words;  ///< Behind those that every seat gets.
  std::string agent_path = ".hvdray/hvdray-agent";  ///< In the job's working folder.
  int first_seat = 0;
  /// The agent of a host is being started, or its last one has ended, or is not wanted any more.
  /// From the loop.
  std::function<void(const std::string& host, bool is_live)> on_seat = {};
  /// The agent of a host is handed over to the launcher. From the loop.
  std::function<void()> on_arrival = {};
};

/// Each Start() takes a seat of a new number; what is still in the host's former one is ended.
/// Threads: the loop's.
class RayTransport final : public Transport {
 public:
  /// Loop, broker and listener outlive it.
  RayTransport(Loop& loop, RayBroker& broker, SeatListener& listener, RayTransportOptions options);
  ~RayTransport() override;

  /// Before the first Start() of the host, and when it has moved.
  void Place(const std::string& host, RaySeatPlace place);
  /// Errors: kAgentStartFailed, also for a host that has no place (any more); kRayFailed when Ray
  /// has lost its node, or has moved it.
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override;
  /// The host's place is gone, and its agent's actor with it.
  void Remove(const std::string& host);

  /// Above those of all seats so far: the first of a transport that takes this one's place.
  int next_seat() const { return next_seat_; }

  // To be called with what the broker tells.
  void OnGroup(const BrokerGroup& group);
  void OnSeatStarted(const BrokerSeatStarted& seat);
  void OnSeatEnded(const BrokerSeatEnded& seat);

 private:
  struct Seat;
  class Carrier;
  class SeatStream;
  void Begin(const std::string& host, const std::shared_ptr<Seat>& seat);
  void Arrive(const std::shared_ptr<Seat>& seat, SeatArrival arrival);
  void Deliver(const std::shared_ptr<Seat>& seat);
  void GiveUp(const std::shared_ptr<Seat>& seat, const std::string& why);
  void OnStreamGone(const std::shared_ptr<Seat>& seat);
  void TellIdle(const Seat& seat);
  void End(const std::shared_ptr<Seat>& seat, Status how);
  void Unseat(const std::string& host);

  Loop& loop_;
  RayBroker& broker_;
  SeatListener& listener_;
  const RayTransportOptions options_;
  std::map<std::string, RaySeatPlace> places_;
  std::map<std::string, int> newest_;           // Seat of each host.
  std::map<int, std::shared_ptr<Seat>> seats_;  // That have not ended.
  int next_seat_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_TRANSPORT_H_
