// Private keys on disk: what kind they are, and whether they may be used, without decrypting them.
#ifndef HVDRAY_CLUSTER_SSH_SSH_IDENTITY_H_
#define HVDRAY_CLUSTER_SSH_SSH_IDENTITY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

enum class SshKeyType : uint8_t { kUnknown, kEd25519, kEcdsa, kRsa, kDsa, kSecurityKey };

/// "ed25519", "ecdsa", ...
std::string_view SshKeyTypeName(SshKeyType type);

/// By the algorithm's name: "ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", ...
SshKeyType SshKeyTypeOf(std::string_view algorithm);

/// The name of the algorithm at the head of a public key in SSH's binary form; empty: not one.
std::string_view AlgorithmOfBlob(ByteView blob);

/// libssh2 1.10 signs with RSA keys by SHA-1, which OpenSSH 8.8 and later refuse, and knows neither
/// DSA there nor keys in hardware.
bool CanSignWithLibssh2(SshKeyType type);

/// What a private key's text says of itself.
struct PrivateKeyFacts {
  SshKeyType type = SshKeyType::kUnknown;
  bool is_encrypted = false;
  std::string public_blob;  ///< Empty when the form does not show it.
};

/// OpenSSH's own form, and PEM as OpenSSL writes it. Pure. Errors: kSpecInvalid: not a key.
Result<PrivateKeyFacts> DescribePrivateKey(std::string_view text);

/// The blob in "ssh-ed25519 AAAA... comment"; empty: not such a line. Pure.
std::string BlobOfPublicKeyLine(std::string_view line);

struct SshIdentity {
  std::string path;
  bool exists = false;
  bool has_certificate = false;  ///< PATH-cert.pub is there.
  PrivateKeyFacts facts;         ///< Completed from PATH.pub.
  std::string text;              ///< The private key; empty when `problem` is set.
  Status problem;                ///< Why it can't be used, but for encryption; ok when !exists.
};

/// Reads the key. Blocks on the disk. Never fails: see `problem`: kFileUnreadable, kSpecInvalid
/// (not a key; open to others than its owner, with the mode).
SshIdentity LoadSshIdentity(const std::string& path);

/// For keys that the user names: before any connection, what is certain to fail later. An
/// encrypted key passes when `agent_socket` names an agent that may hold it. Errors:
/// kFileUnreadable, kSpecInvalid.
Status CheckSshIdentityFile(const std::string& path, const std::string& agent_socket);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_IDENTITY_H_
