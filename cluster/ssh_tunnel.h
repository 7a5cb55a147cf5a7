// A port of this machine's loopback that leads to a port of another host, through the system's ssh:
// how a dashboard is reached that listens on its own loopback only.
#ifndef HVDRAY_CLUSTER_SSH_TUNNEL_H_
#define HVDRAY_CLUSTER_SSH_TUNNEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/types.h"
#include "cluster/command_shell.h"

namespace hvdray {

struct SshTunnelOptions {
  OpensshOptions ssh;
  std::string host;          ///< As ssh takes it.
  uint16_t remote_port = 0;  ///< Of that host's 127.0.0.1.
  Duration limit{};          ///< For all of Open().
};

/// Ends with the object, and with this process however it ends: ssh holds a shell on the host that
/// waits for our end of its stdin to close. As long as it is open, whoever is on this machine can
/// use the port. Threads: one caller at a time.
class SshTunnel {
 public:
  /// Blocks until connections are taken (what is behind the remote port is not tried). Errors:
  /// those of ExplainOpenssh(); kAddressInUse; kConnectTimeout when the limit passed.
  static Result<std::unique_ptr<SshTunnel>> Open(const SshTunnelOptions& options);
  virtual ~SshTunnel() = default;
  virtual uint16_t local_port() const = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_TUNNEL_H_
