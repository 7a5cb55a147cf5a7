// SPDX-License-Identifier: Apache-2.0
// One end of a TLS connection over a non-blocking socket, step by step: the adapter of OpenSSL, for
// base/tls_stream.cc alone. Knows no loop and no time.
#ifndef HVDRAY_BASE_TLS_SESSION_H_
#define HVDRAY_BASE_TLS_SESSION_H_

#include <memory>
#include <string>

#include "base/io_channel.h"
#include "base/tls_stream.h"
#include "base/types.h"

namespace hvdray {

/// Threads: one at a time.
class TlsSession {
 public:
  /// The socket is the caller's and outlives the session.
  static std::unique_ptr<TlsSession> Client(int socket, std::string identity, Secret key);
  static std::unique_ptr<TlsSession> Server(int socket, TlsKeyFn key_of);
  virtual ~TlsSession() = default;

  /// After kFailed no further call but error(), here as below.
  virtual IoStep Handshake() = 0;
  /// At most `size` bytes, which should be 16 KiB or more: what is left of a record would not make
  /// the socket readable. `count`: how many have come, also of kWantRead.
  virtual IoStep Read(char* buffer, size_t size, size_t& count) = 0;
  /// `count`: how many have left. After a kWant the call has to be repeated with the rest.
  virtual IoStep Write(ByteView bytes, size_t& count) = 0;
  /// Tells the peer that nothing more will come; what the socket does not take is lost.
  virtual void CloseNotify() = 0;

  virtual const Status& error() const = 0;
  /// Of the client, once the handshake is done.
  virtual const std::string& identity() const = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_TLS_SESSION_H_
