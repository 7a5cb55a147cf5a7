// A host as the user wrote it, and the settings under which it is reached over SSH.
#ifndef HVDRAY_CLUSTER_SSH_SSH_TARGET_H_
#define HVDRAY_CLUSTER_SSH_SSH_TARGET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// What to do about a host whose key no known_hosts file has. A changed key passes under kNo only,
/// a revoked one never.
enum class HostKeyPolicy : uint8_t { kYes, kAcceptNew, kNo };

/// "yes", "accept-new", "no"; as ssh also "off" and "true", "false". Errors: kUsage.
Result<HostKeyPolicy> ParseHostKeyPolicy(std::string_view text);

struct SshTarget {
  std::string host;  ///< A name or address, without brackets.
  std::string user;  ///< Empty: as configured.
  int port = 0;      ///< 0: as configured.
  bool operator==(const SshTarget&) const = default;
};

/// "[user@]host[:port]"; an IPv6 address is bare, or in brackets before a port. Errors:
/// kSpecInvalid, also for names that ssh would take for an option.
Result<SshTarget> ParseSshTarget(std::string_view text);

/// What the command line says for all hosts. A port or user of the host itself is stronger.
struct SshOverrides {
  int port = 0;               ///< 0: not given.
  std::string identity_file;  ///< Empty: not given.
  std::optional<HostKeyPolicy> host_key_policy;
  std::string config_file;  ///< Read instead of the user's and the system's; empty: those.
};

/// Who runs hvdray.
struct SshUser {
  std::string name;
  std::string home;          ///< By the password file, as ssh does; $HOME where that has none.
  std::string agent_socket;  ///< $SSH_AUTH_SOCK; empty: no agent.
};

/// May block in a name service.
SshUser CurrentSshUser(const Environment& environment);

/// What the library offers a host, most wanted first, comma by comma: what both old and new sshd
/// have. No CBC, no SHA-1; no RSA host keys, for libssh2 1.10 verifies those by SHA-1 only.
struct SshAlgorithms {
  std::string key_exchanges =
      "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
      "ecdh-sha2-nistp521,diffie-hellman-group16-sha512,diffie-hellman-group-exchange-sha256,"
      "diffie-hellman-group14-sha256";
  std::string host_keys = "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521";
  std::string ciphers = "aes128-ctr,aes192-ctr,aes256-ctr";
  std::string macs = "hmac-sha2-256,hmac-sha2-512";
  bool operator==(const SshAlgorithms&) const = default;
};

/// What applies to one host. Paths are absolute or relative to the working folder, without "~".
struct SshSettings {
  std::string host_name;  ///< To be looked up.
  std::string user;
  int port = 22;
  std::string host_key_alias;               ///< The name in known_hosts; empty: host_name.
  std::vector<std::string> identity_files;  ///< In order; some may not exist.
  bool has_explicit_identity = false;       ///< The first file is the command line's.
  bool identities_only = false;             ///< Of the agent, use the keys of these files only.
  std::string identity_agent;               ///< Path of its socket; empty: none.
  std::vector<std::string> user_known_hosts_files;    ///< New keys go to the first.
  std::vector<std::string> global_known_hosts_files;  ///< Never written.
  bool hash_known_hosts = false;
  HostKeyPolicy host_key_policy = HostKeyPolicy::kAcceptNew;
  /// The address that a name led to has a key of its own in known_hosts (CheckHostIP).
  bool checks_address = false;
  SshAlgorithms algorithms;
  Duration connect_timeout{};  ///< 0: none but the launcher's own.
  bool allows_public_key = true;
  bool allows_password = true;
  bool allows_keyboard_interactive = true;
  bool allows_questions = true;  ///< No BatchMode.
  int max_questions = 3;         ///< Of a kind, for each host.
  /// Why no password may be given to the host, in words; empty: it may.
  std::string password_veto;
  /// Why only the system's ssh can reach this host, in words; empty: libssh2 can.
  std::string needs_openssh;
  bool operator==(const SshSettings&) const = default;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_TARGET_H_
