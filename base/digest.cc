// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <array>

#include "base/status.h"

namespace hvdray {
namespace {

const unsigned char* Data(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::string Hmac(const EVP_MD* hash, ByteView key, ByteView bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  HVDRAY_CHECK(::HMAC(hash, key.data(), static_cast<int>(key.size()), Data(bytes), bytes.size(),
                      out.data(), &size) != nullptr);
  return {reinterpret_cast<const char*>(out.data()), size};
}

}  // namespace

std::string Sha256(ByteView bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> out{};
  // Fails only if libcrypto cannot allocate memory, or was built without the algorithm.
  HVDRAY_CHECK(::SHA256(Data(bytes), bytes.size(), out.data()) != nullptr);
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

struct Sha256Sum::Impl {
  EVP_MD_CTX* context = ::EVP_MD_CTX_new();

  void Begin() const { HVDRAY_CHECK(::EVP_DigestInit_ex(context, ::EVP_sha256(), nullptr) == 1); }
};

Sha256Sum::Sha256Sum() : impl_(std::make_unique<Impl>()) { impl_->Begin(); }

Sha256Sum::~Sha256Sum() { ::EVP_MD_CTX_free(impl_->context); }

void Sha256Sum::Add(ByteView bytes) {
  HVDRAY_CHECK(::EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256Sum::Finish() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> out{};
  HVDRAY_CHECK(::EVP_DigestFinal_ex(impl_->context, out.data(), nullptr) == 1);
  impl_->Begin();
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

std::string HmacSha1(ByteView key, ByteView bytes) { return Hmac(::EVP_sha1(), key, bytes); }

std::string HmacSha256(ByteView key, ByteView bytes) { return Hmac(::EVP_sha256(), key, bytes); }

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  // Up to 256 bytes come at once and are never interrupted (getrandom(2)).
  HVDRAY_CHECK(count <= 256);
  HVDRAY_CHECK(::getrandom(bytes.data(), count, 0) == static_cast<ssize_t>(count));
  return bytes;
}

std::string Hex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    text.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(c) & 0xF]);
  }
  return text;
}

}  // namespace hvdray
