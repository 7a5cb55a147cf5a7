// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "base/text.h"
#include "base/tls_stream.h"
#include "cluster/transport/endpoint_address.h"
#include "launcher/engine/reach_probe.h"
#include "launcher/job/placement.h"
#include "launcher/job/ray_job_file.h"

namespace hvdray {
namespace {

// How long the broker may take to send its hello.
constexpr Duration kHelloLimit = std::chrono::seconds(60);

// Resources of another job's end may become free a moment later.
constexpr Duration kRefusedFor = std::chrono::milliseconds(500);

/// Listens on Ray's address of this node, or on all addresses if this machine does not have that
/// one (behind NAT, for example).
Result<std::unique_ptr<EndpointListener>> OpenListener(Loop& loop, const std::string& node_ip,
                                                       const std::string& key) {
  EndpointListenerOptions options;
  options.addresses = {node_ip};
  HVDRAY_ASSIGN_OR_RETURN(Secret secret, ParseTlsKey(key));
  Result<std::unique_ptr<EndpointListener>> listener =
      EndpointListener::Open(loop, options, secret.Copy());
  if (listener.ok()) return listener;
  options.addresses.clear();
  return EndpointListener::Open(loop, options, std::move(secret));
}

/// Ray keeps trying, but has found that the nodes lack the resources.
bool HasNoRoom(const BrokerGroup& group) {
  return group.state != BrokerGroupState::kCreated &&
         (group.reason == "NO_RESOURCES" || group.reason == "INFEASIBLE");
}

// Ray needs up to 13.6 s to notice a killed node.
constexpr Duration kNoticeLimit = std::chrono::seconds(20);

wire::GpuVisibility VisibilityOf(const RaySpec& ray) {
  if (ray.slot_gpus() <= 0) return wire::GpuVisibility::kInherited;
  return *ray.gpu_choice == GpuChoice::kRank ? wire::GpuVisibility::kRank
                                             : wire::GpuVisibility::kHost;
}

/// The spread of hosts at these addresses.
HostSpread SpreadOf(const std::vector<std::string>& ips) {
  const std::set<std::string> different(ips.begin(), ips.end());
  return different.size() <= 1 ? HostSpread::kOneMachine : HostSpread::kManyMachines;
}

Status StoppedWait() { return {ErrorCode::kCancelled, "the wait for slots was stopped"}; }

}  // namespace

class RaySlots::Reach final : public ElasticHosts {
 public:
  Reach(const RayHosts& hosts, std::string own_ip) : hosts_(hosts), own_ip_(std::move(own_ip)) {}
  void AddHost(const HostSlots& /*host*/) override {}
  bool IsRemote(const std::string& /*host*/) const override { return true; }
  bool IsElsewhere(const std::string& host) const override {
    return hosts_.plan().IpOf(host) != own_ip_;
  }

 private:
  const RayHosts& hosts_;
  const std::string own_ip_;
};

RaySlots::RaySlots(Loop& loop, const JobSpec& spec, Options options,
                   std::unique_ptr<ByteStream> broker, Handlers handlers)
    : loop_(loop),
      spec_(spec),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      waited_(StoppedWait()),
      broker_(std::make_unique<RayBroker>(std::move(broker), MakeHandlers())) {}

RaySlots::~RaySlots() = default;

RayBroker::Handlers RaySlots::MakeHandlers() {
  RayBroker::Handlers handlers;
  handlers.on_hello = [this](BrokerHello hello) { OnHello(std::move(hello)); };
  handlers.on_nodes = [this](const BrokerNodes& nodes) { OnNodes(nodes); };
  handlers.on_group = [this](const BrokerGroup& group) { OnGroup(group); };
  handlers.on_endpoint_started = [this](const BrokerEndpointStarted& endpoint) {
    if (transport_) transport_->OnEndpointStarted(endpoint);
    if (++endpoints_started_ == endpoints_wanted_) endpoints_ended_ = loop_.Now();
  };
  handlers.on_endpoint_ended = [this](const BrokerEndpointEnded& endpoint) {
    if (transport_) transport_->OnEndpointEnded(endpoint);
  };
  handlers.on_signal = handlers_.on_signal;
  handlers.on_closed = [this](const Status& why) {
    is_closed_ = true;
    handlers_.on_closed(why);
    GiveUp(why);
  };
  return handlers;
}

// ---- waits

Status RaySlots::Wait() {
  is_waiting_ = true;
  loop_.Run();
  is_waiting_ = false;
  timer_.Cancel();
  return std::exchange(waited_, StoppedWait());
}

// The first end counts.
void RaySlots::EndWait(Status how) {
  if (!std::exchange(is_waiting_, false)) return;
  timer_.Cancel();
  waited_ = std::move(how);
  loop_.Stop();
}

void RaySlots::GiveUp(Status why) { EndWait(std::move(why)); }

Status RaySlots::Join() {
  broker_->Start();
  timer_ = loop_.After(kHelloLimit, [this] {
    EndWait({ErrorCode::kRayFailed,
             fmt::format("no hello from ray_driver.py within {:g} s",
                         std::chrono::duration_cast<Seconds>(kHelloLimit).count())});
  });
  return Wait();
}

void RaySlots::OnHello(BrokerHello hello) {
  hello_ = std::move(hello);
  EndWait(Listen());
}

Status RaySlots::Listen() {
  if (!ParseIpLiteral(hello_.node_ip)) {
    return {ErrorCode::kProtocolError,
            fmt::format("Ray's address for this node, '{}', is not an IP address",
                        ShownText(hello_.node_ip))};
  }
  HVDRAY_RETURN_IF_ERROR(handlers_.on_hello(hello_));
  Result<std::unique_ptr<EndpointListener>> listener =
      OpenListener(loop_, hello_.node_ip, options_.key);
  if (!listener.ok()) {
    return std::move(listener).status().WithContext("listen for agents on " + hello_.node_ip);
  }
  listener_ = std::move(listener).value();
  broker_->Watch();
  return {};
}

// ---- a placement group, for a job of fixed size

Result<RayPlacement> RaySlots::Reserve() {
  HVDRAY_ASSIGN_OR_RETURN(request_, MakeRayRequest(ToRayAsk(spec_)));
  reserve_began_ = loop_.Now();
  wait_.emplace(request_, *spec_.ray.group_timeout, options_.can_grow, reserve_began_);
  if (nodes_) OnNodes(*nodes_);
  return AwaitPlacement();
}

Result<RayPlacement> RaySlots::AwaitPlacement() {
  do {
    LookAt(loop_.Now());
    HVDRAY_RETURN_IF_ERROR(Wait());
    // Ray may report the group as created and broken at the same time.
  } while (wait_->Look(loop_.Now()) != GroupWait::State::kCreated);
  taken_ = {};
  placement_ = PlaceGroup(reserved_, wait_->group(), wait_->nodes());
  return placement_;
}

void RaySlots::Ask(RayRequest request) {
  const bool is_first = group_name_.empty();
  if (!is_first) broker_->Release(group_name_);
  group_name_ = fmt::format("hvdray-{}{}", options_.job_id, is_first ? "" : "-slots");
  reserved_ = std::move(request);
  refused_since_.reset();
  wait_->Expect(reserved_.bundles.size());
  broker_->Reserve({.name = group_name_,
                    .bundles = reserved_.bundles,
                    .strategy = reserved_.strategy,
                    .selectors = reserved_.selectors});
}

std::optional<TimePoint> RaySlots::TimeForSingleSlots() const {
  if (!refused_since_ || reserved_ == request_) return std::nullopt;
  return *refused_since_ + kRefusedFor;
}

void RaySlots::OnGroup(const BrokerGroup& group) {
  if (hosts_) return hosts_->OnGroup(group);
  if (!wait_ || group.name != group_name_) return;
  wait_->OnGroup(group, loop_.Now());
  if (!HasNoRoom(group)) {
    refused_since_.reset();
  } else if (!refused_since_) {
    refused_since_ = loop_.Now();
  }
  if (transport_) transport_->OnGroup(group);
  Look();
}

void RaySlots::OnNodes(const BrokerNodes& nodes) {
  nodes_ = nodes;
  if (hosts_) return hosts_->OnNodes(nodes);
  if (!wait_) return;
  wait_->OnNodes(nodes);
  // The first table shows which nodes have room. A group that is there already has its own bundles.
  if (group_name_.empty()) {
    Ask(hello_.is_in_group ? request_ : GroupByNode(request_, wait_->nodes()));
  }
  Look();
}

void RaySlots::Look() {
  if (!is_waiting_ || !wait_) return;
  const TimePoint now = loop_.Now();
  if (TimeForSingleSlots().value_or(TimePoint::max()) <= now) Ask(request_);
  switch (wait_->Look(now)) {
    case GroupWait::State::kCreated: {
      if (taken_.ok() || IsMoved()) return EndWait({});
      // Ray has not noticed yet what we have.
      const TimePoint limit = reserve_began_ + std::min(kNoticeLimit, *spec_.ray.group_timeout);
      return now >= limit ? EndWait(taken_) : LookAt(limit);
    }
    case GroupWait::State::kFailed:
      return EndWait(wait_->failure(now));
    case GroupWait::State::kWaiting:
      break;
  }
  if (const auto line = wait_->TakeLine(now)) handlers_.say(*line);
  LookAt(std::min(wait_->NextDeadline(), TimeForSingleSlots().value_or(TimePoint::max())));
}

void RaySlots::LookAt(TimePoint when) {
  timer_ = loop_.After(when - loop_.Now(), [this] {
    timer_.Cancel();
    Look();
  });
}

// ---- agents there

RayTransportOptions RaySlots::TransportOptions(HostSpread spread, size_t host_count) const {
  RayTransportOptions options;
  TcpAddress dial = ParseIpLiteral(hello_.node_ip).value_or(TcpAddress());
  dial.port = listener_->port();
  options.dial = FormatEndpointAddresses({dial});
  options.key_line = options_.key;
  options.runtime_env = *spec_.ray.runtime_env;
  if (!options_.agent_path.empty()) options.agent_path = options_.agent_path;
  if (IsProbeWanted(spread, host_count)) options.agent_words.emplace_back("--probe-listener");
  if (*spec_.ray.keeps_ray_env) options.agent_words.emplace_back("--keep-ray-env");
  return options;
}

Transport& RaySlots::Start(const LaunchPlan& plan) {
  RayTransportOptions options = TransportOptions(plan.spread, plan.hosts.size());
  // From the last arrival on, the links report all that happens to a host.
  options.on_arrival = [this] {
    if (++arrivals_ == endpoints_wanted_) broker_->Rest();
  };
  if (transport_) options.first_endpoint = transport_->next_endpoint();
  transport_ = std::make_unique<RayTransport>(loop_, *broker_, *listener_, std::move(options));
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    transport_->Place(plan.hosts[i].host, placement_.places[i]);
  }
  endpoints_wanted_ = plan.hosts.size();
  endpoints_started_ = 0;
  arrivals_ = 0;
  endpoints_began_ = loop_.Now();
  endpoints_ended_.reset();
  return *transport_;
}

Duration RaySlots::HeldUp() const {
  // Ray starts the actors' processes; they get the same limit as the group.
  const TimePoint end = endpoints_ended_.value_or(loop_.Now());
  return std::min(end - endpoints_began_, *spec_.ray.group_timeout);
}

// Slots that Ray takes away before any worker starts: the group is complete again in a moment, or
// the wait for it starts over.

bool RaySlots::AreTakenAway(const JobReport& report) const {
  if (report.generations > 0 || report.verdict.losses.empty() || is_closed_) return false;
  // An agent that exits by itself would do so anywhere; an agent lost with its node would not.
  const ErrorCode code = report.verdict.error.code();
  return IsMoved() || code == ErrorCode::kRayFailed || code == ErrorCode::kAgentLost;
}

/// True if the group is no longer where it was placed.
bool RaySlots::IsMoved() const {
  const BrokerGroup& group = wait_->group();
  if (wait_->Look(loop_.Now()) != GroupWait::State::kCreated) return true;
  if (placement_.places.front().group != group.name) return true;
  for (size_t host = 0; host < placement_.places.size(); ++host) {
    for (const int bundle : placement_.places[host].bundles) {
      if (group.bundles[static_cast<size_t>(bundle)] != placement_.node_ids[host]) return true;
    }
  }
  return false;
}

Result<RayPlacement> RaySlots::ReserveAgain(const Status& why) {
  taken_ = why;
  for (const HostSlots& host : placement_.hosts) transport_->Remove(host.host);
  reserve_began_ = loop_.Now();
  const BrokerGroup group = wait_->group();
  wait_.emplace(request_, *spec_.ray.group_timeout, options_.can_grow, reserve_began_);
  wait_->Expect(reserved_.bundles.size());
  wait_->OnGroup(group, reserve_began_);
  if (nodes_) wait_->OnNodes(*nodes_);
  broker_->Watch();
  handlers_.say(fmt::format("{}; no worker had started; waiting for Ray to replace the slots",
                            taken_.message()));
  return AwaitPlacement();
}

// ---- hosts of an elastic job

JobReach RaySlots::Offer(RayHostHandlers handlers, HostSpread spread) {
  RayTransportOptions transport = TransportOptions(spread, /*host_count=*/1);
  transport.on_endpoint = [this](const std::string& host, bool is_live) {
    hosts_->OnEndpoint(host, is_live);
  };
  transport_ = std::make_unique<RayTransport>(loop_, *broker_, *listener_, std::move(transport));
  RayHostsOptions options;
  options.policy.group_prefix = "hvdray-" + options_.job_id;
  options.policy.ask = ToRayAsk(spec_);
  options.policy.max_slots = spec_.max_np->value_or(kMaxRanks);
  if (options_.can_grow) options.policy.wanted_slots = *spec_.np;
  options.policy.is_spread = *spec_.ray.strategy == RayStrategy::kSpread;
  options.policy.has_cooldown = spec_.blacklist_cooldown_range->has_value();
  for (const HostSlots& host : options.policy.ask.named) options.policy.only_ips.insert(host.host);
  options.wanted_slots = *spec_.np;
  options.say = std::move(handlers.say);
  options.on_leaving = std::move(handlers.on_leaving);
  hosts_ = std::make_unique<RayHosts>(loop_, *broker_, *transport_, std::move(options));
  reach_ = std::make_unique<Reach>(*hosts_, hello_.node_ip);
  if (nodes_) hosts_->OnNodes(*nodes_);
  return {*transport_, reach_.get(), hosts_.get()};
}

// ---- plans

void AdaptPlanToRay(LaunchPlan* plan) {
  plan->spread = HostSpread::kManyMachines;
  plan->place.is_on_own_environment = true;
  plan->place.gpu_visibility = VisibilityOf(plan->spec.ray);
}

Status PlaceStatic(const RayPlacement& placement, LaunchPlan* plan) {
  plan->hosts = placement.hosts;
  plan->is_remote.assign(placement.hosts.size(), true);
  // As in horovod.ray.
  plan->place.worker_host_names = placement.node_ids;
  plan->spread = SpreadOf(placement.ips);
  HVDRAY_ASSIGN_OR_RETURN(plan->ranks, AssignRanks(plan->hosts, *plan->spec.np, *plan->spec.np));
  return {};
}

}  // namespace hvdray
