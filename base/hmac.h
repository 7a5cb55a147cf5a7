// HMAC-SHA-256, by libcrypto. Apart from digest.h because the agent is linked statically: this part
// takes the hash function alone out of libcrypto, digest.h takes most of it.
#ifndef HVDRAY_BASE_HMAC_H_
#define HVDRAY_BASE_HMAC_H_

#include <cstddef>
#include <string>

#include "base/types.h"

namespace hvdray {

inline constexpr size_t kHmacSha256Bytes = 32;

/// The kHmacSha256Bytes bytes of HMAC-SHA-256. Threads: any. Source: RFC 2104.
std::string HmacSha256(ByteView key, ByteView bytes);

/// Whether two digests are equal, in a time that does not tell where they differ.
bool DigestsEqual(ByteView a, ByteView b);

}  // namespace hvdray

#endif  // HVDRAY_BASE_HMAC_H_
