// SPDX-License-Identifier: Apache-2.0
// How the driver on Ray reaches the agent of a host: ray_driver.py starts the agent on the host's
// node, and the agent dials back to its endpoint at the driver.
#ifndef HVDRAY_CLUSTER_RAY_RAY_TRANSPORT_H_
#define HVDRAY_CLUSTER_RAY_RAY_TRANSPORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/secret.h"
#include "cluster/ray/ray_broker.h"
#include "cluster/transport/endpoint_listener.h"
#include "cluster/transport/transport.h"

namespace hvdray {

/// The bundles of a placement group that a host's agent occupies.
struct RayEndpointPlace {
  std::string group;
  std::vector<int> bundles;  ///< All on one node; the agent's actor runs in the first.
  /// The node that must have them; Ray moves bundles when it loses a node. Empty: any node.
  std::string node_id = {};
  bool operator==(const RayEndpointPlace&) const = default;
};

/// How RayTransport starts agents.
struct RayTransportOptions {
  /// Where agents dial, as literals with ports ("10.0.0.10:40001,...").
  std::string dial;
  std::string key_line;                  ///< 64 hex digits: each agent's first line on stdin.
  std::string runtime_env;               ///< Ray's, for agents, as JSON. Empty: the job's.
  std::vector<std::string> agent_words;  ///< Arguments after those that every agent gets.
  std::string agent_path = ".hvdray/hvdray-agent";  ///< In the job's working directory.
  int first_endpoint = 0;
  /// is_live: a host's agent is being started; false: its latest agent has ended or is no longer
  /// wanted. Called from the loop.
  std::function<void(const std::string& host, bool is_live)> on_endpoint = {};
  /// A host's agent was handed over to the launcher. Called from the loop.
  std::function<void()> on_arrival = {};
};

/// Each Start() uses a new agent endpoint number, and ends the host's former agent if it still
/// runs. Threads: the loop's.
class RayTransport final : public Transport {
 public:
  /// Loop, broker and listener outlive the transport.
  RayTransport(Loop& loop, RayBroker& broker, EndpointListener& listener,
               RayTransportOptions options);
  ~RayTransport() override;

  /// Call before the host's first Start(), and when its bundles have moved.
  void Place(const std::string& host, RayEndpointPlace place);
  /// Errors: kAgentStartFailed, also for a host without a place; kRayFailed when Ray has lost or
  /// moved its node.
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override;
  /// Forgets the host's place and ends its agent.
  void Remove(const std::string& host);

  /// Above all numbers used so far: first_endpoint for a transport that replaces this one.
  int next_endpoint() const { return next_endpoint_; }

  // Call these with the broker's events.
  void OnGroup(const BrokerGroup& group);
  void OnEndpointStarted(const BrokerEndpointStarted& endpoint);
  void OnEndpointEnded(const BrokerEndpointEnded& endpoint);

 private:
  struct Endpoint;
  class Carrier;
  class EndpointStream;
  void Begin(const std::string& host, const std::shared_ptr<Endpoint>& endpoint);
  void Arrive(const std::shared_ptr<Endpoint>& endpoint, EndpointArrival arrival);
  void Deliver(const std::shared_ptr<Endpoint>& endpoint);
  void GiveUp(const std::shared_ptr<Endpoint>& endpoint, const std::string& why);
  void OnStreamGone(const std::shared_ptr<Endpoint>& endpoint);
  void TellIdle(const Endpoint& endpoint);
  void End(const std::shared_ptr<Endpoint>& endpoint, Status how);
  void CloseEndpoint(const std::string& host);

  Loop& loop_;
  RayBroker& broker_;
  EndpointListener& listener_;
  const RayTransportOptions options_;
  std::map<std::string, RayEndpointPlace> places_;
  std::map<std::string, int> newest_;                   // The latest endpoint number of each host.
  std::map<int, std::shared_ptr<Endpoint>> endpoints_;  // Those that have not ended.
  int next_endpoint_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_TRANSPORT_H_
