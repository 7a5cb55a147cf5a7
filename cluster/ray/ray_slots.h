// SPDX-License-Identifier: Apache-2.0
// Slots of a Ray cluster: asks a broker (python/hvdray/_ray_driver.py) for a placement group, waits
// until it is there, and starts agents in it. Decides what is asked for, how long to wait, and
// whether Ray has taken slots away. docs/ray.md, "What runs where".
#ifndef HVDRAY_CLUSTER_RAY_RAY_SLOTS_H_
#define HVDRAY_CLUSTER_RAY_RAY_SLOTS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/status.h"
#include "cluster/ray/group_wait.h"
#include "cluster/ray/ray_broker.h"
#include "cluster/ray/ray_hosts.h"
#include "cluster/ray/ray_transport.h"
#include "cluster/transport/endpoint_listener.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/open_job.h"
#include "launcher/job/job_spec.h"
#include "launcher/report/job_report.h"

namespace hvdray {

/// Join(), Reserve() and ReserveAgain() run the loop until they have an answer. Later a launcher
/// runs it, and its transport lives on the broker's events. Destroying the slots gives them back.
/// Threads: the loop's.
class RaySlots {
 public:
  struct Options {
    std::string job_id;
    std::string key;  ///< Of the links to agents: 64 hex digits. Never logged.
    /// The cluster may gain nodes, so what no node could hold now is worth waiting for.
    bool can_grow = true;
    std::string agent_path = {};  ///< As in RayTransportOptions. Empty: its default.
  };
  /// on_hello and on_closed come once and still must not destroy the slots.
  struct Handlers {
    /// The broker has joined the cluster. Errors end Join().
    std::function<Status(const BrokerHello&)> on_hello;
    /// A line for the user while the job waits.
    std::function<void(std::string_view line)> say;
    std::function<void(const BrokerSignal&)> on_signal;
    /// The broker has ended; a wait fails with the same error.
    std::function<void(const Status& why)> on_closed;
  };
  /// As in RayHostsOptions.
  struct RayHostHandlers {
    std::function<void(std::string_view line)> say;
    std::function<void(const std::string& host, Duration in)> on_leaving;
  };

  /// `broker`: the pipe to it. Loop and spec outlive the slots; SIGPIPE must be ignored.
  RaySlots(Loop& loop, const JobSpec& spec, Options options, std::unique_ptr<ByteStream> broker,
           Handlers handlers);
  ~RaySlots();

  /// Waits for the broker's hello, and listens for agents. Errors: kRayFailed, kProtocolError,
  /// those of on_hello and EndpointListener::Open(), and as Reserve().
  Status Join();
  /// After Join(), for a job of fixed size: waits until Ray has reserved its slots. Errors: those
  /// of MakeRayRequest() and GroupWait::failure(), that of GiveUp(), and kCancelled if something
  /// else stopped the loop.
  Result<RayPlacement> Reserve();
  /// The same when AreTakenAway(), because of `why`.
  Result<RayPlacement> ReserveAgain(const Status& why);
  /// Ends the present wait, if there is one, with `why`.
  void GiveUp(Status why);

  /// A transport that starts agents in the last placement. `plan`: with its hosts, PlaceStatic().
  Transport& Start(const LaunchPlan& plan);
  /// How long the start of agents was held up by that of Ray's own processes.
  Duration HeldUp() const;
  /// Whether Ray took slots away before any worker of this job started.
  bool AreTakenAway(const JobReport& report) const;
  TimePoint reserve_began() const { return reserve_began_; }
  TimePoint start_began() const { return endpoints_began_; }

  /// After Join(), for an elastic job; once.
  JobReach Offer(RayHostHandlers handlers, HostSpread spread);
  /// After Offer(): only these nodes from now on, with at most these slots.
  void Limit(const std::vector<HostSlots>& nodes) { hosts_->Limit(nodes); }

 private:
  class Reach;
  void OnHello(BrokerHello hello);
  void OnGroup(const BrokerGroup& group);
  void OnNodes(const BrokerNodes& nodes);
  RayBroker::Handlers MakeHandlers();
  Status Listen();
  Status Wait();
  void EndWait(Status how);
  Result<RayPlacement> AwaitPlacement();
  void Ask(RayRequest request);
  /// When to ask for single slots, if Ray finds no room for bundles of several slots.
  std::optional<TimePoint> TimeForSingleSlots() const;
  void Look();
  void LookAt(TimePoint when);
  bool IsMoved() const;
  RayTransportOptions TransportOptions(HostSpread spread, size_t host_count) const;

  Loop& loop_;
  const JobSpec& spec_;
  const Options options_;
  const Handlers handlers_;
  Status waited_;  // How the present wait ends.
  BrokerHello hello_;
  std::unique_ptr<RayBroker> broker_;
  std::unique_ptr<EndpointListener> listener_;
  std::unique_ptr<RayTransport> transport_;
  std::unique_ptr<RayHosts> hosts_;  // Elastic jobs only.
  std::unique_ptr<Reach> reach_;
  std::optional<BrokerNodes> nodes_;  // The latest table.
  std::optional<GroupWait> wait_;
  RayRequest request_;   // A bundle per slot, or per host if hosts are asked for.
  RayRequest reserved_;  // The same slots, as last asked for.
  std::string group_name_;
  std::optional<TimePoint> refused_since_;  // Since when Ray has no room for reserved_.
  TimePoint reserve_began_{};
  RayPlacement placement_;
  Status taken_;             // Why slots were taken away, while waiting for new ones.
  bool is_waiting_ = false;  // The loop runs for us.
  bool is_closed_ = false;
  Watch timer_;
  size_t endpoints_wanted_ = 0;
  size_t endpoints_started_ = 0;
  size_t arrivals_ = 0;
  TimePoint endpoints_began_{};
  std::optional<TimePoint> endpoints_ended_;
};

/// Adapts a plan to a job on Ray: workers run in their node's own environment, with the GPUs that
/// Ray gave them, and its hosts are different machines.
void AdaptPlanToRay(LaunchPlan* plan);

/// Adds hosts and ranks to `plan`. Errors: those of AssignRanks().
Status PlaceStatic(const RayPlacement& placement, LaunchPlan* plan);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_SLOTS_H_
