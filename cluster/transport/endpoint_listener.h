// SPDX-License-Identifier: Apache-2.0
// Accepts the agents of a job on Ray: one TCP port of the driver, TLS 1.3 with the job's key, one
// agent for each expected agent endpoint. Drops and counts all other peers.
//
// A Transport on top of it numbers the agent endpoints. Start(host) first calls Expect(endpoint),
// then has the agent started with `--dial FormatEndpointAddresses(...) --endpoint N` and the key on
// its stdin. The stream that arrives begins with the agent's announcement (docs/protocol.md,
// "Start-up"), as over SSH.
#ifndef HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_LISTENER_H_
#define HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_LISTENER_H_

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

/// Where to listen, and the limits.
struct EndpointListenerOptions {
  /// IP literals to listen on; empty: all addresses of this machine, IPv4 and IPv6.
  std::vector<std::string> addresses;
  uint16_t port = 0;  ///< The same for all addresses. 0: one that is free on all of them.
  /// Concurrent handshakes. Further peers wait in the backlog; a slow handshake makes room for
  /// them.
  size_t max_pending = 256;
  Duration handshake_limit{std::chrono::seconds(10)};
};

/// An agent that has proved that it has the key.
struct EndpointArrival {
  std::unique_ptr<ByteStream> stream;  ///< Ready for Start().
  TcpAddress peer;                     ///< For messages.
};

/// Number of dropped peers, by reason.
struct EndpointRefusals {
  uint64_t wrong_key = 0;  ///< Also for an endpoint that is not expected, or is taken.
  uint64_t no_tls = 0;     ///< Garbage, plain text, other TLS versions, or an early end.
  uint64_t too_slow = 0;   ///< Exceeded handshake_limit, or made room for others.
  uint64_t total() const { return wrong_key + no_tls + too_slow; }
};

/// Closes its port when destroyed. Threads: the loop's.
class EndpointListener {
 public:
  using OnArrival = std::function<void(EndpointArrival)>;

  /// Listens from now on, but accepts no agent before Expect(). key: the job's, kTlsKeyBytes bytes.
  /// The loop outlives the listener. Errors: kAddressInUse, kUsage (not an IP literal),
  /// kOutOfResources, kSystem.
  static Result<std::unique_ptr<EndpointListener>> Open(Loop& loop, EndpointListenerOptions options,
                                                        Secret key);
  virtual ~EndpointListener() = default;

  virtual uint16_t port() const = 0;
  /// Accepts one agent for `endpoint` (0 to kMaxEndpoint) from now on. Calls `on_arrival` at most
  /// once; it may Expect() the same endpoint again for a later agent. A second call replaces the
  /// first.
  virtual void Expect(int endpoint, OnArrival on_arrival) = 0;
  /// Stops waiting for `endpoint`; its `on_arrival` will not be called. No effect for an endpoint
  /// that has arrived or was never expected.
  virtual void Forget(int endpoint) = 0;
  virtual const EndpointRefusals& refusals() const = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_LISTENER_H_
