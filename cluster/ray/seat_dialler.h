// The agent's way to its driver on Ray: tries the driver's addresses in turn until one answers with
// the job's key. The driver may not listen yet, so refusals are retried until the deadline.
#ifndef HVDRAY_CLUSTER_RAY_SEAT_DIALLER_H_
#define HVDRAY_CLUSTER_RAY_SEAT_DIALLER_H_

#include <functional>
#include <memory>
#include <vector>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/tcp_address.h"

namespace hvdray {

struct SeatDialOptions {
  std::vector<TcpAddress> addresses;  ///< At least one.
  int seat = 0;
  Duration limit{std::chrono::seconds(60)};         ///< Of all tries together.
  Duration connect_limit{std::chrono::seconds(3)};  ///< Of one address, until TCP is there.
  Duration handshake_limit{std::chrono::seconds(10)};
  /// An address is given up after so many refusals: a driver that is about to expect this seat
  /// refuses it the first time.
  int max_refusals = 4;
  Duration shortest_pause{std::chrono::milliseconds(50)};  ///< After a round over all addresses;
  Duration longest_pause{std::chrono::seconds(1)};         ///< doubles from one to the other.
};

/// Destroying it gives up. Threads: the loop's.
class SeatDialler {
 public:
  virtual ~SeatDialler() = default;
};

/// `done` is called once, from the loop, never from within this call; it may destroy the dialler.
/// Errors, each naming the addresses: kAuthenticationFailed when every address has refused our key
/// or this seat, several times (the driver may be about to expect it); else at the end of `limit`
/// the error of the last try (kHostRefused, kHostUnreachable, kConnectTimeout, kHandshakeFailed).
/// key: kTlsKeyBytes bytes.
std::unique_ptr<SeatDialler> DialSeat(
    Loop& loop, SeatDialOptions options, Secret key,
    std::function<void(Result<std::unique_ptr<ByteStream>>)> done);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_SEAT_DIALLER_H_
