// Where the agents of a job on Ray come in: one TCP port of the driver, TLS 1.3 by the job's key,
// one agent for each seat that is waited for. Whoever else connects is dropped and counted.
//
// A Transport over it: number the hosts' seats; Start(host): Expect(seat) first, then have the
// agent started with `--dial FormatSeatAddresses(...) --seat N` and the key on its stdin; the
// stream that arrives begins with the agent's announcement (docs/protocol.md), as one over SSH
// does.
#ifndef HVDRAY_CLUSTER_RAY_SEAT_LISTENER_H_
#define HVDRAY_CLUSTER_RAY_SEAT_LISTENER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/tcp_address.h"

namespace hvdray {

struct SeatListenerOptions {
  /// IP literals to listen at; empty: every address of this machine, of both families.
  std::vector<std::string> addresses;
  uint16_t port = 0;  ///< The same at each address. 0: one that is free at all of them.
  /// Handshakes at a time. Above it peers wait in the backlog; one that dawdles makes room.
  size_t max_pending = 256;
  Duration handshake_limit{std::chrono::seconds(10)};
};

/// An agent that has shown that it has the key.
struct SeatArrival {
  std::unique_ptr<ByteStream> stream;  ///< Ready for Start().
  TcpAddress peer;                     ///< Where it comes from, for messages.
};

/// Peers that were dropped, by why.
struct SeatRefusals {
  uint64_t wrong_key = 0;  ///< Also: a seat that nobody waits for, or that is taken.
  uint64_t no_tls = 0;     ///< Garbage, plain text, another TLS, or gone in the middle.
  uint64_t too_slow = 0;   ///< Over handshake_limit, or made room for others.
  uint64_t total() const { return wrong_key + no_tls + too_slow; }
};

/// Threads: the loop's.
class SeatListener {
 public:
  using OnArrival = std::function<void(SeatArrival)>;

  /// Listens from now on; nobody is let in before Expect(). key: kTlsKeyBytes bytes, the job's.
  /// loop: outlives the listener. Errors: kAddressInUse, kUsage (no IP literal), kOutOfResources,
  /// kSystem.
  static Result<std::unique_ptr<SeatListener>> Open(Loop& loop, SeatListenerOptions options,
                                                    Secret key);
  virtual ~SeatListener() = default;

  virtual uint16_t port() const = 0;
  /// The agent of `seat` (0 to kMaxSeat) may come from now on, once: `on_arrival` is called at most
  /// once, from the loop, never from within this call; it may destroy the listener, and it may
  /// Expect() this seat again, for a later agent. A second call replaces the first.
  virtual void Expect(int seat, OnArrival on_arrival) = 0;
  /// Nobody waits for it any more: `on_arrival` will not be called. A seat that has arrived, or was
  /// never expected, is passed over.
  virtual void Forget(int seat) = 0;
  virtual const SeatRefusals& refusals() const = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_SEAT_LISTENER_H_
