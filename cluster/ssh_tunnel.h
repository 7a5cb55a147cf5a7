// SPDX-License-Identifier: Apache-2.0
// Forwards a port of this machine's loopback to a port of another host, through the system's ssh.
// Reaches a dashboard that listens on its own loopback only.
#ifndef HVDRAY_CLUSTER_SSH_TUNNEL_H_
#define HVDRAY_CLUSTER_SSH_TUNNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/child_process.h"
#include "cluster/command_shell.h"

namespace hvdray {

/// Closes with this object, and with this process however it ends: ssh runs a shell on the host
/// that exits when its stdin closes. While the tunnel is open, every user of this machine can use
/// the port. Threads: one caller at a time.
class SshTunnel {
 public:
  /// Leads to `remote_port` on the `address` of `host` (as for ssh: a name, an address or an alias
  /// of its config), and logs in there by `ssh`. `limit`: for all of it. `local_port` 0: any free
  /// one. Blocks until the local port accepts connections; does not test the remote port. Errors:
  /// those of ExplainOpenssh(); kAddressInUse; kConnectTimeout when the limit has passed.
  static Result<std::unique_ptr<SshTunnel>> Open(const OpensshOptions& ssh, const std::string& host,
                                                 uint16_t remote_port, Duration limit,
                                                 uint16_t local_port = 0,
                                                 const std::string& address = "127.0.0.1");
  ~SshTunnel();
  SshTunnel(const SshTunnel&) = delete;
  SshTunnel& operator=(const SshTunnel&) = delete;
  /// On 127.0.0.1.
  uint16_t local_port() const { return port_; }
  /// Readable once the tunnel has broken. Owned by the tunnel.
  int ended_fd() const { return helper_.pidfd.get(); }

 private:
  SshTunnel(Helper helper, UniqueFd input, UniqueFd output, UniqueFd errors, uint16_t port);
  static Result<std::unique_ptr<SshTunnel>> OpenAt(const std::vector<std::string>& argv,
                                                   uint16_t port, TimePoint deadline);
  Status WaitReady(TimePoint deadline);
  Status HowItEnded();
  /// Returns ssh's exit code; -1: killed by a signal, or ended before.
  int End();

  Helper helper_;
  UniqueFd input_, output_, errors_;
  const uint16_t port_;
  std::string said_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_TUNNEL_H_
