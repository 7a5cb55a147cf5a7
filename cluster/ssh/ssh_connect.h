// From a host's settings to a command that runs there: look-up, TCP, keys, host key,
// authentication, exec. Each step's error says which one it was.
#ifndef HVDRAY_CLUSTER_SSH_SSH_CONNECT_H_
#define HVDRAY_CLUSTER_SSH_SSH_CONNECT_H_

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_questions.h"
#include "cluster/ssh/ssh_session.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

struct SshAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
  /// "10.0.0.7", "::1"; empty for other families.
  std::string Host() const;
  /// "10.0.0.7:22", "[::1]:22".
  std::string ToString() const;
};

/// All addresses of a name, in the order to be tried; at least one. Blocks for as long as the
/// system's resolver does: nothing can call it off. Errors: kUnknownHost.
Result<std::vector<SshAddress>> LookUpSshHost(const std::string& host_name, int port);

/// Connects to the first address that answers; with several, none gets more than its share of the
/// time. Blocks. Errors: kHostRefused, kHostUnreachable, kConnectTimeout, kCancelled, kSystem: that
/// of the last address, naming all.
Result<UniqueFd> ConnectTcp(const std::vector<SshAddress>& addresses, const SshLimit& limit);

/// All steps after the look-up; the session has the command under way. `host`: as the user wrote
/// it, for messages. What a person takes to answer is not counted. Blocks. Threads: any. Errors:
/// those of ConnectTcp(), Handshake(), CheckHostKey(), AuthenticateSsh(), Exec(); kNotSupported
/// when known_hosts has only keys that libssh2 can't verify; kHostBusy when the host hung up before
/// it took or refused anybody, as a full sshd does (MaxStartups): another try may succeed.
Result<std::unique_ptr<SshSession>> ConnectSsh(const SshSettings& settings, const std::string& host,
                                               const std::vector<SshAddress>& addresses,
                                               const std::string& command, SshQuestions& questions,
                                               SshLimit limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_CONNECT_H_
