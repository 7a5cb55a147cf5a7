// SPDX-License-Identifier: Apache-2.0
// The known_hosts files: looks up the keys that hosts showed before, and adds new ones.
#ifndef HVDRAY_CLUSTER_SSH_KNOWN_HOSTS_H_
#define HVDRAY_CLUSTER_SSH_KNOWN_HOSTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// A known_hosts file, read whole.
struct KnownHostsFile {
  std::string path;
  std::string text;
};

/// How a host's key compares with known_hosts. kUnknown: the host has no key there.
enum class HostKeyMatch : uint8_t { kKnown, kUnknown, kChanged, kRevoked };

/// The result of a lookup, with the line that decided it.
struct HostKeyLookup {
  HostKeyMatch match = HostKeyMatch::kUnknown;
  std::string path;         ///< File of that line; empty for kUnknown.
  int line = 0;             ///< From 1.
  std::string fingerprint;  ///< Of the key in that line.
  bool operator==(const HostKeyLookup&) const = default;
};

/// The host's name in known_hosts: in lower case, "[name]:port" for ports other than 22. Pure.
std::string KnownHostsName(std::string_view host, int port);

/// "SHA256:" and base64 without padding, as ssh shows it. Pure.
std::string HostKeyFingerprint(ByteView blob);

/// Looks up `name` with the public key `blob`. A revoked key is refused whatever other lines say.
/// Lines of certificate authorities do not affect plain keys. A host with other keys only counts as
/// changed, whatever their type: otherwise an attacker could just offer another type. Ignores
/// malformed lines. Pure. Source: sshd(8), SSH_KNOWN_HOSTS FORMAT.
HostKeyLookup LookUpHostKey(std::span<const KnownHostsFile> files, std::string_view name,
                            ByteView blob);

/// A certificate authority vouches for `name`: its host shows a certificate, so its plain key must
/// not be stored. Pure.
bool HasHostAuthority(std::span<const KnownHostsFile> files, std::string_view name);

/// The algorithms of the keys known for `name`, without duplicates, in order. Pure.
std::vector<std::string> KnownAlgorithms(std::span<const KnownHostsFile> files,
                                         std::string_view name);

/// "name ssh-ed25519 AAAA...", without a newline. Hashes the name with `salt` (20 bytes) unless
/// that is empty. Pure.
std::string KnownHostsLine(std::string_view name, ByteView blob, ByteView salt);

/// All files of the settings that exist, the user's first. Blocks on the disk.
std::vector<KnownHostsFile> ReadKnownHosts(const SshSettings& settings);

/// Accepts or refuses `blob` by the policy of the settings. Adds a new key to the user's first file
/// (which it creates with its directory, 0700, if missing), only once even with several processes.
/// As in ssh, a file that can't be written, or that another process locks for over 2 s, only causes
/// a warning.
/// Returns kKnown; kUnknown: the key was new; kChanged: only HostKeyPolicy::kNo accepted it, so the
/// peer may be an attacker. Blocks on the disk. Threads: any. Errors: kHostKeyRejected, with file
/// and line of the old key and both fingerprints; kCancelled.
Result<HostKeyMatch> CheckHostKey(const SshSettings& settings, std::string_view host, ByteView blob,
                                  const SshLimit& limit);

/// CheckHostKey() for the address that the name resolved to ("10.0.0.7"), for
/// settings.checks_address. Errors: as CheckHostKey().
Status CheckHostAddress(const SshSettings& settings, const std::string& address, ByteView blob,
                        const SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_KNOWN_HOSTS_H_
