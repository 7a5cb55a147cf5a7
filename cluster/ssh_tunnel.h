// SPDX-License-Identifier: Apache-2.0
// Forwards a port of this machine's loopback to a port of another host, through the system's ssh.
// Reaches a dashboard that listens on its own loopback only.
#ifndef HVDRAY_CLUSTER_SSH_TUNNEL_H_
#define HVDRAY_CLUSTER_SSH_TUNNEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/types.h"
#include "cluster/command_shell.h"

namespace hvdray {

/// Where the tunnel leads, and how to log in there.
struct SshTunnelOptions {
  OpensshOptions ssh;
  std::string host;          ///< As for ssh: a name, an address or an alias of its config.
  uint16_t remote_port = 0;  ///< On the host's 127.0.0.1.
  Duration limit{};          ///< For all of Open().
};

/// Closes with this object, and with this process however it ends: ssh runs a shell on the host
/// that exits when its stdin closes. While the tunnel is open, every user of this machine can use
/// the port. Threads: one caller at a time.
class SshTunnel {
 public:
  /// Blocks until the local port accepts connections; does not test the remote port. Errors: those
  /// of ExplainOpenssh(); kAddressInUse; kConnectTimeout when the limit has passed.
  static Result<std::unique_ptr<SshTunnel>> Open(const SshTunnelOptions& options);
  virtual ~SshTunnel() = default;
  /// On 127.0.0.1.
  virtual uint16_t local_port() const = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_TUNNEL_H_
