// SPDX-License-Identifier: Apache-2.0
// TLS for base/http_client.h, by OpenSSL: verifies servers as browsers do. base/tls_stream.h is
// for our own processes, which share a key.
#ifndef HVDRAY_BASE_HTTP_TLS_H_
#define HVDRAY_BASE_HTTP_TLS_H_

#include <string>

#include "base/http_client.h"

namespace hvdray {

/// Which certificates to trust.
struct HttpTrust {
  bool is_checked = true;  ///< False: any certificate will do.
  std::string path;  ///< PEM file, or directory as `openssl rehash` makes it. Empty: the system's.
};

/// The first connection reads the certificates; all that it makes share them. Errors of a channel:
/// kFileUnreadable (trust.path), kOutOfResources; of a handshake: kHostKeyRejected,
/// kHandshakeFailed.
HttpChannelMaker MakeHttpTls(HttpTrust trust);

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_TLS_H_
