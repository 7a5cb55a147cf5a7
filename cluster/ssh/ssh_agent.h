// Speaks to the user's ssh-agent: which keys it has, and signatures by them. Unlike libssh2's own
// client it keeps to a deadline, for an agent may wait for a person or hang.
// Source: the SSH agent protocol (draft-miller-ssh-agent).
#ifndef HVDRAY_CLUSTER_SSH_SSH_AGENT_H_
#define HVDRAY_CLUSTER_SSH_SSH_AGENT_H_

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "cluster/ssh/ssh_limit.h"

namespace hvdray {

struct SshAgentKey {
  std::string blob;  ///< The public key.
  std::string comment;
  bool operator==(const SshAgentKey&) const = default;
};

/// The keys in the agent's answer to "request identities". Pure. Errors: kProtocolError.
Result<std::vector<SshAgentKey>> ParseAgentKeys(ByteView answer);

/// The bytes to send for a signature of `data`, without their length. Pure.
std::string AgentSignRequest(ByteView blob, ByteView data);

/// The signature itself, without the algorithm's name, in the agent's answer. Pure. Errors:
/// kAuthenticationFailed when the agent refused, kProtocolError.
Result<std::string> ParseAgentSignature(ByteView answer);

/// A connection to an agent. All calls block within their limit. Threads: one at a time.
class SshAgent {
 public:
  /// Errors: kFileUnreadable (nobody listens at `path`), kConnectTimeout, kCancelled, kSystem.
  static Result<SshAgent> Connect(const std::string& path, const SshLimit& limit);

  /// Errors: also kProtocolError.
  Result<std::vector<SshAgentKey>> Keys(const SshLimit& limit);
  /// Errors: also kAuthenticationFailed.
  Result<std::string> Sign(ByteView blob, ByteView data, const SshLimit& limit);

 private:
  explicit SshAgent(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<std::string> Ask(ByteView request, const SshLimit& limit);
  Status Receive(std::string& bytes, size_t wanted, const SshLimit& limit);
  UniqueFd fd_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_AGENT_H_
