// SPDX-License-Identifier: Apache-2.0
// Both ends of the test that hosts reach each other: a listener to which neighbours connect before
// the first generation starts, and the connections to a neighbour's listener. docs/protocol.md,
// "Probe".
#ifndef HVDRAY_AGENT_PROBER_H_
#define HVDRAY_AGENT_PROBER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Begins a TCP connection from the target's source, so as Gloo does, whose socket is bound to the
/// interface's address. Returns 0 (connected), EINPROGRESS, or the errno of what failed.
int StartConnecting(const wire::ProbeTarget& target, UniqueFd& socket);
/// What an errno of connect(2) means for a probe.
wire::ProbeStage StageOf(int error);

/// Listens on all IPv4 addresses at a free port. Closes each connection at once without reading or
/// sending, so that a port scan learns only that the port is open, until somebody wants them.
/// Threads: the loop's.
class ProbeListener {
 public:
  /// The loop outlives the listener. Errors: kOutOfResources, kAddressInUse when no port is free,
  /// kSystem.
  static Result<std::unique_ptr<ProbeListener>> Open(Loop& loop);
  uint16_t port() const { return port_; }
  /// From now on, `take` gets the connections; they are non-blocking.
  void GiveTo(std::function<void(UniqueFd socket)> take) { take_ = std::move(take); }

 private:
  ProbeListener(UniqueFd socket, uint16_t port) : socket_(std::move(socket)), port_(port) {}
  void Accept();

  UniqueFd socket_;
  uint16_t port_;
  std::function<void(UniqueFd)> take_;
  Watch watch_;
};

/// Connects to all targets of a Probe in parallel, each from its own source address, and answers
/// once, unless destroyed before. Threads: the loop's; does not block.
class Prober {
 public:
  using DoneFn = std::function<void(wire::ProbeResult result)>;
  /// `on_done`: called at the latest after the probe's timeout. The loop outlives the prober.
  Prober(Loop& loop, const wire::Probe& probe, DoneFn on_done);

 private:
  struct Connection {
    UniqueFd socket;
    Watch watch;
    wire::ProbeOutcome outcome{wire::ProbeStage::kTimeout, 0};
  };
  void Begin(size_t index, const wire::ProbeTarget& target);
  void OnWritable(size_t index);
  void OnTimeout();
  void Finish(size_t index, int error);
  void Answer();

  Loop& loop_;
  DoneFn on_done_;
  std::vector<Connection> connections_;
  size_t open_count_ = 0;
  Watch timer_;  // The deadline, or the pending answer.
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_PROBER_H_
