// How the driver of --ray-mode jobs reaches its agents: each is a Ray job of its own that dials by
// itself, and this is where they wait until the launcher asks for them.
#ifndef HVDRAY_CLUSTER_RAY_SEAT_TRANSPORT_H_
#define HVDRAY_CLUSTER_RAY_SEAT_TRANSPORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/ray/seat_listener.h"
#include "cluster/transport.h"

namespace hvdray {

/// Threads: the loop's.
class SeatTransport final : public Transport {
 public:
  /// Lets the agents in from now on; hosts[i] is that of seat i. `on_arrival`: after each of them,
  /// from the loop. Loop and listener outlive it.
  SeatTransport(Loop& loop, SeatListener& listener, std::vector<std::string> hosts,
                std::function<void()> on_arrival);
  ~SeatTransport() override;

  /// Hosts whose agent has not come yet, in the order of their seats.
  std::vector<std::string> MissingHosts() const;
  /// Hands over what has come in, once for each host. Errors: kAgentStartFailed for one that has
  /// not, or is none of these.
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override;

 private:
  Result<AgentStart> Take(const std::string& host);

  Loop& loop_;
  SeatListener& listener_;
  const std::vector<std::string> hosts_;
  const std::function<void()> on_arrival_;
  std::map<std::string, SeatArrival> arrivals_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_SEAT_TRANSPORT_H_
