// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/endpoint_listener.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/tls_stream.h"
#include "cluster/transport/endpoint_address.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr int kAcceptsPerWakeup = 32;  // the loop must answer heartbeats in between
constexpr int kPortTries = 16;         // a port must be free for both families
// Honest agents finish in milliseconds; a slower peer makes room for others when there is none.
constexpr Duration kDawdling = std::chrono::seconds(2);
constexpr Duration kDescriptorPause = milliseconds(100);

struct Sockets {
  std::vector<UniqueFd> fds;
  uint16_t port = 0;
};

Result<std::vector<TcpAddress>> AddressesOf(const EndpointListenerOptions& options) {
  std::vector<TcpAddress> addresses;
  for (const std::string& text : options.addresses) {
    const std::optional<TcpAddress> address = ParseIpLiteral(text);
    if (!address) return Status(ErrorCode::kUsage, fmt::format("'{}' is not an IP address", text));
    addresses.push_back(*address);
  }
  return addresses;
}

Result<Sockets> ListenAtAll(const std::vector<TcpAddress>& addresses, uint16_t port) {
  Sockets sockets;
  sockets.port = port;
  for (TcpAddress address : addresses) {
    address.port = sockets.port;
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, ListenAt(address));
    if (sockets.port == 0) {
      HVDRAY_ASSIGN_OR_RETURN(const TcpAddress local, LocalAddress(fd.get()));
      sockets.port = local.port;
    }
    sockets.fds.push_back(std::move(fd));
  }
  return sockets;
}

/// Retries because a port that the system chose for one address may be taken on another.
Result<Sockets> ListenSomewhere(const std::vector<TcpAddress>& addresses, uint16_t port) {
  for (int i = 1;; ++i) {
    Result<Sockets> sockets = ListenAtAll(addresses, port);
    const bool is_taken =
        !sockets.ok() && sockets.status().code() == ErrorCode::kAddressInUse && port == 0;
    if (!is_taken || i == kPortTries) return sockets;
  }
}

class TlsEndpointListener : public EndpointListener {
 public:
  TlsEndpointListener(Loop& loop, EndpointListenerOptions options, Secret key, Sockets sockets)
      : loop_(loop),
        options_(std::move(options)),
        key_(std::move(key)),
        sockets_(std::move(sockets)) {
    Accept();
  }

  uint16_t port() const override { return sockets_.port; }
  void Expect(int endpoint, OnArrival on_arrival) override {
    HVDRAY_CHECK(endpoint >= 0 && endpoint <= kMaxEndpoint);
    expected_.insert_or_assign(endpoint, std::move(on_arrival));
  }
  void Forget(int endpoint) override { expected_.erase(endpoint); }
  const EndpointRefusals& refusals() const override { return refusals_; }

 private:
  struct Guest {
    TcpAddress peer;
    TimePoint since{};
    std::unique_ptr<TlsHandshake> handshake;
  };
  using Guests = std::list<Guest>;  // the oldest first

  void Accept() {
    is_accepting_ = true;
    accept_watches_.clear();
    accept_later_.Cancel();
    for (const UniqueFd& fd : sockets_.fds) {
      accept_watches_.push_back(
          loop_.OnFd(fd.get(), FdEvent::kRead, [this, raw = fd.get()] { AcceptSome(raw); }));
    }
  }

  // A guest that leaves ends the pause early, since it frees a descriptor.
  void PauseAccepting(Duration pause) {
    is_accepting_ = false;
    accept_watches_.clear();
    accept_later_ = loop_.After(pause, [this] { Accept(); });
  }

  void AcceptSome(int listener) {
    for (int i = 0; i < kAcceptsPerWakeup && is_accepting_; ++i) {
      if (!MakeRoom()) return;
      sockaddr_storage storage{};
      socklen_t size = sizeof storage;
      UniqueFd socket(::accept4(listener, reinterpret_cast<sockaddr*>(&storage), &size,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          PauseAccepting(kDescriptorPause);
        }
        return;
      }
      const auto peer = ReadSockaddr(ByteView(reinterpret_cast<const char*>(&storage), size));
      Welcome(std::move(socket), peer.value_or(TcpAddress{}));
    }
  }

  /// false: too many handshakes, all of them recent; further peers must wait.
  bool MakeRoom() {
    if (guests_.size() < options_.max_pending) return true;
    const Duration age = loop_.Now() - guests_.front().since;
    if (age < kDawdling) {
      PauseAccepting(kDawdling - age);
      return false;
    }
    Refuse(guests_.begin(), refusals_.too_slow, "too slow while others waited");
    return true;
  }

  void Welcome(UniqueFd socket, const TcpAddress& peer) {
    const auto guest = guests_.insert(guests_.end(), {peer, loop_.Now(), nullptr});
    guest->handshake = StartTlsServer(
        loop_, std::move(socket), [this](std::string_view identity) { return KeyOf(identity); },
        options_.handshake_limit,
        [this, guest](Result<TlsConnection> result) { OnHandshake(guest, std::move(result)); });
  }

  std::optional<Secret> KeyOf(std::string_view identity) const {
    const std::optional<int> endpoint = ParseEndpointIdentity(identity);
    if (!endpoint || !expected_.contains(*endpoint)) return std::nullopt;
    return key_.Copy();
  }

  void OnHandshake(Guests::iterator guest, Result<TlsConnection> result) {
    if (!result.ok()) return Refuse(guest, CounterOf(result.status()), result.status().message());
    // Two handshakes may have begun for one endpoint: the first to finish wins.
    const auto endpoint = expected_.find(ParseEndpointIdentity(result->identity).value_or(-1));
    if (endpoint == expected_.end())
      return Refuse(guest, refusals_.wrong_key, "its agent endpoint is taken");
    EndpointArrival arrival{std::move(result->stream), guest->peer};
    const OnArrival on_arrival = std::move(endpoint->second);
    expected_.erase(endpoint);
    Release(guest);
    on_arrival(std::move(arrival));
  }

  uint64_t& CounterOf(const Status& why) {
    if (why.code() == ErrorCode::kAuthenticationFailed) return refusals_.wrong_key;
    return why.code() == ErrorCode::kConnectTimeout ? refusals_.too_slow : refusals_.no_tls;
  }

  void Refuse(Guests::iterator guest, uint64_t& counter, std::string_view why) {
    ++counter;
    Log(LogLevel::kInfo, "endpoints", "dropped {}: {}", guest->peer.ToString(), why);
    Release(guest);
  }

  void Release(Guests::iterator guest) {
    guests_.erase(guest);
    if (!is_accepting_) Accept();
  }

  Loop& loop_;
  const EndpointListenerOptions options_;
  const Secret key_;
  Sockets sockets_;
  std::vector<Watch> accept_watches_;
  Watch accept_later_;
  bool is_accepting_ = false;
  std::map<int, OnArrival> expected_;
  Guests guests_;
  EndpointRefusals refusals_;
};

}  // namespace

Result<std::unique_ptr<EndpointListener>> EndpointListener::Open(Loop& loop,
                                                                 EndpointListenerOptions options,
                                                                 Secret key) {
  HVDRAY_CHECK(key.view().size() == kTlsKeyBytes && options.max_pending > 0);
  HVDRAY_ASSIGN_OR_RETURN(std::vector<TcpAddress> addresses, AddressesOf(options));
  Result<Sockets> sockets = Status(ErrorCode::kInternal, "not tried");
  if (addresses.empty()) {
    const TcpAddress any_ipv4 = TcpAddress::FromIpv4(0, 0);
    sockets = ListenSomewhere({any_ipv4, TcpAddress{}}, options.port);
    const bool has_no_ipv6 = !sockets.ok() && sockets.status().code() != ErrorCode::kAddressInUse;
    if (has_no_ipv6) sockets = ListenSomewhere({any_ipv4}, options.port);
  } else {
    sockets = ListenSomewhere(addresses, options.port);
  }
  if (!sockets.ok()) return std::move(sockets).status();
  return std::unique_ptr<EndpointListener>(std::make_unique<TlsEndpointListener>(
      loop, std::move(options), std::move(key), std::move(sockets).value()));
}

}  // namespace hvdray
