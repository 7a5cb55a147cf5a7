// SPDX-License-Identifier: Apache-2.0
// Forwards a Unix socket of this machine to a port of another host, through the system's ssh.
// Reaches a dashboard that listens on its own loopback only. Not a port here: every user could
// connect to it, and take it over once ssh has ended.
#ifndef HVDRAY_CLUSTER_TRANSPORT_SSH_TUNNEL_H_
#define HVDRAY_CLUSTER_TRANSPORT_SSH_TUNNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/transport/child_process.h"
#include "cluster/transport/command_shell.h"

namespace hvdray {

/// What a tunnel connects.
struct TunnelEnds {
  std::string socket_path;       ///< Here; doesn't exist yet, in a directory of this user alone.
  uint16_t remote_port = 0;      ///< There.
  bool is_owner_checked = true;  ///< Refuse a port there that another user than ours listens at.
  std::string remote_address = "127.0.0.1";  ///< Of the host.
};

/// Closes with this object, and with this process however it ends: ssh runs a shell on the host
/// that exits when its stdin closes. Threads: one caller at a time.
class SshTunnel {
 public:
  /// Leads to `host` (as for ssh: a name, an address or an alias of its config), and logs in there
  /// by `ssh`. `limit`: for all of it. Blocks until the socket accepts connections; does not test
  /// the remote port. Errors: those of ExplainOpenssh(); kFileUnwritable for a path that ssh can't
  /// take; kRayDenied for a port of another user; kConnectTimeout when the limit has passed.
  static Result<std::unique_ptr<SshTunnel>> Open(const OpensshOptions& ssh, const std::string& host,
                                                 const TunnelEnds& ends, Duration limit);
  ~SshTunnel();
  SshTunnel(const SshTunnel&) = delete;
  SshTunnel& operator=(const SshTunnel&) = delete;
  /// For this process only: the socket has no name in a directory any more.
  std::string socket_path() const;
  /// Readable once the tunnel has broken. Owned by the tunnel.
  int ended_fd() const { return helper_.pidfd.get(); }

 private:
  SshTunnel(Helper helper, UniqueFd input, UniqueFd output, UniqueFd errors, std::string path,
            std::string proxy);
  static Result<std::unique_ptr<SshTunnel>> Start(const std::vector<std::string>& argv,
                                                  const std::string& path,
                                                  const std::string& proxy);
  Status WaitReady(TimePoint deadline, const std::string& host);
  Status TakeSocket();
  Status HowItEnded();
  /// Returns ssh's exit code; -1: killed by a signal, or ended before.
  int End();

  Helper helper_;
  UniqueFd input_, output_, errors_;
  const std::string path_;  // until it is open
  UniqueFd socket_;         // of O_PATH
  const std::string proxy_;
  std::string said_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_SSH_TUNNEL_H_
