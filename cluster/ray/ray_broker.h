// SPDX-License-Identifier: Apache-2.0
// Talks to Ray for `hvdray-agent launch`: the C++ end of the pipe to python/hvdray/_ray_driver.py,
// which reserves placement groups, starts agents and reports nodes, but decides nothing.
#ifndef HVDRAY_CLUSTER_RAY_RAY_BROKER_H_
#define HVDRAY_CLUSTER_RAY_RAY_BROKER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "cluster/ray/broker_messages.h"

namespace hvdray {

/// Destroying it closes the pipe: Python then ends all agents, releases all groups and exits with
/// this process's exit code. Threads: the loop's.
class RayBroker final : private ByteStream::Owner {
 public:
  /// Each may be empty. on_hello comes first, and once; it still must not destroy the broker.
  struct Handlers {
    std::function<void(BrokerHello)> on_hello;
    std::function<void(BrokerNodes)> on_nodes;  ///< Only after Watch().
    std::function<void(BrokerGroup)> on_group;
    std::function<void(BrokerEndpointStarted)> on_endpoint_started;
    std::function<void(BrokerEndpointEnded)> on_endpoint_ended;
    std::function<void(BrokerSignal)> on_signal;
    /// The last call, never with ok. kRayFailed: Python has ended; kProtocolError: it sent an
    /// invalid message (line too long, not JSON, hello not first).
    std::function<void(Status why)> on_closed;
  };

  /// `stream`: to Python, such as MakeFdStream(loop, UniqueFd(0), UniqueFd(1)). SIGPIPE must be
  /// ignored.
  RayBroker(std::unique_ptr<ByteStream> stream, Handlers handlers);
  RayBroker(const RayBroker&) = delete;
  RayBroker& operator=(const RayBroker&) = delete;

  /// Starts reading. Call once.
  void Start();

  // These have no effect after on_closed.

  /// Reserves a placement group. on_group reports each of its changes.
  void Reserve(const BrokerReserve& reserve);
  /// Returns a placement group to Ray.
  void Release(const std::string& group);
  /// on_nodes follows at once and at every change.
  void Watch();
  /// Stops reports of nodes and groups until Watch().
  void Rest();
  /// Starts an agent. on_endpoint_started follows, and on_endpoint_ended in any case.
  void Endpoint(const BrokerEndpoint& endpoint);
  /// Kills the actor and, with its process group, the agent. on_endpoint_ended follows.
  void CloseEndpoint(int endpoint);

 private:
  void OnData(ByteView bytes) override;
  Status OnLine(const std::string& line);
  void OnClosed(Status why) override;
  void Close(Status why);
  void Say(std::string text);

  std::unique_ptr<ByteStream> stream_;
  Handlers handlers_;
  std::string line_;  // Unfinished.
  bool has_hello_ = false;
  bool is_closed_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_BROKER_H_
