// SPDX-License-Identifier: Apache-2.0
// Connects an agent to its driver on Ray: tries the driver's addresses in turn until one answers
// with the job's key. Retries refused connections until the deadline: the driver may not listen
// yet.
#ifndef HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_DIALLER_H_
#define HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_DIALLER_H_

#include <functional>
#include <memory>
#include <vector>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/tcp_address.h"

namespace hvdray {

/// Where to dial, and the limits.
struct EndpointDialOptions {
  std::vector<TcpAddress> addresses;                ///< At least one.
  int endpoint = 0;                                 ///< Number of the agent endpoint.
  Duration limit{std::chrono::seconds(60)};         ///< For all tries together.
  Duration connect_limit{std::chrono::seconds(3)};  ///< For one TCP connection.
  Duration handshake_limit{std::chrono::seconds(10)};
  /// Refusals of key or endpoint before an address is given up. More than one, because a driver
  /// that is about to expect this endpoint still refuses it.
  int max_refusals = 4;
  Duration shortest_pause{std::chrono::milliseconds(50)};  ///< After the first round; doubles then.
  Duration longest_pause{std::chrono::seconds(1)};         ///< Limit of the doubling.
};

/// A dial attempt. Destroying it gives up. Threads: the loop's.
class EndpointDialler {
 public:
  virtual ~EndpointDialler() = default;
};

/// Starts dialling. Calls `done` once. key: kTlsKeyBytes bytes. The loop outlives the dialler.
/// Errors, each naming the addresses: kAuthenticationFailed when every address has refused our key
/// or this endpoint max_refusals times; otherwise, at the end of `limit`, the error of the last try
/// (kHostRefused, kHostUnreachable, kConnectTimeout, kHandshakeFailed).
std::unique_ptr<EndpointDialler> DialEndpoint(
    Loop& loop, EndpointDialOptions options, Secret key,
    std::function<void(Result<std::unique_ptr<ByteStream>>)> done);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_DIALLER_H_
