// Digests of bytes, by libcrypto. Nothing here keeps a secret: keys and sessions are others' work.
#ifndef HVDRAY_BASE_DIGEST_H_
#define HVDRAY_BASE_DIGEST_H_

#include <cstddef>
#include <memory>
#include <string>

#include "base/types.h"

namespace hvdray {

/// The 32 bytes of SHA-256. Threads: any.
std::string Sha256(ByteView bytes);

/// SHA-256 of bytes that come piece by piece. Threads: one caller at a time.
class Sha256Sum {
 public:
  Sha256Sum();
  ~Sha256Sum();
  Sha256Sum(const Sha256Sum&) = delete;
  Sha256Sum& operator=(const Sha256Sum&) = delete;
  void Add(ByteView bytes);
  /// The 32 bytes; a new sum begins.
  std::string Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The 20 bytes of HMAC-SHA-1, which known_hosts hides host names with: nothing new may rely on it.
/// Threads: any.
std::string HmacSha1(ByteView key, ByteView bytes);

inline constexpr size_t kHmacSha256Bytes = 32;

/// The kHmacSha256Bytes bytes of HMAC-SHA-256. Threads: any. Source: RFC 2104.
std::string HmacSha256(ByteView key, ByteView bytes);

/// Whether two digests are equal, in a time that does not tell where they differ.
bool DigestsEqual(ByteView a, ByteView b);

/// `count` bytes that nobody can guess, from the kernel. Threads: any.
std::string RandomBytes(size_t count);

/// Lower-case hex, two digits a byte.
std::string Hex(ByteView bytes);

}  // namespace hvdray

#endif  // HVDRAY_BASE_DIGEST_H_
