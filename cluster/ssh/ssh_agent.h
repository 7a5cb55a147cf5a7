// SPDX-License-Identifier: Apache-2.0
// Client of the user's ssh-agent: lists its keys and has it sign. Unlike libssh2's own client it
// has a deadline, since an agent may wait for the user or hang.
// Source: the SSH agent protocol (draft-miller-ssh-agent).
#ifndef HVDRAY_CLUSTER_SSH_SSH_AGENT_H_
#define HVDRAY_CLUSTER_SSH_SSH_AGENT_H_

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/ssh/ssh_limit.h"

namespace hvdray {

/// A key that an agent holds.
struct SshAgentKey {
  std::string blob;     ///< The public key in SSH's binary form.
  std::string comment;  ///< Unchecked text.
  bool operator==(const SshAgentKey&) const = default;
};

/// Parses the agent's answer to "request identities". Pure. Errors: kProtocolError.
Result<std::vector<SshAgentKey>> ParseAgentKeys(ByteView answer);

/// The request to sign `data` by the key `blob`, without the length in front. Pure.
std::string AgentSignRequest(ByteView blob, ByteView data);

/// The bare signature, without the algorithm's name, from the agent's answer. Pure. Errors:
/// kAuthenticationFailed when the agent refused, kProtocolError.
Result<std::string> ParseAgentSignature(ByteView answer);

/// A connection to an agent. All calls block within their limit. Threads: one at a time.
class SshAgent {
 public:
  /// An agent lists its keys at once; one that needs longer than this hangs. (It may need longer to
  /// sign: it may ask its user first.)
  static constexpr Duration kPatience = std::chrono::seconds(3);

  /// `path`: the agent's socket. Errors: kFileUnreadable (no agent listens there), kConnectTimeout,
  /// kCancelled, kSystem.
  static Result<SshAgent> Connect(const std::string& path, const SshLimit& limit);

  /// All keys of the agent. Errors: kProtocolError, kConnectTimeout, kCancelled, kSystem.
  Result<std::vector<SshAgentKey>> Keys(const SshLimit& limit);
  /// The bare signature of `data` by the key `blob`. Errors: as Keys(), and kAuthenticationFailed
  /// when the agent refused.
  Result<std::string> Sign(ByteView blob, ByteView data, const SshLimit& limit);

 private:
  explicit SshAgent(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<std::string> Ask(ByteView request, const SshLimit& limit);
  Status Receive(std::string& bytes, size_t wanted, const SshLimit& limit);
  UniqueFd fd_;
};

/// A connection to an agent, and the keys that it listed.
struct SshAgentWithKeys {
  SshAgent agent;
  std::vector<SshAgentKey> keys;
};

/// Connects to the agent at `path` and lists its keys. An agent that hangs costs this process its
/// patience and a warning once: later calls fail at once, until another socket is at `path`.
/// Blocks. Threads: any; calls during the first one wait for what it finds. Errors: those of
/// SshAgent::Connect() and Keys(), kConnectTimeout for one that hangs.
Result<SshAgentWithKeys> ConnectToAgent(const std::string& path, const SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_AGENT_H_
