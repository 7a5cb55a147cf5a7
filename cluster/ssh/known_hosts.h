// Which key a host showed before: the known_hosts files, read and added to.
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

struct KnownHostsFile {
  std::string path;
  std::string text;
};

enum class HostKeyMatch : uint8_t { kKnown, kUnknown, kChanged, kRevoked };

struct HostKeyLookup {
  HostKeyMatch match = HostKeyMatch::kUnknown;
  std::string path;         ///< Where the line is that says so; empty for kUnknown.
  int line = 0;             ///< From 1.
  std::string fingerprint;  ///< Of the key in that line.
  bool operator==(const HostKeyLookup&) const = default;
};

/// The host's name in known_hosts: in lower case, "[name]:port" for ports other than 22. Pure.
std::string KnownHostsName(std::string_view host, int port);

/// "SHA256:" and base64 without padding, as ssh shows it. Pure.
std::string HostKeyFingerprint(ByteView blob);

/// What the files say of `name` with the public key `blob`. A revoked key is refused whatever else
/// stands there; lines of certificate authorities say nothing about plain keys; a host known by
/// other keys only counts as changed, whatever their type: else a stranger need only offer another
/// type. Lines that can't be read are passed over. Pure. Source: sshd(8), SSH_KNOWN_HOSTS FORMAT.
HostKeyLookup LookUpHostKey(std::span<const KnownHostsFile> files, std::string_view name,
                            ByteView blob);

/// A certificate authority vouches for `name`: its host shows a certificate, and a plain key of it
/// is nothing to be remembered. Pure.
bool HasHostAuthority(std::span<const KnownHostsFile> files, std::string_view name);

/// The algorithms of the keys known for `name`, without doubles, in order. Pure.
std::vector<std::string> KnownAlgorithms(std::span<const KnownHostsFile> files,
                                         std::string_view name);

/// "name ssh-ed25519 AAAA...", the name hashed with `salt` (20 bytes) unless that is empty; without
/// a line end. Pure.
std::string KnownHostsLine(std::string_view name, ByteView blob, ByteView salt);

/// All files of the settings that exist, the user's first. Blocks on the disk.
std::vector<KnownHostsFile> ReadKnownHosts(const SshSettings& settings);

/// Lets `blob` pass or not by the policy of the settings; a new key is added to the user's first
/// file (made with its folder if missing, 0700), once, also with several processes at it. A file
/// that can't be written, or that somebody keeps locked for 2 s, is only a warning, as with ssh.
/// kKnown; kUnknown: it was new; kChanged: it passes by HostKeyPolicy::kNo alone, so that somebody
/// else may be at the other end. Blocks on the disk. Threads: any. Errors: kHostKeyRejected, with
/// file and line of the old key and both fingerprints; kCancelled.
Result<HostKeyMatch> CheckHostKey(const SshSettings& settings, std::string_view host, ByteView blob,
                                  const SshLimit& limit);

/// The same for the address that the name led to ("10.0.0.7"), for settings.checks_address. Errors:
/// as CheckHostKey().
Status CheckHostAddress(const SshSettings& settings, const std::string& address, ByteView blob,
                        const SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_KNOWN_HOSTS_H_
