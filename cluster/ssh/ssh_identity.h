// SPDX-License-Identifier: Apache-2.0
// Private keys on disk: their type, and whether they can be used, without decrypting them.
#ifndef HVDRAY_CLUSTER_SSH_SSH_IDENTITY_H_
#define HVDRAY_CLUSTER_SSH_SSH_IDENTITY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// kSecurityKey: in hardware (FIDO). kCertificate: a key with its certificate, of any type.
enum class SshKeyType : uint8_t {
  kUnknown,
  kEd25519,
  kEcdsa,
  kRsa,
  kDsa,
  kSecurityKey,
  kCertificate
};

/// For messages: "ed25519", "ecdsa", "RSA", ...
std::string_view SshKeyTypeName(SshKeyType type);

/// The type for an algorithm's name: "ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", ...
SshKeyType ToSshKeyType(std::string_view algorithm);

/// The algorithm's name at the front of a public key in SSH's binary form, as a view into `blob`;
/// empty: not a key.
std::string_view AlgorithmOfBlob(ByteView blob);

/// False for RSA: libssh2 1.10 signs by SHA-1, which OpenSSH 8.8 and later refuse. False for DSA,
/// keys in hardware and certificates, which it does not support. True for unknown types: trying is
/// harmless.
bool CanSignWithLibssh2(SshKeyType type);

/// What the text of a private key shows without decryption.
struct PrivateKeyFacts {
  SshKeyType type = SshKeyType::kUnknown;
  bool is_encrypted = false;
  std::string public_blob;  ///< Empty when the format does not contain it.
};

/// Understands OpenSSH's format, and PEM as OpenSSL writes it. Pure. Errors: kSpecInvalid: not a
/// key.
Result<PrivateKeyFacts> DescribePrivateKey(std::string_view text);

/// The blob in "ssh-ed25519 AAAA... comment"; empty: not such a line. Pure.
std::string BlobOfPublicKeyLine(std::string_view line);

/// A private key file.
struct SshIdentity {
  std::string path;
  bool exists = false;
  bool has_certificate = false;  ///< PATH-cert.pub exists.
  PrivateKeyFacts facts;         ///< Completed from PATH.pub.
  std::string text;              ///< The private key; empty when `problem` is set.
  Status problem;                ///< Why it can't be used, encryption aside; ok when !exists.
};

/// Reads the key. Blocks on the disk. Never fails, but sets `problem`: kFileUnreadable,
/// kSpecInvalid (not a key, or readable by others; names the mode).
SshIdentity LoadSshIdentity(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_IDENTITY_H_
