// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/endpoint_dialler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/tls_stream.h"
#include "cluster/transport/endpoint_address.h"

namespace hvdray {
namespace {

class Dialler : public EndpointDialler {
 public:
  Dialler(Loop& loop, EndpointDialOptions options, Secret key,
          std::function<void(Result<std::unique_ptr<ByteStream>>)> done)
      : loop_(loop),
        options_(std::move(options)),
        key_(std::move(key)),
        done_(std::move(done)),
        pause_(options_.shortest_pause) {
    HVDRAY_CHECK(!options_.addresses.empty() && key_.view().size() == kTlsKeyBytes);
    for (const TcpAddress& address : options_.addresses) doors_.push_back({address});
    limit_ = loop_.After(options_.limit, [this] { GiveUp(); });
    later_ = loop_.After(Duration::zero(), [this] { Connect(); });
  }

 private:
  struct Door {
    TcpAddress address;
    int refusals = 0;
  };

  Door& door() { return doors_[next_]; }
  bool IsShut(const Door& door) const { return door.refusals >= options_.max_refusals; }

  void Connect() {
    if (IsShut(door())) return Next();
    Result<UniqueFd> socket = BeginConnect(door().address);
    if (!socket.ok()) return Missed(socket.status());
    socket_ = std::move(socket).value();
    later_ = loop_.After(options_.connect_limit, [this] {
      Missed({ErrorCode::kConnectTimeout,
              fmt::format("connect {}: no answer", door().address.ToString())});
    });
    watch_ = loop_.OnFd(socket_.get(), FdEvent::kWrite, [this] { OnConnected(); });
  }

  void OnConnected() {
    watch_.Cancel();
    later_.Cancel();
    Status status = ConnectOutcome(socket_.get(), door().address);
    if (!status.ok()) return Missed(std::move(status));
    handshake_ =
        StartTlsClient(loop_, std::move(socket_), EndpointIdentity(options_.endpoint), key_.Copy(),
                       options_.handshake_limit,
                       [this](Result<TlsConnection> result) { OnHandshake(std::move(result)); });
  }

  void OnHandshake(Result<TlsConnection> result) {
    if (result.ok()) return Finish(std::move(result->stream));
    if (result.status().code() == ErrorCode::kAuthenticationFailed) ++door().refusals;
    Missed(std::move(result).status().WithContext(door().address.ToString()));
  }

  void Missed(Status why) {
    last_ = std::move(why);
    watch_.Cancel();
    later_.Cancel();
    socket_.Reset();
    handshake_.reset();
    Next();
  }

  void Next() {
    if (std::all_of(doors_.begin(), doors_.end(), [this](const Door& d) { return IsShut(d); })) {
      return Finish(std::exchange(last_, {}).WithHint(
          "the job is over, or this agent belongs to another job"));
    }
    next_ = (next_ + 1) % doors_.size();
    if (next_ != 0) {
      Connect();
      return;
    }
    later_ = loop_.After(pause_, [this] { Connect(); });
    pause_ = std::min(pause_ * 2, options_.longest_pause);
  }

  void GiveUp() {
    Status last = last_.ok() ? Status(ErrorCode::kConnectTimeout,
                                      fmt::format("connect {}: no answer",
                                                  FormatEndpointAddresses(options_.addresses)))
                             : std::exchange(last_, {});
    Finish(std::move(last).WithContext(
        fmt::format("dial the job's driver for {:.0f} s", Seconds(options_.limit).count())));
  }

  void Finish(Result<std::unique_ptr<ByteStream>> result) {
    limit_.Cancel();
    later_.Cancel();
    watch_.Cancel();
    std::exchange(done_, nullptr)(std::move(result));
  }

  Loop& loop_;
  const EndpointDialOptions options_;
  const Secret key_;
  std::function<void(Result<std::unique_ptr<ByteStream>>)> done_;
  Duration pause_;
  std::vector<Door> doors_;
  size_t next_ = 0;
  Status last_;
  UniqueFd socket_;
  Watch watch_;
  Watch later_;
  Watch limit_;
  std::unique_ptr<TlsHandshake> handshake_;
};

}  // namespace

std::unique_ptr<EndpointDialler> DialEndpoint(
    Loop& loop, EndpointDialOptions options, Secret key,
    std::function<void(Result<std::unique_ptr<ByteStream>>)> done) {
  return std::make_unique<Dialler>(loop, std::move(options), std::move(key), std::move(done));
}

}  // namespace hvdray
