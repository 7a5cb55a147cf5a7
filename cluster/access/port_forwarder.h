// SPDX-License-Identifier: Apache-2.0
// A port of this machine's loopback that leads to a Unix socket, for programs that know ports only,
// such as browsers. Any user can connect to a port, so each connection's user is checked.
#ifndef HVDRAY_CLUSTER_ACCESS_PORT_FORWARDER_H_
#define HVDRAY_CLUSTER_ACCESS_PORT_FORWARDER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "rendezvous/peer_check.h"

namespace hvdray {

/// Copies bytes both ways until either end closes. Threads: the loop's; the loop outlives it.
class PortForwarder {
 public:
  /// Listens on 127.0.0.1. `is_peer_checked` false: every user of this machine may connect, not
  /// only ours and root. Errors: kAddressInUse.
  static Result<std::unique_ptr<PortForwarder>> Open(Loop& loop, uint16_t port,
                                                     bool is_peer_checked);
  ~PortForwarder();
  PortForwarder(const PortForwarder&) = delete;
  PortForwarder& operator=(const PortForwarder&) = delete;
  /// Where connections are to lead; before, they are closed.
  void LeadTo(std::string socket_path) { socket_path_ = std::move(socket_path); }
  /// Of the listener; the given one unless that was 0.
  uint16_t port() const { return port_; }

 private:
  class Connection;
  PortForwarder(Loop& loop, UniqueFd listener, uint16_t port, bool is_peer_checked);
  void Accept();
  void Drop(const Connection* connection);

  Loop& loop_;
  const UniqueFd listener_;
  const uint16_t port_;
  const bool is_peer_checked_;
  std::string socket_path_;
  PeerChecker checker_;
  std::list<std::unique_ptr<Connection>> connections_;
  Watch watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_ACCESS_PORT_FORWARDER_H_
