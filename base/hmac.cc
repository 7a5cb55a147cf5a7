// Marked as old by OpenSSL 3, whose new interface brings providers and a configuration file along.
#define OPENSSL_API_COMPAT 10100
#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

#include "base/status.h"

namespace hvdray {
namespace {

using Block = std::array<unsigned char, SHA256_CBLOCK>;

std::string Sha256Of(ByteView first, ByteView rest) {
  static_assert(SHA256_DIGEST_LENGTH == kHmacSha256Bytes);
  SHA256_CTX context;
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  HVDRAY_CHECK(::SHA256_Init(&context) == 1 &&
               ::SHA256_Update(&context, first.data(), first.size()) == 1 &&
               ::SHA256_Update(&context, rest.data(), rest.size()) == 1 &&
               ::SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context) == 1);
  ::OPENSSL_cleanse(&context, sizeof context);
  return digest;
}

Block Padded(ByteView key, unsigned char pad) {
  Block block;
  block.fill(pad);
  for (size_t i = 0; i < key.size(); ++i) block[i] ^= static_cast<unsigned char>(key[i]);
  return block;
}

ByteView View(const Block& block) {
  return {reinterpret_cast<const char*>(block.data()), block.size()};
}

}  // namespace

std::string HmacSha256(ByteView key, ByteView bytes) {
  std::string shortened;
  if (key.size() > SHA256_CBLOCK) {
    shortened = Sha256Of(key, {});
    key = shortened;
  }
  Block inner = Padded(key, 0x36);
  Block outer = Padded(key, 0x5c);
  std::string digest = Sha256Of(View(outer), Sha256Of(View(inner), bytes));
  ::OPENSSL_cleanse(inner.data(), inner.size());
  ::OPENSSL_cleanse(outer.data(), outer.size());
  return digest;
}

bool DigestsEqual(ByteView a, ByteView b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace hvdray
