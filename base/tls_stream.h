// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with a pre-shared key, as a ByteStream over a connected socket. No certificates: whoever
// has the key of an identity is that identity, and the client trusts whoever has its own key.
#ifndef HVDRAY_BASE_TLS_STREAM_H_
#define HVDRAY_BASE_TLS_STREAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_stream.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/secret.h"

namespace hvdray {

inline constexpr size_t kTlsKeyBytes = 32;
/// Longest identity that either end accepts, in bytes.
inline constexpr size_t kMaxTlsIdentity = 128;

struct TlsConnection {
  /// Ready for Start(). Ends with ok when the peer sends close_notify, and with kAgentLost when the
  /// connection ends without one, since it may have been cut short. Destroying it sends
  /// close_notify, unless bytes are still queued: both are lost then.
  std::unique_ptr<ByteStream> stream;
  std::string identity;  ///< The client's name for itself; the key proves it.
};

/// Called once, from the loop, as the handshake's last act: its owner may drop it there.
/// Errors: kAuthenticationFailed (the peer has another key, or does not know the identity),
/// kHandshakeFailed (it speaks no TLS 1.3, or left), kConnectTimeout (`limit` is over).
using TlsDone = std::function<void(Result<TlsConnection>)>;

/// The key of an identity; nullopt: unknown, not admitted. Called at most twice per handshake.
using TlsKeyFn = std::function<std::optional<Secret>(std::string_view identity)>;

/// A handshake in progress. Destroying it gives up, closes the socket and calls nothing. Threads:
/// the loop's.
class TlsHandshake {
 public:
  virtual ~TlsHandshake() = default;
};

/// Starts the client's side. `socket`: connected; the handshake owns it and makes it non-blocking.
/// `identity`: 1 to kMaxTlsIdentity bytes, no NUL. `key`: kTlsKeyBytes bytes. `limit`: for the
/// whole handshake, from now. Never raises SIGPIPE. The loop outlives the handshake and its stream.
std::unique_ptr<TlsHandshake> StartTlsClient(Loop& loop, UniqueFd socket, std::string identity,
                                             Secret key, Duration limit, TlsDone done);

/// Starts the server's side, on the same terms. A client for which `key_of` has no key learns
/// nothing, not even whether its identity is known.
std::unique_ptr<TlsHandshake> StartTlsServer(Loop& loop, UniqueFd socket, TlsKeyFn key_of,
                                             Duration limit, TlsDone done);

/// Reads a key from text: 64 hexadecimal digits of either case. Threads: any. Errors: kSpecInvalid,
/// which shows nothing of the text.
Result<Secret> ParseTlsKey(std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TLS_STREAM_H_
