// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/log.h"

namespace hvdray {
namespace {

// How long an agent may take to end after its stream was closed.
constexpr Duration kEndLimit = std::chrono::seconds(5);
// A launcher that has lost a link first looks for the reason; only then report the host as idle.
constexpr Duration kIdleDelay = std::chrono::milliseconds(500);

Status WhyEnded(const std::string& told, bool has_come) {
  const ErrorCode code = has_come ? ErrorCode::kAgentLost : ErrorCode::kAgentStartFailed;
  if (told.empty()) return {code, "its actor has ended"};
  // Ray's text for a dead actor lists its names first, and then the reason.
  const size_t reason = told.find("The actor died because");
  const std::string text = reason == std::string::npos ? told : told.substr(reason);
  // ActorDiedError, ActorUnschedulableError: not the agent's fault.
  const bool is_rays = !has_come && told.starts_with("Actor");
  return {is_rays ? ErrorCode::kRayFailed : code, text};
}

}  // namespace

// One agent and its endpoint. Shared by the transport until Ray reports the end, and by the
// carrier.
struct RayTransport::Endpoint {
  int number = -1;  // -1: not requested yet
  std::string host;
  RayEndpointPlace place;
  bool is_placed = false;                        // Ray started it on the right node
  std::optional<EndpointArrival> arrival;        // kept until is_placed
  std::function<void(Result<AgentStart>)> done;  // null: was called
  std::optional<Status> end;
  std::function<void(Status)> on_exit;
  Watch end_timer;  // runs once the stream is closed
};

// Notices when the launcher is done with an agent: Ray may take a minute to see that a node is
// lost.
class RayTransport::EndpointStream final : public ByteStream {
 public:
  EndpointStream(std::unique_ptr<ByteStream> stream, std::function<void()> on_gone)
      : stream_(std::move(stream)), on_gone_(std::move(on_gone)) {}
  ~EndpointStream() override {
    stream_.reset();
    on_gone_();
  }
  EndpointStream(const EndpointStream&) = delete;
  EndpointStream& operator=(const EndpointStream&) = delete;
  void Start(Owner& owner) override { stream_->Start(owner); }
  void Write(std::string bytes) override { stream_->Write(std::move(bytes)); }
  size_t QueuedBytes() const override { return stream_->QueuedBytes(); }
  void SetReading(bool is_reading) override { stream_->SetReading(is_reading); }

 private:
  std::unique_ptr<ByteStream> stream_;
  const std::function<void()> on_gone_;
};

class RayTransport::Carrier final : public AgentProcess {
 public:
  Carrier(Loop& loop, std::shared_ptr<Endpoint> endpoint)
      : loop_(loop), endpoint_(std::move(endpoint)) {}
  void OnExit(std::function<void(Status)> callback) override {
    if (!endpoint_->end) {
      endpoint_->on_exit = std::move(callback);
      return;
    }
    loop_.Post([callback = std::move(callback), how = *endpoint_->end] { callback(how); });
  }
  int pid() const override { return 0; }

 private:
  Loop& loop_;
  const std::shared_ptr<Endpoint> endpoint_;
};

RayTransport::RayTransport(Loop& loop, RayBroker& broker, EndpointListener& listener,
                           RayTransportOptions options)
    : loop_(loop),
      broker_(broker),
      listener_(listener),
      options_(std::move(options)),
      next_endpoint_(options_.first_endpoint) {}

RayTransport::~RayTransport() {
  for (const auto& [number, endpoint] : endpoints_) {
    listener_.Forget(number);
    endpoint->end_timer.Cancel();
  }
}

void RayTransport::Place(const std::string& host, RayEndpointPlace place) {
  places_[host] = std::move(place);
}

void RayTransport::Start(const std::string& host, std::function<void(Result<AgentStart>)> done) {
  CloseEndpoint(host);
  auto endpoint = std::make_shared<Endpoint>();
  endpoint->host = host;
  endpoint->done = std::move(done);
  loop_.Post([this, alive = std::weak_ptr<bool>(alive_), host, endpoint] {
    if (!alive.expired()) Begin(host, endpoint);
  });
}

void RayTransport::Begin(const std::string& host, const std::shared_ptr<Endpoint>& endpoint) {
  const auto place = places_.find(host);
  if (place == places_.end()) {
    return End(endpoint, {ErrorCode::kAgentStartFailed, "Ray has taken it away"});
  }
  endpoint->place = place->second;
  endpoint->is_placed = endpoint->place.node_id.empty();
  endpoint->number = next_endpoint_++;
  endpoints_[endpoint->number] = endpoint;
  newest_[host] = endpoint->number;
  // Before the broker's request: the agent may dial before Ray reports its start.
  listener_.Expect(endpoint->number, [this, endpoint](EndpointArrival arrival) {
    Arrive(endpoint, std::move(arrival));
  });
  BrokerEndpoint order;
  order.endpoint = endpoint->number;
  order.group = place->second.group;
  order.bundles = place->second.bundles;
  order.argv = {options_.agent_path,
                "--dial",
                options_.dial,
                "--endpoint",
                std::to_string(endpoint->number),
                "--gpus",
                "@gpus",
                "--python",
                "@python",
                "--raylet",
                "@raylet"};
  order.argv.insert(order.argv.end(), options_.agent_words.begin(), options_.agent_words.end());
  order.input = options_.key_line;
  order.runtime_env = options_.runtime_env;
  broker_.Endpoint(order);
  if (options_.on_endpoint) options_.on_endpoint(host, true);
}

void RayTransport::Arrive(const std::shared_ptr<Endpoint>& endpoint, EndpointArrival arrival) {
  if (!endpoint->done) return;
  Log(LogLevel::kInfo, "ray", "the agent of {} connected from {}", endpoint->host,
      arrival.peer.ToString());
  endpoint->arrival = std::move(arrival);
  if (endpoint->is_placed) Deliver(endpoint);
}

void RayTransport::Deliver(const std::shared_ptr<Endpoint>& endpoint) {
  AgentStart start;
  start.stream = std::make_unique<EndpointStream>(
      std::move(endpoint->arrival->stream), [this, endpoint, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) OnStreamGone(endpoint);
      });
  endpoint->arrival.reset();
  start.process = std::make_unique<Carrier>(loop_, endpoint);
  std::exchange(endpoint->done, nullptr)(std::move(start));
  if (options_.on_arrival) options_.on_arrival();
}

void RayTransport::End(const std::shared_ptr<Endpoint>& endpoint, Status how) {
  listener_.Forget(endpoint->number);
  endpoints_.erase(endpoint->number);
  endpoint->end = how;
  endpoint->arrival.reset();
  if (const auto done = std::exchange(endpoint->done, nullptr)) {
    done(std::move(how).WithContext(fmt::format("start agent on {}", endpoint->host)));
  } else if (const auto on_exit = std::exchange(endpoint->on_exit, nullptr)) {
    on_exit(std::move(how));
  }
  endpoint->end_timer.Cancel();
  TellIdle(*endpoint);
}

void RayTransport::OnStreamGone(const std::shared_ptr<Endpoint>& endpoint) {
  if (endpoint->end) return;
  // An agent that got Bye, or lost its link, ends by itself; this is for one that doesn't.
  endpoint->end_timer = loop_.After(kIdleDelay, [this, endpoint] {
    TellIdle(*endpoint);
    endpoint->end_timer = loop_.After(kEndLimit - kIdleDelay, [this, endpoint] {
      endpoint->end_timer.Cancel();
      if (!endpoint->end) broker_.CloseEndpoint(endpoint->number);
    });
  });
}

void RayTransport::TellIdle(const Endpoint& endpoint) {
  const auto newest = newest_.find(endpoint.host);
  if (newest == newest_.end() || newest->second != endpoint.number) return;
  newest_.erase(newest);
  if (options_.on_endpoint) options_.on_endpoint(endpoint.host, false);
}

void RayTransport::Remove(const std::string& host) {
  places_.erase(host);
  CloseEndpoint(host);
}

void RayTransport::CloseEndpoint(const std::string& host) {
  const auto newest = newest_.find(host);
  if (newest == newest_.end()) return;
  if (endpoints_.contains(newest->second)) broker_.CloseEndpoint(newest->second);
  newest_.erase(newest);
}

void RayTransport::GiveUp(const std::shared_ptr<Endpoint>& endpoint, const std::string& why) {
  broker_.CloseEndpoint(endpoint->number);
  End(endpoint, {ErrorCode::kRayFailed, why});
}

// Only for agents that have not connected yet; links notice the loss of the others.
void RayTransport::OnGroup(const BrokerGroup& group) {
  for (const auto& [number, endpoint] : std::map(endpoints_)) {
    const RayEndpointPlace& place = endpoint->place;
    if (!endpoint->done || place.node_id.empty() || place.group != group.name) continue;
    const bool is_there = std::all_of(place.bundles.begin(), place.bundles.end(), [&](int bundle) {
      return static_cast<size_t>(bundle) < group.bundles.size() &&
             group.bundles[static_cast<size_t>(bundle)] == place.node_id;
    });
    if (!is_there) GiveUp(endpoint, "Ray has lost the node, and with it the slots there");
  }
}

void RayTransport::OnEndpointStarted(const BrokerEndpointStarted& started) {
  const auto found = endpoints_.find(started.endpoint);
  if (found == endpoints_.end()) return;
  const std::shared_ptr<Endpoint> endpoint = found->second;
  const bool is_here =
      endpoint->place.node_id.empty() || started.node_id == endpoint->place.node_id;
  if (!is_here && endpoint->done)
    return GiveUp(endpoint, "Ray has moved it to the node at " + started.ip);
  Log(LogLevel::kInfo, "ray", "the agent of {} runs as process {} of {} ({})", endpoint->host,
      started.pid, started.hostname, started.ip);
  endpoint->is_placed = true;
  if (endpoint->arrival) Deliver(endpoint);
}

void RayTransport::OnEndpointEnded(const BrokerEndpointEnded& ended) {
  const auto endpoint = endpoints_.find(ended.endpoint);
  if (endpoint == endpoints_.end()) return;
  const bool has_come = endpoint->second->done == nullptr;
  End(std::shared_ptr<Endpoint>(endpoint->second), WhyEnded(ended.text, has_come));
}

}  // namespace hvdray
