// SPDX-License-Identifier: Apache-2.0
// From a host's settings to a command that runs there: name lookup, TCP, key exchange, host key,
// authentication, exec. Each error names its step. And how many hosts may do so at a time.
#ifndef HVDRAY_CLUSTER_SSH_SSH_CONNECT_H_
#define HVDRAY_CLUSTER_SSH_SSH_CONNECT_H_

#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_questions.h"
#include "cluster/ssh/ssh_session.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// A socket address with its port.
struct SshAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
  /// "10.0.0.7", "::1"; empty for other families.
  std::string Host() const;
  /// "10.0.0.7:22", "[::1]:22".
  std::string ToString() const;
};

/// All addresses of a name, at least one, in the order to try them. Blocks as long as the system's
/// resolver does; it can't be cancelled. Errors: kUnknownHost.
Result<std::vector<SshAddress>> LookUpSshHost(const std::string& host_name, int port);

/// Connects to the first address that answers. Divides the remaining time among the remaining
/// addresses. Blocks. Errors: kHostRefused, kHostUnreachable, kConnectTimeout, kCancelled, kSystem:
/// the last address's error, with all addresses named.
Result<UniqueFd> ConnectTcp(const std::vector<SshAddress>& addresses, const SshLimit& limit);

/// All steps after the name lookup; the returned session runs the command. `host`: as the user
/// wrote it, for messages. The user's time for answers does not count against `limit`. Blocks.
/// Threads: any. Errors: those of ConnectTcp(), Handshake(), CheckHostKey(), AuthenticateSsh() and
/// Exec(); kNotSupported when known_hosts has only keys that libssh2 can't verify; kHostBusy when
/// the host closed the connection before it accepted or refused a login, as a full sshd does
/// (MaxStartups): a retry may succeed.
Result<std::unique_ptr<SshSession>> ConnectSsh(const SshSettings& settings, const std::string& host,
                                               const std::vector<SshAddress>& addresses,
                                               const std::string& command, SshQuestions& questions,
                                               SshLimit limit);

/// Limits the concurrent logins per address: sshd drops unauthenticated connections when there are
/// too many (MaxStartups). Counts them and queues the surplus; opens nothing. Threads: one.
class SshGate {
 public:
  explicit SshGate(int max_per_address) : max_per_address_(max_per_address) {}

  /// Calls `enter` at once if there is room for `address`, otherwise in turn, from within Leave().
  void Enter(const std::string& address, std::function<void()> enter);
  /// Call exactly once for each `enter` that was called.
  void Leave(const std::string& address);

 private:
  struct Door {
    int inside = 0;
    std::deque<std::function<void()>> waiting;
  };
  const int max_per_address_;
  std::map<std::string, Door> doors_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_CONNECT_H_
