// SPDX-License-Identifier: Apache-2.0
// Digests and random bytes, by libcrypto and the kernel. Keeps no keys: they belong to the caller.
// If libcrypto or the kernel fails, the process aborts (HVDRAY_CHECK).
#ifndef HVDRAY_BASE_DIGEST_H_
#define HVDRAY_BASE_DIGEST_H_

#include <cstddef>
#include <memory>
#include <string>

#include "base/types.h"

namespace hvdray {

/// The 32 bytes of SHA-256. Threads: any.
std::string Sha256(ByteView bytes);

/// SHA-256 of bytes that come in pieces. Threads: one caller at a time.
class Sha256Sum {
 public:
  Sha256Sum();
  ~Sha256Sum();
  Sha256Sum(const Sha256Sum&) = delete;
  Sha256Sum& operator=(const Sha256Sum&) = delete;
  void Add(ByteView bytes);
  /// Returns the 32 bytes and begins a new sum.
  std::string Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The 20 bytes of HMAC-SHA-1, for the hashed host names of known_hosts only: SHA-1 is broken.
/// Threads: any. Source: sshd(8).
std::string HmacSha1(ByteView key, ByteView bytes);

inline constexpr size_t kHmacSha256Bytes = 32;

/// The kHmacSha256Bytes bytes of HMAC-SHA-256. Threads: any. Source: RFC 2104.
std::string HmacSha256(ByteView key, ByteView bytes);

/// `count` (at most 256) random bytes from the kernel, fit for keys. May block shortly after boot.
/// Threads: any. Source: getrandom(2).
std::string RandomBytes(size_t count);

/// Lower-case hex, two digits per byte.
std::string Hex(ByteView bytes);

}  // namespace hvdray

#endif  // HVDRAY_BASE_DIGEST_H_
