// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with a key that both ends have already (PSK), as a ByteStream over a connected socket. No
// certificates: who knows the key of an identity is that identity, and so is the other end's peer.
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
/// Longest identity that either end takes, in bytes.
inline constexpr size_t kMaxTlsIdentity = 128;

struct TlsConnection {
  /// Ready for Start(). A close_notify of the peer ends it with ok, a connection that ends without
  /// one with kAgentLost: it may have been cut short. Destroying it says close_notify, which is
  /// lost behind what is still queued.
  std::unique_ptr<ByteStream> stream;
  std::string identity;  ///< What the client has called itself; the key proves it.
};

/// Called once, from the loop, never from within the call that began the handshake. May destroy the
/// handshake. Errors: kAuthenticationFailed (the peer has another key, or does not know the
/// identity), kHandshakeFailed (it speaks no TLS 1.3, or went away), kConnectTimeout (`limit`).
using TlsDone = std::function<void(Result<TlsConnection>)>;

/// The key of an identity; nullopt: nobody that is let in. Called at most twice a handshake.
using TlsKeyFn = std::function<std::optional<Secret>(std::string_view identity)>;

/// A handshake under way. Destroying it gives up and closes the socket. Threads: the loop's.
class TlsHandshake {
 public:
  virtual ~TlsHandshake() = default;
};

/// `socket` is connected; it becomes non-blocking and is the handshake's. `key`: kTlsKeyBytes
/// bytes. `identity`: 1 to kMaxTlsIdentity bytes, no NUL. `limit`: from now until done. SIGPIPE is
/// never raised. loop: outlives all.
std::unique_ptr<TlsHandshake> StartTlsClient(Loop& loop, UniqueFd socket, std::string identity,
                                             Secret key, Duration limit, TlsDone done);

/// As the client, from the other side. A client without a key that `key_of` gives learns nothing,
/// not even whether its identity was known.
std::unique_ptr<TlsHandshake> StartTlsServer(Loop& loop, UniqueFd socket, TlsKeyFn key_of,
                                             Duration limit, TlsDone done);

/// A key as it travels in text: 64 hexadecimal digits of either case. Errors: kSpecInvalid, which
/// says nothing of the text.
Result<Secret> ParseTlsKey(std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TLS_STREAM_H_
