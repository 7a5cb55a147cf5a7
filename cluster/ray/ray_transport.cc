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
struct RayTransport::Seat {
  int number = -1;  // -1: not requested yet
  std::string host;
  RaySeatPlace place;
  bool is_placed = false;                        // Ray started it on the right node
  std::optional<SeatArrival> arrival;            // kept until is_placed
  std::function<void(Result<AgentStart>)> done;  // null: was called
  std::optional<Status> end;
  std::function<void(Status)> on_exit;
  Watch end_timer;  // runs once the stream is closed
};

// Notices when the launcher is done with an agent: Ray may take a minute to see that a node is
// lost.
class RayTransport::SeatStream final : public ByteStream {
 public:
  SeatStream(std::unique_ptr<ByteStream> stream, std::function<void()> on_gone)
      : stream_(std::move(stream)), on_gone_(std::move(on_gone)) {}
  ~SeatStream() override {
    stream_.reset();
    on_gone_();
  }
  SeatStream(const SeatStream&) = delete;
  SeatStream& operator=(const SeatStream&) = delete;
  void Start(Handlers handlers) override { stream_->Start(std::move(handlers)); }
  void Write(std::string bytes) override { stream_->Write(std::move(bytes)); }
  size_t QueuedBytes() const override { return stream_->QueuedBytes(); }
  void SetReading(bool is_reading) override { stream_->SetReading(is_reading); }

 private:
  std::unique_ptr<ByteStream> stream_;
  const std::function<void()> on_gone_;
};

class RayTransport::Carrier final : public AgentProcess {
 public:
  Carrier(Loop& loop, std::shared_ptr<Seat> seat) : loop_(loop), seat_(std::move(seat)) {}
  void OnExit(std::function<void(Status)> callback) override {
    if (!seat_->end) {
      seat_->on_exit = std::move(callback);
      return;
    }
    loop_.Post([callback = std::move(callback), how = *seat_->end] { callback(how); });
  }
  int pid() const override { return 0; }

 private:
  Loop& loop_;
  const std::shared_ptr<Seat> seat_;
};

RayTransport::RayTransport(Loop& loop, RayBroker& broker, SeatListener& listener,
                           RayTransportOptions options)
    : loop_(loop),
      broker_(broker),
      listener_(listener),
      options_(std::move(options)),
      next_seat_(options_.first_seat) {}

RayTransport::~RayTransport() {
  for (const auto& [number, seat] : seats_) {
    listener_.Forget(number);
    seat->end_timer.Cancel();
  }
}

void RayTransport::Place(const std::string& host, RaySeatPlace place) {
  places_[host] = std::move(place);
}

void RayTransport::Start(const std::string& host, std::function<void(Result<AgentStart>)> done) {
  Unseat(host);
  auto seat = std::make_shared<Seat>();
  seat->host = host;
  seat->done = std::move(done);
  // Later: `done` must not be called from within Start().
  loop_.Post([this, alive = std::weak_ptr<bool>(alive_), host, seat] {
    if (!alive.expired()) Begin(host, seat);
  });
}

void RayTransport::Begin(const std::string& host, const std::shared_ptr<Seat>& seat) {
  const auto place = places_.find(host);
  if (place == places_.end()) {
    return End(seat, {ErrorCode::kAgentStartFailed, "Ray has taken it away"});
  }
  seat->place = place->second;
  seat->is_placed = seat->place.node_id.empty();
  seat->number = next_seat_++;
  seats_[seat->number] = seat;
  newest_[host] = seat->number;
  // Before the broker's request: the agent may dial before Ray reports its start.
  listener_.Expect(seat->number,
                   [this, seat](SeatArrival arrival) { Arrive(seat, std::move(arrival)); });
  BrokerSeat order;
  order.seat = seat->number;
  order.group = place->second.group;
  order.bundles = place->second.bundles;
  order.argv = {options_.agent_path,
                "--dial",
                options_.dial,
                "--seat",
                std::to_string(seat->number),
                "--gpus",
                "@gpus",
                "--path-end",
                "@python",
                "--raylet",
                "@raylet"};
  order.argv.insert(order.argv.end(), options_.agent_words.begin(), options_.agent_words.end());
  order.input = options_.key_line;
  order.runtime_env = options_.runtime_env;
  broker_.Seat(order);
  if (options_.on_seat) options_.on_seat(host, true);
}

void RayTransport::Arrive(const std::shared_ptr<Seat>& seat, SeatArrival arrival) {
  if (!seat->done) return;
  Log(LogLevel::kInfo, "ray", "the agent of {} connected from {}", seat->host,
      arrival.peer.ToString());
  seat->arrival = std::move(arrival);
  if (seat->is_placed) Deliver(seat);
}

void RayTransport::Deliver(const std::shared_ptr<Seat>& seat) {
  AgentStart start;
  start.stream = std::make_unique<SeatStream>(
      std::move(seat->arrival->stream),
      [this, seat, alive = std::weak_ptr<bool>(alive_), loop = &loop_] {
        // Later: this runs within the destructor of the stream.
        if (alive.expired()) return;
        loop->Post([this, seat, alive] {
          if (!alive.expired()) OnStreamGone(seat);
        });
      });
  seat->arrival.reset();
  start.process = std::make_unique<Carrier>(loop_, seat);
  std::exchange(seat->done, nullptr)(std::move(start));
  if (options_.on_arrival) options_.on_arrival();
}

void RayTransport::End(const std::shared_ptr<Seat>& seat, Status how) {
  listener_.Forget(seat->number);
  seats_.erase(seat->number);
  seat->end = how;
  seat->arrival.reset();
  if (const auto done = std::exchange(seat->done, nullptr)) {
    done(std::move(how).WithContext(fmt::format("start agent on {}", seat->host)));
  } else if (const auto on_exit = std::exchange(seat->on_exit, nullptr)) {
    on_exit(std::move(how));
  }
  seat->end_timer.Cancel();
  TellIdle(*seat);
}

void RayTransport::OnStreamGone(const std::shared_ptr<Seat>& seat) {
  if (seat->end) return;
  // An agent that got Bye, or lost its link, ends by itself; this is for one that doesn't.
  seat->end_timer = loop_.After(kIdleDelay, [this, seat] {
    TellIdle(*seat);
    seat->end_timer = loop_.After(kEndLimit - kIdleDelay, [this, seat] {
      seat->end_timer.Cancel();
      if (!seat->end) broker_.Unseat(seat->number);
    });
  });
}

void RayTransport::TellIdle(const Seat& seat) {
  const auto newest = newest_.find(seat.host);
  if (newest == newest_.end() || newest->second != seat.number) return;
  newest_.erase(newest);
  if (options_.on_seat) options_.on_seat(seat.host, false);
}

void RayTransport::Remove(const std::string& host) {
  places_.erase(host);
  Unseat(host);
}

void RayTransport::Unseat(const std::string& host) {
  const auto newest = newest_.find(host);
  if (newest == newest_.end()) return;
  if (seats_.contains(newest->second)) broker_.Unseat(newest->second);
  newest_.erase(newest);
}

void RayTransport::GiveUp(const std::shared_ptr<Seat>& seat, const std::string& why) {
  broker_.Unseat(seat->number);
  End(seat, {ErrorCode::kRayFailed, why});
}

// Only for agents that have not connected yet; links notice the loss of the others.
void RayTransport::OnGroup(const BrokerGroup& group) {
  for (const auto& [number, seat] : std::map(seats_)) {
    const RaySeatPlace& place = seat->place;
    if (!seat->done || place.node_id.empty() || place.group != group.name) continue;
    const bool is_there = std::all_of(place.bundles.begin(), place.bundles.end(), [&](int bundle) {
      return static_cast<size_t>(bundle) < group.bundles.size() &&
             group.bundles[static_cast<size_t>(bundle)] == place.node_id;
    });
    if (!is_there) GiveUp(seat, "Ray has lost the node, and with it the slots there");
  }
}

void RayTransport::OnSeatStarted(const BrokerSeatStarted& started) {
  const auto found = seats_.find(started.seat);
  if (found == seats_.end()) return;
  const std::shared_ptr<Seat> seat = found->second;
  const bool is_here = seat->place.node_id.empty() || started.node_id == seat->place.node_id;
  if (!is_here && seat->done) return GiveUp(seat, "Ray has moved it to the node at " + started.ip);
  Log(LogLevel::kInfo, "ray", "the agent of {} runs as process {} of {} ({})", seat->host,
      started.pid, started.hostname, started.ip);
  seat->is_placed = true;
  if (seat->arrival) Deliver(seat);
}

void RayTransport::OnSeatEnded(const BrokerSeatEnded& ended) {
  const auto seat = seats_.find(ended.seat);
  if (seat == seats_.end()) return;
  const bool has_come = seat->second->done == nullptr;
  End(std::shared_ptr<Seat>(seat->second), WhyEnded(ended.text, has_come));
}

}  // namespace hvdray
