// Speaks to Ray for `hvdray-agent drive`: the C++ end of the pipe to python/ray_driver.py, which
// reserves groups, seats agents and tells of nodes, and decides nothing.
#ifndef HVDRAY_CLUSTER_RAY_RAY_BROKER_H_
#define HVDRAY_CLUSTER_RAY_RAY_BROKER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "cluster/ray/broker_messages.h"

namespace hvdray {

/// Threads: the loop's. Destroying it closes the pipe: Python then ends all seats, gives all groups
/// back and leaves with this process's exit code.
class RayBroker {
 public:
  /// None is called from within a method of the broker; each may destroy it. Those that are empty
  /// are not called. on_hello comes first and once.
  struct Handlers {
    std::function<void(BrokerHello)> on_hello;
    std::function<void(BrokerNodes)> on_nodes;  ///< Only after Watch().
    std::function<void(BrokerGroup)> on_group;
    std::function<void(BrokerSeatStarted)> on_seat_started;
    std::function<void(BrokerSeatEnded)> on_seat_ended;
    std::function<void(BrokerSignal)> on_signal;
    /// Once, and nothing after it: never ok. kRayFailed: Python has gone; kProtocolError: it said
    /// what no ray_driver.py says (too long a line, not JSON, not hello first).
    std::function<void(Status why)> on_closed;
  };

  /// `stream`: to Python, as MakeFdStream(loop, UniqueFd(0), UniqueFd(1)), with SIGPIPE ignored.
  RayBroker(std::unique_ptr<ByteStream> stream, Handlers handlers);
  ~RayBroker();
  RayBroker(const RayBroker&) = delete;
  RayBroker& operator=(const RayBroker&) = delete;

  /// Begins to read. Call once.
  void Start();

  // What is said after on_closed goes nowhere.
  /// Answered by on_group, again and again.
  void Reserve(const BrokerReserve& reserve);
  void Release(const std::string& group);
  /// Answered by on_nodes at once and at every change.
  void Watch();
  /// Nodes and groups are not told of any more, until Watch().
  void Rest();
  /// Answered by on_seat_started or on_seat_ended, the latter in the end anyway.
  void Seat(const BrokerSeat& seat);
  /// Kills the actor and, with its process group, the agent. Answered by on_seat_ended.
  void Unseat(int seat);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // kept by the callback that runs, too
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_BROKER_H_
