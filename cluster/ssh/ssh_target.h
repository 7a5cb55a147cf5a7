// SPDX-License-Identifier: Apache-2.0
// A host as the user wrote it, and the SSH settings that reach it.
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

/// How to treat a host whose key is in no known_hosts file: kYes refuses it, the others accept it.
/// Only kNo also accepts a changed key. A revoked key is always refused.
enum class HostKeyPolicy : uint8_t { kYes, kAcceptNew, kNo };

/// Accepts "yes", "accept-new" and "no", and like ssh also "off", "true" and "false". Errors:
/// kUsage.
Result<HostKeyPolicy> ParseHostKeyPolicy(std::string_view text);

/// A host as the user wrote it.
struct SshTarget {
  std::string host;  ///< A name or address, without brackets.
  std::string user;  ///< Empty: as configured.
  int port = 0;      ///< 0: as configured.
  /// The name in known_hosts; the host's address is then not looked up there. Empty: as configured.
  std::string host_key_alias = {};
  bool operator==(const SshTarget&) const = default;
};

/// Refuses names that ssh would take for an option, or that a shell would interpret. Errors:
/// kSpecInvalid.
Status CheckSshTarget(const SshTarget& target);

/// Parses "[user@]host[:port]". An IPv6 address is bare, or in brackets before a port. Pure.
/// Errors: kSpecInvalid, also for what CheckSshTarget() refuses.
Result<SshTarget> ParseSshTarget(std::string_view text);

/// Options of the command line, for all hosts. A host's own port or user wins.
struct SshOverrides {
  int port = 0;               ///< 0: not given.
  std::string identity_file;  ///< Empty: not given.
  std::optional<HostKeyPolicy> host_key_policy;
  std::string config_file;  ///< Replaces the user's and the system's files; empty: read those.
};

/// The user who runs hvdray.
struct SshUser {
  std::string name;
  std::string home;          ///< From the password file, like ssh; $HOME where that has none.
  std::string agent_socket;  ///< $SSH_AUTH_SOCK; empty: no agent.
};

/// Reads the password file and `environment`. May block in a name service.
SshUser CurrentSshUser(const Environment& environment);

/// The algorithms that we offer a host, comma-separated, preferred ones first. Both old and new
/// sshd support some. No CBC, no SHA-1; no RSA host keys, which libssh2 1.10 verifies by SHA-1
/// only.
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

/// The settings for one host. Paths are absolute or relative to the working directory, without "~".
struct SshSettings {
  std::string host_name;  ///< The name or address to connect to.
  std::string user;
  int port = 22;
  std::string host_key_alias;               ///< The name in known_hosts; empty: host_name.
  std::vector<std::string> identity_files;  ///< In order; some may not exist.
  bool has_explicit_identity = false;       ///< The first file is the command line's.
  bool identities_only = false;             ///< Of the agent's keys, use only those of these files.
  std::string identity_agent;               ///< Path of its socket; empty: none.
  std::vector<std::string> user_known_hosts_files;    ///< New keys are added to the first.
  std::vector<std::string> global_known_hosts_files;  ///< Never written.
  bool hash_known_hosts = false;
  HostKeyPolicy host_key_policy = HostKeyPolicy::kAcceptNew;
  /// Also check the key of the address that the name resolved to (CheckHostIP).
  bool checks_address = false;
  SshAlgorithms algorithms;
  Duration connect_timeout{};  ///< 0: only the launcher's own.
  bool allows_public_key = true;
  bool allows_password = true;
  bool allows_keyboard_interactive = true;
  bool allows_questions = true;  ///< False with BatchMode.
  int max_questions = 3;         ///< Of each kind, per host.
  /// Why no password may be sent to the host; empty: it may.
  std::string password_veto;
  /// Why only the system's ssh can reach this host; empty: libssh2 can.
  std::string needs_openssh;
  bool operator==(const SshSettings&) const = default;
};

/// What the system's ssh must be told about one host besides its own configuration.
struct OpensshNeeds {
  HostKeyPolicy host_key_policy = HostKeyPolicy::kAcceptNew;
  /// Arguments of -o that undo what the configuration makes of a session.
  std::vector<std::string> session_options;
  bool has_forwards = false;  ///< The configuration forwards ports.
  std::string proxy;          ///< "ProxyJump bastion"; empty: none.
  bool operator==(const OpensshNeeds&) const = default;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_TARGET_H_
