#include "cluster/ray/seat_transport.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"

namespace hvdray {
namespace {

/// The agent's process is Ray's, and tells nothing: it has ended when its stream has.
struct Ending {
  bool is_over = false;
  std::function<void(Status)> on_exit;
};

void Tell(Loop& loop, const std::shared_ptr<Ending>& ending) {
  loop.Post([ending] {
    // Whoever has gone meanwhile is not told any more.
    if (const auto on_exit = std::exchange(ending->on_exit, nullptr)) on_exit(Status());
  });
}

void End(Loop& loop, const std::shared_ptr<Ending>& ending) {
  if (!std::exchange(ending->is_over, true)) Tell(loop, ending);
}

class SeatStream final : public ByteStream {
 public:
  SeatStream(Loop& loop, std::unique_ptr<ByteStream> stream, std::shared_ptr<Ending> ending)
      : loop_(loop), stream_(std::move(stream)), ending_(std::move(ending)) {}
  ~SeatStream() override {
    stream_.reset();
    End(loop_, ending_);
  }
  SeatStream(const SeatStream&) = delete;
  SeatStream& operator=(const SeatStream&) = delete;

  void Start(Handlers handlers) override {
    // The callback may destroy this object, so it holds what it needs.
    handlers.on_closed = [&loop = loop_, ending = ending_,
                          closed = std::move(handlers.on_closed)](Status why) {
      End(loop, ending);
      closed(std::move(why));
    };
    stream_->Start(std::move(handlers));
  }
  void Write(std::string bytes) override { stream_->Write(std::move(bytes)); }
  size_t QueuedBytes() const override { return stream_->QueuedBytes(); }
  void SetReading(bool is_reading) override { stream_->SetReading(is_reading); }

 private:
  Loop& loop_;
  std::unique_ptr<ByteStream> stream_;
  const std::shared_ptr<Ending> ending_;  // shared with the carrier
};

class Carrier final : public AgentProcess {
 public:
  Carrier(Loop& loop, std::shared_ptr<Ending> ending) : loop_(loop), ending_(std::move(ending)) {}
  ~Carrier() override { ending_->on_exit = nullptr; }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  void OnExit(std::function<void(Status)> callback) override {
    ending_->on_exit = std::move(callback);
    if (ending_->is_over) Tell(loop_, ending_);
  }
  int pid() const override { return 0; }

 private:
  Loop& loop_;
  const std::shared_ptr<Ending> ending_;
};

}  // namespace

SeatTransport::SeatTransport(Loop& loop, SeatListener& listener, std::vector<std::string> hosts,
                             std::function<void()> on_arrival)
    : loop_(loop),
      listener_(listener),
      hosts_(std::move(hosts)),
      on_arrival_(std::move(on_arrival)) {
  for (size_t seat = 0; seat < hosts_.size(); ++seat) {
    listener_.Expect(static_cast<int>(seat), [this, host = hosts_[seat]](SeatArrival arrival) {
      Log(LogLevel::kInfo, "ray", "the agent of {} has come in from {}", host,
          arrival.peer.ToString());
      arrivals_.insert_or_assign(host, std::move(arrival));
      on_arrival_();
    });
  }
}

SeatTransport::~SeatTransport() {
  for (size_t seat = 0; seat < hosts_.size(); ++seat) listener_.Forget(static_cast<int>(seat));
}

std::vector<std::string> SeatTransport::MissingHosts() const {
  std::vector<std::string> missing;
  for (const std::string& host : hosts_) {
    if (!arrivals_.contains(host)) missing.push_back(host);
  }
  return missing;
}

void SeatTransport::Start(const std::string& host, std::function<void(Result<AgentStart>)> done) {
  loop_.Post([this, alive = std::weak_ptr<bool>(alive_), host, done = std::move(done)] {
    if (!alive.expired()) done(Take(host));
  });
}

Result<AgentStart> SeatTransport::Take(const std::string& host) {
  const auto found = arrivals_.find(host);
  if (found == arrivals_.end() || found->second.stream == nullptr) {
    return Status(ErrorCode::kAgentStartFailed,
                  fmt::format("start agent on {}: Ray has started none", host));
  }
  auto ending = std::make_shared<Ending>();  // shared by the two ends of one agent
  AgentStart start;
  start.stream = std::make_unique<SeatStream>(loop_, std::move(found->second.stream), ending);
  start.process = std::make_unique<Carrier>(loop_, ending);
  return start;
}

}  // namespace hvdray
